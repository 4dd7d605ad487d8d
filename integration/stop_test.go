//go:build unix

package integration

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/integration/faultproxy"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// through returns the options of a client that reaches its server through a proxy.
func through(o rueidis.ClientOption, p *faultproxy.Proxy) rueidis.ClientOption {
	o.InitAddress = []string{p.Addr()}
	return o
}

// patient is a worker with the line to Redis on which its faults happen.
type patient struct {
	*worker
	proxy *faultproxy.Proxy
}

func startPatient(t *testing.T, jl *journal, id int, s *redistest.Server, lease, linger time.Duration) patient {
	p := faultproxy.New(t, s.Addr())
	j := jobFor(through(s.Option(), p), lease)
	j.Linger = linger
	return patient{startWorker(t, jl, id, j), p}
}

// ills are the ways in which a worker can be away. All end with cure.
var ills = []struct {
	name  string
	begin func(patient)
}{
	{"stopped", func(p patient) { p.pause() }},
	{"cut off", func(p patient) { p.proxy.Cut() }},
	{"in a black hole", func(p patient) { p.proxy.BlackHole() }},
	{"without replies", func(p patient) { p.proxy.LoseReplies() }},
	{"with commands held back", func(p patient) { p.proxy.Stall() }},
	{"stopped, with commands held back", func(p patient) { p.proxy.Stall(); p.pause() }},
}

func (p patient) cure() {
	p.resume()
	p.proxy.Heal()
}

// lane is a lock of its own, the workers that contend for it, and the round that is under way.
type lane struct {
	lock    string
	jl      *journal
	workers []patient
	since   time.Duration // only grants from here on begin a round
	sick    *patient      // nil between rounds
	until   time.Duration // of the illness
	rounds  map[string]int
}

const stopLease = 300 * time.Millisecond

// startLane starts a lock's workers. Where it lingers they have it for short and come seldom: so it mostly lies idle. How they
// take it is contend, for a mutex, or share, for a read-write lock.
func startLane(t *testing.T, s *redistest.Server, lock, how string, lingers bool) *lane {
	l := &lane{lock: lock, jl: newJournal(), since: now(), rounds: make(map[string]int)}
	goroutines, hold, pause, linger := 2, 2*stopLease, 5*time.Millisecond, time.Duration(0)
	if lingers {
		goroutines, hold, pause, linger = 1, 2*time.Millisecond, 40*time.Millisecond, 3*stopLease
	}
	for id := range 3 {
		l.workers = append(l.workers, startPatient(t, l.jl, id, s, stopLease, linger))
	}
	for _, w := range l.workers {
		w.order("%s %s %d %v %v", how, lock, goroutines, hold, pause)
	}
	return l
}

// step ends the round when its time is over, and begins one when the lock is granted: with the new holder for longer
// than its lease, or now and then with anyone for any time.
func (l *lane) step() {
	if l.sick != nil {
		if now() < l.until {
			return
		}
		l.sick.cure()
		l.sick, l.since = nil, now()
	}
	e, ok := l.jl.last(granted, l.since)
	if !ok {
		return
	}
	var who, goroutine int
	_, _ = fmt.Sscanf(e.who, "w%d.%d", &who, &goroutine)
	away := stopLease + rand.N(stopLease)
	if rand.N(8) == 0 {
		who, away = rand.N(len(l.workers)), rand.N(2*stopLease)
	}
	ill := ills[rand.N(len(ills))]
	l.rounds[ill.name]++
	l.sick, l.until = &l.workers[who], now()+away
	ill.begin(*l.sick)
}

// Workers are stopped and cut off at random, most of them while they hold the lock and for longer than their lease: no
// two leases are valid at one instant, and tokens rise.
func TestStoppedAndCutAtRandom(t *testing.T) { stopAndCut(t, "contend", rounds(200, 2000)) }

// Likewise with read-write locks, of which readers may be valid at one instant.
func TestReadersStoppedAndCutAtRandom(t *testing.T) { stopAndCut(t, "share", rounds(60, 1000)) }

// stopAndCut goes on until so many leases were lost.
func stopAndCut(t *testing.T, how string, wanted int) {
	begin(t)
	s := redistest.Start(t)
	var lanes []*lane
	for i := range 6 {
		lanes = append(lanes, startLane(t, s, fmt.Sprintf("orders:%d", i), how, i%3 == 2))
	}
	gone := 0
	begun := now()
	for looked := begun; gone < wanted; time.Sleep(time.Millisecond) {
		for _, l := range lanes {
			l.step()
		}
		if now()-looked > time.Second {
			gone = 0
			for _, l := range lanes {
				gone += l.jl.count(lost)
			}
			looked = now()
			require.Less(t, looked-begun, time.Duration(wanted)*time.Second, "too few leases are lost")
		}
	}
	t.Logf("%d leases lost by holders that were away", gone)
	for _, l := range lanes {
		for _, w := range l.workers {
			w.cure()
		}
	}
	for _, l := range lanes {
		for _, w := range l.workers {
			finish(t, w.worker)
		}
		t.Logf("rounds: %v", l.rounds)
		judgeStops(t, l.jl.all(), l.lock)
		onlyTheCounterIsLeft(t, s, l.lock)
	}
}

