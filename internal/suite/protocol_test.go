package suite_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// The tests of this file replay, step by step on a real Redis, the traces by which an exhaustive exploration broke
// earlier drafts of the protocol. Each names the rule that came of it.

// A grant that was delayed beyond the end of the ownership it tells of must not be believed, although the waiter's last
// poll was answered after it: the fencing counter in that answer gives it away. Where the counter is lost too, a waiter is
// told the clock in its place.
func TestStaleGrantIsNotBelieved(t *testing.T) {
	for name, forgotten := range map[string][]string{"counter kept": {"k"}, "counter lost": {"k", counterOfK}} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			w := faulty(s)
			holder, waiter := newClient(t, s.Client()), newClient(t, w, relock.WithLease(far))
			l, err := holder.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			granted := waitFor(t, waiter, "k")
			awake(t, s, waiter, "k")
			polls := func(enough func() bool) {
				require.Eventually(t, func() bool {
					s.Do("PUBLISH", "redisson_lock__channel:{k}", "0")
					return enough()
				}, patience, 10*time.Millisecond)
			}
			quiet := func() { // loses every poll, and waits until none is out that was not lost
				for len(w.Told()) > 0 {
					within(t, w.Told())
				}
				w.Filter(faults.Each(faults.All(faults.Script("acquire"), faults.LoseCall.Telling()),
					faults.Next(faults.Command("MESSAGE", wire.InboxPrefix+waiter.ID()), faults.Late.Telling())))
				polls(func() bool { return len(w.Told()) >= 3 })
			}
			quiet() // so that no earlier poll is out, which would find the grant
			require.NoError(t, l.Unlock(t.Context()))
			told := within(t, w.Told())
			for told.Words[0] != "MESSAGE" {
				told = within(t, w.Told())
			}
			late, _, _ := strings.Cut(told.Words[2], " ") // the grant, delayed
			const next = "redis.call('DEL', unpack(KEYS)) return redis.call('HSET', 'k', 'java:1', 1)"
			s.Do(append([]string{"EVAL", next, strconv.Itoa(len(forgotten))}, forgotten...)...) // its lease runs out
			for len(w.Told()) > 0 {
				within(t, w.Told())
			}
			w.Filter(faults.All(faults.Script("acquire"), faults.Tell))
			polls(func() bool { return len(w.Told()) >= 3 }) // one was lost at most, and the first answer is noted
			quiet()                                          // so that no poll is out, which would find the lock free below
			w.Flush()
			quiet()
			require.Empty(t, granted, "the grant is older than the answered poll")
			s.Do("DEL", "k")
			w.Filter(nil)
			polls(func() bool { return len(granted) > 0 })
			second := within(t, granted)
			require.Greater(t, strconv.FormatInt(second.Token(), 10), late, "what is granted from now on is believed")
			require.Equal(t, second.Token(), stateOf(t, waiter.Mutex("k")).HolderToken)
			require.NoError(t, second.Unlock(t.Context()))
		})
	}
}

// awake waits until c's waiter for a lock is queued and hears all that may wake it.
func awake(t *testing.T, s *redistest.Server, c *relock.Client, name string) {
	t.Helper()
	queued(t, s, name, 1)
	listening(t, s, c)
	settled(t, c, name)
}

// No command shortens a lease: neither a renewal, nor a late one, nor a re-entry.
func TestNothingShortensALease(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w, relock.WithLease(2*time.Second), relock.WithCommandTimeout(600*time.Millisecond))
	ctx := context.Background()
	w.Filter(faults.Next(faults.Script("renew"), faults.Late.Telling()))
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	within(t, w.Told())
	require.NoError(t, l.Extend(ctx, time.Minute))
	w.Flush()
	inner, err := c.Mutex("k").Lock(l.Context())
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(ctx))
	ttl, err := strconv.Atoi(s.Do("PTTL", "k"))
	require.NoError(t, err)
	require.Greater(t, ttl, 40_000)
	require.Greater(t, time.Until(l.Until()), 40*time.Second)
	require.NoError(t, l.Unlock(ctx))
}

