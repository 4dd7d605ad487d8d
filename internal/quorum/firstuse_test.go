package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// hangsOnItsName returns a client that does not answer who it is until its question has timed out, which is told.
func hangsOnItsName(s *redistest.Server) *faults.Client {
	c := locktest.Faulty(s)
	c.Filter(faults.All(faults.Command("TIME"), faults.LoseCall.Hanging().Telling()))
	return c
}

// The first lock of a client does not wait for a node that hangs, where a quorum says that the nodes are in use.
func TestFirstUseDoesNotWaitForAHungNode(t *testing.T) {
	nodes := locktest.Masters(t, 3)
	ctx := context.Background()
	require.NoError(t, locktest.Redlock(t, nodes).Mutex("k").Do(ctx, func(context.Context) error { return nil }))
	hung := hangsOnItsName(nodes[2])
	c, err := relock.NewRedlock([]rueidis.Client{nodes[0].Client(), nodes[1].Client(), hung},
		relock.WithLease(3*time.Minute), relock.WithRestartGuard(3*time.Minute), relock.WithCommandTimeout(30*time.Second))
	require.NoError(t, err)
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	select {
	case <-hung.Told():
		t.Error("it was waited for")
	default:
	}
	require.NoError(t, l.Unlock(ctx))
	c.Close()
}

// A caller does not wait for the nodes longer than its context.
func TestFirstUseHearsItsContext(t *testing.T) {
	nodes := locktest.Masters(t, 1)
	hung := hangsOnItsName(nodes[0])
	c, err := relock.NewRedlock([]rueidis.Client{hung}, relock.WithLease(3*time.Minute),
		relock.WithRestartGuard(3*time.Minute), relock.WithCommandTimeout(30*time.Second))
	require.NoError(t, err)
	gone := errors.New("gone")
	ctx, cancel := context.WithTimeoutCause(context.Background(), 50*time.Millisecond, gone)
	defer cancel()
	_, err = c.Mutex("k").TryLock(ctx)
	require.ErrorIs(t, err, gone)
	_, err = c.Mutex("k").Lock(ctx)
	require.ErrorIs(t, err, gone)
	c.Close()
	require.ErrorIs(t, c.TrustNodes(context.Background()), relock.ErrClosed)
}

// A context that ends because another lock was lost says nothing of this one, which nobody held yet.
func TestFirstUseHearsThatAnotherLockWasLost(t *testing.T) {
	node := redistest.Start(t)
	for _, lost := range []error{relock.ErrLost, relock.ErrMaxHold} {
		for name, lock := range map[string]func(*relock.Mutex, context.Context) (*relock.Lease, error){
			"Lock": (*relock.Mutex).Lock, "TryLock": (*relock.Mutex).TryLock,
		} {
			silent := locktest.Faulty(node)
			silent.Filter(faults.Next(faults.Command("TIME"), faults.Hold))
			c, err := relock.NewRedlock([]rueidis.Client{silent}, relock.WithLease(3*time.Minute),
				relock.WithRestartGuard(3*time.Minute), relock.WithCommandTimeout(30*time.Second))
			require.NoError(t, err)
			ctx, cancel := context.WithCancelCause(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := lock(c.Mutex("k"), ctx)
				failed <- err
			}()
			locktest.Within(t, silent.Told())
			cancel(lost)
			err = locktest.Within(t, failed)
			var quorum *relock.QuorumError
			require.ErrorAs(t, err, &quorum, name)
			require.ErrorIs(t, err, lost, name)
			silent.Release()
			c.Close()
		}
	}
}

// Many first uses at once, with TrustNodes beside them, share nothing unguarded.
func TestFirstUsesAtOnce(t *testing.T) {
	nodes := locktest.Masters(t, 3)
	ctx, cancel := context.WithTimeout(context.Background(), 2*locktest.Patience)
	defer cancel()
	for range 5 {
		c := locktest.Redlock(t, nodes)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if err := c.TrustNodes(ctx); err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				if err := c.Mutex(fmt.Sprint(i)).Do(ctx, func(context.Context) error { return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

// Close may come while everything is under way: no goroutine starts behind it.
func TestRedlockClosesDuringUse(t *testing.T) {
	nodes := locktest.Masters(t, 3)
	bg := context.Background()
	for range 20 {
		c := locktest.Redlock(t, nodes, relock.WithLease(10*time.Second),
			relock.WithRestartGuard(10*time.Second))
		var wg sync.WaitGroup
		used := make(chan struct{})
		var once sync.Once
		for i := range 12 {
			wg.Go(func() {
				m := c.Mutex(fmt.Sprint(i % 3))
				for {
					l, err := m.TryLock(bg)
					if err == nil && i%2 == 0 {
						_ = l.Unlock(bg) // the client may be closed by now, as Lock tells
						l, err = m.Lock(bg)
					}
					if err == nil {
						once.Do(func() { close(used) })
						err = l.Unlock(bg)
					}
					if errors.Is(err, relock.ErrClosed) {
						return
					}
				}
			})
		}
		<-used
		c.Close()
		wg.Wait()
	}
}
