//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/integration/faultproxy"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// What workers write of moves. The note is the handle, unless it says otherwise. That of trusted is the instant up to which
// the lock stands at least, by the lease's Until; that of granted is empty if the lock was not taken over.
const (
	handing  = "handing"  // HandOver is about to be called
	handed   = "handed"   // HandOver returned a handle
	unhanded = "unhanded" // HandOver failed; note: how
	taking   = "taking"   // TakeOver is about to be called
	refused  = "refused"  // TakeOver failed with ErrLost
	tally    = "tally"    // token: commands without an answer so far; note: scripts that ran twice
)

// doubled counts the scripts that this worker's client ran twice.
var doubled atomic.Int64

func (j job) doubling(rdb rueidis.Client) rueidis.Client {
	if !j.Doubles {
		return rdb
	}
	c := faults.NewClient(rdb)
	c.Filter(func(c *faults.Call) faults.Fate {
		if !faults.AnyScript(c) || rand.IntN(8) > 0 {
			return faults.Pass
		}
		doubled.Add(1)
		return faults.Twice
	})
	return c
}

// byHandle is a mutex whose Lock takes over.
type byHandle struct {
	*relock.Mutex
	handle string
}

func (b byHandle) Lock(ctx context.Context) (*relock.Lease, error) { return b.TakeOver(ctx, b.handle) }

// carry gets m's lock in a way that ends with ctx, and says all the time whether it trusts the lease and how long the lock
// stands.
func (p *performer) carry(ctx context.Context, m *relock.Mutex, way locker, handle string, who int) {
	before := want
	if handle != "" {
		before = taking
	}
	p.write(now(), before, m.Name(), who, 0, handle)
	l, err := lockUntil(ctx, way)
	at := now()
	if err == nil {
		p.mu.Lock()
		p.held[m.Name()] = l
		p.mu.Unlock()
	}
	switch {
	case err == nil:
		p.write(at, granted, m.Name(), who, l.Token(), handle)
	case errors.Is(err, relock.ErrLost):
		p.write(at, refused, m.Name(), who, 0, handle)
	case ctx.Err() != nil:
		p.write(at, gaveUp, m.Name(), who, 0, handle)
	default:
		p.write(at, failed, m.Name(), who, 0, fmt.Sprintf("%s: %v", before, err))
	}
	p.count(m.Name(), who)
	if err != nil {
		return
	}
	for {
		at := now()
		stands := at + time.Until(l.Until())
		if !valid(m, l, rand.IntN(4)) {
			return
		}
		p.write(at, trusted, m.Name(), who, l.Token(), fmt.Sprint(int64(stands)))
		select {
		case <-p.ctx.Done():
			p.release(l, who)
			return
		case <-l.Context().Done():
		case <-time.After(time.Millisecond):
		}
	}
}

func (p *performer) hand(m *relock.Mutex, stays time.Duration, who int) {
	l := p.kept(m.Name())
	p.write(now(), handing, m.Name(), who, l.Token(), "")
	handle, err := l.HandOver(context.Background(), stays)
	at := now()
	if l.Context().Err() == nil {
		p.write(at, failed, m.Name(), who, l.Token(), "the context outlives HandOver")
	}
	switch {
	case err == nil:
		p.write(at, handed, m.Name(), who, l.Token(), handle)
	case errors.Is(err, relock.ErrLost), errors.Is(err, relock.ErrUnavailable):
		p.write(at, unhanded, m.Name(), who, l.Token(), err.Error())
	default:
		p.write(at, failed, m.Name(), who, l.Token(), fmt.Sprintf("HandOver: %v", err))
	}
	p.count(m.Name(), who)
}

// count writes what became of the worker's commands so far.
func (p *performer) count(name string, who int) {
	var unanswered int64
	for _, s := range p.locks.Stats().Commands {
		if s.Command != "subscribe" {
			unanswered += int64(s.Unanswered)
		}
	}
	p.write(now(), tally, name, who, unanswered, fmt.Sprint(doubled.Load()))
}

const (
	moved     = "moved" // the lock that moves
	moveLease = 600 * time.Millisecond
	moveStays = 300 * time.Millisecond
	longStall = 100 * time.Millisecond // the longest fault of a line
)

// What a move may meet by plan.
const (
	killedHolding = "the holder killed"
	killedHanding = "the holder killed during HandOver"
	killedTaking  = "the taker killed during TakeOver"
	leftAlone     = "no process takes over"
)

// mover is a worker and its line to Redis. When it is killed, another process takes its place on the line.
type mover struct {
	*worker
	line *faultproxy.Proxy
	calm sync.Mutex // held while a process connects: it would not start under a fault
}

// carousel is a lock that moves from worker to worker, while an outsider waits for it. The outsider's line has no faults: the
// lock's end is measured by its grants.
type carousel struct {
	t        *testing.T
	s        *redistest.Server
	jl       *journal
	movers   []*mover
	outsider *mover
	started  int

	holder *mover
	hold   event // the holder's grant
	moves  int
	counts map[string]int
	ends   map[string]figures // from what ended a hold, or left it to end, to the outsider's grant
}

