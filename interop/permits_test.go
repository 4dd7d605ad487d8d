package interop

import (
	"context"
	"flag"
	"fmt"
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
	t    *testing.T
	jvm  *peer
	name string
	sem  *relock.Semaphore
}

// permitted is the end of a Go wait for permits.
type permitted struct {
	permit *relock.Permit
	at     time.Time
	err    error
}

func (p permits) which() string { return "permits:" + p.name }

// java runs a command about the semaphore that must succeed.
func (p permits) java(thread, command string, args ...string) string {
	p.t.Helper()
	return p.jvm.Do(thread, command, append([]string{p.which()}, args...)...)
}

func (p permits) acquire(k int) *relock.Permit {
	p.t.Helper()
	permit, err := p.sem.Acquire(p.t.Context(), k)
	require.NoError(p.t, err)
	return permit
}

func (p permits) release(all ...*relock.Permit) {
	p.t.Helper()
	for _, permit := range all {
		require.NoError(p.t, permit.Release(p.t.Context()))
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
func (p permits) granted(waiter <-chan permitted, since time.Time) *relock.Permit {
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

const minute = "60000"

// TestPermits runs what both languages can do with one semaphore, on one server.
func TestPermits(t *testing.T) {
	for _, version := range []string{current, oldest} {
		t.Run(version, func(t *testing.T) {
			server := redistest.Start(t)
			s := singleSite(server)
			jvm := startJVM(t, version, s.yaml())
			locks := s.locks(t)
			of := func(t *testing.T, name string, n int) permits {
				return permits{t: t, jvm: jvm, name: name, sem: locks.Semaphore(name, n)}
			}
			for _, name := range []string{"calls:42", "{tenant 7}:calls", "вызовы \"é\""} {
				t.Run("shared "+name, func(t *testing.T) { of(t, name, 3).shared() })
			}
			t.Run("ends", func(t *testing.T) { of(t, "ends", 2).ends() })
			t.Run("size", func(t *testing.T) { of(t, "size", 50).sized() })
			t.Run("weights", func(t *testing.T) { of(t, "weights", 3).weights() })
			t.Run("for ever", func(t *testing.T) { of(t, "ever", 1).forEver(server) })
			t.Run("stopped holder", func(t *testing.T) { of(t, "stopped", 3).stoppedHolder(startGo(t, s, 2*time.Second)) })
			t.Run("Java releases", func(t *testing.T) { of(t, "wake", 1).javaWakesGo(server) })
			t.Run("Go releases", func(t *testing.T) { of(t, "wake", 1).goWakesJava(server) })
		})
	}
}

// TestPermitsInCluster is the first part of that where the two languages must agree on a kind of channel.
func TestPermitsInCluster(t *testing.T) {
	nodes := redistest.StartCluster(t)
	for version, s := range map[string]site{current: clusterSite(nodes), oldest: plainSite(nodes)} {
		t.Run(version, func(t *testing.T) {
			name := "{tenant}:calls-" + version
			permits{t: t, jvm: startJVM(t, version, s.yaml()), name: name, sem: s.locks(t).Semaphore(name, 3)}.shared()
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
	require.NotEqual(p.t, "true", p.java("a", "tryRelease", strings.Repeat("00ff", 8)), "a permit that nobody holds")

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
func (p permits) ends() {
	p.t.Helper()
	p.java("a", "trySetPermits", "2")
	began := time.Now()
	lapsed := p.java("a", "acquire", "1", "1000")
	kept := p.acquire(1)
	got := await(p.t, p.wait(1))
	require.NoError(p.t, got.err)
	require.Less(p.t, got.at.Sub(began), 2*time.Second, "a permit that ended in Java")
	require.Equal(p.t, "false", p.java("a", "tryRelease", lapsed))
	p.is(2, 2)
	p.release(kept, got.permit)

	fixed, err := p.sem.Acquire(p.t.Context(), 1)
	require.NoError(p.t, err)
	taken := p.java("a", "acquire", "1", minute)
	freed, err := p.sem.ForceRelease(p.t.Context())
	require.NoError(p.t, err)
	require.True(p.t, freed)
	require.Equal(p.t, "false", p.java("a", "tryRelease", taken), "a permit that Go took away")
	require.ErrorIs(p.t, fixed.Release(p.t.Context()), relock.ErrLost)
	p.is(0, 2)

	deleted := p.acquire(2)
	require.Equal(p.t, "true", p.java("a", "delete"))
	require.ErrorIs(p.t, deleted.Release(p.t.Context()), relock.ErrLost)
	p.release(p.acquire(2))
	p.is(0, 2)
}

// sized has each language make the semaphore larger and smaller under the other's holders and waiters.
func (p permits) sized() {
	p.t.Helper()
	ctx := p.t.Context()
	require.Equal(p.t, "true", p.java("a", "trySetPermits", "2"))
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
	p.java("a", "trySetPermits", "3")
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
// of that what a Go process left that crashed, and nobody tells Java. A client of relock's that waits too does.
func (p permits) forEver(server *redistest.Server) {
	p.t.Helper()
	p.java("a", "trySetPermits", "1")
	p.java("a", "acquire", "1", "-1")
	java := javaWaits(p.t, server, func() <-chan answer { return p.jvm.Go("b", "acquire", p.which(), "1", minute) })
	set := "{" + p.name + "}:timeout"
	ends := time.Now().Add(time.Second)
	server.Do("DEL", set)
	server.Do("ZADD", set, strconv.FormatInt(ends.UnixMilli(), 10), "6f1c2a34-0000-4000-8000-000000000001:71234567890123456:1")
	got := await(p.t, p.wait(1))
	require.NoError(p.t, got.err)
	require.Less(p.t, got.at.Sub(ends), time.Second)
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
	p.java("a", "trySetPermits", "3")
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
	require.Less(p.t, got.ended.Sub(woken), time.Second)
	eventually(p.t, "the rest of the entry is free", func() bool { return p.state().Free == 2 })
	p.is(1, 3)
	p.java("a", "release", id)
	p.is(0, 3)
}

// javaWakesGo measures from before the call of release in Java until Acquire has returned in Go.
func (p permits) javaWakesGo(server *redistest.Server) {
	p.java("a", "trySetPermits", "1")
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

// TestPermitsOfCrashed kills a process of each language that holds the only permit while the other language waits for it.
func TestPermitsOfCrashed(t *testing.T) {
	for _, version := range []string{current, oldest} {
		t.Run(version, func(t *testing.T) {
			s := singleSite(redistest.Start(t))
			dying, jvm, process := startJVM(t, version, s.yaml()), startJVM(t, version, s.yaml()), startGo(t, s, crashLease)
			sem := s.locks(t, relock.WithLease(crashLease)).Semaphore("of-java", 1)
			inJava, inGo := permits{t, dying, "of-java", sem}, permits{t: t, jvm: jvm, name: "of-go"}
			inGo.java("a", "trySetPermits", "1")
			process.Do("a", "acquire", "of-go", "1")
			javaWaiter := jvm.Go("a", "acquire", inGo.which(), "1", minute)
			inJava.java("a", "trySetPermits", "1")
			inJava.java("a", "acquire", "1", strconv.FormatInt(crashLease.Milliseconds(), 10))
			goWaiter := inJava.wait(1)
			inJava.waiting()
			dying.Kill()
			process.Kill()
			began := time.Now()
			inGoNow, inJavaNow := await(t, goWaiter), await(t, javaWaiter)
			require.NoError(t, inGoNow.err)
			require.NoError(t, inJavaNow.err)
			t.Logf("Go had the permit %v after the JVM was killed, Java %v after the Go process was", inGoNow.at.Sub(began), inJavaNow.ended.Sub(began))
			require.Less(t, inGoNow.at.Sub(began), crashLimit)
			require.Less(t, inJavaNow.ended.Sub(began), crashLimit)
			require.NoError(t, inGoNow.permit.Release(t.Context()))
		})
	}
}

// TestPermitsUnderLoad has ten threads of each of four processes, two of each language, take one of four permits as fast as
// they can. By a number that each holder adds to for its time, no more than four ever hold one.
func TestPermitsUnderLoad(t *testing.T) {
	for _, version := range []string{current, oldest} {
		t.Run(version, func(t *testing.T) {
			server := redistest.Start(t)
			s := singleSite(server)
			peers := map[string][]*peer{
				java:   {startJVM(t, version, s.yaml()), startJVM(t, version, s.yaml())},
				golang: {startGo(t, s, 30*time.Second), startGo(t, s, 30*time.Second)},
			}
			name := "load"
			l := load{which: "permits:1:" + name, counter: "n", threads: 10, rounds: max(*operations/40, 1)}
			entries := runPermits(t, s, server, name, 4, map[string]load{java: l, golang: l}, peers)
			require.Len(t, entries, 40*l.rounds)
			logHandOvers(t, entries)

			l.rounds, l.duration, l.which = 0, 3*time.Second, "permits:1:turns"
			entries = runPermits(t, s, server, "turns", 4, map[string]load{java: l, golang: l}, peers)
			require.Empty(t, shares(t, entries))
		})
	}
}

// TestPermitsOfWeights is the same with three permits at a time in Go, two in Java, and seven.
func TestPermitsOfWeights(t *testing.T) {
	server := redistest.Start(t)
	s := singleSite(server)
	inJava := load{which: "permits:2:weights", counter: "n", threads: 5, duration: 3 * time.Second}
	inGo := inJava
	inGo.which = "permits:3:weights"
	runPermits(t, s, server, "weights", 7, map[string]load{java: inJava, golang: inGo}, pairs(t, s))
}

// runPermits runs loads on a new semaphore, and fails the test when more permits than there are were ever held, or some are
// missing at the end.
func runPermits(t *testing.T, s site, server *redistest.Server, name string, n int, loads map[string]load, peers map[string][]*peer) []entry {
	t.Helper()
	p := permits{t: t, jvm: peers[java][0], name: name, sem: s.locks(t).Semaphore(name, n)}
	barrier := p.acquire(n)
	entries := runBehind(t, s, server, loads, peers, permitsChannel(name), func() error { return barrier.Release(t.Context()) })
	most := slices.MaxFunc(entries, func(a, b entry) int { return int(a.token - b.token) })
	require.LessOrEqual(t, most.token, int64(n), "a permit too many: %+v", most)
	require.Equal(t, int64(n), most.token, "the permits were never all in use")
	require.Equal(t, "0", server.Do("GET", loads[java].counter))
	p.is(0, n)
	require.Empty(t, server.Do("KEYS", "relock_permits:*"))
	return entries
}

// logHandOvers tells how soon after a release somebody else had a permit, by the language of either.
func logHandOvers(t testing.TB, entries []entry) {
	waits := make(map[string][]time.Duration)
	for _, e := range entries {
		waits[e.who] = append(waits[e.who], e.wait())
	}
	for who, all := range waits {
		slices.Sort(all)
		t.Logf("%s waited %d times: median %v, p99 %v, longest %v", who, len(all), all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
	}
}

// shares is as unfair, for permits, of which several are held at once.
func shares(t testing.TB, entries []entry) string {
	t.Helper()
	holdings, worst := make(map[string]int), make(map[string]time.Duration)
	for _, e := range entries {
		holdings[e.who]++
		worst[e.who] = max(worst[e.who], e.wait())
	}
	t.Logf("holdings %v, longest wait %v", holdings, worst)
	for who, wait := range worst {
		if wait >= 10*time.Second {
			return fmt.Sprintf("%v of waiting in %s", wait, who)
		}
	}
	return ""
}
