package suite_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/calls"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// lingering returns a client whose locks linger, once it hears its messages: what is granted before
// does not linger.
func lingeringClient(t *testing.T, rdb rueidis.Client, d time.Duration, opts ...relock.ClientOption) *relock.Client {
	c := newClient(t, rdb, append([]relock.ClientOption{relock.WithLinger(d)}, opts...)...)
	hears(t, c)
	return c
}

// hears waits until locks of c linger.
func hears(t *testing.T, c *relock.Client) {
	m := c.Mutex("warm up")
	require.Eventually(t, func() bool {
		lockAndUnlock(t, m)
		return idleAt(c) > 0
	}, 10*time.Second, time.Millisecond)
	forced, err := m.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, forced)
	require.Eventually(t, func() bool { return idleAt(c) == 0 }, 10*time.Second, time.Millisecond)
}

// commands counts the scripts that a client sends for a lock.
func commands(c *faults.Client, lock string) *atomic.Int64 {
	n := new(atomic.Int64)
	c.Filter(func(call *faults.Call) faults.Fate {
		if call.Script != "" && call.Has(lock) {
			n.Add(1)
		}
		return faults.Pass
	})
	return n
}

// idleAt reports how many holds lie idle in a client.
func idleAt(c *relock.Client) (n int) {
	for i := range uint64(calls.Tallies) {
		n += int(callsOf(c).Of(i).Lingering.Load())
	}
	return n
}

func TestCachedLockSendsNothing(t *testing.T) {
	s := redistest.Start(t)
	rdb := faulty(s)
	c := lingeringClient(t, rdb, time.Minute)
	m := c.Mutex("k")
	sent := commands(rdb, "k")
	last := int64(0)
	for range 1000 {
		token := lockAndUnlock(t, m)
		require.Greater(t, token, last)
		last = token
	}
	for range 1000 {
		l, err := m.TryLock(t.Context())
		require.NoError(t, err)
		require.Greater(t, l.Token(), last)
		last = l.Token()
		require.NoError(t, l.Context().Err())
		require.NoError(t, l.Unlock(t.Context()))
		require.ErrorIs(t, l.Context().Err(), context.Canceled)
	}
	require.EqualValues(t, 1, sent.Load())
	require.Equal(t, 1, idleAt(c))
	st := stateOf(t, m)
	require.True(t, st.Held)
	c.Close()
	require.Equal(t, "0", s.Do("EXISTS", "k"), "Close gives it back")
}

func TestIdleLockGivesWayAtOnce(t *testing.T) {
	s := redistest.Start(t)
	a, b := lingeringClient(t, s.Client(), time.Hour), newClient(t, s.Client())
	for range 20 {
		lockAndUnlock(t, a.Mutex("k"))
		require.Equal(t, 1, idleAt(a))
		lockAndUnlock(t, b.Mutex("k"))
		require.Equal(t, 0, idleAt(a))
	}
}

func TestIdleLockGivesWayToTryLock(t *testing.T) {
	s := redistest.Start(t)
	a, b := lingeringClient(t, s.Client(), time.Hour), newClient(t, s.Client())
	lockAndUnlock(t, a.Mutex("k"))
	_, err := b.Mutex("k").TryLock(t.Context())
	var held *relock.HeldError
	require.ErrorAs(t, err, &held)
	require.True(t, held.Wanted)
	require.Eventually(t, func() bool {
		l, err := b.Mutex("k").TryLock(t.Context())
		if err == nil {
			require.NoError(t, l.Unlock(t.Context()))
		}
		return err == nil
	}, 10*time.Second, time.Millisecond)
}

func TestIdleLockGivesWayToAnOwnerOfItsProcess(t *testing.T) {
	s := redistest.Start(t)
	c := lingeringClient(t, s.Client(), time.Hour)
	lockAndUnlock(t, c.Mutex("k"))
	l, err := c.Mutex("k").Lock(relock.WithOwner(t.Context(), "workflow"))
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
	require.Equal(t, 0, idleAt(c))
}

func TestIdleLockEndsWithItsTime(t *testing.T) {
	s := redistest.Start(t)
	c := lingeringClient(t, s.Client(), 50*time.Millisecond)
	for range 3 {
		lockAndUnlock(t, c.Mutex("k"))
		require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, 10*time.Second, time.Millisecond)
		require.Equal(t, 0, idleAt(c))
	}
	require.Zero(t, gatesOf(c).Len())
}

