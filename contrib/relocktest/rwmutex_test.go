package relocktest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
)

// Lose takes the leases of an RWMutex as it takes a Mutex's: the holder is told at once, and the next waiter comes.
func TestLoseALeaseOfAnRWMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := New(t)
		other := Beside(t, locks).RWMutex("k")
		for _, take := range []func(context.Context) (*relock.Lease, error){locks.RWMutex("k").Lock, locks.RWMutex("k").RLock} {
			lease, err := take(t.Context())
			require.NoError(t, err)
			granted := make(chan *relock.Lease, 1)
			go func() {
				l, err := other.Lock(context.Background())
				if err != nil {
					t.Error(err)
				}
				granted <- l
			}()
			synctest.Wait()
			began := time.Now()
			Lose(t, lease)
			require.NoError(t, within(t, granted).Unlock(context.Background()))
			require.Less(t, time.Since(began), time.Second)
		}
	})
}

func TestWantALeaseOfAnRWMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := New(t)
		for _, take := range []func(context.Context) (*relock.Lease, error){locks.RWMutex("k").Lock, locks.RWMutex("k").RLock} {
			lease, err := take(t.Context())
			require.NoError(t, err)
			granted := Want(t, lease)
			require.NoError(t, lease.Unlock(context.Background()))
			require.NoError(t, within(t, granted).Unlock(context.Background()))
		}
	})
}

func TestLoseAPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := New(t)
		permit, err := locks.Semaphore("k", 2).Acquire(t.Context(), 2)
		require.NoError(t, err)
		granted := make(chan *relock.Lease, 1)
		go func() {
			p, err := Beside(t, locks).Semaphore("k", 2).Acquire(t.Context(), 1)
			if err != nil {
				t.Error(err)
			}
			granted <- p
		}()
		within(t, permit.Wanted())
		Lose(t, permit)
		require.ErrorIs(t, context.Cause(permit.Context()), relock.ErrLost)
		require.NoError(t, within(t, granted).Unlock(context.Background()))
	})
}
