package relock

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// onCluster returns a Client of a Cluster whose options are changed first.
func onCluster(t *testing.T, cl *redistest.Cluster, change func(*rueidis.ClientOption)) *Client {
	t.Helper()
	opt := cl.Option()
	change(&opt)
	rdb, err := redistest.Open(opt)
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	return newClient(t, rdb, WithLease(far))
}

// A client that reads from replicas would subscribe there too, where the master does not count it. It is handed locks all
// the same.
func TestReadingFromReplicasHearsTheMaster(t *testing.T) {
	cl := redistest.StartCluster(t)
	major, _, _ := cl.Nodes()[0].Version()
	if major < 7 {
		t.Skip("no sharded channels")
	}
	var clients []*Client
	for range 2 {
		clients = append(clients, onCluster(t, cl, func(opt *rueidis.ClientOption) {
			opt.SendToReplicas = func(cmd rueidis.Completed) bool { return cmd.IsReadOnly() }
		}))
	}
	ctx := context.Background()
	for _, name := range []string{"a", "b", "c"} {
		l, err := clients[0].Mutex(name).Lock(ctx)
		require.NoError(t, err)
		got := locks(clients[1], name)
		master := cl.MasterFor(name)
		for _, ch := range []string{"redisson_lock__channel:{" + name + "}", "relock_inbox:{" + name + "}:" + clients[1].ID()} {
			require.Eventually(t, func() bool {
				return strings.HasSuffix(master.Do("PUBSUB", "SHARDNUMSUB", ch), "\n1")
			}, patience, time.Millisecond, ch)
		}
		require.NoError(t, l.Unlock(ctx))
		require.NoError(t, within(t, got))
	}
}

// A lock whose sharded channels may not be subscribed tells its waiters at once; others are not concerned.
func TestForbiddenShardedChannel(t *testing.T) {
	cl := redistest.StartCluster(t)
	for _, s := range cl.Nodes() {
		s.AddUser("app", "secret", "~*", "+@all", "&*{good}*")
	}
	c := onCluster(t, cl, func(opt *rueidis.ClientOption) { opt.Username, opt.Password = "app", "secret" })
	holder := onCluster(t, cl, func(*rueidis.ClientOption) {})
	ctx := context.Background()
	bad, err := holder.Mutex("bad").Lock(ctx)
	require.NoError(t, err)
	for range 2 {
		mayNotHear(t, within(t, locks(c, "bad")), "bad")
	}
	good, err := holder.Mutex("good").Lock(ctx)
	require.NoError(t, err)
	got := locks(c, "good")
	settled(t, c, "good")
	require.NoError(t, good.Unlock(ctx))
	require.NoError(t, within(t, got))
	require.NoError(t, bad.Unlock(ctx))
}

// Clients over one rueidis client share its connection, and so at the server the subscriptions to a lock's own channels.
// Where one of them leaves it takes those from the other, which subscribes anew. When both have left nothing stays, whatever
// the moment in which they leave.
func TestSharersOfAConnectionLeaveNoSubscription(t *testing.T) {
	cl := redistest.StartCluster(t)
	major, _, _ := cl.Nodes()[0].Version()
	if major < 7 {
		t.Skip("no sharded channels")
	}
	rdb, err := redistest.Open(cl.Option())
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	master := cl.MasterFor("k")
	for range rounds(20, 200) {
		var clients []*Client
		for range 2 {
			c, err := New(rdb, WithLease(far), WithLinger(time.Hour))
			require.NoError(t, err)
			lockAndUnlock(t, c.Mutex("k"))
			clients = append(clients, c)
		}
		got := locks(clients[0], "k")
		require.NoError(t, within(t, got))
		var left sync.WaitGroup
		for _, c := range clients {
			left.Go(c.Close)
		}
		left.Wait()
		require.Eventually(t, func() bool { return master.Do("PUBSUB", "SHARDCHANNELS") == "" }, patience, time.Millisecond)
	}
}
