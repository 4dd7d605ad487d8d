package suite_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/drivertest"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// permits takes k permits, which are free.
func permits(t *testing.T, s *relock.Semaphore, k int) *relock.Lease {
	t.Helper()
	p, err := s.TryAcquire(t.Context(), k)
	require.NoError(t, err)
	return p
}

// waitsFor has s wait for k permits in the background, until Redis has so many waiters, and returns where the permit will come.
func waitsFor(t *testing.T, s *relock.Semaphore, srv *redistest.Server, k, line int) <-chan *relock.Lease {
	t.Helper()
	got := make(chan *relock.Lease, 1)
	go func() {
		p, err := s.Acquire(t.Context(), k)
		if err != nil {
			t.Error(err)
		}
		got <- p
	}()
	want := strconv.Itoa(line)
	require.Eventually(t, func() bool { return srv.Do("ZCOUNT", namesOf(wire.Semaphore, s.Name()).Queue, "0", "+inf") == want }, patience, time.Millisecond)
	return got
}

// requireAllFree asks that Redis counts n free permits of the name k, and keeps nothing else of it.
func requireAllFree(t *testing.T, s *redistest.Server, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return s.Do("GET", "k") == strconv.Itoa(n) }, patience, time.Millisecond)
	require.Equal(t, "0", s.Do("EXISTS", "{k}:timeout"))
	require.Eventually(t, func() bool { return s.Do("EXISTS", "relock_permits:{k}") == "0" }, patience, time.Millisecond)
}

// At most n permits are held, by one process or by several; what is given back goes to the waiter, and is written as Redisson
// writes it.
func TestSemaphore(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s), hearing(t, s)
	one, two := permits(t, a.Semaphore("k", 2), 1), permits(t, b.Semaphore("k", 2), 1)
	_, err := a.Semaphore("k", 2).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	third := waitsFor(t, b.Semaphore("k", 2), s, 1, 1)
	within(t, one.Wanted())
	within(t, two.Wanted())
	st, err := a.Semaphore("k", 2).State(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, st.Permits)
	require.Equal(t, 2, st.Count)
	require.Zero(t, st.Free)
	require.Equal(t, 1, st.Waiters)
	require.True(t, st.Held)
	require.Contains(t, []string{entryOf(one).ID, entryOf(two).ID}, st.Holder)
	require.LessOrEqual(t, st.TTL, defaultLease)
	require.Equal(t, "0", s.Do("GET", "k"))
	require.Equal(t, "2", s.Do("ZCARD", "{k}:timeout"))

	unlocked(t, one)
	p := within(t, third)
	require.Equal(t, "k", p.Name())
	require.WithinDuration(t, time.Now().Add(defaultLease), p.Until(), time.Second)
	unlocked(t, two, p)
	require.ErrorIs(t, p.Unlock(t.Context()), relock.ErrNotHeld)
	requireAllFree(t, s, 2)
	require.NoError(t, a.Semaphore("k", 2).Do(t.Context(), func(ctx context.Context) error {
		require.Equal(t, "1", s.Do("GET", "k"))
		return nil
	}))
	requireAllFree(t, s, 2)
}

// Waiters come in order, whatever they want: one that wants many keeps out those behind it.
func TestSemaphoreServesInOrder(t *testing.T) {
	s := redistest.Start(t)
	a, b, c := hearing(t, s), hearing(t, s), hearing(t, s)
	one, two := permits(t, a.Semaphore("k", 3), 1), permits(t, a.Semaphore("k", 3), 1)
	all := waitsFor(t, b.Semaphore("k", 3), s, 3, 1)
	behind := waitsFor(t, c.Semaphore("k", 3), s, 1, 2)
	last := waitsFor(t, a.Semaphore("k", 3), s, 2, 3)
	_, err := a.Semaphore("k", 3).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, relock.ErrNotAcquired, "one is free, and it would overtake")
	unlocked(t, one)
	require.Empty(t, behind)
	unlocked(t, two)
	p := within(t, all)
	require.Equal(t, "3", s.Do("ZCARD", "{k}:timeout"))
	require.Empty(t, behind)
	unlocked(t, p)
	unlocked(t, within(t, behind), within(t, last)) // one release lets in both
	requireAllFree(t, s, 3)
}

// A waiter whose process died does not keep out those that want less.
func TestDeadWaiterOfManyKeepsOutNone(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s)
	kept := permits(t, c.Semaphore("k", 3), 1)
	s.Do("ZADD", "relock_permits:{k}", "1", "30000:3:"+uuid.NewString()+":1:")
	p, err := c.Semaphore("k", 3).Acquire(t.Context(), 1)
	require.NoError(t, err)
	s.Do("ZADD", "relock_permits:{k}", "1", "30000:3:"+uuid.NewString()+":1:")
	next := waitsFor(t, c.Semaphore("k", 3), s, 2, 2)
	unlocked(t, kept) // which finds it
	unlocked(t, p, within(t, next))
	requireAllFree(t, s, 3)
}

// An Acquire under a permit's context takes more; nothing takes a permit's context for that of a lease with a token.
func TestPermitsAreNotReentered(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	l := taken(t, c.Mutex("m").Lock)
	sem := c.Semaphore("k", 3)
	outer, err := sem.Acquire(l.Context(), 1)
	require.NoError(t, err)
	inner, err := sem.Acquire(outer.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, "0", s.Do("GET", "k"))
	require.Equal(t, l.Token(), relock.Token(inner.Context()))
	found, ok := relock.FromContext(inner.Context())
	require.True(t, ok)
	require.Same(t, l, found)
	unlocked(t, outer)
	require.Equal(t, "1", s.Do("GET", "k"))
	require.ErrorIs(t, context.Cause(outer.Context()), relock.ErrNotHeld)
	require.Error(t, inner.Context().Err(), "it derives from the outer permit's")
	unlocked(t, inner)
	unlocked(t, l)
}

