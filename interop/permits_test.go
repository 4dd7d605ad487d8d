package interop

import (
	"context"
	"flag"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// operations is how many permits are taken and given back in TestPermitsUnderLoad. More take longer, and find more.
var operations = flag.Int("operations", 3000, "how often TestPermitsUnderLoad takes permits, with each version")

// permits is one semaphore seen from both languages.
type permits struct {
	t     *testing.T
	jvm   *peer
	name  string
	locks *relock.Client
	sem   *relock.Semaphore
}

// permitsOf returns the semaphore. size is what Go makes it with where there is none.
func permitsOf(t *testing.T, jvm *peer, locks *relock.Client, name string, size int) permits {
	return permits{t: t, jvm: jvm, name: name, locks: locks, sem: locks.Semaphore(name, size)}
}

// permitted is the end of a Go wait for permits.
type permitted struct {
	permit *relock.Lease
	at     time.Time
	err    error
}

func (p permits) which() string { return "permits:" + p.name }

// java runs a command about the semaphore that must succeed.
func (p permits) java(thread, command string, args ...string) string {
	p.t.Helper()
	return p.jvm.Do(thread, command, append([]string{p.which()}, args...)...)
}

func (p permits) acquire(k int) *relock.Lease {
	p.t.Helper()
	permit, err := p.sem.Acquire(p.t.Context(), k)
	require.NoError(p.t, err)
	return permit
}

func (p permits) release(all ...*relock.Lease) {
	p.t.Helper()
	for _, permit := range all {
		require.NoError(p.t, permit.Unlock(p.t.Context()))
	}
}

// wait acquires in a goroutine.
func (p permits) wait(k int) <-chan permitted {
	out := make(chan permitted, 1)
	go func() {
		permit, err := p.sem.Acquire(context.Background(), k)
		out <- permitted{permit, time.Now(), err}
	}()
	return out
}

// granted is the permit of a Go waiter, which must have got it promptly after an instant.
func (p permits) granted(waiter <-chan permitted, since time.Time) *relock.Lease {
	p.t.Helper()
	got := await(p.t, waiter)
	require.NoError(p.t, got.err)
	require.Less(p.t, got.at.Sub(since), promptly, "the Go waiter polled")
	return got.permit
}

// javaGranted is the same for a Java waiter. It returns the permit's id.
func (p permits) javaGranted(waiter <-chan answer, since time.Time) string {
	p.t.Helper()
	got := await(p.t, waiter)
	require.NoError(p.t, got.err)
	require.NotEmpty(p.t, got.value)
	require.Less(p.t, got.ended.Sub(since), promptly, "the Java waiter polled")
	return got.value
}

func (p permits) state() relock.State {
	p.t.Helper()
	state, err := p.sem.State(p.t.Context())
	require.NoError(p.t, err)
	return state
}

// is wants so many permits held of so many, in both languages' eyes.
func (p permits) is(held, size int) {
	p.t.Helper()
	state := p.state()
	require.Equal(p.t, []int{held, size, size - held}, []int{state.Count, state.Permits, state.Free})
	require.Equal(p.t, held > 0, state.Held)
	require.Equal(p.t, strconv.Itoa(size-held), p.java("a", "availablePermits"))
}

// waiting returns when a Go waiter is in line.
func (p permits) waiting() {
	p.t.Helper()
	eventually(p.t, "a Go waiter", func() bool { return p.state().Waiters == 1 })
}

// permitsChannel is the channel on which either language tells that permits became free.
func permitsChannel(name string) string {
	return strings.Replace(channelOf(name), "redisson_lock__channel:", "redisson_sc:", 1)
}

// javaWaits returns when a Java waiter that now waits has asked twice, before and after it subscribed; only then does it sleep.
func javaWaits(t testing.TB, server *redistest.Server, waits func() <-chan answer) <-chan answer {
	t.Helper()
	asked := server.CommandCounts()["zrange"]
	waiter := waits()
	eventually(t, "a Java waiter that has asked twice", func() bool { return server.CommandCounts()["zrange"] >= asked+2 })
	return waiter
}

const (
	minute = "60000" // milliseconds, as Java is told a lease
	// permitLease is that of a holder that crashes. The other language has the permit a second later at most.
	permitLease = 2 * time.Second
)

// TestPermits runs what both languages can do with one semaphore, beside what TestOneLock does in every mode.
func TestPermits(t *testing.T) {
	for _, version := range []string{current, oldest} {
		t.Run(version, func(t *testing.T) {
			server := redistest.Start(t)
			s := singleSite(server)
			jvm, locks := startJVM(t, version, s.yaml()), s.locks(t)
			on := func(name string, size int, run func(permits)) {
				t.Run(name, func(t *testing.T) {
					p := permitsOf(t, jvm, locks, name, noSize)
					require.Equal(t, "true", p.java("a", "trySetPermits", strconv.Itoa(size)))
					run(p)
				})
			}
			on("ends", 2, func(p permits) { p.ends(server) })
			on("size", 2, permits.sized)
			on("weights", 3, permits.weights)
			on("lingers", 1, permits.lingers)
			on("for ever", 1, func(p permits) { p.forEver(server) })
			on("stopped", 3, func(p permits) { p.stoppedHolder(startGo(t, s, permitLease)) })
			on("JVM crashes", 1, func(p permits) { p.javaCrashes(startJVM(t, version, s.yaml())) })
			on("Go crashes", 1, func(p permits) { p.goCrashes(startGo(t, s, permitLease)) })
			on("Java wakes Go", 1, func(p permits) { p.javaWakesGo(server) })
			on("Go wakes Java", 1, func(p permits) { p.goWakesJava(server) })
		})
	}
}

// shared has the languages hold permits of a new semaphore of three together, wait for each other and wake each other.
func (p permits) shared() {
	p.t.Helper()
	first := p.acquire(1)
	p.is(1, 3)
	second, third := p.java("a", "acquire", "1", minute), p.java("b", "acquire", "1", minute)
	p.is(3, 3)
	require.Empty(p.t, p.java("a", "tryAcquire", "1", "50", minute))
	_, err := p.sem.TryAcquire(p.t.Context(), 1)
	require.ErrorIs(p.t, err, relock.ErrNotAcquired)
	require.Equal(p.t, "false", p.java("a", "tryRelease", strings.Repeat("00ff", 8)), "a permit that nobody holds")

	waiter := p.wait(1)
	p.waiting()
	require.Empty(p.t, waiter)
	released := p.jvm.Try("a", "release", p.which(), second)
	require.NoError(p.t, released.err)
	fourth := p.granted(waiter, released.began)
	p.is(3, 3)

	java := p.jvm.Go("a", "acquire", p.which(), "1", minute)
	began := time.Now()
	p.release(first)
	second = p.javaGranted(java, began)
	p.is(3, 3)
	p.release(fourth)
	p.java("a", "release", second)
	p.java("b", "release", third)
	p.is(0, 3)
}

// ends has permits of each language run out, taken away and deleted beside the other's, which must not be harmed.
func (p permits) ends(server *redistest.Server) {
	p.t.Helper()
	ctx := p.t.Context()
	began := time.Now()
	lapsed := p.java("a", "acquire", "1", "1000")
	kept := p.acquire(1)
	got := await(p.t, p.wait(1))
	require.NoError(p.t, got.err)
	require.Less(p.t, got.at.Sub(began), 2*time.Second, "a permit that ended in Java")
	require.Error(p.t, p.jvm.Try("a", "release", p.which(), lapsed).err)
	p.is(2, 2)
	p.release(kept, got.permit)

	kept = p.acquire(1)
	taken := p.java("a", "acquire", "1", minute)
	freed, err := p.sem.ForceUnlock(ctx)
	require.NoError(p.t, err)
	require.True(p.t, freed)
	require.Equal(p.t, "false", p.java("a", "tryRelease", taken), "a permit that Go took away")
	require.ErrorIs(p.t, kept.Unlock(ctx), relock.ErrLost)
	p.is(0, 2)

	kept = p.acquire(2)
	require.Equal(p.t, "true", p.java("a", "delete"))
	require.ErrorIs(p.t, kept.Unlock(ctx), relock.ErrLost)
	p.release(p.acquire(2)) // which makes the semaphore anew
	p.is(0, noSize)

	taken = p.java("a", "acquire", "1", minute)
	server.Do("DEL", p.name)
	p.java("a", "release", taken)
	p.is(0, 1) // as Redisson makes it
	require.NoError(p.t, p.sem.SetPermits(ctx, 2))
	p.is(0, 2)
}

// sized has each language make the semaphore larger and smaller under the other's holders and waiters.
func (p permits) sized() {
	p.t.Helper()
	ctx := p.t.Context()
	first := p.acquire(2)
	p.is(2, 2)

	waiter := p.wait(1)
	p.waiting()
	added := p.jvm.Try("a", "addPermits", p.which(), "1")
	require.NoError(p.t, added.err)
	second := p.granted(waiter, added.began)
	p.is(3, 3)

	waiter = p.wait(2)
	p.waiting()
	if p.jvm.Try("a", "getPermits", p.which()).err == nil {
		set := p.jvm.Try("a", "setPermits", p.which(), "5")
		require.NoError(p.t, set.err)
		third := p.granted(waiter, set.began)
		p.is(5, 5)
		p.release(third)
		p.java("a", "setPermits", "1")
	} else { // before 3.19.1
		added := p.jvm.Try("a", "addPermits", p.which(), "2")
		require.NoError(p.t, added.err)
		p.release(p.granted(waiter, added.began))
		p.java("a", "addPermits", "-4")
	}
	p.is(3, 1)
	_, err := p.sem.Acquire(ctx, 2)
	require.ErrorIs(p.t, err, relock.ErrTooMany)
	p.release(first)
	p.is(1, 1)

	java := p.jvm.Go("a", "acquire", p.which(), "1", minute)
	began := time.Now()
	require.NoError(p.t, p.sem.SetPermits(ctx, 2))
	id := p.javaGranted(java, began)
	p.is(2, 2)
	require.NoError(p.t, p.sem.SetPermits(ctx, 1))
	p.is(2, 1)
	p.java("a", "release", id)
	require.Empty(p.t, p.java("a", "tryAcquire", "1", "0", minute))
	p.release(second)
	p.is(0, 1)
}

// weights has each language take two permits of three at once, where its Redisson can.
func (p permits) weights() {
	p.t.Helper()
	two := p.jvm.Try("a", "acquire", p.which(), "2", minute)
	if two.err != nil {
		require.ErrorContains(p.t, two.err, "UnsupportedOperationException")
		two.value = p.java("a", "acquire", "1", minute)
		other := p.acquire(2)
		p.is(3, 3)
		p.release(other)
		p.java("a", "release", two.value)
		return
	}
	waiter := p.wait(2)
	p.waiting()
	released := p.jvm.Try("a", "release", p.which(), two.value)
	require.NoError(p.t, released.err)
	permit := p.granted(waiter, released.began)
	require.Empty(p.t, p.java("a", "tryAcquire", "2", "0", minute))
	java := p.jvm.Go("a", "acquire", p.which(), "2", minute)
	began := time.Now()
	p.release(permit)
	p.java("a", "release", p.javaGranted(java, began))
	p.is(0, 3)
}

// forEver has a Java waiter sleep without a time, since all that it saw was a permit that never ends. Redis then holds in place
// of that what a Go process left that crashed, and no message tells Java. A client of relock's that waits too does.
func (p permits) forEver(server *redistest.Server) {
	p.t.Helper()
	p.java("a", "acquire", "1", "-1")
	java := javaWaits(p.t, server, func() <-chan answer { return p.jvm.Go("b", "acquire", p.which(), "1", minute) })
	set := "{" + p.name + "}:timeout"
	ends := time.Now().Add(time.Second)
	server.Do("DEL", set)
	server.Do("ZADD", set, strconv.FormatInt(ends.UnixMilli(), 10), "6f1c2a34-0000-4000-8000-000000000001:71234567890123456:1")
	got := await(p.t, p.wait(1))
	require.NoError(p.t, got.err)
	require.Less(p.t, got.at.Sub(ends), promptly)
	require.Empty(p.t, java)
	began := time.Now()
	p.release(got.permit)
	p.java("b", "release", p.javaGranted(java, began))
	p.is(0, 1)
}

// stoppedHolder stops a Go process that holds three permits until Java has taken one of them, whose lease has ended. It then
// hears of that with its next renewal, and gives the others back.
func (p permits) stoppedHolder(holder *peer) {
	p.t.Helper()
	holder.Do("a", "acquire", p.name, "3")
	lost := holder.Go("b", "lost", p.name, "a")
	p.is(3, 3)
	require.NoError(p.t, holder.cmd.Process.Signal(syscall.SIGSTOP))
	began := time.Now()
	id := p.javaGranted(p.jvm.Go("a", "tryAcquire", p.which(), "1", "10000", minute), began)
	require.NoError(p.t, holder.cmd.Process.Signal(syscall.SIGCONT))
	woken := time.Now()
	got := await(p.t, lost)
	require.ErrorContains(p.t, got.err, "lost")
	require.Less(p.t, got.ended.Sub(woken), permitLease)
	eventually(p.t, "the rest of the entry is free", func() bool { return p.state().Free == 2 })
	p.is(1, 3)
	p.java("a", "release", id)
	p.is(0, 3)
}

// lingers has Java wait for a permit that Go keeps for a while after its release. It makes no request to give it back, and would
// sleep to the end of the lease.
func (p permits) lingers() {
	p.t.Helper()
	keeps := p
	keeps.sem = p.locks.Semaphore(p.name, noSize, relock.WithLinger(lingerFor))
	for range 10 {
		keeps.release(keeps.acquire(1))
		began := time.Now()
		p.java("a", "release", p.javaGranted(p.jvm.Go("a", "acquire", p.which(), "1", minute), began))
	}
}

// javaCrashes kills a JVM that holds the only permit while Go waits for it.
func (p permits) javaCrashes(dying *peer) {
	p.t.Helper()
	dying.Do("a", "acquire", p.which(), "1", strconv.FormatInt(permitLease.Milliseconds(), 10))
	waiter := p.wait(1)
	p.waiting()
	dying.Kill()
	began := time.Now()
	got := await(p.t, waiter)
	require.NoError(p.t, got.err)
	p.t.Logf("Go had the permit %v after the JVM was killed", got.at.Sub(began))
	require.Less(p.t, got.at.Sub(began), permitLease+time.Second)
	p.release(got.permit)
	p.is(0, 1)
}

// goCrashes kills a Go process that holds the only permit while Java waits for it.
func (p permits) goCrashes(dying *peer) {
	p.t.Helper()
	dying.Do("a", "acquire", p.name, "1")
	waiter := p.jvm.Go("a", "acquire", p.which(), "1", minute)
	dying.Kill()
	began := time.Now()
	got := await(p.t, waiter)
	require.NoError(p.t, got.err)
	p.t.Logf("Java had the permit %v after the Go process was killed", got.ended.Sub(began))
	require.Less(p.t, got.ended.Sub(began), permitLease+time.Second)
	p.java("a", "release", got.value)
	p.is(0, 1)
}

// javaWakesGo measures from before the call of release in Java until Acquire has returned in Go.
func (p permits) javaWakesGo(server *redistest.Server) {
	requireP99(p.t, wakeLimit, 200, func() time.Duration {
		id := p.java("a", "acquire", "1", minute)
		waiter := p.wait(1)
		channel := permitsChannel(p.name)
		eventually(p.t, "a Go waiter in line, listening", func() bool {
			return server.Do("ZCARD", "relock_permits:{"+p.name+"}") == "1" && server.Do("PUBSUB", "NUMSUB", channel) != channel+"\n0"
		})
		released := p.jvm.Try("a", "release", p.which(), id)
		require.NoError(p.t, released.err)
		got := await(p.t, waiter)
		require.NoError(p.t, got.err)
		p.release(got.permit)
		return got.at.Sub(released.began)
	})
}

// goWakesJava measures from before the call of Release in Go until acquire has returned in Java.
func (p permits) goWakesJava(server *redistest.Server) {
	requireP99(p.t, wakeLimit, 200, func() time.Duration {
		permit := p.acquire(1)
		waiter := javaWaits(p.t, server, func() <-chan answer { return p.jvm.Go("a", "acquire", p.which(), "1", minute) })
		began := time.Now()
		p.release(permit)
		got := await(p.t, waiter)
		require.NoError(p.t, got.err)
		p.java("a", "release", got.value)
		return got.ended.Sub(began)
	})
}

// TestPermitsUnderLoad has ten threads of each of four processes, two of each language, take one of four permits as fast as
// they can, for so many rounds and then for a time; then three of seven permits at once in Go and two in Java. Redisson gives no
// order, and relock leaves Java a permit at a time: so Java has turns, but gets two permits at once by chance only.
func TestPermitsUnderLoad(t *testing.T) {
	for _, version := range []string{current, oldest} {
		t.Run(version, func(t *testing.T) {
			server := redistest.Start(t)
			s := singleSite(server)
			peers := map[string][]*peer{
				java:   {startJVM(t, version, s.yaml()), startJVM(t, version, s.yaml())},
				golang: {startGo(t, s, 30*time.Second), startGo(t, s, 30*time.Second)},
			}
			run := func(name string, size, inJava, inGo int, l load) []entry {
				l.counter, l.threads = "held:"+name, 10
				loads := map[string]load{java: l, golang: l}
				for who, k := range map[string]int{java: inJava, golang: inGo} {
					l.which = "permits:" + strconv.Itoa(k) + ":" + name
					loads[who] = l
				}
				return runPermits(t, s, server, name, size, loads, peers)
			}
			entries := run("rounds", 4, 1, 1, load{rounds: *operations/40 + 1})
			requireLimit(t, entries, 4)
			entries = run("turns", 4, 1, 1, load{duration: 2 * time.Second})
			requireLimit(t, entries, 4)
			require.Empty(t, unequal(t, entries, 200))
			if version == current {
				unequal(t, run("weights", 7, 2, 3, load{duration: 2 * time.Second}), 0)
			}
		})
	}
}

// runPermits runs loads on a new semaphore, and fails the test when more permits than there are were ever held, or some are
// missing at the end.
func runPermits(t *testing.T, s site, server *redistest.Server, name string, n int, loads map[string]load, peers map[string][]*peer) []entry {
	t.Helper()
	p := permitsOf(t, peers[java][0], s.locks(t), name, n)
	barrier := p.acquire(n)
	entries := runBehind(t, s, server, loads, peers, func() error { return barrier.Unlock(t.Context()) }, permitsChannel(name))
	most := slices.MaxFunc(entries, func(a, b entry) int { return int(a.token - b.token) })
	require.LessOrEqual(t, most.token, int64(n), "a permit too many: %+v", most)
	t.Logf("%d permits of %d in use at the most", most.token, n)
	require.Equal(t, "0", server.Do("GET", loads[java].counter))
	p.is(0, n)
	require.Empty(t, server.Do("KEYS", "relock_permits:*"))
	return entries
}

// requireLimit fails the test when more than n entries held a permit at once on the machine's clock, and tells how long a permit
// was free before each language took it.
func requireLimit(t testing.TB, entries []entry, n int) {
	t.Helper()
	released := make([]int64, len(entries))
	for i, e := range entries {
		released[i] = e.unlocking
	}
	slices.Sort(released)
	free := make(map[string][]time.Duration)
	for i, e := range entries[n:] {
		took := time.Duration(e.locked-released[i]) * time.Microsecond
		require.GreaterOrEqual(t, took, time.Duration(0), "a permit too many: %+v", e)
		free[e.who] = append(free[e.who], took)
	}
	for who, all := range free {
		slices.Sort(all)
		t.Logf("%s took %d permits, free for %v in the median, %v p99, %v at most",
			who, len(all), all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
	}
}
