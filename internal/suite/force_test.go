package suite_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A lock that is forced open is freed node by node, and its holder is told by the first of them and asks at once. Were it
// to take that one back while the next is not reached yet, and so on, the lock would stay held.
func TestForcedLockIsNotTakenBack(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n, " nodes"), func(t *testing.T) {
			nodes := masters(t, n)
			patient := relock.WithCommandTimeout(9 * time.Second) // all that follows fits into one
			holder, asks := tapped(t, nodes, patient)
			other, forces := tapped(t, nodes, patient)
			ctx := context.Background()
			l, err := holder.Mutex("k").Lock(ctx)
			require.NoError(t, err)
			for _, s := range nodes {
				require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "1" }, patience, time.Millisecond)
				listening(t, s, holder)
			}
			for i := range nodes {
				asks[i].Filter(faults.All(faults.Script("renew", "vote"), faults.Tell))
				forces[i].Filter(faults.All(faults.Script("force"), faults.Stall.Held()))
			}
			type forced struct {
				freed bool
				err   error
			}
			done := make(chan forced, 1)
			go func() {
				freed, err := other.Mutex("k").ForceUnlock(ctx)
				done <- forced{freed, err}
			}()
			for _, w := range forces {
				within(t, w.Told()) // it is on its way
			}
			for i, w := range forces {
				w.Release()
				within(t, w.Told()) // it has run there
				calm(asks[i])
			}
			require.Equal(t, forced{freed: true}, within(t, done))
			within(t, l.Context().Done())
			require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
			for _, s := range nodes {
				require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
			}
			second, err := other.Mutex("k").TryLock(ctx)
			require.NoError(t, err)
			require.Greater(t, second.Token(), l.Token())
			require.NoError(t, second.Unlock(ctx))
		})
	}
}

// A user who may not publish on the inboxes forces the lock open all the same, and its waiter is woken by the unlock channel.
// On a quorum, where waiters do not hear that, the user is refused before anything is freed.
func TestForceWithoutTheRightToTell(t *testing.T) {
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, forcer *relock.Client) {
		for _, s := range servers {
			s.Do("ACL", "SETUSER", "app", "resetchannels", "&redisson_lock__channel:*", "&relock_listen:*")
		}
		holder, waiter := another(t, servers), another(t, servers)
		l, err := holder.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		onAll(t, servers, "k")
		granted := waitFor(t, waiter, "k")
		for _, s := range servers {
			queued(t, s, "k", 1)
			listening(t, s, waiter)
		}
		began := time.Now()
		freed, err := forcer.Mutex("k").ForceUnlock(t.Context())
		if len(servers) > 1 {
			require.Error(t, err)
			require.NoError(t, l.Unlock(t.Context()))
		} else {
			require.NoError(t, err)
			require.True(t, freed)
		}
		next := within(t, granted)
		require.Less(t, time.Since(began), defaultLease/6, "woken, not by a poll")
		require.Greater(t, next.Token(), l.Token())
		require.NoError(t, next.Unlock(t.Context()))
	})
}

// calm gives a client the time to do what it does at once, which is told.
func calm(w *faults.Client) {
	for {
		select {
		case <-w.Told():
		case <-time.After(100 * time.Millisecond):
			return
		}
	}
}

// A lock that is forced open while the answer that grants it is still on its way was lost before its holder knew of it. The
// holder is told by the message, though it came first: it asks Redis at once, and not with its next renewal.
func TestForcedOpenBeforeTheGrantIsHeard(t *testing.T) {
	for name, n := range map[string]int{"one": 1, "quorum": 3} {
		t.Run(name, func(t *testing.T) {
			nodes := masters(t, n)
			c, taps := tapped(t, nodes, relock.WithLease(far))
			other, _ := tapped(t, nodes)
			ctx := t.Context()
			beside, err := c.Mutex("beside").Lock(ctx)
			require.NoError(t, err)
			for i, s := range nodes {
				listening(t, s, c)
				taps[i].Filter(faults.All(faults.Script("acquire", "vote").And(faults.Carrying("k")), faults.Stall))
			}
			granted := make(chan *relock.Lease, 1)
			go func() {
				l, err := c.Mutex("k").Lock(ctx)
				if err != nil {
					t.Error(err)
				}
				granted <- l
			}()
			for _, w := range taps {
				within(t, w.Told()) // it has the lock there, and does not know
			}
			freed, err := other.Mutex("k").ForceUnlock(ctx)
			require.NoError(t, err)
			require.True(t, freed)
			_, err = other.Mutex("beside").TryLock(ctx)
			require.ErrorIs(t, err, relock.ErrNotAcquired)
			within(t, beside.Wanted()) // what was published before was heard before
			for _, w := range taps {
				w.Filter(nil)
				w.Release()
			}
			l := within(t, granted)
			require.Eventually(t, func() bool {
				// On a quorum it may have asked again meanwhile, and have been granted the lock anew.
				return l.Context().Err() != nil || stateOf(t, other.Mutex("k")).Held
			}, patience, time.Millisecond, "it believes in a lock that it has lost")
		})
	}
}

func TestForceUnlock(t *testing.T) {
	s := redistest.Start(t)
	c, d := newClient(t, s.Client()), newClient(t, s.Client())
	ctx := context.Background()
	freed, err := d.Mutex("k").ForceUnlock(ctx)
	require.NoError(t, err)
	require.False(t, freed)
	for _, opts := range [][]relock.Option{nil, {relock.WithFixedLease(time.Minute)}} {
		l, err := c.Mutex("k", opts...).Lock(ctx)
		require.NoError(t, err)
		listening(t, s, c)
		freed, err = d.Mutex("k").ForceUnlock(ctx)
		require.NoError(t, err)
		require.True(t, freed)
		select {
		case <-l.Context().Done():
		case <-time.After(5 * time.Second):
			require.Fail(t, "told at once, not by the renewal after 10 s")
		}
		require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
	}
}