// While one of Redisson's waiters listens, it is left one permit, and relock's waiters have the others.
func TestTurnLeavesOnePermit(t *testing.T) {
	s := redistest.Start(t)
	tap := faulty(s)
	a, b := hearing(t, s), newClient(t, tap)
	sem := a.Semaphore("k", 4)
	var held []*relock.Lease
	for range 4 {
		held = append(held, permits(t, sem, 1))
	}
	next := waitsFor(t, b.Semaphore("k", 4), s, 1, 1)
	listening(t, s, b)
	go func() {
		_ = s.Client().Receive(t.Context(), s.Client().B().Subscribe().Channel("redisson_sc:{k}").Build(), func(rueidis.PubSubMessage) {})
	}()
	numsub := func(channel string) string { return strings.Fields(s.Do("PUBSUB", "NUMSUB", channel))[1] }
	require.Eventually(t, func() bool { return numsub("redisson_sc:{k}") > numsub("relock_sclisten:{k}") }, patience, time.Millisecond)
	tap.Filter(faults.All(faults.Script("acquire"), faults.LoseCall)) // so that only what is handed over is had
	unlocked(t, held[0])
	require.Equal(t, "1", s.Do("GET", "k"))
	unlocked(t, held[1])
	require.Equal(t, "1", s.Do("GET", "k"), "one waits for Redisson's waiter, the other was handed over")
	p := within(t, next)
	tap.Filter(nil)
	unlocked(t, held[2], held[3], p)
	require.Eventually(t, func() bool { return s.Do("GET", "k") == "4" }, patience, time.Millisecond)
}

// A semaphore has no shared owners, and no quorum.
func TestSemaphoreRefuses(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	sem := c.Semaphore("k", 2)
	acquires := map[string]func(context.Context, int) (*relock.Lease, error){"Acquire": sem.Acquire, "TryAcquire": sem.TryAcquire}
	for name, acquire := range acquires {
		_, err := acquire(relock.WithOwner(t.Context(), "job"), 1)
		require.ErrorIs(t, err, errors.ErrUnsupported, name)
		_, err = acquire(relock.WithOwner(t.Context(), ""), 1)
		require.ErrorIs(t, err, relock.ErrInvalidOwner, name)
		for _, k := range []int{-1, 0, 128 + 1} {
			_, err = acquire(t.Context(), k)
			require.ErrorIs(t, err, relock.ErrInvalidOption, "%s %d", name, k)
		}
		_, err = acquire(t.Context(), 3)
		require.ErrorIs(t, err, relock.ErrTooMany, name)
		require.ErrorIs(t, err, relock.ErrMisuse, name)
		require.EqualError(t, err, "relock: more permits than the semaphore has: 3 of 2")
		_, err = acquire(nil, 1) //nolint:staticcheck // what is tested
		require.ErrorIs(t, err, relock.ErrMisuse, name)
	}
	require.Equal(t, "0", s.Do("EXISTS", "k"), "Redis was not asked")
	for _, n := range []int{-1, 0, 1_000_001} {
		_, err := c.Semaphore("k", n).TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, relock.ErrInvalidOption)
		require.ErrorIs(t, sem.SetPermits(t.Context(), n), relock.ErrInvalidOption)
	}
	_, err := c.Semaphore("k", 2, relock.WithMinHold(time.Second)).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	_, err = c.Semaphore("{k}", 2).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, relock.ErrInvalidName)
	require.ErrorContains(t, err, "would share keys with that of the name \"k\"")
	require.ErrorIs(t, (*relock.Semaphore)(nil).Do(t.Context(), nothing), relock.ErrMisuse)
	require.ErrorIs(t, new(relock.Semaphore).SetPermits(t.Context(), 1), relock.ErrMisuse)
	require.ErrorIs(t, sem.Do(t.Context(), nil), relock.ErrMisuse)

	quorum := newRedlock(t, masters(t, 3))
	_, err = quorum.Semaphore("k", 2).Acquire(t.Context(), 1)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.EqualError(t, err, "relock: not supported: a Semaphore over a quorum of nodes or under WithRestartGuard")
	require.ErrorIs(t, quorum.Semaphore("k", 2).SetPermits(t.Context(), 1), errors.ErrUnsupported)
	guarded := newClient(t, s.Client(), relock.WithRestartGuard(defaultLease))
	_, err = guarded.Semaphore("k", 2).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

// A further key that begins with the lock's name does not make the names of the kinds behind it possible.
func TestOwnPrefixesBehindASemaphores(t *testing.T) {
	c := newClient(t, ownRedis(t))
	for _, name := range []string{"relock_permits:x", "relock_permit_line:x", "relock_permit_grants:x", "redisson_sc:x", "relock_sclisten:x"} {
		_, err := c.Mutex(name).TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrInvalidName, name)
	}
}