// Who is handed a lock gets its own lease and its own block of tokens, not those of the one who let go.
func TestHandOverGivesTheReceiversLease(t *testing.T) {
	s := redistest.Start(t)
	short := newClient(t, s.Client(), relock.WithLease(2*time.Second), relock.WithCommandTimeout(600*time.Millisecond), relock.WithLocalHandoff(7, time.Second))
	long := newClient(t, s.Client(), relock.WithLease(far))
	l, err := short.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	require.Equal(t, l.Token()+6, stateOf(t, short.Mutex("k")).Reserved)
	granted := waitFor(t, long, "k")
	awake(t, s, long, "k")
	require.NoError(t, l.Unlock(t.Context()))
	second := within(t, granted)
	require.Equal(t, second.Token()+defaultPasses-1, stateOf(t, long.Mutex("k")).Reserved)
	ttl, err := strconv.Atoi(s.Do("PTTL", "k"))
	require.NoError(t, err)
	require.Greater(t, ttl, 500_000)
	require.Greater(t, time.Until(second.Until()), 500*time.Second)
	require.NoError(t, second.Unlock(t.Context()))
}

// An acquire that comes after its caller gave up takes the lock for nobody, and no message tells: the sweeper comes back.
func TestLateAcquireIsSwept(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w, relock.WithLease(3*time.Second))
	require.NoError(t, c.Mutex("k").Do(context.Background(), func(context.Context) error { return nil })) // loads the scripts
	// The first sweep runs; those behind it get lost until the test has seen what came late.
	w.Filter(faults.Each(faults.All(faults.Script("acquire"), faults.Late),
		faults.Next(faults.Script("sweep"), faults.Tell), faults.All(faults.Script("sweep"), faults.LoseCall)))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := c.Mutex("k").Lock(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	within(t, w.Told())
	w.Flush()
	require.Equal(t, "1", s.Do("EXISTS", "k"), "the late acquire took it")
	s.Do("PERSIST", "k") // so that only the sweeper can end it
	w.Filter(nil)
	require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, 5*time.Millisecond)
}

// A late copy of an acquire that retakes the lock after a regular unlock is swept too.
func TestLateCopyAfterUnlockIsSwept(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w, relock.WithLease(3*time.Second))
	require.NoError(t, c.Mutex("k").Do(context.Background(), func(context.Context) error { return nil })) // loads the scripts
	w.Filter(faults.Next(faults.Script("acquire"), faults.Late))
	ctx := context.Background()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
	w.Flush()
	require.Equal(t, "1", s.Do("EXISTS", "k"), "the copy took it again")
	s.Do("PERSIST", "k")
	require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, 5*time.Millisecond)
}

// Giving up is repeated until Redis has answered: one lost command must not keep the lock for a lease.
func TestAbandonIsRepeated(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w)
	other, err := newClient(t, s.Client()).Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error)
	go func() {
		_, err := c.Mutex("k").Lock(ctx)
		result <- err
	}()
	queued(t, s, "k", 1)
	w.Filter(faults.Next(faults.Script("release"), faults.LoseCall, faults.LoseCall, faults.LoseCall))
	cancel()
	require.ErrorIs(t, within(t, result), context.Canceled)
	queued(t, s, "k", 0)
	require.NoError(t, other.Unlock(context.Background()))
}

// A grant that arrives while the abandon of its waiter is still unanswered may have happened after that abandon ran: it
// is not the last word.
func TestGrantDuringAbandonIsSweptAgain(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w)
	s.Do("HSET", "k", "java:1", "1")
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := c.Mutex("k").Lock(ctx)
		result <- err
	}()
	awake(t, s, c, "k")
	member := strings.Split(s.Do("ZRANGE", "relock_queue:{k}", "0", "0"), ":")
	id := member[2] + ":" + member[3]
	require.True(t, strings.HasPrefix(id, c.ID()+":"), member)
	w.Filter(faults.Next(faults.Script("release", "sweep"), faults.Stall))
	cancel()
	require.Equal(t, "1", s.Do("EXISTS", "k"))
	within(t, w.Told()) // the abandon has run
	s.Do("DEL", "k")
	s.Do("HSET", "k", id, "1") // a late copy of the acquire took it
	w.Filter(faults.Next(faults.Command("MESSAGE", wire.InboxPrefix+c.ID()), faults.Tell))
	s.Do("PUBLISH", wire.InboxPrefix+c.ID(), "1 30000 "+id+" 0 k")
	within(t, w.Told())
	w.Release()
	require.ErrorIs(t, within(t, result), context.Canceled)
	require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
}