func startCarousel(t *testing.T) *carousel {
	c := &carousel{t: t, s: redistest.Start(t), jl: newJournal(), counts: make(map[string]int), ends: make(map[string]figures)}
	for range 4 {
		m := &mover{line: faultproxy.New(t, c.s.Addr())}
		c.start(m)
		c.movers = append(c.movers, m)
	}
	c.outsider = &mover{worker: startWorker(t, c.jl, 100_000, jobFor(c.s.Option(), moveLease))}
	begun := now()
	c.outsider.order("carry %s", moved)
	c.holder, c.hold = c.outsider, c.jl.await(t, soon, begun, "the first grant", kind(granted, moved))
	return c
}

func (c *carousel) start(m *mover) {
	m.calm.Lock()
	defer m.calm.Unlock()
	c.started++
	j := jobFor(through(c.s.Option(), m.line), moveLease)
	j.Timeout, j.Doubles = 60*time.Millisecond, true
	m.worker = startWorker(c.t, c.jl, c.started, j)
}

// disturb has one fault after the other on a mover's line, until ctx ends.
func (m *mover) disturb(ctx context.Context) {
	for ctx.Err() == nil {
		m.calm.Lock()
		switch rand.IntN(12) {
		case 0:
			m.line.Stall()
			time.Sleep(rand.N(longStall))
		case 1:
			m.line.DropConnections()
		case 2, 3, 4, 5, 6, 7:
			m.line.LoseReplies()
			time.Sleep(2*time.Millisecond + rand.N(4*time.Millisecond))
		default:
			m.line.Latency(rand.N(5 * time.Millisecond))
			time.Sleep(rand.N(20 * time.Millisecond))
		}
		m.line.Heal()
		m.calm.Unlock()
		time.Sleep(rand.N(60 * time.Millisecond))
	}
}

// killed kills a mover, and starts another process in its place.
func (c *carousel) killed(m *mover, why string) {
	c.counts[why]++
	m.kill()
	c.start(m)
}

// move lets the holder hand the lock over and another worker take it over, or what upset says. Then either of them holds it,
// or the outsider.
func (c *carousel) move(upset string) {
	from := c.holder
	if from == c.outsider && (upset == killedHolding || upset == killedHanding) {
		c.move("") // it is no mover, which could be killed
		c.move(upset)
		return
	}
	begun := now()
	if upset == killedHolding {
		time.Sleep(rand.N(moveLease / 3)) // anywhere between two renewals
		begun = now()
		c.killed(from, upset)
		c.over(upset, begun)
		return
	}
	from.order("hand %s %v", moved, moveStays)
	giver := from.worker
	if upset == killedHanding {
		time.Sleep(rand.N(2 * time.Millisecond))
		c.killed(from, upset)
	}
	handle, given := c.handle(giver, begun, upset == killedHanding)
	if from == c.outsider {
		from.order("carry %s", moved)
		defer c.waits()
	}
	switch {
	case !given && upset == killedHanding:
		c.over(upset, begun)
	case !given:
		c.counts["HandOver without an answer, or of a lock that was lost"]++
		c.over("HandOver failed", now())
	case upset == leftAlone:
		c.counts[upset]++
		c.over(upset, now())
	default:
		c.take(handle, upset == killedTaking)
	}
}

// handle returns the handle that the giver told of, if there is one. A giver that was killed may have told of it before.
func (c *carousel) handle(giver *worker, begun time.Duration, dead bool) (handle string, given bool) {
	if dead {
		e, told := c.jl.last(handed, begun)
		return e.note, told
	}
	e := c.jl.await(c.t, soon, begun, "the end of HandOver", func(e event) bool {
		return giver.owns(e) && (e.kind == handed || e.kind == unhanded)
	})
	return e.note, e.kind == handed
}

// take gives the handle to one mover, or to two, of which the first may be killed.
func (c *carousel) take(handle string, kill bool) {
	takers := []*mover{c.movers[rand.N(len(c.movers))]}
	if rand.IntN(5) == 0 {
		takers = append(takers, c.movers[rand.N(len(c.movers))])
		c.counts["handle given to two"]++
	}
	begun := now()
	for _, m := range takers {
		patience := soon
		if rand.IntN(20) == 0 {
			patience = rand.N(10 * time.Millisecond)
		}
		m.order("take %s %v %s", moved, patience, handle)
	}
	why := "TakeOver failed"
	if dead := takers[0]; kill {
		why = killedTaking
		time.Sleep(rand.N(2 * time.Millisecond))
		c.killed(dead, why)
		takers = slices.DeleteFunc(takers, func(m *mover) bool { return m == dead })
	}
	left := len(takers)
	if left == 0 {
		c.over(why, begun)
		return
	}
	e := c.jl.await(c.t, soon, begun, "the end of TakeOver", func(e event) bool {
		own := slices.ContainsFunc(takers, func(m *mover) bool { return m.owns(e) })
		if !own || e.note != handle || e.kind != granted && e.kind != refused && e.kind != gaveUp {
			return false
		}
		left--
		return e.kind == granted || left == 0
	})
	if e.kind != granted {
		if !kill {
			c.counts[why]++
		}
		c.over(why, now())
		return
	}
	c.moves++
	c.holder, c.hold = takers[slices.IndexFunc(takers, func(m *mover) bool { return m.owns(e) })], e
}