// A semaphore takes no more arguments than a mutex, so that the short form of the commands stays.
func TestSemaphoreCommandsAreShort(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	tap := faulty(s)
	c := newClient(t, tap)
	require.Eventually(t, func() bool { return clientHears(t, c) }, patience, time.Millisecond) // it then asks whether it still holds what it holds
	scripts := make(chan string, 10)
	tap.Filter(func(call *faults.Call) faults.Fate {
		if name := call.ScriptName(); name != "" { // no subscription
			scripts <- name
		}
		return faults.Pass
	})
	p := permits(t, c.Semaphore("k", 2), 1)
	for _, script := range []string{"acquire", "resize", "acquire"} {
		require.Equal(t, script, within(t, scripts), "three round trips for a name that Redis does not know")
	}
	require.Empty(t, scripts)
	tap.Filter(nil)
	unlocked(t, p)
	var args atomic.Int64
	tap.Filter(func(call *faults.Call) faults.Fate {
		if call.ScriptName() == "acquire" {
			args.Store(int64(len(call.Words) - 3 - 6)) // without EVALSHA, its hash, the number of keys, and those
		}
		return faults.Pass
	})
	unlocked(t, permits(t, c.Semaphore("k", 2), 1))
	require.EqualValues(t, 5, args.Load(), "lease, amount, id, owner and ticket, as a mutex's TryLock")
}

// Only the question of the first waiter tells the holders that permits are wanted.
func TestOnlyTheFirstWaiterTellsItsWish(t *testing.T) {
	s := redistest.Start(t)
	a, b, c := hearing(t, s), hearing(t, s), hearing(t, s)
	held := make([]*relock.Lease, 40)
	for i := range held {
		held[i] = permits(t, a.Semaphore("k", len(held)), 1)
	}
	wishes := func() int {
		_, after, _ := strings.Cut(s.Do("INFO", "commandstats"), "cmdstat_publish:calls=")
		n, _, _ := strings.Cut(after, ",")
		calls, _ := strconv.Atoi(n)
		return calls
	}
	before := wishes()
	first := waitsFor(t, b.Semaphore("k", len(held)), s, 1, 1)
	for _, p := range held {
		within(t, p.Wanted())
	}
	// It asks twice: once more when it hears the lock's channel.
	require.Eventually(t, func() bool { return wishes() >= before+2*len(held) }, patience, time.Millisecond)
	told := wishes()
	second := waitsFor(t, c.Semaphore("k", len(held)), s, 1, 2)
	_, err := a.Semaphore("k", len(held)).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	require.Less(t, wishes(), told+len(held)/2, "neither the second in line nor one that does not wait")
	unlocked(t, held...)
	unlocked(t, within(t, first), within(t, second))
}

// Of more than 128 holders a question has 128 told.
func TestAWishIsToldTo128Holders(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s), hearing(t, s)
	const size = 200
	var held []*relock.Lease
	for range size {
		held = append(held, permits(t, a.Semaphore("k", size), 1))
	}
	calls := func() int {
		_, after, _ := strings.Cut(s.Do("INFO", "commandstats"), "cmdstat_publish:calls=")
		n, _, _ := strings.Cut(after, ",")
		calls, _ := strconv.Atoi(n)
		return calls
	}
	before := calls()
	_, err := b.Semaphore("k", size).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	require.Equal(t, 128, calls()-before)
	unlocked(t, held...)
}

// The number of permits is Redis's: the first client makes it, and a counter that was deleted is made anew with what is not held.
func TestSizeIsMadeAnewWithoutWhatIsHeld(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s), hearing(t, s)
	one, two := permits(t, a.Semaphore("k", 4), 1), permits(t, a.Semaphore("k", 4), 2)
	st, err := b.Semaphore("k", 9).State(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, st.Permits, "the first that was told")
	s.Do("DEL", "k")
	unlocked(t, one)
	require.Equal(t, "0", s.Do("EXISTS", "k"))
	three := permits(t, b.Semaphore("k", 4), 2)
	require.Equal(t, "0", s.Do("GET", "k"))

	waits := waitsFor(t, b.Semaphore("k", 4), s, 1, 1)
	s.Do("DEL", "k")
	unlocked(t, two) // which tells the waiter to ask
	unlocked(t, three, within(t, waits))
	requireAllFree(t, s, 4)
}

// A caller that waits tells Redis the number until Redis answers, and no longer than it waits; one that tries does not repeat it.
func TestSizeIsToldUntilRedisAnswers(t *testing.T) {
	s := redistest.Start(t)
	tap := faulty(s)
	c := newClient(t, tap, relock.WithCommandTimeout(500*time.Millisecond))
	sem := c.Semaphore("k", 2)
	tried := make(chan bool, 1000)
	tap.Filter(func(call *faults.Call) faults.Fate {
		if call.ScriptName() != "resize" {
			return faults.Pass
		}
		select {
		case tried <- true:
		default: // a call that never ends
		}
		return faults.LoseCall
	})
	require.ErrorIs(t, inTime(t, func(ctx context.Context) error {
		_, err := sem.TryAcquire(ctx, 1)
		return err
	}), relock.ErrUnavailable)
	require.Len(t, tried, 1)
	err := inTime(t, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err := sem.Acquire(ctx, 1)
		return err
	})
	require.ErrorIs(t, err, relock.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	got := make(chan *relock.Lease, 1)
	go func() {
		p, err := sem.Acquire(t.Context(), 1)
		if err != nil {
			t.Error(err)
		}
		got <- p
	}()
	for n := len(tried); n >= 0; n-- { // and once more, for this caller
		within(t, tried)
	}
	tap.Filter(nil)
	unlocked(t, within(t, got))
}