// The release that queues the next goroutine's acquisition comes late: the next one, who meanwhile owns the lock, keeps it.
func TestLateReleaseDoesNotFreeTheNext(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w, relock.WithLocalHandoff(1, 0))
	ctx := context.Background()
	m := c.Mutex("k")
	l, err := m.Lock(ctx)
	require.NoError(t, err)
	next := waitFor(t, c, "k")
	lined(t, c, "k")
	w.Filter(faults.Next(faults.Script("release"), faults.Late))
	require.NoError(t, l.Unlock(ctx))
	second := within(t, next)
	w.Flush()
	require.Equal(t, second.Token(), stateOf(t, m).HolderToken)
	require.NoError(t, second.Context().Err())
	require.Greater(t, second.Token(), l.Token())
	require.NoError(t, second.Unlock(ctx))
}

// A grant for somebody who is gone is given back as it arrives, and never adopted by another waiter.
func TestOrphanGrantIsGivenBack(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	warm(t, c)
	listening(t, s, c)
	s.Do("HSET", "k", c.ID()+":99", "1")
	s.Do("SET", "redisson_lock_token:{k}", "256")
	s.Do("PUBLISH", wire.InboxPrefix+c.ID(), "1 30000 "+c.ID()+":99 0 k")
	require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
}

// Renewals that ran unanswered have lengthened the lease: when trust ends, the lock is given back and not left to lapse.
func TestLostHoldIsGivenBack(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w, relock.WithLease(400*time.Millisecond))
	l, err := c.Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	rdb := s.Client()
	w.Filter(func(c *faults.Call) faults.Fate {
		if c.ScriptName() != "renew" {
			return faults.Pass
		}
		rdb.Do(context.Background(), rdb.B().Pexpire().Key("k").Milliseconds(60_000).Build())
		return faults.LoseReply
	})
	<-l.Context().Done()
	require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
	require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
	require.ErrorIs(t, l.Unlock(context.Background()), relock.ErrLost)
}

// A hold count is written, not incremented: re-entries and inner unlocks whose replies are lost, that run twice or late,
// never free a held lock, and the last unlock frees it whatever the number says.
func TestHoldCountSurvivesLostAndLateCommands(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w)
	ctx := context.Background()
	m := c.Mutex("k")
	l, err := m.Lock(ctx)
	require.NoError(t, err)
	count := func() int { return stateOf(t, m).Count }

	twice := func() faults.Filter { // runs twice, unanswered, and is sent a third time
		lost := false
		return func(c *faults.Call) faults.Fate {
			if c.ScriptName() != "recount" || lost {
				return faults.Pass
			}
			lost = true
			c.Send()
			return faults.LoseReply
		}
	}
	w.Filter(twice())
	inner, err := m.Lock(l.Context())
	require.NoError(t, err)
	require.Equal(t, 2, count())
	require.Equal(t, 2, l.Count())

	w.Filter(twice())
	require.NoError(t, inner.Unlock(ctx))
	require.Equal(t, 1, count())

	w.Filter(faults.Next(faults.Script("recount"), faults.Late))
	inner, err = m.Lock(l.Context())
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(ctx))
	w.Flush()
	require.Equal(t, 2, count(), "the late re-entry left a wrong number")
	w.Filter(nil)
	require.NoError(t, l.Unlock(ctx))
	require.Equal(t, "0", s.Do("EXISTS", "k"))
}

// A renewal that knows of no wrong number leaves it alone.
func TestRenewalKeepsTheCount(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w, relock.WithLease(2*time.Second), relock.WithCommandTimeout(600*time.Millisecond))
	ctx := context.Background()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	inner, err := c.Mutex("k").Lock(l.Context())
	require.NoError(t, err)
	w.Filter(faults.All(faults.Script("renew"), faults.Tell))
	within(t, w.Told())
	require.Equal(t, 2, stateOf(t, c.Mutex("k")).Count)
	w.Filter(nil)
	require.NoError(t, inner.Unlock(ctx))
	require.NoError(t, l.Unlock(ctx))
}

