package suite_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
)

func TestUnlockIsOnce(t *testing.T) {
	c := newClient(t, ownRedis(t))
	ctx := context.Background()
	m := c.Mutex("k")
	l, err := m.Lock(ctx)
	require.NoError(t, err)
	inner, err := m.Lock(l.Context())
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(ctx))
	require.ErrorIs(t, inner.Unlock(ctx), relock.ErrNotHeld)
	require.Equal(t, 1, l.Count())
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	require.NoError(t, l.Unlock(cancelled), "a cancelled caller unlocks too")
	require.ErrorIs(t, l.Unlock(ctx), relock.ErrNotHeld)
	require.ErrorIs(t, l.Extend(ctx, time.Minute), relock.ErrNotHeld)
	require.Zero(t, l.Count())
}
