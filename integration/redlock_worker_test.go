//go:build unix

package integration

import (
	"context"
	"slices"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
)

// quorumJob is what a worker on a quorum of nodes needs beside the rest of its job.
type quorumJob struct {
	Unguarded bool          // by no restart guard
	Longest   time.Duration // lease, as the guard has it
	NoFence   bool          // leave out what unfenced does
}

// openQuorum makes a client of the nodes at j.Addrs.
func (j job) openQuorum() (*relock.Client, func(), error) {
	var nodes []rueidis.Client
	closeNodes := func() {
		for _, rdb := range nodes {
			rdb.Close()
		}
	}
	for _, addr := range j.Addrs {
		one := j
		one.Addrs, one.Single = []string{addr}, true
		o := one.options()
		o.PipelineMultiplex = -1 // one connection is enough for one lock
		rdb, err := rueidis.NewClient(o)
		if err != nil {
			closeNodes()
			return nil, nil, err
		}
		if j.Quorum.NoFence {
			rdb = unfenced{rdb}
		}
		nodes = append(nodes, rdb)
	}
	guard := relock.WithRestartGuard(j.Quorum.Longest)
	if j.Quorum.Unguarded {
		guard = relock.WithoutRestartGuard()
	}
	locks, err := relock.NewRedlock(nodes, relock.WithLease(j.Lease), guard, relock.WithClientName(j.Name))
	return locks, func() { locks.Close(); closeNodes() }, err
}

// unfenced is a client of a quorum that is broken on purpose: no node is told how far the others of a grant's quorum
// counted, nor where to begin.
type unfenced struct{ rueidis.Client }

// Do lets the scripts run that tell a node a counter, with one so low that it changes none: 0, or 1 for fence.lua, which 0
// asks how far the node has counted.
func (u unfenced) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	const args = 3 + 5 // EVALSHA, the script, the number of keys, and the keys
	words := cmd.Commands()
	var counters []int
	low := "0"
	switch {
	case len(words) == args+3 && words[args] == "hold":
		counters, low = []int{args + 2}, "1" // fence.lua
	case len(words) > args+4 && slices.Contains([]string{"wait", "try", "nudge"}, words[args+4]):
		if len(words) > args+7 {
			counters = []int{args + 7} // vote.lua
		}
	case len(words) == args+4:
		counters = []int{args + 3} // unvote.lua
	case len(words) == args+5 || len(words) == args+10:
		counters = []int{args + 3, args + 4} // with where to begin, or to queue the next
	}
	if len(counters) == 0 {
		return u.Client.Do(ctx, cmd)
	}
	changed := append([]string(nil), words...)
	for _, at := range counters {
		changed[at] = low
	}
	return u.Client.Do(ctx, u.Client.B().Arbitrary(changed...).Build())
}