// SetPermits changes the number for all: waiters come in, or are told that there will never be as many.
func TestSetPermits(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := hearing(t, s), hearing(t, s)
	sem := a.Semaphore("k", 2)
	held := permits(t, sem, 2)
	one := waitsFor(t, b.Semaphore("k", 2), s, 1, 1)
	require.NoError(t, sem.SetPermits(t.Context(), 3))
	p := within(t, one)
	require.NoError(t, sem.SetPermits(t.Context(), 1))
	require.Equal(t, "-2", s.Do("GET", "k"))
	st, err := sem.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, -2, st.Free)
	_, err = b.Semaphore("k", 2).Acquire(t.Context(), 2)
	require.ErrorIs(t, err, relock.ErrTooMany)
	require.ErrorContains(t, err, "SetPermits changes it")
	unlocked(t, held)
	_, err = b.Semaphore("k", 2).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	unlocked(t, p)
	requireAllFree(t, s, 1)

	require.NoError(t, sem.SetPermits(t.Context(), 2))
	p = permits(t, sem, 1)
	failed := make(chan error, 1)
	go func() {
		_, err := b.Semaphore("k", 2).Acquire(t.Context(), 2)
		failed <- err
	}()
	require.Eventually(t, func() bool { return s.Do("ZCARD", "relock_permits:{k}") == "1" }, patience, time.Millisecond)
	require.NoError(t, sem.SetPermits(t.Context(), 1))
	require.ErrorIs(t, within(t, failed), relock.ErrTooMany)
	unlocked(t, p)
	requireAllFree(t, s, 1)
}

// One name has one kind of lock.
func TestSemaphoresDoNotMix(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	p := permits(t, c.Semaphore("k", 2), 1)
	for _, lock := range []func(context.Context) (*relock.Lease, error){c.Mutex("k").TryLock, c.RWMutex("k").TryLock, c.RWMutex("k").TryRLock} {
		_, err := lock(t.Context())
		require.ErrorIs(t, err, relock.ErrWrongKind)
	}
	unlocked(t, p)
	l := taken(t, c.Mutex("m").Lock)
	sem := c.Semaphore("m", 2)
	_, err := sem.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, relock.ErrWrongKind)
	_, err = sem.ForceUnlock(t.Context())
	require.ErrorIs(t, err, relock.ErrWrongKind)
	_, err = sem.State(t.Context())
	require.ErrorIs(t, err, relock.ErrWrongKind)
	require.ErrorIs(t, sem.SetPermits(t.Context(), 3), relock.ErrWrongKind)
	unlocked(t, l)
	s.Do("SET", "text", "hello")
	_, err = c.Semaphore("text", 2).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, relock.ErrWrongKind)
}

// ForceUnlock ends all permits, tells their holders, and lets in the waiters.
func TestForceUnlockOfASemaphore(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s), hearing(t, s)
	held := []*relock.Lease{permits(t, a.Semaphore("k", 3), 2), permits(t, b.Semaphore("k", 3), 1)}
	next := waitsFor(t, a.Semaphore("k", 3), s, 3, 1)
	freed, err := b.Semaphore("k", 3).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	for _, p := range held {
		within(t, p.Context().Done())
		require.ErrorIs(t, context.Cause(p.Context()), relock.ErrLost)
		require.ErrorIs(t, p.Unlock(t.Context()), relock.ErrLost)
	}
	unlocked(t, within(t, next))
	freed, err = b.Semaphore("k", 3).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.False(t, freed)
	requireAllFree(t, s, 3)
}

// The permits of a dead process are free once its lease is over, all of an entry's at once, and a waiter has them then.
func TestPermitsOfTheDeadComeBack(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s)
	sem := c.Semaphore("k", 3)
	unlocked(t, permits(t, sem, 1))
	dead := uuid.NewString() + ":71234567890123456"
	ends := strconv.FormatInt(time.Now().Add(200*time.Millisecond).UnixMilli(), 10)
	s.Do("DECRBY", "k", "3")
	s.Do("ZADD", "{k}:timeout", ends, dead+":1", ends, dead+":2", ends, dead+":3")
	p, err := sem.Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, "2", s.Do("GET", "k"))
	require.Equal(t, "1", s.Do("ZCARD", "{k}:timeout"))
	unlocked(t, p)
	requireAllFree(t, s, 3)
}

// A permit whose first part was reaped, by a JVM whose clock is ahead, is lost as a whole, and the size stays.
func TestPartOfAnEntryThatWasReapedIsLost(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s, relock.WithLease(500*time.Millisecond))
	sem := c.Semaphore("k", 3)
	p := permits(t, sem, 3)
	s.Do("ZREM", "{k}:timeout", entryOf(p).ID+":1")
	s.Do("INCRBY", "k", "1")
	within(t, p.Context().Done())
	require.ErrorIs(t, context.Cause(p.Context()), relock.ErrLost)
	q, err := sem.Acquire(t.Context(), 3)
	require.NoError(t, err)
	unlocked(t, q)
	requireAllFree(t, s, 3)
}

// A permit is renewed and extended, all of its parts, also at a Redis that is full.
func TestPermitsAreKept(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s, relock.WithLease(600*time.Millisecond))
	p := permits(t, c.Semaphore("k", 3), 2)
	s.Do("CONFIG", "SET", "maxmemory", "1")
	_, err := c.Semaphore("k", 3).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, relock.ErrRefused)
	time.Sleep(900 * time.Millisecond) // longer than the lease: renewals alone keep it
	require.NoError(t, p.Context().Err())
	require.NoError(t, p.Extend(t.Context(), time.Minute))
	require.Greater(t, time.Until(p.Until()), 55*time.Second)
	scores := strings.Fields(s.Do("ZRANGE", "{k}:timeout", "0", "-1", "WITHSCORES"))
	require.Len(t, scores, 4)
	require.Equal(t, scores[1], scores[3])
	unlocked(t, p)
	requireAllFree(t, s, 3)
	s.Do("CONFIG", "SET", "maxmemory", "0")
}