func TestWantedIsTold(t *testing.T) {
	s := redistest.Start(t)
	for name, opts := range map[string][]relock.ClientOption{"plain": nil, "lingering": {relock.WithLinger(time.Hour)}} {
		t.Run(name, func(t *testing.T) {
			opts = append(opts, relock.WithLocalHandoff(1, 0))
			a, b := newClient(t, s.Client(), opts...), newClient(t, s.Client(), opts...)
			for _, c := range []*relock.Client{a, b} { // the first grant comes before the inbox is heard
				require.Eventually(t, func() bool { return clientHears(t, c) }, 10*time.Second, time.Millisecond)
			}
			l, err := a.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			wanted := l.Wanted()
			select {
			case <-wanted:
				require.Fail(t, "nobody wants it")
			default:
			}
			got := waitFor(t, b, "k")
			within(t, wanted)
			within(t, l.Wanted())
			again := waitFor(t, a, "k")
			lined(t, a, "k")
			require.NoError(t, l.Unlock(t.Context()))
			next := within(t, got)
			within(t, next.Wanted()) // it was queued behind by the unlock itself
			require.NoError(t, next.Unlock(t.Context()))
			require.NoError(t, within(t, again).Unlock(t.Context()))
		})
	}
}

// A TryLock beside the holder, in its own process, tells nobody: Wanted is of other processes, and the hold is kept.
func TestOwnTryLockIsNotWanted(t *testing.T) {
	o := &seen{}
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		hears(t, c)
		m := c.Mutex("k")
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		onAll(t, servers, "k")
		for range 10 {
			_, err = m.TryLock(t.Context())
			var held *relock.HeldError
			require.ErrorAs(t, err, &held)
			require.False(t, held.Wanted)
		}
		for i, s := range servers { // what was published before has come
			s.Do("PUBLISH", wire.InboxPrefix+c.ID(), "nonsense")
			heard := arbiterOf(c).Nodes()[i].Debug().Hub
			require.Eventually(t, func() bool { return heard.Skipped() == 1 }, patience, time.Millisecond)
		}
		require.Empty(t, o.of(relock.EventWanted))
		select {
		case <-l.Wanted():
			require.Fail(t, "no other process wants it")
		default:
		}
		require.NoError(t, l.Unlock(t.Context()))
		require.Equal(t, 1, idleAt(c))
	}, relock.WithLinger(time.Hour), relock.WithObserver(o))
}

// A lock that was to linger goes to the other process that wants it by then, before goroutines which wait here.
func TestWantedLockIsNotPassedOnHere(t *testing.T) {
	s := redistest.Start(t)
	a, b := lingeringClient(t, s.Client(), time.Hour, relock.WithLocalHandoff(1000, time.Hour)), newClient(t, s.Client())
	m := a.Mutex("k")
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	theirs := waitFor(t, b, "k")
	within(t, l.Wanted())
	settled(t, b, "k")
	ours := waitFor(t, a, "k")
	lined(t, a, "k")
	require.NoError(t, l.Unlock(t.Context()))
	first := within(t, theirs)
	require.Empty(t, ours)
	require.NoError(t, first.Unlock(t.Context()))
	next := within(t, ours)
	require.Greater(t, next.Token(), first.Token())
	require.NoError(t, next.Unlock(t.Context()))
}

// clientHears reports whether a lock's holder at c hears what it is told.
func clientHears(t *testing.T, c *relock.Client) bool {
	l, err := c.Mutex("heard").Lock(t.Context())
	require.NoError(t, err)
	defer l.Unlock(t.Context())
	return claimOf(l).Attend()
}

func TestLostLooksCostTheTimeToLinger(t *testing.T) {
	s := redistest.Start(t)
	rdb := faulty(s)
	a, b := lingeringClient(t, rdb, 300*time.Millisecond), newClient(t, s.Client())
	rdb.Filter(faults.All(faults.Carrying("MESSAGE"), faults.LoseCall))
	lockAndUnlock(t, a.Mutex("k"))
	began := time.Now()
	lockAndUnlock(t, b.Mutex("k"))
	require.Less(t, time.Since(began), 20*time.Second, "far less than the lease")
}

