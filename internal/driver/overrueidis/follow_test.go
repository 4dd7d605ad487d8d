package overrueidis

import (
	"context"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// nameless is a client that does not tell its nodes.
type nameless struct{ rueidis.Client }

func (nameless) Nodes() map[string]rueidis.Client { return nil }

func TestFollowOverReplicas(t *testing.T) {
	cl := redistest.StartCluster(t)
	if major, _, _ := cl.Nodes()[0].Version(); major < 7 {
		t.Skip("no sharded channels")
	}
	to := cl.Target()
	to.Replicas = true
	rdb := open(t, to.Rueidis())
	t.Run("masters that are found", func(t *testing.T) { followsReplicas(t, cl, over(t, rdb)) })
	t.Run("masters nobody tells", func(t *testing.T) { followsBlindly(t, cl, over(t, nameless{rdb})) })
}

// follow calls Follow in the background until stop.
func follow(t *testing.T, d *Redis, channel string) (e *ear, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	e, ended := newEar(), make(chan error, 1)
	go func() { ended <- d.Follow(ctx, e, channel) }()
	return e, func() {
		t.Helper()
		cancel()
		require.ErrorIs(t, within(t, ended), context.Canceled)
	}
}

// After the first subscription, which was astray, each goes straight to the master.
func followsReplicas(t *testing.T, cl *redistest.Cluster, d *Redis) {
	require.False(t, d.atReplicas.Load())
	for i, tag := range []string{"{a}", "{b}", "{c}"} {
		e, stop := follow(t, d, tag+"1")
		require.Eventually(t, func() bool {
			return cl.MasterFor(tag).Do("PUBSUB", "SHARDNUMSUB", tag+"1") == tag+"1\n1"
		}, patience, tick)
		within(t, e.subscribed)
		if i == 0 {
			within(t, e.subscribed)
		}
		require.True(t, d.atReplicas.Load())
		stop()
		require.Empty(t, e.subscribed)
	}
}

// Where the masters cannot be told messages come from where the client subscribes, and the user is told once.
func followsBlindly(t *testing.T, cl *redistest.Cluster, d *Redis) {
	told := 0
	d.atReplicas.Store(true)
	for _, tag := range []string{"{a}", "{b}"} {
		e, stop := follow(t, d, tag+"1")
		within(t, e.subscribed)
		require.Eventually(t, func() bool { // the master passes messages on where its replica is linked
			cl.MasterFor(tag).Do("SPUBLISH", tag+"1", "hello")
			return len(e.messages) > 0
		}, patience, tick)
		stop()
		told += len(e.impaired)
	}
	require.Equal(t, 1, told)
}