// Goroutines of a process pass permits on in memory; the one at the gate is Redis's contender meanwhile, and comes in too.
func TestPermitsPassInMemory(t *testing.T) {
	s := redistest.Start(t)
	tap := faulty(s)
	c := newClient(t, tap, relock.WithLocalHandoff(1000, time.Hour))
	sem := c.Semaphore("k", 2)
	unlocked(t, permits(t, sem, 1))
	listening(t, s, c)
	held := []*relock.Lease{permits(t, sem, 1), permits(t, sem, 1)}
	contender := waitsFor(t, sem, s, 1, 1)
	var sent atomic.Int64
	tap.Filter(func(call *faults.Call) faults.Fate {
		if call.ScriptName() == "release" {
			sent.Add(1)
		}
		return faults.Pass
	})
	got := make(chan *relock.Lease)
	for range 100 {
		go func() {
			p, err := sem.Acquire(t.Context(), 1)
			if err != nil {
				t.Error(err)
			}
			got <- p
		}()
	}
	require.Eventually(t, func() bool { return gatesOf(c).Waiting(namesOf(wire.Semaphore, "k").Gate(1)) }, patience, time.Millisecond)
	for range 100 {
		require.Eventually(t, func() bool { return gatesOf(c).Waiting(namesOf(wire.Semaphore, "k").Gate(1)) }, patience, time.Microsecond)
		unlocked(t, held[0])
		held[0] = within(t, got)
	}
	require.Zero(t, sent.Load())
	require.Empty(t, contender)
	unlocked(t, held...)
	unlocked(t, within(t, contender))
	requireAllFree(t, s, 2)
	require.Zero(t, gatesOf(c).Len())
}

// With WithStrictOrder nothing passes the goroutine at the gate, nor beyond the bounds of WithLocalHandoff.
func TestStrictPermitsPassNobody(t *testing.T) {
	for name, opt := range map[string]relock.ClientOption{"strict": relock.WithStrictOrder(), "none may be passed on": relock.WithLocalHandoff(1, 0)} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			c := hearing(t, s, opt)
			sem := c.Semaphore("k", 1)
			held := permits(t, sem, 1)
			first := waitsFor(t, sem, s, 1, 1)
			second := make(chan *relock.Lease, 1)
			go func() {
				p, _ := sem.Acquire(t.Context(), 1)
				second <- p
			}()
			require.Eventually(t, func() bool { return gatesOf(c).Waiting(namesOf(wire.Semaphore, "k").Gate(1)) }, patience, time.Millisecond)
			unlocked(t, held)
			p := within(t, first)
			require.Empty(t, second)
			unlocked(t, p)
			unlocked(t, within(t, second))
			requireAllFree(t, s, 1)
		})
	}
}

// With WithLinger a worker takes its permit again without a command, several of them at once, until another process wants one.
func TestPermitsLinger(t *testing.T) {
	s := redistest.Start(t)
	tap := faulty(s)
	c := newClient(t, tap, relock.WithLinger(time.Hour))
	hears(t, c)
	sem := c.Semaphore("k", 4)
	one, two, both := permits(t, sem, 1), permits(t, sem, 1), permits(t, sem, 2)
	unlocked(t, one, two, both)
	require.Equal(t, "0", s.Do("GET", "k"))
	var sent atomic.Int64
	tap.Filter(func(call *faults.Call) faults.Fate {
		if call.ScriptName() == "acquire" || call.ScriptName() == "release" {
			sent.Add(1)
		}
		return faults.Pass
	})
	for range 10 {
		p, q := permits(t, sem, 1), permits(t, sem, 1)
		r, err := sem.Acquire(t.Context(), 2)
		require.NoError(t, err)
		unlocked(t, p, r, q)
	}
	require.Zero(t, sent.Load())
	other := hearing(t, s)
	p, err := other.Semaphore("k", 4).Acquire(t.Context(), 3)
	require.NoError(t, err)
	unlocked(t, p)
	require.Eventually(t, func() bool { return s.Do("GET", "k") == "4" }, patience, time.Millisecond)
	require.Zero(t, idleAt(c))
}

// Idle permits of this process do not keep its own TryAcquire of more out, nor a TryLock of several. If Redis has enough beside
// them, they stay idle.
func TestOwnIdlePermitsKeepNoneOut(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := hearing(t, s, relock.WithLinger(time.Hour))
	sem, elsewhere := c.Semaphore("k", 4), hearing(t, s).Semaphore("k", 4)
	takenBack := func() {
		p, err := elsewhere.Acquire(t.Context(), 4)
		require.NoError(t, err)
		unlocked(t, p)
	}
	for _, few := range []int{2, 4} {
		idle := []*relock.Lease{permits(t, sem, 1), permits(t, sem, 1)}
		unlocked(t, idle...)
		require.Equal(t, 2, idleAt(c))
		most := permits(t, sem, few)
		require.Equal(t, 4-few, idleAt(c))
		unlocked(t, most)
		takenBack()
		requireAllFree(t, s, 4)
	}
	for name, try := range map[string]func() (func(context.Context) error, error){
		"All": func() (func(context.Context) error, error) {
			l, err := relock.All(sem.Locker(4), c.Semaphore("j", 1).Locker(1)).TryLock(t.Context())
			return l.Unlock, err
		},
		"Any": func() (func(context.Context) error, error) {
			l, err := relock.Any(sem.Locker(4)).TryLock(t.Context())
			return l.Unlock, err
		},
	} {
		unlocked(t, permits(t, sem, 1))
		unlock, err := try()
		require.NoError(t, err, name)
		require.NoError(t, unlock(t.Context()))
		takenBack()
	}
	unlocked(t, permits(t, sem, 1))
	other := permits(t, newClient(t, s.Client()).Semaphore("k", 4), 3)
	_, err := sem.TryAcquire(t.Context(), 2)
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	require.Equal(t, "1", s.Do("GET", "k"), "what was idle is free")
	unlocked(t, other)
}

