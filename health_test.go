package relock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A lock with a short lease gives up on its nodes early. That is no reason to leave them alone for the other locks.
func TestShortTimeoutSaysNothingOfTheNodes(t *testing.T) {
	nodes := masters(t, 3)
	c, taps := tapped(t, nodes)
	ctx := context.Background()
	require.NoError(t, c.Mutex("other").Do(ctx, func(context.Context) error { return nil }))
	for _, w := range taps {
		w.Filter(faults.All(faults.Carrying("short"), faults.Hold))
	}
	_, err := c.Mutex("short", WithLease(MinLease)).TryLock(ctx)
	require.Error(t, err)
	l, err := c.Mutex("other").TryLock(ctx)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
	for _, w := range taps {
		w.Release()
	}
}

// Renewals that fall together are cut short each by its own lock's time-out.
func TestShortTimeoutCutsNoOtherRenewal(t *testing.T) {
	c := newClient(t, ownRedis(t))
	ctx := context.Background()
	long, err := c.Mutex("long").Lock(ctx)
	require.NoError(t, err)
	short, err := c.Mutex("short", WithLease(10*time.Second)).Lock(ctx)
	require.NoError(t, err)
	left := make(chan [2]time.Duration, 2)
	d := newWatchdog(func(ctx context.Context, batch []claim.Renewal, _ claim.Settle) {
		end, _ := ctx.Deadline()
		for _, r := range batch {
			left <- [2]time.Duration{r.Claim.Of().Timeout, time.Until(end)}
		}
	}, nil)
	defer d.close()
	now := clock.Now()
	for _, l := range []*Lease{long, short} {
		l.h.mu.Lock()
		l.h.term.Doubt(now)
		l.h.mu.Unlock()
	}
	d.look([]*hold{long.h, short.h}, now)
	for range 2 {
		got := within(t, left)
		require.InDelta(t, got[0], got[1], float64(got[0]/10), "a time-out of its own")
	}
}

// A node that answers a hold count with "not held" does answer.
func TestNotHeldIsAnAnswer(t *testing.T) {
	nodes := masters(t, 3)
	c := newRedlock(t, nodes)
	ctx := context.Background()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return nodes[0].Do("EXISTS", "k") == "1" }, patience, time.Millisecond)
	nodes[0].Do("DEL", "k")
	asked := func() int64 { n := nodes[0].CommandCounts(); return n["evalsha"] + n["eval"] }
	for range 3 {
		before := asked()
		inner, err := c.Mutex("k").Lock(l.Context())
		require.NoError(t, err)
		require.NoError(t, inner.Unlock(ctx))
		require.Eventually(t, func() bool { return asked() >= before+2 }, patience, time.Millisecond,
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
			rdbs = append(rdbs, shared(t, s.AddUser("weak", "secret", "~*", "&*", "+@all", "-zadd"))())
		}
	}
	return rdbs
}

// Many who wait ask a node that refuses them no more often than one.
func TestRefusingNodeIsAskedLess(t *testing.T) {
	nodes := masters(t, 3)
	holder := newRedlock(t, nodes)
	c, err := NewRedlock(weakened(t, nodes, 1))
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

// Refusals that are final are told though the node is asked less.
func TestRefusingMajorityIsTold(t *testing.T) {
	nodes := masters(t, 3)
	_, err := newRedlock(t, nodes).Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	c, err := NewRedlock(weakened(t, nodes, 2))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	for range 5 {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, err = c.Mutex("k").Lock(ctx)
		cancel()
		var quorum *QuorumError
		require.ErrorAs(t, err, &quorum)
		final := 0
		for _, said := range quorum.Nodes {
			if strings.Contains(said.Error(), "NOPERM") {
				final++
			}
		}
		require.Greater(t, final, quorum.Of-quorum.Need, "waiting changes nothing: %v", err)
		require.NotErrorIs(t, err, ErrNotAcquired)
	}
}

// Nodes hang and lose their connections one at a time, beside locks with short leases: the others pass a lock on.
func TestLockPassesOnBesideOneNodesTrouble(t *testing.T) {
	nodes := masters(t, 3)
	var clients []*Client
	for range 3 {
		c := newRedlock(t, nodes, WithLocalHandoff(1, 0))
		require.NoError(t, c.Mutex("warm").Do(context.Background(), nothing)) // gets to know the nodes
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
				if l, err := c.Mutex("short", WithLease(MinLease)).Lock(short); err == nil {
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
			await(t, granted, 5*time.Second) // a poll comes after 10
		}
		if i%2 != 0 {
			s.Resume()
		}
	}
	cancel()
	wg.Wait()
}
