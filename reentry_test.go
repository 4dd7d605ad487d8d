package relock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A re-entry that waits for its turn finds the enclosing lease unlocked and the hold passed on: it must not enter what is
// a stranger's by then, but queue behind the stranger.
func TestReentryBesideUnlockIsAStrangers(t *testing.T) {
	enter := map[string]func(*Mutex, context.Context) (*Lease, error){"Lock": (*Mutex).Lock, "TryLock": (*Mutex).TryLock}
	for name, enter := range enter {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, c *Client, _ *scripted) {
				ctx := context.Background()
				m := c.Mutex("k", WithLocalHandoff(10, time.Hour), WithStrictOrder())
				parent, err := m.Lock(ctx)
				require.NoError(t, err)
				stranger := make(chan *Lease, 1)
				go func() {
					l, err := m.Lock(ctx)
					if err != nil {
						t.Error(err)
					}
					stranger <- l
				}()
				synctest.Wait()
				require.NoError(t, parent.h.ops.lock(ctx, &parent.h.mu)) // an operation of somebody else inside the parent's hold
				unlocked := make(chan error, 1)
				go func() { unlocked <- parent.Unlock(ctx) }()
				synctest.Wait()
				type entry struct {
					l   *Lease
					err error
				}
				child := make(chan entry, 1)
				go func() {
					l, err := enter(m, context.WithoutCancel(parent.Context()))
					child <- entry{l, err}
				}()
				synctest.Wait()
				parent.h.ops.unlock(&parent.h.mu)
				require.NoError(t, <-unlocked)
				second := <-stranger
				synctest.Wait()
				require.Equal(t, 1, second.Count())
				if name == "TryLock" {
					require.ErrorIs(t, (<-child).err, ErrNotAcquired)
					require.NoError(t, second.Unlock(ctx))
					return
				}
				require.Empty(t, child, "it waits behind the stranger")
				require.NoError(t, second.Unlock(ctx))
				got := <-child
				require.NoError(t, got.err)
				require.Equal(t, second.Token()+1, got.l.Token())
				require.NoError(t, got.l.Unlock(ctx))
			})
		})
	}
}

// The innermost lease of a context is over, one around it is not: the lock is held, and re-entered.
func TestUnlockedLeaseHidesNoOuterOne(t *testing.T) {
	s := redistest.Start(t)
	m := newClient(t, s.Client()).Mutex("k")
	ctx := context.Background()
	outer, err := m.Lock(ctx)
	require.NoError(t, err)
	inner, err := m.Lock(outer.Context())
	require.NoError(t, err)
	inside, cancel := context.WithTimeout(context.WithoutCancel(inner.Context()), patience)
	defer cancel()
	require.NoError(t, inner.Unlock(ctx))
	held, err := m.Held(inside)
	require.NoError(t, err)
	require.Same(t, outer, held)
	again, err := m.Lock(inside)
	require.NoError(t, err)
	require.Equal(t, 2, again.Count())
	require.NoError(t, again.Unlock(ctx))
	require.NoError(t, outer.Unlock(ctx))
	_, err = m.Held(inside)
	require.ErrorIs(t, err, ErrNotHeld)
	l, err := m.Lock(inside)
	require.NoError(t, err, "nothing around it is held any more: it is a contender like others")
	require.Greater(t, l.Token(), outer.Token())
	require.NoError(t, l.Unlock(ctx))
}

// The time to wait bounds a re-entry too.
func TestWaitBoundsReentry(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client(), WithLease(time.Hour), WithCommandTimeout(time.Minute))
	m := c.Mutex("k", WithWait(50*time.Millisecond))
	l, err := c.Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	s.Pause()
	_, err = m.Lock(l.Context())
	require.ErrorIs(t, err, errWaited)
	s.Resume()
	require.NoError(t, l.Context().Err(), "the wait is over, not the lease")
	require.NoError(t, l.Unlock(context.Background()))
}
