package suite_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
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
		"redisson_lock_token:{k}": "of the library",
	} {
		m := c.Mutex(name)
		ctx := context.Background()
		_, err := m.Lock(ctx)
		require.ErrorIs(t, err, relock.ErrInvalidName, name)
		require.ErrorContains(t, err, why)
		_, err = m.TryLock(ctx)
		require.ErrorIs(t, err, relock.ErrInvalidName)
		require.ErrorIs(t, m.Do(ctx, func(context.Context) error { return nil }), relock.ErrInvalidName)
		_, err = m.Held(ctx)
		require.ErrorIs(t, err, relock.ErrInvalidName)
		_, err = m.State(ctx)
		require.ErrorIs(t, err, relock.ErrInvalidName)
		_, err = m.ForceUnlock(ctx)
		require.ErrorIs(t, err, relock.ErrInvalidName)
	}
}

// The locks a and {a} have one hash tag, so one unlock channel and one fencing counter, as in Redisson. They are two locks:
// the release of one is no grant of the other.
func TestNameAndItsTagAreTwoLocks(t *testing.T) {
	t.Parallel()
	for _, names := range [][2]string{{"a", "{a}"}, {"{a}", "a"}} {
		t.Run(names[0]+" is released", func(t *testing.T) {
			bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
				released, err := c.Mutex(names[0]).Lock(t.Context())
				require.NoError(t, err)
				held, err := c.Mutex(names[1]).Lock(t.Context())
				require.NoError(t, err)
				waiter := another(t, servers)
				granted := waitFor(t, waiter, names[1])
				for _, s := range servers {
					require.Eventually(t, func() bool { return s.Do("ZCARD", namesOf(wire.Mutex, names[1]).Queue) == "1" }, patience, time.Millisecond)
				}
				require.NoError(t, released.Unlock(t.Context()))
				onAll(t, servers, names[1])
				free, err := waiter.Mutex(names[0]).TryLock(t.Context())
				require.NoError(t, err, "its release has given it to nobody")
				require.NoError(t, free.Unlock(t.Context()))
				require.NoError(t, held.Context().Err())
				require.Empty(t, granted)
				require.NoError(t, held.Unlock(t.Context()))
				next := within(t, granted)
				require.Greater(t, next.Token(), held.Token())
				require.NoError(t, next.Unlock(t.Context()))
			})
		})
	}
}

// A client of before hands the released lock a to a waiter of {a}, which stands in its queue. That is ended, and believed by
// nobody.
func TestGrantOfAnotherLockIsGivenBack(t *testing.T) {
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		held, err := another(t, servers).Mutex("{a}").Lock(t.Context())
		require.NoError(t, err)
		granted := waitFor(t, c, "{a}")
		for _, s := range servers {
			listening(t, s, c)
			var members []string
			require.Eventually(t, func() bool {
				members = strings.Split(s.Do("ZRANGE", namesOf(wire.Mutex, "{a}").Queue, "0", "-1"), ":")
				return len(members) == 5
			}, patience, time.Millisecond)
			id := members[2] + ":" + members[3]
			s.Do("HSET", "a", id, "1")
			s.Do("PUBLISH", wire.InboxPrefix+c.ID(), "9007199254740000:1 30000 "+id+" 0 a")
		}
		for _, s := range servers {
			require.Eventually(t, func() bool { return s.Do("EXISTS", "a") == "0" }, patience, time.Millisecond)
		}
		require.Empty(t, granted)
		require.NoError(t, held.Context().Err())
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, within(t, granted).Unlock(t.Context()))
	})
}

// A prefix stands before the name in Redis alone: keys, channels and what makes two locks the same have it, Name and
// errors do not.
func TestNamePrefix(t *testing.T) {
	rdb := redistest.Start(t).Client()
	ctx := context.Background()
	mapped, plain := newClient(t, rdb, relock.WithNamePrefix("shop:")), newClient(t, rdb)
	m := mapped.Mutex("orders")
	require.Equal(t, "orders", m.Name())
	l, err := m.Lock(ctx)
	require.NoError(t, err)
	inner, err := mapped.Mutex("orders").Lock(l.Context())
	require.NoError(t, err)
	require.Equal(t, 2, l.Count())
	require.NoError(t, inner.Unlock(ctx))
	_, err = mapped.Mutex("orders").TryLock(ctx)
	var held *relock.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "orders", held.Name)
	_, err = plain.Mutex("shop:orders").TryLock(ctx)
	require.ErrorAs(t, err, &held)
	require.Equal(t, "shop:orders", held.Name)
	keys, err := rdb.Do(ctx, rdb.B().Keys().Pattern("*orders*").Build()).AsStrSlice()
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"shop:orders", "redisson_lock_token:{shop:orders}"}, keys)
	require.NoError(t, l.Unlock(ctx))

	require.Equal(t, "redisson_lock__channel:{shop}:1", namesOf(wire.Mutex, "{shop}:1").Unlock)
	for _, c := range []struct{ prefix, name, why string }{
		{"shop:", "", "empty"}, {"relock_", "incarnation", "restart guard"}, {"a{", "b", "brace"}, {"shop:", "a}", "brace"}, {"shop:", strings.Repeat("x", 1020), "1025 bytes"},
	} {
		_, err := newClient(t, rdb, relock.WithNamePrefix(c.prefix)).Mutex(c.name).TryLock(ctx)
		require.ErrorIs(t, err, relock.ErrInvalidName)
		require.ErrorContains(t, err, c.why)
	}
}
