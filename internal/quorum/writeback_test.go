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
	c := q.newClaim(entry(t, q))
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

// A quorum's lease runs from the need-th youngest of its votes: when that one ends fewer than a quorum are left, whatever
// their numbers are, and in whatever order they came.
func TestLeaseRunsFromTheVoteThatMakesTheQuorum(t *testing.T) {
	const none = -1 // the node is not ours
	for name, tc := range map[string]struct {
		ages    []int // of the votes, in seconds
		numbers []int64
		want    int
	}{
		"at once":                         {[]int{4, 4, 4, 4, 4}, []int64{51, 52, 53, 54, 55}, 4},
		"no more than a quorum":           {[]int{9, none, 2, none, 5}, []int64{51, 0, 52, 0, 53}, 9},
		"the oldest are not needed":       {[]int{9, 1, 7, 2, 5}, []int64{51, 52, 53, 54, 55}, 5},
		"one more than a quorum":          {[]int{none, 1, 7, 2, 9}, []int64{0, 54, 53, 52, 51}, 7},
		"the youngest has the low number": {[]int{1, 3, 5, 7, 9}, []int64{51, 52, 53, 54, 55}, 5},
		"the oldest has the low number":   {[]int{9, 7, 5, 3, 1}, []int64{51, 52, 53, 54, 55}, 5},
		"the middle one has it":           {[]int{1, 7, 9, 3, 5}, []int64{52, 53, 51, 54, 55}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			e, now := contender(t, stubs(t, len(tc.ages), unsaid)).contest, clock.Now()
			for i, age := range tc.ages {
				if age != none {
					standing{number: tc.numbers[i], counted: 1000}.give(e.voters[i], now.Add(-time.Duration(age)*time.Second))
				}
			}
			g, won := e.win()
			require.True(t, won)
			require.Equal(t, now.Add(-time.Duration(tc.want)*time.Second), g.Sent)
		})
	}
}

// Nobody waited where all nodes that are ours granted the lock in answer to a first question, and no release asked it.
func TestFreshGrantsOfAQuorum(t *testing.T) {
	for name, tc := range map[string]struct {
		fresh    []bool
		requeued bool
		want     bool
	}{
		"all":          {[]bool{true, true, true}, false, true},
		"but one":      {[]bool{true, false, true}, false, false},
		"none":         {[]bool{false, false, false}, false, false},
		"by a release": {[]bool{true, true, true}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := contender(t, stubs(t, 3, unsaid)).contest
			e.requeued = tc.requeued
			for i, fresh := range tc.fresh {
				standing{number: 51, counted: 1000}.give(e.voters[i], clock.Now())
				e.voters[i].Belief.Fresh = fresh
			}
			g, won := e.win()
			require.True(t, won)
			require.Equal(t, tc.want, g.Fresh)
		})
	}
}
