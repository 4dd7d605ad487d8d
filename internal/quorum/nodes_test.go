package quorum_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A node that noticed by a clock which was an hour ahead, and is right since, is out for its quarantine and no longer.
func TestQuarantineByAClockThatWasAhead(t *testing.T) {
	nodes := locktest.Masters(t, 1)
	const lease = 500 * time.Millisecond
	c := locktest.Redlock(t, nodes, relock.WithLease(lease), relock.WithRestartGuard(lease))
	ctx, cancel := context.WithTimeout(context.Background(), locktest.Patience)
	defer cancel()
	require.NoError(t, c.Mutex("k").Do(ctx, func(context.Context) error { return nil }))
	nodes[0].Do("HSET", "relock_incarnation", "born", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10))
	corrected := time.Now()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(corrected), lease, "leases of before may last so long")
	require.NoError(t, l.Unlock(ctx))
}

// standsAt waits until each of the servers keeps a lock.
func standsAt(t *testing.T, name string, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		require.Eventually(t, func() bool { return s.Do("EXISTS", name) == "1" }, locktest.Patience, time.Millisecond)
	}
}

// votesAnswered is how many votes a node has answered, or will not.
func votesAnswered(c *relock.Client, node int) (n int64) {
	for _, s := range c.Stats().Commands {
		if s.Node == node && s.Command == "acquire" {
			n += int64(s.Answered + s.Refused + s.Unanswered)
		}
	}
	return n
}

// votesOf counts the votes that c sends to a node. ends lets no more pass, and waits until none is out: one that runs late
// takes the lock again where a test deletes it.
func votesOf(t *testing.T, c *relock.Client, tap *faults.Client, node int) (ends func()) {
	t.Helper()
	var votes atomic.Int64
	vote := faults.Script("vote")
	tap.Filter(func(call *faults.Call) faults.Fate {
		if vote(call) {
			votes.Add(1)
		}
		return faults.Pass
	})
	return func() {
		tap.Filter(faults.All(vote, faults.LoseCall))
		require.Eventually(t, func() bool { return votesAnswered(c, node) >= votes.Load() }, locktest.Patience, time.Millisecond)
	}
}

// A quorum has not confirmed what a lease asked for: one node does not keep the lock, and one does not answer. It is no
// lease that was unlocked before, and its end is told.
func TestOneNodesWordIsNotTheQuorums(t *testing.T) {
	for what, do := range map[string]func(*relock.Mutex, *relock.Lease) error{
		"Unlock": func(_ *relock.Mutex, l *relock.Lease) error { return l.Unlock(context.Background()) },
		"Extend": func(_ *relock.Mutex, l *relock.Lease) error { return l.Extend(context.Background(), time.Minute) },
		"re-entry": func(m *relock.Mutex, l *relock.Lease) error {
			_, err := m.TryLock(l.Context())
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			servers, o := locktest.Masters(t, 3), &locktest.Seen{}
			c, taps := locktest.Tapped(t, servers, relock.WithObserver(o), relock.WithRestartGuard(time.Minute))
			votesEnd := votesOf(t, c, taps[0], 1)
			m := c.Mutex("k")
			l, err := m.Lock(t.Context())
			require.NoError(t, err)
			standsAt(t, "k", servers...)
			votesEnd()
			servers[0].Do("DEL", "k")
			taps[2].Filter(faults.All(faults.Script("unvote", "recount"), faults.LoseCall))
			err = do(m, l)
			var quorum *relock.QuorumError
			require.ErrorAs(t, err, &quorum)
			require.ErrorContains(t, err, "node 1: not held there")
			require.NotErrorIs(t, err, relock.ErrNotHeld)
			require.NotErrorIs(t, err, relock.ErrLost)
			taps[2].Filter(nil)
			if what != "Unlock" {
				_ = l.Unlock(t.Context()) // the last node may be left alone for a while
			}
			over := o.Of(relock.EventReleased, relock.EventLost)
			require.Len(t, over, 1)
			require.Equal(t, relock.EventReleased, over[0].Kind)
			require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
			require.Len(t, o.Of(relock.EventReleased, relock.EventLost), 1)
		})
	}
}

