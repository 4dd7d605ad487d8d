package relock

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// older is a Cluster's client whose question for sharded channels the test answers.
type older struct {
	rueidis.Client
	asked  atomic.Int32
	answer func() string // an error reply
}

func (o *older) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if len(cmd.Commands()) > 1 && cmd.Commands()[1] == "SHARDNUMSUB" {
		o.asked.Add(1)
		cmd = o.B().Arbitrary("EVAL", "return redis.error_reply(ARGV[1])", "0", o.answer()).Build()
	}
	return o.Client.Do(ctx, cmd)
}

const unknownShards = "ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'. Try PUBSUB HELP."

// The question which channels a Cluster has is asked once, and nobody waits for its answer longer than their context.
func TestModeIsAskedOnceAndWaitedForByOwnContext(t *testing.T) {
	answers := make(chan string)
	rdb := &older{Client: redistest.StartCluster(t).Client(), answer: func() string { return <-answers }}
	c := newClient(t, rdb)
	tried := make(chan error)
	h := c.arb.(*node).hub
	contending := func(n int) func() bool {
		return func() bool {
			h.mu.Lock()
			defer h.mu.Unlock()
			return len(h.acqs) == n
		}
	}
	for i := range 5 {
		go func() {
			l, err := c.Mutex(strconv.Itoa(i)).Lock(context.Background())
			if err == nil {
				err = l.Unlock(context.Background())
			}
			tried <- err
		}()
	}
	require.Eventually(t, func() bool { return rdb.asked.Load() == 1 }, patience, time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error)
	go func() {
		_, err := c.Mutex("other").Lock(ctx)
		gone <- err
	}()
	require.Eventually(t, contending(6), patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, within(t, gone), context.Canceled)
	answers <- unknownShards
	for range 5 {
		require.NoError(t, within(t, tried))
	}
	require.EqualValues(t, 1, rdb.asked.Load())
	require.EqualValues(t, modeRaceOnly, c.arb.(*node).mode.Load())
}

// Only an answer that sharded channels are unknown decides against them: not one of a Cluster in trouble, nor a missing
// right, which is told.
func TestModeIsNotDecidedByTrouble(t *testing.T) {
	replies := []string{
		"LOADING Redis is loading the dataset in memory",
		"CLUSTERDOWN The cluster is down",
		"NOPERM User app has no permissions to run the 'pubsub|shardnumsub' command",
		unknownShards,
	}
	rdb := &older{Client: redistest.StartCluster(t).Client()}
	rdb.answer = func() string { return replies[min(int(rdb.asked.Load()), len(replies))-1] }
	c := newClient(t, rdb)
	_, err := c.Mutex("k").Lock(context.Background())
	mayNotHear(t, err, "k")
	l, err := c.Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	require.NoError(t, l.Unlock(context.Background()))
	require.EqualValues(t, modeRaceOnly, c.arb.(*node).mode.Load())
}