// A wrong number is put right by the next renewal.
func TestRenewalRepairsTheCount(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w, relock.WithLease(2*time.Second), relock.WithCommandTimeout(600*time.Millisecond))
	ctx := context.Background()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	inner, err := c.Mutex("k").Lock(l.Context())
	require.NoError(t, err)
	w.Filter(faults.All(faults.Script("recount"), faults.LoseCall))
	require.NoError(t, inner.Unlock(ctx), "the count kept here decides")
	require.Equal(t, 1, l.Count())
	require.Eventually(t, func() bool { return stateOf(t, c.Mutex("k")).Count == 1 }, patience, 5*time.Millisecond)
	w.Filter(nil)
	require.NoError(t, l.Unlock(ctx))
}

// Locks that are given back together do not wait for one of them whose hold count Redis does not answer.
func TestAllUnlocksBesideASilentCount(t *testing.T) {
	for name, extends := range map[string]bool{"of the unlock": false, "of an Extend before": true} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			w := faulty(s)
			c := newClient(t, w, relock.WithCommandTimeout(2*patience), relock.WithLease(time.Hour))
			outer := taken(t, c.Mutex("a").Lock)
			l, err := relock.All(c.Mutex("a"), c.Mutex("b")).Lock(outer.Context())
			require.NoError(t, err)
			w.Filter(faults.All(faults.Script("recount"), faults.Hold))
			extended, done := make(chan error, 1), make(chan error, 1)
			if extends {
				go func() { extended <- outer.Extend(t.Context(), 2*time.Hour) }()
				within(t, w.Told())
			} else {
				extended <- nil
			}
			go func() { done <- l.Unlock(t.Context()) }()
			require.Eventually(t, func() bool { return s.Do("EXISTS", "b") == "0" }, patience, time.Millisecond)
			require.Empty(t, done)
			if !extends {
				within(t, w.Told())
			}
			w.Filter(nil)
			w.Release()
			require.NoError(t, within(t, extended))
			require.NoError(t, within(t, done))
			require.Equal(t, 1, stateOf(t, c.Mutex("a")).Count)
			unlocked(t, outer)
		})
	}
}

// A count that was not answered may overtake a later one that was: renewals go on repairing until it cannot come any more.
func TestRenewalRepairsALateCount(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]relock.Option{"kept": relock.WithLease(2 * time.Second), "fixed": relock.WithFixedLease(10 * time.Second)} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			w := faulty(s)
			m := newClient(t, w).Mutex("k", opt)
			ctx := context.Background()
			l, err := m.Lock(ctx)
			require.NoError(t, err)
			// A renewal would repair, or be, a count that is looked at below.
			w.Filter(faults.Each(faults.Next(faults.Script("recount"), faults.Late),
				faults.All(faults.Script("renew"), faults.LoseCall)))
			second, err := m.Lock(l.Context())
			require.NoError(t, err)
			third, err := m.Lock(second.Context())
			require.NoError(t, err)
			w.Flush()
			count := func() int { return stateOf(t, m).Count }
			require.Equal(t, 2, count())
			w.Filter(nil)
			require.Eventually(t, func() bool { return count() == 3 }, 5*time.Second, time.Millisecond)
			for _, l := range []*relock.Lease{third, second, l} {
				require.NoError(t, l.Unlock(ctx))
			}
		})
	}
}

// A dead waiter is not handed the lock because somebody watches all channels by pattern.
func TestPatternSubscribersAreNoWaiters(t *testing.T) {
	s := redistest.Start(t)
	watcher, release := s.Client().Dedicate()
	defer release()
	watcher.SetPubSubHooks(rueidis.PubSubHooks{})
	require.NoError(t, watcher.Do(context.Background(), watcher.B().Psubscribe().Pattern("relock_*").Build()).Error())
	require.Eventually(t, func() bool { return s.Do("PUBSUB", "NUMPAT") == "1" }, patience, time.Millisecond)

	holder, dead := newClient(t, s.Client()), newClient(t, s.Client())
	l, err := holder.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	left := make(chan error, 1)
	go func() {
		_, err := dead.Mutex("k").Lock(context.Background())
		left <- err
	}()
	queued(t, s, "k", 1)
	entry := strings.Split(s.Do("ZRANGE", "relock_queue:{k}", "0", "-1", "WITHSCORES"), "\n")
	dead.Close()
	require.ErrorIs(t, within(t, left), relock.ErrClosed)
	require.Eventually(t, func() bool {
		return strings.HasSuffix(s.Do("PUBSUB", "NUMSUB", wire.InboxPrefix+dead.ID()), "0")
	}, patience, time.Millisecond)
	s.Do("ZADD", "relock_queue:{k}", entry[1], entry[0]) // as where it dies without a word
	require.NoError(t, l.Unlock(t.Context()))
	require.Equal(t, "0", s.Do("EXISTS", "k"))
}

