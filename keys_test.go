package relock

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestNamesFollowRedissonsRule(t *testing.T) {
	for name, channel := range map[string]string{
		"orders":        "redisson_lock__channel:{orders}",
		"a{7}b":         "redisson_lock__channel:a{7}b",
		"{orders}:1":    "redisson_lock__channel:{orders}:1",
		"with space:ü:": "redisson_lock__channel:{with space:ü:}",
		"{a}{b":         "redisson_lock__channel:{a}{b",
	} {
		n, err := namesOf("", name)
		require.NoError(t, err, name)
		require.Equal(t, name, n.lock)
		require.Equal(t, channel, n.unlock)
	}
}

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

	require.Equal(t, "redisson_lock__channel:{shop}:1", newClient(t, rdb, WithNamePrefix("{shop}:")).Mutex("1").names.unlock)
	for _, c := range []struct{ prefix, name, why string }{
		{"shop:", "", "empty"}, {"relock_", "incarnation", "restart guard"}, {"a{", "b", "brace"}, {"shop:", "a}", "brace"}, {"shop:", strings.Repeat("x", 1020), "1025 bytes"},
	} {
		_, err := newClient(t, rdb, WithNamePrefix(c.prefix)).Mutex(c.name).TryLock(ctx)
		require.ErrorIs(t, err, ErrInvalidName)
		require.ErrorContains(t, err, c.why)
	}
}

// Every accepted name has all its keys and channels in one Cluster slot.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"orders", "a{7}b", "{}", "{a}{b}", "a{b", "x}{y}", "ü{ü}", "{{a}}", "\x00{\xff}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		n, err := namesOf("", name)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalidName)
			return
		}
		want := slotOf(name)
		for _, key := range []string{n.queue, n.counter, n.unlock, n.listen, inboxPrefix + n.tag + ":client"} {
			require.Equal(t, want, slotOf(key), "%q and %q", name, key)
		}
	})
}

// The reckoning of slots agrees with a server's.
func TestSlots(t *testing.T) {
	g := redistest.Start(t, "--cluster-enabled", "yes")
	for _, key := range []string{"orders", "a{7}b", "{}", "{a}{b}", "a{b", "x}{y}", "ü{ü}", "{{a}}"} {
		require.Equal(t, g.Do("CLUSTER", "KEYSLOT", key), strconv.Itoa(int(slotOf(key))), key)
	}
}

// slotOf is CLUSTER KEYSLOT.
func slotOf(key string) uint16 {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc % 16384
}