// A re-entry does not outlive its context, though no node answers, and says so.
func TestReentryOnAHungQuorumEndsWithItsContext(t *testing.T) {
	c, taps := locktest.Tapped(t, locktest.Masters(t, 3), relock.WithLease(time.Hour), relock.WithCommandTimeout(time.Minute), relock.WithRestartGuard(time.Hour))
	m := c.Mutex("k")
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	for _, w := range taps {
		w.Filter(faults.All(faults.Script("recount"), faults.Hold))
	}
	for what, enter := range map[string]func(context.Context) (*relock.Lease, error){"Lock": m.Lock, "TryLock": m.TryLock} {
		ctx, cancel := context.WithTimeout(l.Context(), 20*time.Millisecond)
		began := time.Now()
		_, err = enter(ctx)
		cancel()
		require.Less(t, time.Since(began), 10*time.Second, what)
		require.ErrorIs(t, err, context.DeadlineExceeded, what)
		require.NotErrorIs(t, err, relock.ErrNotAcquired, what)
		var quorum *relock.QuorumError
		require.ErrorAs(t, err, &quorum, what)
		require.Equal(t, context.DeadlineExceeded, quorum.Cause)
		require.Contains(t, err.Error(), "node 1: no answer; node 2: no answer; node 3: no answer: gave up waiting: context deadline exceeded")
	}
	for _, w := range taps {
		w.Filter(nil)
		w.Release()
	}
	require.NoError(t, l.Unlock(t.Context()))
}

