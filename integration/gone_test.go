//go:build unix

package integration

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// slowCtx takes its time when a context under it ends, as a goroutine does that is put aside in the middle of it.
type slowCtx struct {
	context.Context
	slow atomic.Bool
}

func (c *slowCtx) Done() <-chan struct{} {
	if c.slow.Load() {
		time.Sleep(500 * time.Millisecond)
	}
	return c.Context.Done()
}

// Every lease's context is done before anyone else holds the lock, even when the contexts of one hold cannot be ended
// all at once: from when the first of its ways of asking says that a lease is lost, all of them do.
func TestContextEndsBeforeNextGrant(t *testing.T) {
	begin(t)
	s := redistest.Start(t)
	holder := open(t, s.Option()).Mutex("orders", relock.WithFixedLease(500*time.Millisecond))
	ctx := &slowCtx{Context: t.Context()}
	outer, err := holder.Lock(ctx)
	require.NoError(t, err)
	inner, err := holder.Lock(context.WithoutCancel(outer.Context()))
	require.NoError(t, err)
	ctx.slow.Store(true)

	next, err := open(t, s.Option()).Mutex("orders").Lock(t.Context())
	require.NoError(t, err)
	outerErr, innerErr := outer.Context().Err(), inner.Context().Err()
	require.NoError(t, next.Unlock(t.Context()))
	require.Error(t, outerErr)
	require.Error(t, innerErr)
	require.ErrorIs(t, context.Cause(inner.Context()), relock.ErrLost)
	absent(t, soon, s, "orders")
}
