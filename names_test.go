package relock

import (
	"context"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestUnusableNames(t *testing.T) {
	c := newClient(t, ownRedis(t))
	for name, why := range map[string]string{
		"":                        "empty",
		strings.Repeat("x", 1025): "1025 bytes",
		"{}":                      "brace",
		"a{}b":                    "brace",
		"a{b":                     "brace",
		"a}b":                     "brace",
		"}a{":                     "brace",
		"relock_incarnation":      "restart guard",
	} {
		m := c.Mutex(name)
		ctx := context.Background()
		_, err := m.Lock(ctx)
		require.ErrorIs(t, err, ErrInvalidName, name)
		require.ErrorContains(t, err, why)
		_, err = m.TryLock(ctx)
		require.ErrorIs(t, err, ErrInvalidName)
		require.ErrorIs(t, m.Do(ctx, func(context.Context) error { return nil }), ErrInvalidName)
		_, err = m.Held(ctx)
		require.ErrorIs(t, err, ErrInvalidName)
		_, err = m.State(ctx)
		require.ErrorIs(t, err, ErrInvalidName)
		_, err = m.ForceUnlock(ctx)
		require.ErrorIs(t, err, ErrInvalidName)
	}
}

// A prefix stands before the name in Redis alone: keys, channels and what makes two locks the same have it, Name and
// errors do not.
func TestNamePrefix(t *testing.T) {
	rdb := redistest.Start(t).Client()
	ctx := context.Background()
	mapped, plain := newClient(t, rdb, WithNamePrefix("shop:")), newClient(t, rdb)
	m := mapped.Mutex("orders")
	require.Equal(t, "orders", m.Name())
	l, err := m.Lock(ctx)
	require.NoError(t, err)
	inner, err := mapped.Mutex("orders").Lock(l.Context())
	require.NoError(t, err)
	require.Equal(t, 2, l.Count())
	require.NoError(t, inner.Unlock(ctx))
	_, err = mapped.Mutex("orders").TryLock(ctx)
	var held *HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "orders", held.Name)
	_, err = plain.Mutex("shop:orders").TryLock(ctx)
	require.ErrorAs(t, err, &held)
	require.Equal(t, "shop:orders", held.Name)
	keys, err := rdb.Do(ctx, rdb.B().Keys().Pattern("*orders*").Build()).AsStrSlice()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"shop:orders", "redisson_lock_token:{shop:orders}"}, keys)
	require.NoError(t, l.Unlock(ctx))

	require.Equal(t, "redisson_lock__channel:{shop}:1", newClient(t, rdb, WithNamePrefix("{shop}:")).Mutex("1").names.Unlock)
	for _, c := range []struct{ prefix, name, why string }{
		{"shop:", "", "empty"}, {"relock_", "incarnation", "restart guard"}, {"a{", "b", "brace"}, {"shop:", "a}", "brace"}, {"shop:", strings.Repeat("x", 1020), "1025 bytes"},
	} {
		_, err := newClient(t, rdb, WithNamePrefix(c.prefix)).Mutex(c.name).TryLock(ctx)
		require.ErrorIs(t, err, ErrInvalidName)
		require.ErrorContains(t, err, c.why)
	}
}
