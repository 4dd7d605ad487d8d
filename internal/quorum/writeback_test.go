package quorum

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// A write-back runs in the node's time: a caller whose time ends meanwhile makes no node look silent.
func TestWriteBackOutlivesItsCaller(t *testing.T) {
	nodes := masters(t, 3)
	q, taps := tapped(t, nodes)
	require.NoError(t, q.prepare(context.Background()))
	for i, counter := range []string{"8000000000010000", "8000000000020000", "8000000000020000"} {
		nodes[i].Do("SET", "redisson_lock_token:{k}", counter) // so far apart that node 1 must be written back to
	}
	nodes[2].Pause()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	taps[0].Filter(func(c *faults.Call) faults.Fate {
		if faults.Script("fence")(c) && c.Has("hold") {
			cancel()
			ended <- c.Context.Err()
		}
		return faults.Pass
	})
	c := q.Claim(entry(t, q))
	if _, err := c.Wait(ctx, nil); err != wire.ErrBusy { // the nodes that answer are a quorum
		require.NoError(t, err)
	}
	require.NoError(t, within(t, ended))
	require.False(t, q.members[0].Idle())
	c.Abandon()
	nodes[2].Resume()
}

// The order of instants must not depend on how wide an int is.
func TestGrantsAreOrderedByAge(t *testing.T) {
	now := clock.Now()
	var voters []*voter
	for _, b := range []node.Belief{
		{Number: 1 << 40, Sent: now.Add(-5 * time.Second)},
		{Number: 3, Sent: now},
		{Number: 1<<40 + 1<<32, Sent: now.Add(-3 * time.Second)},
	} {
		v := &voter{}
		v.Belief = b
		voters = append(voters, v)
	}
	slices.SortFunc(voters, func(a, b *voter) int { return byAge(a, b, now) })
	for i, age := range []time.Duration{0, 3 * time.Second, 5 * time.Second} {
		require.Equal(t, age, now.Since(voters[i].Belief.Sent))
	}
	slices.SortFunc(voters, byNumber)
	for i, number := range []int64{3, 1 << 40, 1<<40 + 1<<32} {
		require.Equal(t, number, voters[i].Belief.Number)
	}
}