// waits returns when the outsider waits in the lock's queue, or has the lock again.
func (c *carousel) waits() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		if c.s.Do("ZCARD", queueKey(moved)) == "1" {
			return true
		}
		e, _ := c.jl.last(granted, c.hold.at)
		return c.outsider.owns(e)
	}, soon, 2*time.Millisecond)
}

// over waits until the outsider has the lock, which is left to end since at.
func (c *carousel) over(why string, at time.Duration) {
	c.hold = c.jl.await(c.t, soon, c.hold.at, "the outsider's grant after "+why, func(e event) bool {
		return e.kind == granted && e.token > c.hold.token && c.outsider.owns(e)
	})
	c.holder = c.outsider
	c.ends[why] = append(c.ends[why], max(0, c.hold.at-at))
}

// The lock moves from process to process by handles, while commands run twice and late and answers are lost. Holders and takers
// are killed, and a handle has two takers at times. No two processes trust the lock at once, tokens rise with the holds, and the
// outsider gets the lock only after the time of a hold or a handle is up, and soon then. RELOCK_LONG=1 has it move 10,000 times.
func TestMoves(t *testing.T) {
	begin(t)
	c := startCarousel(t)
	defer func() {
		if !t.Failed() {
			return
		}
		events := c.jl.all() // which may say why the lock did not move on
		wrong := unsound(events)
		for _, e := range only(events, kind(failed, moved)) {
			wrong = append(wrong, e.String())
		}
		if len(wrong) > 0 {
			t.Errorf("%d things wrong, the first of them: %q", len(wrong), wrong[:min(len(wrong), 5)])
		}
	}()
	var plan []string
	for _, upset := range []string{killedHolding, killedHanding, killedTaking, leftAlone} {
		plan = append(plan, slices.Repeat([]string{upset}, rounds(2, 100))...)
	}
	moves := rounds(300, 10_000)
	plan = append(plan, make([]string, moves-len(plan))...)
	rand.Shuffle(len(plan), func(i, j int) { plan[i], plan[j] = plan[j], plan[i] })

	ctx, calm := context.WithCancel(t.Context())
	var weather sync.WaitGroup
	defer func() { calm(); weather.Wait() }()
	for _, m := range c.movers {
		weather.Go(func() { m.disturb(ctx) })
	}
	machine := startDrag(t)
	begun := now()
	for i := 0; i < len(plan) || c.moves < moves; i++ {
		upset := ""
		if i < len(plan) {
			upset = plan[i]
		}
		c.jl.pass(10_000)
		c.move(upset)
	}
	took, held := now()-begun, machine.end()
	calm()
	weather.Wait()
	var all []*worker
	for _, m := range append(c.movers, c.outsider) {
		all = append(all, m.worker)
	}
	finish(t, all...)

	events := c.jl.all()
	unanswered, twice := tallied(events)
	t.Logf("%d moves in %v: %v; %d commands without an answer, %d scripts ran twice",
		c.moves, took.Round(time.Millisecond), c.counts, unanswered, twice)
	for _, why := range slices.Sorted(maps.Keys(c.ends)) {
		t.Logf("%s: until another process had the lock: %v (machine held up %v)", why, c.ends[why], held)
	}
	nothingFailed(t, events)
	require.GreaterOrEqual(t, len(spans(events, moved)), moves/2, "most were trusted")
	require.Empty(t, unsound(events))
	const slack = 150 * time.Millisecond
	for why, times := range c.ends {
		most := moveLease + longStall
		if why == leftAlone {
			most = moveStays
		}
		require.LessOrEqual(t, times.max(), most+slack+3*held, why)
	}
	require.Greater(t, unanswered, int64(moves/50), "hardly any answer was lost")
	require.Greater(t, twice, int64(moves/10), "hardly any command ran twice")
	absent(t, moveLease, c.s, moved)
}

// tallied sums what the workers counted of their commands.
func tallied(events []event) (unanswered, twice int64) {
	type worker string
	last := make(map[worker]event)
	for _, e := range only(events, kind(tally, moved)) {
		var id, who int
		_, _ = fmt.Sscanf(e.who, "w%d.%d", &id, &who)
		last[worker(fmt.Sprint(id))] = e
	}
	for _, e := range last {
		n, _ := strconv.ParseInt(e.note, 10, 64)
		unanswered, twice = unanswered+e.token, twice+n
	}
	return unanswered, twice
}
