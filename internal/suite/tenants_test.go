package suite_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// tenant returns connections of the ith user who has the least rights for locks that start with prefix, and a client over them.
func tenant(t *testing.T, servers []*redistest.Server, prefix string, i int) ([]rueidis.Client, *relock.Client) {
	t.Helper()
	acl := rights(t, prefix)
	if len(servers) == 1 {
		acl[2] = nil
	}
	var nodes []rueidis.Client
	for _, s := range servers {
		nodes = append(nodes, shared(t, s.AddUser(prefix+strconv.Itoa(i), "secret", slices.Concat(acl[0], acl[2])...))())
	}
	if len(nodes) == 1 {
		return nodes, newClient(t, nodes[0])
	}
	c, err := relock.NewRedlock(nodes)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return nodes, c
}

// With the rights of docs/wire.md a tenant uses its own locks, all that they can do, and can neither read nor change what
// belongs to another's.
func TestTenantsAreApart(t *testing.T) {
	t.Parallel()
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, _ *relock.Client) {
		ctx := t.Context()
		_, theirs := tenant(t, servers, "payments:", 1)
		_, waits := tenant(t, servers, "payments:", 2)
		nodes, c := tenant(t, servers, "orders:", 1)
		_, d := tenant(t, servers, "orders:", 2)

		m := c.Mutex("orders:1")
		l, err := m.Lock(ctx)
		require.NoError(t, err)
		in, err := m.TryLock(l.Context())
		require.NoError(t, err)
		require.NoError(t, in.Unlock(ctx))
		require.NoError(t, l.Extend(ctx, 20*time.Second))
		next := waitFor(t, d, "orders:1")
		for _, s := range servers {
			queued(t, s, "orders:1", 1)
		}
		require.NoError(t, l.Unlock(ctx))
		require.NoError(t, within(t, next).Unlock(ctx))
		owned, err := m.Lock(relock.WithOwner(ctx, "workflow"))
		require.NoError(t, err)
		require.Equal(t, "workflow", stateOf(t, m).Holder)
		freed, err := m.ForceUnlock(ctx)
		require.NoError(t, err)
		require.True(t, freed)
		<-owned.Context().Done()

		held, err := theirs.Mutex("payments:1").Lock(ctx)
		require.NoError(t, err)
		granted := waitFor(t, waits, "payments:1")
		for _, s := range servers {
			queued(t, s, "payments:1", 1)
		}
		_, err = c.Mutex("payments:1").TryLock(ctx)
		require.ErrorContains(t, err, "permission")
		for _, command := range []string{
			"HGETALL payments:1", "DEL payments:1", "HSET payments:1 x 1", "PEXPIRE payments:1 1",
			"ZRANGE relock_queue:{payments:1} 0 -1", "ZPOPMIN relock_queue:{payments:1}", "ZADD relock_queue:{payments:1} 1 x",
			"DEL relock_queue:{payments:1}", "GET redisson_lock_token:{payments:1}", "SET redisson_lock_token:{payments:1} 9007199254740990",
			"DEL relock_seed:{payments:1}", "PUBLISH redisson_lock__channel:{payments:1} 0", "PUBLISH relock_listen:{payments:1} 1",
			"PUBSUB CHANNELS *", "SCAN 0", "KEYS *",
		} {
			for _, rdb := range nodes {
				err := rdb.Do(ctx, rdb.B().Arbitrary(strings.Fields(command)...).Build()).Error()
				require.ErrorContains(t, err, "NOPERM", command)
			}
		}
		ignore := func(rueidis.PubSubMessage) {}
		for _, rdb := range nodes {
			require.ErrorContains(t, rdb.Receive(ctx, rdb.B().Subscribe().Channel("redisson_lock__channel:{payments:1}").Build(), ignore), "NOPERM")
			require.ErrorContains(t, rdb.Receive(ctx, rdb.B().Psubscribe().Pattern("relock_inbox:*").Build(), ignore), "NOPERM")
		}
		require.NoError(t, held.Context().Err())
		require.Empty(t, granted)
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, within(t, granted).Unlock(ctx))
	})
}

// A stranger who may publish on inboxes, and has learned the uuid of a client and how many entries it had, forges a grant of
// a lock that the client waits for, with the highest of tokens. He does not know the entry's id.
func TestForgedGrantIsNotBelieved(t *testing.T) {
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, _ *relock.Client) {
		_, holds := tenant(t, servers, "payments:", 1)
		_, waits := tenant(t, servers, "payments:", 2)
		strangers, _ := tenant(t, servers, "orders:", 1)
		before, err := waits.Mutex("payments:1").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, before.Unlock(t.Context()))
		held, err := holds.Mutex("payments:1").Lock(t.Context())
		require.NoError(t, err)
		granted := waitFor(t, waits, "payments:1")
		for _, s := range servers {
			queued(t, s, "payments:1", 1)
			listening(t, s, waits)
		}
		for i, rdb := range strangers {
			inbox := wire.InboxPrefix + waits.ID()
			for n := range 20 {
				for _, id := range []string{strconv.Itoa(n), fmt.Sprintf("%d%s", n, "1000000000000000")} {
					forged := "9007199254740990:1 30000 " + waits.ID() + ":" + id + " 0 payments:1"
					require.NoError(t, rdb.Do(t.Context(), rdb.B().Publish().Channel(inbox).Message(forged).Build()).Error())
				}
			}
			require.NoError(t, rdb.Do(t.Context(), rdb.B().Publish().Channel(inbox).Message("nonsense").Build()).Error())
			hears := arbiterOf(waits).Nodes()[i].Debug().Hub
			require.Eventually(t, func() bool { return hears.Skipped() == 1 }, patience, time.Millisecond)
		}
		require.NoError(t, held.Context().Err())
		require.Empty(t, granted)
		require.NoError(t, held.Unlock(t.Context()))
		next := within(t, granted)
		require.Less(t, next.Token(), int64(9007199254740990))
		require.NoError(t, next.Unlock(context.Background()))
	})
}

// Once a lock was granted its id is known to whoever listens to the inbox. A message with a higher token that comes right
// behind does not raise the grant's.
func TestTokenIsNotRaisedByAnotherMessage(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	for range 50 {
		s.Do("HSET", "k", "java:1", "1")
		granted := waitFor(t, c, "k")
		queued(t, s, "k", 1)
		listening(t, s, c)
		settled(t, c, "k")
		const grants = `redis.call('DEL', KEYS[1])
			local lease, id = string.match(redis.call('ZPOPMIN', KEYS[2])[1], '^(%d+):%d+:([^:]+:%d+)')
			local first = string.format('%.0f', redis.call('GET', KEYS[3]) or redis.call('TIME')[1] * 1000000)
			first = string.format('%.0f', first + 1000000)
			redis.call('HSET', KEYS[1], id, 1, 'relock:first', first .. ':256')
			redis.call('PEXPIRE', KEYS[1], lease)
			redis.call('SET', KEYS[3], first)
			for _, token in ipairs({ first, '9007199254740990' }) do
				redis.call('PUBLISH', ARGV[1], token .. ':256 ' .. lease .. ' ' .. id .. ' 0 ' .. KEYS[1])
			end
			return first`
		first := s.Do("EVAL", grants, "3", "k", "relock_queue:{k}", counterOfK, wire.InboxPrefix+c.ID())
		l := within(t, granted)
		require.Equal(t, first, strconv.FormatInt(l.Token(), 10))
		require.NoError(t, l.Unlock(t.Context()))
	}
}
