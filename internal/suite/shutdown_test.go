package suite_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Shutdown returns when its context ends. What is left goes on, and a further Shutdown or Close waits for it.
func TestShutdownEndsWithItsContext(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		servers := locktest.Masters(t, nodes)
		c, _ := locktest.Tapped(t, servers, relock.WithLease(time.Minute), relock.WithCommandTimeout(300*time.Millisecond))
		held, err := c.Mutex("held").Lock(t.Context())
		require.NoError(t, err)
		for _, s := range servers {
			s.Pause()
		}
		failed := make(chan error, 1)
		go func() { _, err := c.Mutex("k").Lock(t.Context()); failed <- err }()
		bored := errors.New("bored")
		ctx, end := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Millisecond, func() { end(bored) })
		err = c.Shutdown(ctx)
		require.ErrorIs(t, err, bored)
		require.EqualError(t, err, "relock: Shutdown goes on in the background: bored")
		require.ErrorIs(t, context.Cause(held.Context()), relock.ErrClosed)
		require.ErrorIs(t, locktest.Within(t, failed), relock.ErrClosed)
		require.ErrorIs(t, c.Shutdown(ctx), bored, "it goes on still")
		var wg sync.WaitGroup
		wg.Go(c.Close)
		wg.Go(func() {
			if err := c.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() { _ = c.Shutdown(ctx) })
		wg.Wait()
		require.NoError(t, c.Shutdown(ctx), "it is over, whatever its context")
		for _, s := range servers {
			s.Resume()
		}
	}
}

// A context that had ended before keeps Shutdown from waiting, not from closing the client.
func TestShutdownBegins(t *testing.T) {
	c := locktest.Client(t, redistest.Start(t).Client())
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := c.Shutdown(ctx); err != nil { // a fast machine is done at once
		require.ErrorIs(t, err, context.Canceled)
	}
	_, err := c.Mutex("k").TryLock(t.Context())
	require.ErrorIs(t, err, relock.ErrClosed)
	require.NoError(t, c.Shutdown(t.Context()))
	c.Close()
}

func TestShutdownRefuses(t *testing.T) {
	c := locktest.Client(t, redistest.Start(t).Client())
	var none context.Context
	require.EqualError(t, c.Shutdown(none), "relock: misuse: the context is nil")
	l, err := c.Mutex("k").TryLock(t.Context())
	require.NoError(t, err, "nothing was closed")
	require.NoError(t, l.Unlock(t.Context()))
	for _, zero := range []*relock.Client{nil, {}} {
		require.EqualError(t, zero.Shutdown(t.Context()), "relock: misuse: Client made without New or NewRedlock")
		zero.Close()
	}
}
