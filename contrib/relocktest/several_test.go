package relocktest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
)

// Code under several locks can be tested with the loss of each. What it is told names the lock.
func TestLoseOneOfSeveral(t *testing.T) {
	everywhere(t, func(t *testing.T, b bed) {
		locks := b.s.New(t)
		together := relock.All(locks.Mutex("a"), locks.Mutex("b"), locks.Mutex("c"))
		mixed := relock.All(locks.Mutex("x"), locks.RWMutex("y").Reader(), locks.Semaphore("z", 2).Locker(2))
		for _, name := range []string{"a", "b", "c", "x", "y", "z"} {
			all := together
			if name >= "x" {
				all = mixed
			}
			lease, err := all.Lock(t.Context())
			require.NoError(t, err)
			Lose(t, lease.Lease(name))
			within(t, lease.Context().Done())
			var lost *relock.LostError
			require.ErrorAs(t, context.Cause(lease.Context()), &lost)
			require.Equal(t, name, lost.Name)
			require.ErrorIs(t, lease.Unlock(t.Context()), relock.ErrLost)
		}
	})
}

// A worker that loses its number gets another, and one that waits gets the number that is freed.
func TestAnyInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := New(t)
		numbers := func(locks *relock.Client) *relock.AnyLock { return relock.Any(locks.Mutex("0"), locks.Mutex("1")) }
		err := numbers(locks).Do(t.Context(), func(ctx context.Context) error {
			lease, _ := relock.FromContext(ctx)
			Lose(t, lease)
			return context.Cause(ctx)
		})
		require.ErrorIs(t, err, relock.ErrLost)
		zero, one := Hold(t, locks, "0"), Hold(t, locks, "1")
		_, err = numbers(locks).TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrNotAcquired)
		granted := make(chan string, 1)
		go func() {
			lease, err := numbers(locks).Lock(t.Context())
			granted <- lease.Name()
			if err = errors.Join(err, lease.Unlock(t.Context())); err != nil {
				t.Error(err)
			}
		}()
		within(t, one.Wanted())
		require.NoError(t, one.Unlock(t.Context()))
		require.Equal(t, "1", within(t, granted))
		require.NoError(t, zero.Unlock(t.Context()))
	})
}

// Another process waits for a permit, and gets it.
func TestWantALeaseOfPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease, err := New(t).Semaphore("k", 2).Locker(2).Lock(t.Context())
		require.NoError(t, err)
		granted := Want(t, lease)
		require.NoError(t, lease.Unlock(t.Context()))
		require.Equal(t, "k", within(t, granted).Name())
	})
}