// State and ForceUnlock return once a quorum has decided, whatever one node does, and with their context where none has.
func TestStateWaitsForNoNodeThatHangs(t *testing.T) {
	servers := locktest.Masters(t, 3)
	c, taps := locktest.Tapped(t, servers, relock.WithLease(time.Hour), relock.WithCommandTimeout(time.Minute), relock.WithRestartGuard(time.Hour))
	m, votesEnd := c.Mutex("k"), votesOf(t, c, taps[1], 2)
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	standsAt(t, "k", servers...)
	votesEnd()
	hang := func(hung ...*faults.Client) {
		for _, w := range taps {
			w.Filter(nil)
			w.Release()
			if slices.Contains(hung, w) {
				w.Filter(faults.All(faults.Script("inspect", "force"), faults.Hold))
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	hang(taps[0])
	st, err := m.State(ctx)
	require.NoError(t, err)
	require.True(t, st.Held)
	require.Equal(t, 1, st.Count)
	servers[1].Do("DEL", "k") // now the first node decides
	short, giveUp := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer giveUp()
	_, err = m.State(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "node 1: no answer")
	hang()
	require.Eventually(t, func() bool { // a busy machine may take a short time-out for silence
		st, err := m.State(context.Background())
		return err == nil && st.Held
	}, locktest.Patience, time.Millisecond)

	hang(taps[1])
	freed, err := m.ForceUnlock(ctx)
	require.NoError(t, err)
	require.True(t, freed)
	freed, err = m.ForceUnlock(ctx)
	require.NoError(t, err)
	require.False(t, freed)
	require.NoError(t, ctx.Err())
	<-l.Context().Done()
	hang(taps...)
	_, err = m.ForceUnlock(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	hang()
}

// A lock with a short lease gives up on its nodes early. That is no reason to leave them alone for the other locks.
func TestShortTimeoutSaysNothingOfTheNodes(t *testing.T) {
	nodes := locktest.Masters(t, 3)
	c, taps := locktest.Tapped(t, nodes)
	ctx := context.Background()
	require.NoError(t, c.Mutex("other").Do(ctx, func(context.Context) error { return nil }))
	for _, w := range taps {
		w.Filter(faults.All(faults.Carrying("short"), faults.Hold))
	}
	_, err := c.Mutex("short", relock.WithLease(100*time.Millisecond)).TryLock(ctx)
	require.Error(t, err)
	l, err := c.Mutex("other").TryLock(ctx)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
	for _, w := range taps {
		w.Release()
	}
}

// A node that answers a hold count with "not held" does answer.
func TestNotHeldIsAnAnswer(t *testing.T) {
	nodes := locktest.Masters(t, 3)
	c := locktest.Redlock(t, nodes)
	ctx := context.Background()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	standsAt(t, "k", nodes...) // the quorum that was counted may have been any two
	nodes[0].Do("DEL", "k")
	asked := func() int64 { n := nodes[0].CommandCounts(); return n["evalsha"] + n["eval"] }
	for range 3 {
		before := asked()
		inner, err := c.Mutex("k").Lock(l.Context())
		require.NoError(t, err)
		require.NoError(t, inner.Unlock(ctx))
		require.Eventually(t, func() bool { return asked() >= before+2 }, locktest.Patience, time.Millisecond,
			"a node that did not answer is left alone")
	}
	require.NoError(t, l.Unlock(ctx))
}

// weakened are clients of servers, of which the last n may not queue.
func weakened(t *testing.T, servers []*redistest.Server, n int) (rdbs []rueidis.Client) {
	t.Helper()
	for i, s := range servers {
		if i < len(servers)-n {
			rdbs = append(rdbs, s.Client())
		} else {
			rdb, err := rueidis.NewClient(s.AddUser("weak", "secret", "~*", "&*", "+@all", "-zadd"))
			require.NoError(t, err)
			t.Cleanup(rdb.Close)
			rdbs = append(rdbs, rdb)
		}
	}
	return rdbs
}

// Many who wait ask a node that refuses them no more often than one.
func TestRefusingNodeIsAskedLess(t *testing.T) {
	nodes := locktest.Masters(t, 3)
	holder := locktest.Redlock(t, nodes)
	c, err := relock.NewRedlock(weakened(t, nodes, 1))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	const waiters = 20
	for i := range waiters {
		_, err := holder.Mutex(fmt.Sprint("k", i)).Lock(context.Background())
		require.NoError(t, err)
	}
	nodes[2].ResetCommandCounts()
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() { _, _ = c.Mutex(fmt.Sprint("k", i)).Lock(ctx) })
	}
	wg.Wait()
	n := nodes[2].CommandCounts()
	t.Log(n)
	require.Less(t, n["evalsha"]+n["eval"], int64(6*waiters), "each once, each sweep, and what all ask together")
}

// Refusals that are final are told though the node is asked less, and with what to do: before Redis 7 the answer has no
// code, nor the word NOPERM.
func TestRefusingMajorityIsTold(t *testing.T) {
	nodes := locktest.Masters(t, 3)
	_, err := locktest.Redlock(t, nodes).Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	c, err := relock.NewRedlock(weakened(t, nodes, 2))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for range 5 {
		ctx, cancel := context.WithTimeout(context.Background(), locktest.Patience)
		_, err = c.Mutex("k").Lock(ctx)
		cancel()
		var quorum *relock.QuorumError
		require.ErrorAs(t, err, &quorum)
		final := 0
		for _, said := range quorum.Nodes {
			if strings.Contains(said.Error(), "the user lacks a permission, docs/wire.md") {
				final++
			}
		}
		require.Greater(t, final, quorum.Of-quorum.Need, "waiting changes nothing: %v", err)
		require.NotErrorIs(t, err, relock.ErrNotAcquired)
	}
}

// Nodes hang and lose their connections one at a time, beside locks with short leases: the others pass a lock on.
func TestLockPassesOnBesideOneNodesTrouble(t *testing.T) {
	nodes := locktest.Masters(t, 3)
	var clients []*relock.Client
	for range 3 {
		c := locktest.Redlock(t, nodes, relock.WithLocalHandoff(1, 0))
		require.NoError(t, c.Mutex("warm").Do(context.Background(), locktest.Nothing)) // gets to know the nodes
		clients = append(clients, c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	granted := make(chan struct{}, 1)
	for _, c := range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				short, give := context.WithTimeout(ctx, 20*time.Millisecond)
				if l, err := c.Mutex("short", relock.WithLease(100*time.Millisecond)).Lock(short); err == nil {
					_ = l.Unlock(ctx)
				}
				give()
			}
		})
		for range 2 {
			wg.Go(func() {
				for {
					l, err := c.Mutex("k").Lock(ctx)
					if err != nil {
						return
					}
					select {
					case granted <- struct{}{}:
					default:
					}
					_ = l.Unlock(ctx) // a node in trouble may leave it open: it is swept
				}
			})
		}
	}
	for i := range 12 {
		s := nodes[i%3]
		if i%2 == 0 {
			s.Do("CLIENT", "KILL", "TYPE", "normal")
			s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		} else {
			s.Pause()
		}
		for range 50 {
			locktest.Await(t, granted, 5*time.Second) // a poll comes after 10
		}
		if i%2 != 0 {
			s.Resume()
		}
	}
	cancel()
	wg.Wait()
}