// onlyTheCounterIsLeft waits until Redis knows no more of a lock than which tokens it has given: a queue that a late command
// made outlives four leases.
func onlyTheCounterIsLeft(t *testing.T, s *redistest.Server, lock string) {
	t.Helper()
	var left string
	counter := "redisson_lock_token:{" + lock + "}"
	for end := time.Now().Add(5 * stopLease); ; time.Sleep(5 * time.Millisecond) {
		if left = s.Do("KEYS", "*"+lock+"*"); left == counter {
			return
		}
		require.True(t, time.Now().Before(end), "left: %q", left)
	}
}

// judgeStops checks exclusion and order.
func judgeStops(t *testing.T, events []event, lock string) {
	t.Helper()
	nothingFailed(t, events)
	sorted := spans(events, lock)
	require.Empty(t, overlaps(sorted))
	require.Empty(t, disorder(sorted))
	require.Empty(t, repeated(events, lock))
	var nearest figures
	for i := 1; i < len(sorted); i++ {
		if sorted[i].who != sorted[i-1].who {
			nearest = append(nearest, sorted[i].first-sorted[i-1].last)
		}
	}
	t.Logf("%d leases, %d lost while held, %d points; from the last point of one to the first of another's: %v",
		len(sorted), len(only(events, kind(lost, lock))), len(only(events, kind(trusted, lock))), nearest)
}

// ward is a holder of many locks that will be away, and who waits for them.
type ward struct {
	t      *testing.T
	ill    int
	jl     *journal
	holder patient
	waiter *worker
	locks  []string
	away   time.Duration // when it fell ill
}

func startWard(t *testing.T, s *redistest.Server, ill int, lease time.Duration) *ward {
	w := &ward{t: t, ill: ill, jl: newJournal()}
	w.holder = startPatient(t, w.jl, 1, s, lease, 0)
	w.waiter = startWorker(t, w.jl, 2, jobFor(s.Option(), lease))
	begun := now()
	for i := range 40 {
		lock := fmt.Sprintf("orders:%d:%d", ill, i)
		w.locks = append(w.locks, lock)
		w.holder.order("lock %s", lock)
		w.jl.await(t, soon, begun, "a grant", kind(granted, lock))
		w.waiter.order("lock %s", lock)
		queued(t, s, lock, 1)
	}
	return w
}

// grants waits until all locks went to the waiter and returns when.
func (w *ward) grants() (at []time.Duration) {
	for _, lock := range w.locks {
		at = append(at, w.jl.await(w.t, soon, w.away, "the next grant", kind(granted, lock)).at)
	}
	return at
}

// losses waits until the holder was told of every loss and returns when.
func (w *ward) losses() (at []time.Duration) {
	for _, lock := range w.locks {
		e := w.jl.await(w.t, soon, w.away, "the loss", kind(lost, lock))
		at = append(at, e.at)
	}
	return at
}

// Code that waits for the context of a cut-off holder is told before anyone else is granted the lock; after a stop it
// is told as soon as the process runs again. The lease is long because its safety margin, a hundredth, is also the time
// that a busy machine has to wake who waits; what it takes beyond that is the machine's.
func TestHolderTold(t *testing.T) {
	begin(t)
	const lease, margin = 10 * time.Second, 100 * time.Millisecond
	s := redistest.Start(t)
	machine := startDrag(t)
	var wards []*ward
	for ill := range ills[:4] {
		wards = append(wards, startWard(t, s, ill, lease))
	}
	time.Sleep(rand.N(lease / 5)) // anywhere between two renewals
	for _, w := range wards {
		w.away = now()
		ills[w.ill].begin(w.holder)
	}
	for _, w := range wards {
		name, next := ills[w.ill].name, w.grants()
		from, what := next, "ahead of the next grant"
		if name == "stopped" {
			resumed := now()
			w.holder.cure()
			from, what = slices.Repeat([]time.Duration{resumed + 250*time.Millisecond}, len(next)), "within 250ms by"
		}
		var ahead figures
		for i, told := range w.losses() {
			ahead = append(ahead, from[i]-told)
		}
		w.holder.cure()
		t.Logf("holder %s, told %s: %v", name, what, ahead)
		require.Greater(t, ahead.at(0), -max(0, machine.worst()-margin))
		finish(t, w.holder.worker, w.waiter)
		nothingFailed(t, w.jl.all())
		absent(t, soon, s, w.locks...)
	}
}