// A TryAcquire whose ctx ends while Redis does not take back what lay idle here is told that it was refused, and waits no longer. What
// lay idle is given back once Redis takes it.
func TestIdlePermitsThatRedisDoesNotTakeBack(t *testing.T) {
	s := redistest.Start(t)
	rdb := faulty(s)
	c := newClient(t, rdb, relock.WithLinger(time.Hour), relock.WithCommandTimeout(10*time.Second))
	sem := c.Semaphore("k", 2)
	for idleAt(c) == 0 { // until messages are heard
		unlocked(t, permits(t, sem, 1))
	}
	rdb.Filter(faults.All(faults.Script("release"), faults.Refuse("READONLY no writes here")))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := sem.TryAcquire(ctx, 2)
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	require.Less(t, time.Since(began), 5*time.Second)
	rdb.Filter(nil)
	require.Eventually(t, func() bool { return s.Do("GET", "k") == "2" }, patience, time.Millisecond)
	unlocked(t, permits(t, sem, 2))
}

// Permits have no token: not by Lease, MultiLease, the context, nor for an observer.
func TestPermitsHaveNoToken(t *testing.T) {
	o := new(seen)
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithObserver(o))
	sem := c.Semaphore("k", 3)
	one, err := sem.Locker(1).Lock(t.Context())
	require.NoError(t, err)
	require.Zero(t, one.Token())
	two, err := relock.All(c.Mutex("m"), sem.Locker(2)).Lock(t.Context())
	require.NoError(t, err)
	require.Zero(t, two.Token("k"))
	require.Positive(t, two.Token("m"))
	require.NoError(t, two.Unlock(t.Context()))
	require.NoError(t, one.Unlock(t.Context()))
	any1, err := relock.Any(sem.Locker(1)).TryLock(t.Context())
	require.NoError(t, err)
	require.Zero(t, any1.Token())
	require.NoError(t, any1.Unlock(t.Context()))
	acquired := 0
	for _, e := range o.events {
		if e.LockKind == "semaphore" {
			require.Zero(t, e.Token, e.Kind)
			acquired++
		}
	}
	require.GreaterOrEqual(t, acquired, 6)
}

// A client with a logger warns once for each name of which Redis keeps another number of permits than it says: of grants, of
// refusals, of waiters. It does not where it says the same, has told Redis itself, or was asked to change the number.
func TestAnotherNumberIsWarnedOf(t *testing.T) {
	s := redistest.Start(t)
	first := newClient(t, s.Client())
	for _, name := range []string{"granted", "busy", "set", "same"} {
		unlocked(t, permits(t, first.Semaphore(name, 2), 1))
	}
	full := permits(t, first.Semaphore("busy", 2), 2)
	log, lines := logAt(slog.LevelDebug)
	c := newClient(t, s.Client(), relock.WithLogger(log))
	require.NoError(t, c.Semaphore("set", 5).SetPermits(t.Context(), 6))
	for range 3 {
		for _, name := range []string{"granted", "set"} {
			unlocked(t, permits(t, c.Semaphore(name, 5), 1))
		}
		for _, name := range []string{"same", "new"} {
			unlocked(t, permits(t, c.Semaphore(name, 2), 1))
		}
		_, err := c.Semaphore("busy", 3).TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, relock.ErrNotAcquired)
	}
	_, err := c.Semaphore("same", 5).TryAcquire(t.Context(), 5)
	require.ErrorIs(t, err, relock.ErrTooMany)
	c.Close()
	warned := lines.with("another number of permits")
	require.Len(t, warned, 2, warned)
	require.Len(t, lines.with("lock=granted kind=semaphore cause=\"it has 2 in Redis, and this process says 5; only SetPermits changes it\""), 1)
	require.Len(t, lines.with("lock=busy kind=semaphore cause=\"it has 2 in Redis, and this process says 3; only SetPermits changes it\""), 1)
	unlocked(t, full)
}

// What cannot be compared since Redis is silent is compared later, and never keeps a caller waiting. Without a logger nothing is
// asked.
func TestNumbersAreComparedLater(t *testing.T) {
	s := redistest.Start(t)
	rdb := faulty(s)
	log, lines := logAt(slog.LevelWarn)
	c, other := newClient(t, rdb, relock.WithLogger(log), relock.WithCommandTimeout(100*time.Millisecond)), newClient(t, s.Client())
	sem := c.Semaphore("k", 3)
	rdb.Filter(faults.All(faults.Script("inspect"), faults.Refuse("LOADING not yet")))
	unlocked(t, permits(t, other.Semaphore("k", 2), 1))
	unlocked(t, permits(t, sem, 1))
	require.Eventually(t, func() bool { return sentFor(c, "inspect").Refused > 0 }, patience, time.Millisecond)
	require.Empty(t, lines.with("another number"))
	rdb.Filter(nil)
	require.Eventually(t, func() bool {
		unlocked(t, permits(t, sem, 1))
		return len(lines.with("another number")) == 1
	}, patience, time.Millisecond)

	s.ResetCommandCounts()
	unlocked(t, permits(t, other.Semaphore("k", 7), 1))
	require.EqualValues(t, 2, s.CommandCounts()["evalsha"])
}

