package relock

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
)

// standsAt waits until each of the servers keeps a lock.
func standsAt(t *testing.T, name string, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		require.Eventually(t, func() bool { return s.Do("EXISTS", name) == "1" }, patience, time.Millisecond)
	}
}

// A quorum has not confirmed what a lease asked for: one node does not keep the lock, and one does not answer. It is no
// lease that was unlocked before, and its end is told.
func TestOneNodesWordIsNotTheQuorums(t *testing.T) {
	for what, do := range map[string]func(*Lease) error{
		"Unlock": func(l *Lease) error { return l.Unlock(context.Background()) },
		"Extend": func(l *Lease) error { return l.Extend(context.Background(), time.Minute) },
		"re-entry": func(l *Lease) error {
			_, err := mutexOf(l).TryLock(l.Context())
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			servers, o := masters(t, 3), &seen{}
			c, taps := tapped(t, servers, WithObserver(o), WithRestartGuard(GuardAuto, time.Minute))
			l, err := c.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			standsAt(t, "k", servers...)
			servers[0].Do("DEL", "k")
			taps[2].Filter(faults.All(faults.Script("unvote", "recount"), faults.LoseCall))
			err = do(l)
			var quorum *QuorumError
			require.ErrorAs(t, err, &quorum)
			require.ErrorContains(t, err, "node 1: not held there")
			require.NotErrorIs(t, err, ErrNotHeld)
			require.NotErrorIs(t, err, ErrLost)
			taps[2].Filter(nil)
			if what != "Unlock" {
				_ = l.Unlock(t.Context()) // the last node may be left alone for a while
			}
			over := o.of(EventReleased, EventLost)
			require.Len(t, over, 1)
			require.Equal(t, EventReleased, over[0].Kind)
			require.ErrorIs(t, l.Unlock(t.Context()), ErrNotHeld)
			require.Len(t, o.of(EventReleased, EventLost), 1)
		})
	}
}

// A re-entry does not outlive its context, though no node answers, and says so.
func TestReentryOnAHungQuorumEndsWithItsContext(t *testing.T) {
	c, taps := tapped(t, masters(t, 3), WithLease(time.Hour), WithCommandTimeout(time.Minute), WithRestartGuard(GuardAuto, time.Hour))
	m := c.Mutex("k")
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	for _, w := range taps {
		w.Filter(faults.All(faults.Script("recount"), faults.Hold))
	}
	for what, enter := range map[string]func(context.Context) (*Lease, error){"Lock": m.Lock, "TryLock": m.TryLock} {
		ctx, cancel := context.WithTimeout(l.Context(), 20*time.Millisecond)
		began := time.Now()
		_, err = enter(ctx)
		cancel()
		require.Less(t, time.Since(began), 10*time.Second, what)
		require.ErrorIs(t, err, context.DeadlineExceeded, what)
		require.NotErrorIs(t, err, ErrNotAcquired, what)
		var quorum *QuorumError
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
	servers := masters(t, 3)
	c, taps := tapped(t, servers, WithLease(time.Hour), WithCommandTimeout(time.Minute), WithRestartGuard(GuardAuto, time.Hour))
	m := c.Mutex("k")
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	standsAt(t, "k", servers...)
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
	require.True(t, stateOf(t, m).Held)

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

// A Lock that waits for Redis itself is told of with a Cause: after a second, where Redis is gone, and with its first
// command that is not answered for longer, where it hangs.
func TestWaitingForRedisIsToldWithItsCause(t *testing.T) {
	for name, c := range map[string]struct {
		nodes int
		stop  func(*redistest.Server)
		most  time.Duration
	}{
		"one Redis that is gone": {1, (*redistest.Server).Kill, 0},
		"one Redis that hangs":   {1, (*redistest.Server).Pause, 2 * time.Second},
		"a quorum that is gone":  {3, (*redistest.Server).Kill, 0},
		"a quorum that hangs":    {3, (*redistest.Server).Pause, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			servers, o := masters(t, c.nodes), &seen{}
			var client *Client
			if c.nodes == 1 {
				client = newClient(t, servers[0].Client(), WithObserver(o))
			} else {
				client = newRedlock(t, servers, WithObserver(o))
			}
			lockAndUnlock(t, client.Mutex("warm"))
			for _, s := range servers {
				c.stop(s)
				if c.most > 0 {
					defer s.Resume()
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			failed := make(chan error, 1)
			go func() {
				_, err := client.Mutex("k").Lock(ctx)
				failed <- err
			}()
			var told Event
			require.Eventually(t, func() bool {
				for _, e := range o.of(EventWaiting) {
					if e.Cause != nil {
						told = e
					}
				}
				return told.Cause != nil
			}, patience, time.Millisecond)
			require.GreaterOrEqual(t, told.Wait, time.Second)
			if c.most > 0 {
				require.Less(t, told.Wait, c.most+time.Second)
			}
			require.Equal(t, "k", told.Lock)
			cancel()
			require.ErrorIs(t, <-failed, context.Canceled)
		})
	}
}
