package relock

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// askedForShards picks the question for sharded channels, which a test answers as an older Cluster does.
var askedForShards = faults.Command("PUBSUB", "SHARDNUMSUB")

const unknownShards = "ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'. Try PUBSUB HELP."

// The question which channels a Cluster has is asked once, and nobody waits for its answer longer than their context.
func TestModeIsAskedOnceAndWaitedForByOwnContext(t *testing.T) {
	rdb := faults.NewClient(redistest.StartCluster(t).Client())
	rdb.Filter(faults.All(askedForShards, faults.Refuse(unknownShards).Held()))
	c := newClient(t, rdb)
	tried := make(chan error)
	for i := range 5 {
		go func() {
			l, err := c.Mutex(strconv.Itoa(i)).Lock(context.Background())
			if err == nil {
				err = l.Unlock(context.Background())
			}
			tried <- err
		}()
	}
	within(t, rdb.Told())
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error)
	go func() {
		_, err := c.Mutex("other").Lock(ctx)
		gone <- err
	}()
	require.Eventually(t, func() bool { return c.core.underWay() == 6 }, patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, within(t, gone), context.Canceled)
	rdb.Release()
	for range 5 {
		require.NoError(t, within(t, tried))
	}
	require.Empty(t, rdb.Told())
	require.Equal(t, "raced", c.core.arbiter.(*single).node.Debug().Channels)
}

// Only an answer that sharded channels are unknown decides against them: not one of a Cluster in trouble, nor a missing
// right, which is told.
func TestModeIsNotDecidedByTrouble(t *testing.T) {
	rdb := faults.NewClient(redistest.StartCluster(t).Client())
	rdb.Filter(faults.Each(faults.Next(askedForShards,
		faults.Refuse("LOADING Redis is loading the dataset in memory"),
		faults.Refuse("CLUSTERDOWN The cluster is down"),
		faults.Refuse("NOPERM User app has no permissions to run the 'pubsub|shardnumsub' command")),
		faults.All(askedForShards, faults.Refuse(unknownShards))))
	c := newClient(t, rdb)
	_, err := c.Mutex("k").Lock(context.Background())
	mayNotHear(t, err, "k")
	l, err := c.Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	require.NoError(t, l.Unlock(context.Background()))
	require.Equal(t, "raced", c.core.arbiter.(*single).node.Debug().Channels)
}