func TestDoubtedHoldIsNotCached(t *testing.T) {
	s := redistest.Start(t)
	a, b := lingeringClient(t, s.Client(), time.Hour), newClient(t, s.Client())
	lockAndUnlock(t, a.Mutex("k"))
	forced, err := b.Mutex("k").ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, forced)
	require.Eventually(t, func() bool { return idleAt(a) == 0 }, 10*time.Second, time.Millisecond)
}

// A renewal that was on its way when the doubt arose does not answer it: Redis may have looked before the lock was lost.
func TestDoubtIsAnsweredByALaterRenewal(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		s.Fresh = true
		m := c.Mutex("k", relock.WithLinger(time.Hour))
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		asked := 0
		s.Answer = func(claim.Renewal) wire.Result {
			if asked++; asked > 1 {
				return wire.Unanswered
			}
			holdOf(l).Doubt()
			return wire.Renewed
		}
		holdOf(l).Doubt()
		synctest.Wait()
		require.Equal(t, 2, asked)
		require.NoError(t, l.Unlock(t.Context()))
		require.Equal(t, 1, idleAt(c))
		again, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NotSame(t, holdOf(l), holdOf(again))
		require.NoError(t, again.Unlock(t.Context()))
	})
}

// Renewals of an idle hold ask for the lease of the last one who had it. Where that is longer than the hold's it lingers no
// more: were this process to die, the lock would stand for so long.
func TestLengthenedHoldDoesNotStayIdle(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		s.Fresh = true
		lockAndUnlock(t, c.Mutex("k", relock.WithLinger(time.Hour)))
		l, err := c.Mutex("k", relock.WithLinger(time.Hour), relock.WithLease(2*defaultLease)).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
		require.Equal(t, 1, idleAt(c))
		require.EqualValues(t, 2, l.Token(), "it was kept from the first")
		time.Sleep(defaultLease)
		synctest.Wait()
		require.Zero(t, idleAt(c))
		require.Equal(t, []string{"k"}, s.Abandoned)
	})
}

func TestLingerOptions(t *testing.T) {
	s := redistest.Start(t)
	_, err := relock.New(s.Client(), relock.WithLinger(-1))
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	c := lingeringClient(t, s.Client(), time.Hour)
	for name, opt := range map[string]relock.Option{"off": relock.WithLinger(0), "fixed": relock.WithFixedLease(time.Second)} {
		lockAndUnlock(t, c.Mutex(name, opt))
		require.Equal(t, "0", s.Do("EXISTS", name), name)
	}
	// Whoever takes the hold up decides what becomes of it.
	lockAndUnlock(t, c.Mutex("k"))
	require.Equal(t, 1, idleAt(c))
	lockAndUnlock(t, c.Mutex("k", relock.WithLinger(0)))
	require.Equal(t, 0, idleAt(c))
}

func TestLingeringLocksExclude(t *testing.T) {
	s := redistest.Start(t)
	var clients []*relock.Client
	for range 3 {
		clients = append(clients, newClient(t, s.Client(), relock.WithLinger(20*time.Millisecond)))
	}
	exclusive(t.Context(), t, "k", clients...)
	for _, c := range clients {
		c.Close()
	}
	require.Equal(t, "0", s.Do("EXISTS", "k"))
}

func TestCachedLockOnAQuorum(t *testing.T) {
	servers := masters(t, 5)
	patient := relock.WithCommandTimeout(8 * time.Second) // a busy machine is no node that is silent
	a, b := newRedlock(t, servers, relock.WithLinger(time.Hour), patient), newRedlock(t, servers, patient)
	hears(t, a)
	m := a.Mutex("k")
	last := lockAndUnlock(t, m)
	require.Equal(t, 1, idleAt(a))
	first, err := m.Lock(t.Context())
	require.NoError(t, err)
	h := holdOf(first)
	require.NoError(t, first.Unlock(t.Context()))
	for range 100 {
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.Same(t, h, holdOf(l))
		require.Greater(t, l.Token(), last)
		last = l.Token()
		require.NoError(t, l.Unlock(t.Context()))
	}
	for range 5 {
		token := lockAndUnlock(t, b.Mutex("k"))
		require.Equal(t, 0, idleAt(a))
		require.Greater(t, token, last)
		last = lockAndUnlock(t, m)
		require.Greater(t, last, token)
	}
	exclusive(t.Context(), t, "x", a, b)
}