// A number that a client told never expires under a holder, which renews, nor under a waiter, which asks. If it is lost under
// them, the next to ask makes it anew, less what is held, and it stays.
func TestTheNumberOutlastsHoldersAndWaiters(t *testing.T) {
	s := redistest.Start(t)
	lease := relock.WithLease(time.Second)
	held := permits(t, newClient(t, s.Client(), lease).Semaphore("k", 2), 2)
	lengthened := func() bool {
		left, err := strconv.Atoi(s.Do("PTTL", "k"))
		require.NoError(t, err)
		return left > 600_000
	}
	s.Do("PEXPIRE", "k", "3000")
	require.Eventually(t, lengthened, patience, time.Millisecond, "by a renewal")
	unlocked(t, held)

	s.Do("ZADD", "{k}:timeout", "99999999999999", "0123456789abcdef", "99999999999999", "0123456789abcdeF") // Redisson's, which renews nothing
	s.Do("DECRBY", "k", "2")
	w := newClient(t, s.Client(), lease).Semaphore("k", 2)
	got := waitsFor(t, w, s, 1, 1)
	s.Do("PEXPIRE", "k", "3000")
	require.Eventually(t, lengthened, patience, time.Millisecond, "by a waiter's question")
	s.Do("DEL", "k")
	require.Eventually(t, func() bool { return s.Do("GET", "k") == "0" }, patience, time.Millisecond, "told anew")
	require.Equal(t, "-1", s.Do("PTTL", "k"))
	s.Do("ZREM", "{k}:timeout", "0123456789abcdef")
	s.Do("INCRBY", "k", "1")
	s.Do("PUBLISH", "redisson_sc:{k}", "1")
	unlocked(t, within(t, got))
}

// Idle permits end with their time, and with the client.
func TestIdlePermitsEnd(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s, relock.WithLinger(50*time.Millisecond))
	unlocked(t, permits(t, c.Semaphore("k", 2), 1))
	requireAllFree(t, s, 2)
	p := permits(t, c.Semaphore("k", 2), 1)
	unlocked(t, p)
	p = permits(t, c.Semaphore("k", 2), 1)
	time.Sleep(60 * time.Millisecond) // past the time for which it may lie idle
	unlocked(t, p)                    // though it may come from the pool, which is beside the gate
	requireAllFree(t, s, 2)
	require.Zero(t, gatesOf(c).Len())
	d := hearing(t, s, relock.WithLinger(time.Hour))
	unlocked(t, permits(t, d.Semaphore("k", 2), 2))
	d.Close()
	requireAllFree(t, s, 2)
}

// A caller that gives up leaves the line, and those behind it come in.
func TestWaiterOfManyThatGivesUpLetsInOthers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b, d := hearing(t, s), hearing(t, s), hearing(t, s)
	held := permits(t, a.Semaphore("k", 2), 1)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := b.Semaphore("k", 2).Acquire(ctx, 2)
		failed <- err
	}()
	require.Eventually(t, func() bool { return s.Do("ZCARD", "relock_permits:{k}") == "1" }, patience, time.Millisecond)
	behind := waitsFor(t, d.Semaphore("k", 2), s, 1, 2)
	cancel()
	require.ErrorIs(t, within(t, failed), context.Canceled)
	unlocked(t, held, within(t, behind))
	requireAllFree(t, s, 2)
}

// A grant for which no goroutine waits any more is given back.
func TestOrphanedPermitsAreGivenBack(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s)
	unlocked(t, permits(t, c.Semaphore("k", 2), 1))
	id := c.ID() + ":99"
	s.Do("DECRBY", "k", "1")
	s.Do("ZADD", "{k}:timeout", strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10), id+":1")
	s.Do("PUBLISH", wire.InboxPrefix+c.ID(), "5:1 30000:semaphore "+id+" 0 k")
	requireAllFree(t, s, 2)
}

// The rights of docs/wire.md are enough for semaphores, and without one of them a permit is refused before it is held.
func TestSemaphoreWithLeastPrivilege(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	every := append(rights(t, "suite:")[0], drivertest.SemaphoreRights(t, "suite:")...)
	short := []relock.ClientOption{relock.WithLease(900 * time.Millisecond), relock.WithCommandTimeout(300 * time.Millisecond)}
	a := newClient(t, shared(t, s.AddUser("a", "secret", every...))(), short...).Semaphore("suite:k", 3)
	b := newClient(t, shared(t, s.AddUser("b", "secret", every...))(), short...).Semaphore("suite:k", 3)
	one, two := permits(t, a, 1), permits(t, b, 2)
	third := waitsFor(t, a, s, 2, 1)
	within(t, two.Wanted())
	time.Sleep(time.Second) // they are renewed
	require.NoError(t, one.Extend(t.Context(), time.Minute))
	unlocked(t, two)
	p := within(t, third)
	require.NoError(t, b.SetPermits(t.Context(), 4))
	st, err := b.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, st.Free)
	freed, err := b.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	within(t, p.Context().Done())
	if major, _, valkey := s.Version(); major < 7 && !valkey {
		return // scripts cannot ask for rights
	}
	for _, missing := range []string{"+decrby", "+zcard", "+zrange", "+zrangebyscore", "~{suite:*"} {
		less := slices.DeleteFunc(slices.Clone(every), func(rule string) bool { return rule == missing })
		c := newClient(t, shared(t, s.AddUser("less"+missing, "secret", less...))())
		unlocked(t, taken(t, c.Mutex("suite:m").Lock)) // which takes none of them
		_, err := c.Semaphore("suite:k", 3).Acquire(t.Context(), 1)
		require.ErrorContains(t, err, "NOPERM", missing)
	}
	require.Equal(t, "4", s.Do("GET", "suite:k"))
}