// Expiry leaves a free lock with a queue. Whoever notices serves the queue first: a TryLock does not push in, and tells
// who has it now.
func TestWhoeverNoticesServesTheQueue(t *testing.T) {
	s := redistest.Start(t)
	ctx := context.Background()
	waiter, passer := newClient(t, s.Client()), newClient(t, s.Client())
	s.Do("HSET", "k", "java:1", "1")
	granted := waitFor(t, waiter, "k")
	queued(t, s, "k", 1)
	listening(t, s, waiter)
	s.Do("DEL", "k")
	_, err := passer.Mutex("k").TryLock(ctx)
	var held *relock.HeldError
	require.ErrorAs(t, err, &held)
	require.True(t, strings.HasPrefix(held.Holder, waiter.ID()), "held by %s", held.Holder)
	l := within(t, granted)
	require.NoError(t, l.Unlock(ctx))
}

// Redis that is out of memory refuses new locks, but lets go of those it has and hands them over.
func TestOutOfMemoryLetsGo(t *testing.T) {
	s := redistest.Start(t)
	ctx := context.Background()
	c, d := newClient(t, s.Client()), newClient(t, s.Client())
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	granted := waitFor(t, d, "k")
	queued(t, s, "k", 1)
	listening(t, s, d)
	s.Do("CONFIG", "SET", "maxmemory", "1")
	_, err = d.Mutex("other").Lock(ctx)
	var node *relock.NodeError
	require.ErrorAs(t, err, &node)
	require.ErrorContains(t, err, "OOM")
	require.NoError(t, l.Unlock(ctx))
	l = within(t, granted)
	require.NoError(t, l.Unlock(ctx))
}

// A holder that was deposed while its inbox was not subscribed is told once it is.
func TestDeposedIsToldOnSubscribing(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	l, err := c.Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	listening(t, s, c)
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	s.Do("DEL", "k")
	select {
	case <-l.Context().Done():
	case <-time.After(5 * time.Second):
		require.Fail(t, "told on re-subscribing, not by the renewal after 10 s")
	}
	require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
}

// A Redis that is out of memory lets go of a lock although somebody here is to be queued in the same step.
func TestOutOfMemoryLetsGoWithALocalWaiter(t *testing.T) {
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		l, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		onAll(t, servers, "k")
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if l, err := c.Mutex("k").Lock(ctx); err == nil {
				_ = l.Unlock(ctx)
			}
		}()
		lined(t, c, "k")
		for _, s := range servers {
			s.Do("CONFIG", "SET", "maxmemory", "1")
		}
		require.NoError(t, l.Unlock(t.Context()))
		cancel()
		within(t, gone)
	}, relock.WithLocalHandoff(1, 0))
}

// A lock whose lease cannot be set is not left behind: nothing would ever end it.
func TestNoLockWithoutLease(t *testing.T) {
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		for _, s := range servers {
			s.Do("ACL", "SETUSER", "app", "-pexpire")
		}
		_, err := c.Mutex("k").TryLock(t.Context())
		require.Error(t, err)
		for _, s := range servers {
			require.Equal(t, "0", s.Do("EXISTS", "k"))
		}
	})
}

// Nodes that are out of memory let go of a lock beside a goroutine that waits for it, whether they can queue that or not.
func TestRedlockOutOfMemoryLetsGo(t *testing.T) {
	nodes := masters(t, 3)
	c := newRedlock(t, nodes, relock.WithLocalHandoff(1, 0))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	waited := make(chan error, 1)
	go func() { waited <- c.Mutex("k").Do(ctx, func(context.Context) error { return nil }) }()
	lined(t, c, "k")
	for _, s := range nodes {
		s.Do("CONFIG", "SET", "maxmemory", "1")
	}
	require.NoError(t, l.Unlock(ctx))
	if err := within(t, waited); err != nil {
		require.ErrorContains(t, err, "OOM")
	}
	for _, s := range nodes {
		require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
		s.Do("CONFIG", "SET", "maxmemory", "0")
	}
	require.NoError(t, c.Mutex("k").Do(ctx, func(context.Context) error { return nil }))
}
