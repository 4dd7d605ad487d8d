package main

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
)

// The library's own tests run on real servers. That its locks work on the embedded one too, which the demo brings along
// and nobody else promises, is tested here.

// patience is how long tests wait for what must happen. It is no promise of the library.
const patience = 15 * time.Second

// longLease is so long that waiters, which ask again after a third of it, get a lock in time by its messages alone.
const longLease = 10 * time.Minute

// embedded starts a demo's server and returns a connection to it.
func embedded(t *testing.T) rueidis.Client {
	t.Helper()
	srv, err := openServer(target{})
	require.NoError(t, err)
	t.Cleanup(srv.close)
	return srv.rdb
}

// onEmbedded runs the test with two clients of locks on one embedded server, and with two on a quorum of three.
func onEmbedded(t *testing.T, test func(ctx context.Context, t *testing.T, first, second *relock.Client)) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d of them", n), func(t *testing.T) {
			requireNoLeaks(t)
			var rdbs []rueidis.Client
			for range n {
				rdbs = append(rdbs, embedded(t))
			}
			var clients [2]*relock.Client
			for i := range clients {
				locks, err := openLocksOn(rdbs, longLease, relock.WithLease(longLease))
				require.NoError(t, err)
				t.Cleanup(locks.Close)
				clients[i] = locks
			}
			ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
			defer cancel()
			test(ctx, t, clients[0], clients[1])
		})
	}
}

func TestEmbeddedReentry(t *testing.T) {
	onEmbedded(t, func(ctx context.Context, t *testing.T, first, second *relock.Client) {
		m := first.Mutex("orders")
		lease, err := m.Lock(ctx)
		require.NoError(t, err)
		inner, err := m.TryLock(lease.Context())
		require.NoError(t, err)
		state, err := m.State(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, state.Count)
		_, err = second.Mutex("orders").TryLock(ctx)
		require.ErrorIs(t, err, relock.ErrNotAcquired)

		require.NoError(t, inner.Unlock(ctx))
		_, err = second.Mutex("orders").TryLock(ctx)
		require.ErrorIs(t, err, relock.ErrNotAcquired, "held once still")
		require.NoError(t, lease.Extend(ctx, longLease))
		require.NoError(t, lease.Unlock(ctx))
		state, err = m.State(ctx)
		require.NoError(t, err)
		require.False(t, state.Held)
	})
}

// A waiter in Redis's queue is woken by the unlock's message.
func TestEmbeddedHandOver(t *testing.T) {
	onEmbedded(t, func(ctx context.Context, t *testing.T, first, second *relock.Client) {
		m := first.Mutex("orders")
		lease, err := m.Lock(ctx)
		require.NoError(t, err)
		granted := make(chan *relock.Lease, 1)
		go func() {
			defer close(granted)
			next, err := second.Mutex("orders").Lock(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			granted <- next
		}()
		require.Eventually(t, func() bool {
			state, err := m.State(ctx)
			return err == nil && state.Waiters == 1
		}, patience, time.Millisecond)
		require.NoError(t, lease.Unlock(ctx))
		next := <-granted
		require.NotNil(t, next)
		require.Greater(t, next.Token(), lease.Token())
		require.NoError(t, next.Unlock(ctx))
	})
}

func TestEmbeddedContention(t *testing.T) {
	onEmbedded(t, func(ctx context.Context, t *testing.T, first, second *relock.Client) {
		const goroutines, rounds = 6, 20
		var (
			wg     sync.WaitGroup
			inside int // guarded by the lock under test alone: the race detector is a second judge
			last   int64
		)
		for _, locks := range []*relock.Client{first, second} {
			m := locks.Mutex("orders")
			count := func(ctx context.Context) error {
				lease, err := m.Held(ctx)
				if err != nil {
					return err
				}
				if lease.Token() <= last {
					return fmt.Errorf("token %d after %d", lease.Token(), last)
				}
				last = lease.Token()
				inside++
				return nil
			}
			for range goroutines {
				wg.Go(func() {
					for range rounds {
						if err := m.Do(ctx, count); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
		}
		wg.Wait()
		require.Equal(t, 2*goroutines*rounds, inside)
	})
}

// The holder whose lock was forced open is told.
func TestEmbeddedForceUnlock(t *testing.T) {
	onEmbedded(t, func(ctx context.Context, t *testing.T, first, second *relock.Client) {
		lease, err := first.Mutex("orders").Lock(ctx)
		require.NoError(t, err)
		freed, err := second.Mutex("orders").ForceUnlock(ctx)
		require.NoError(t, err)
		require.True(t, freed)
		<-lease.Context().Done()
		require.ErrorIs(t, context.Cause(lease.Context()), relock.ErrLost)
	})
}