// A right that is missing is told before a permit is held.
func TestSemaphoreRights(t *testing.T) {
	s := redistest.Start(t)
	if major, _, valkey := s.Version(); major < 7 && !valkey {
		t.Skip("scripts cannot ask for rights before Redis 7")
	}
	rdb, err := rueidis.NewClient(s.AddUser("app", "secret", "~*", "+@all", "-zrem", "allchannels"))
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	s.Do("SET", "k", "2")
	_, err = newClient(t, rdb).Semaphore("k", 2).TryAcquire(t.Context(), 1)
	require.ErrorContains(t, err, "run the 'zrem' command on {k}:timeout")
	require.Equal(t, "2", s.Do("GET", "k"))
}

// A semaphore's state in words and as JSON.
func TestSemaphoreState(t *testing.T) {
	st := relock.State{Held: true, Holder: "h", Count: 4, Permits: 4, TTL: time.Second, Waiters: 2}
	require.Equal(t, "0 of 4 permits free, 2 waiting", st.String())
	text, err := json.Marshal(st)
	require.NoError(t, err)
	require.JSONEq(t, `{"held":true,"holder":"h","count":4,"permits":4,"free":0,"ttl_ms":1000,"waiters":2}`, string(text))
	var back relock.State
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, st, back)

	s := redistest.Start(t)
	sem := newClient(t, s.Client()).Semaphore("k", 2)
	st, err = sem.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, relock.State{}, st)
	s.Do("SET", "k", "1")
	s.Do("ZADD", "{k}:timeout", "922337203685477", "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\xff")
	st, err = sem.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, relock.State{Held: true, Holder: "0102030405060708090a0b0c0d0e0fff", Count: 1, Permits: 2, Free: 1, TTL: -1}.Holder, st.Holder)
	require.Negative(t, st.TTL)
	require.Equal(t, 1, st.Free)
}

// Where waiters poll, on a Cluster with plain channels, they come in the same order, and one that wants many keeps out those behind.
func TestSemaphoreServesInOrderWhereWaitersPoll(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	open := func() *relock.Semaphore {
		rdb, err := rueidis.NewClient(nodes.Option())
		require.NoError(t, err)
		t.Cleanup(rdb.Close)
		sem := newClient(t, rdb, relock.WithPlainChannels()).Semaphore("k", 2)
		unlocked(t, permits(t, sem, 1)) // so that it knows how to ask
		return sem
	}
	a, b, c := open(), open(), open()
	s := nodes.MasterFor("k")
	one, two := permits(t, a, 1), permits(t, a, 1)
	both := waitsFor(t, b, s, 2, 1)
	behind := waitsFor(t, c, s, 1, 2)
	unlocked(t, one)
	_, err := a.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, relock.ErrNotAcquired, "it would overtake")
	require.Empty(t, behind)
	unlocked(t, two)
	p := within(t, both)
	require.Empty(t, behind)
	unlocked(t, p)
	unlocked(t, within(t, behind))
	require.Eventually(t, func() bool { return s.Do("GET", "k") == "2" }, patience, time.Millisecond)
	require.Empty(t, s.Do("KEYS", "relock_permits*{k}*"), "what keeps a place ends with the wait")
}

// Many processes and amounts over one semaphore: never too many, and nothing is left.
func TestSemaphoreUnderLoad(t *testing.T) {
	s := redistest.Start(t)
	const size = 5
	var held, most atomic.Int64
	var wg sync.WaitGroup
	for i := range 4 {
		c := hearing(t, s)
		for j := range 6 {
			wg.Go(func() {
				sem, k := c.Semaphore("k", size), 1+(i+j)%3
				for range rounds(40, 400) {
					p, err := sem.Acquire(t.Context(), k)
					if err != nil {
						t.Error(err)
						return
					}
					now := held.Add(int64(k))
					for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
					}
					held.Add(int64(-k))
					if err := p.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	require.LessOrEqual(t, most.Load(), int64(size))
	requireAllFree(t, s, size)
}

// Close also ends the wait of a caller that goes on telling a silent Redis how many permits there are.
func TestCloseEndsTellingTheSize(t *testing.T) {
	tap := faulty(redistest.Start(t))
	c := newClient(t, tap, relock.WithCommandTimeout(100*time.Millisecond))
	var told atomic.Int32
	tap.Filter(func(call *faults.Call) faults.Fate {
		if !faults.Script("resize")(call) {
			return faults.Pass
		}
		told.Add(1)
		return faults.LoseCall
	})
	ended := make(chan error, 1)
	go func() {
		_, err := c.Semaphore("k", 2).Acquire(context.Background(), 1)
		ended <- err
	}()
	require.Eventually(t, func() bool { return told.Load() > 1 }, patience, time.Millisecond)
	c.Close()
	require.Equal(t, relock.ErrClosed, within(t, ended))
}