func TestLingerRacesWithClose(t *testing.T) {
	s := redistest.Start(t)
	for range rounds(5, 40) {
		c := lingeringClient(t, s.Client(), time.Hour)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					l, err := c.Mutex("k").Lock(t.Context())
					if errors.Is(err, relock.ErrClosed) {
						return
					}
					if err == nil {
						_ = l.Unlock(t.Context())
					}
				}
			})
		}
		c.Close()
		wg.Wait()
		require.EqualValues(t, 0, idleAt(c))
		require.EqualValues(t, 0, gatesOf(c).Len())
	}
}

// A hold that is granted with a release, for a waiter that has left by then, may linger as any other, and no longer.
func TestLingeringHoldOfAWaiterThatLeftEnds(t *testing.T) {
	t.Parallel()
	const linger = time.Second
	s := redistest.Start(t)
	rdb := faulty(s)
	c := lingeringClient(t, rdb, linger, relock.WithLocalHandoff(1, 0))
	m := c.Mutex("k")
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	left := make(chan error, 1)
	go func() {
		_, err := m.Lock(ctx)
		left <- err
	}()
	require.Eventually(t, func() bool { return gatesOf(c).Waiting(entryOf(l).Names.Gate(1)) }, 10*time.Second, time.Millisecond)
	time.Sleep(linger) // so that the hold is given back
	var once sync.Once
	release := faults.Script("release")
	rdb.Filter(func(call *faults.Call) faults.Fate {
		if release(call) {
			once.Do(func() {
				leave()
				<-left
			})
		}
		return faults.Pass
	})
	require.NoError(t, l.Unlock(t.Context()))
	require.Equal(t, 1, idleAt(c))
	require.Eventually(t, func() bool { return idleAt(c) == 0 }, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return s.Do("EXISTS", entryOf(l).Names.Lock) == "0" }, 10*time.Second, time.Millisecond)
}

// A waiter has the permits that another process keeps idle, however many holders use theirs: each of its questions tells further
// holders, and they follow soon. So few questions it takes: of 10,000 holders of one permit 79, and two at the beginning.
func TestWaiterFindsIdlePermitsAmongMany(t *testing.T) {
	for _, of := range []struct{ holders, k, questions int }{
		{2, 128, 3}, {40, 128, 8}, {20, 10, 4}, {3_000, 1, 26}, {10_000, 1, 81},
	} {
		t.Run(fmt.Sprintf("%d holders of %d", of.holders, of.k), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			n := of.holders * of.k
			a, tap := lingeringClient(t, s.Client(), time.Hour), faulty(s)
			c := newClient(t, tap)
			require.NoError(t, c.Semaphore("k", n).SetPermits(t.Context(), n))
			released(t, permits(t, a.Semaphore("k", n), of.k))
			s.Do("EVAL", heldElsewhere, "2", "k", "{k}:timeout", strconv.Itoa(of.holders-1), strconv.Itoa(of.k))
			require.Equal(t, "0", s.Do("GET", "k"))

			var asked atomic.Int64
			tap.Filter(func(call *faults.Call) faults.Fate {
				if call.ScriptName() == "acquire" {
					asked.Add(1)
				}
				return faults.Pass
			})
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			began := time.Now()
			p, err := c.Semaphore("k", n).Acquire(ctx, of.k)
			require.NoError(t, err, "%d questions", asked.Load())
			t.Logf("%d questions in %v", asked.Load(), time.Since(began))
			require.LessOrEqual(t, asked.Load(), int64(of.questions))
			released(t, p)
		})
	}
}

// heldElsewhere has so many entries of a process that does not listen hold so many permits each, of which many end at one time.
const heldElsewhere = `
local now = redis.call('TIME')[1] * 1000
for i = 1, ARGV[1] do
	local members = {}
	for j = 1, ARGV[2] do
		members[2 * j - 1], members[2 * j] = now + 20000 + i % 100, 'e3b0c442-98fc-4c14-9afb-f4c8996fb924:' .. i .. ':' .. j
	end
	redis.call('ZADD', KEYS[2], unpack(members))
end
return redis.call('DECRBY', KEYS[1], ARGV[1] * ARGV[2])`
