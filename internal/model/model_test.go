package model

import (
	"flag"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var large = flag.Bool("large", false, "explore larger scopes too: minutes and gigabytes")

const limit = 30_000_000

// run is an exploration that waits for its turn.
type run func() Result

func all[S comparable](sys System[S]) run {
	return func() Result { return Explore(sys, limit) }
}

// one explores for the sake of a single rule, the first shortest trace against it.
func one[S comparable](sys System[S], rule string) run {
	sys.Rules = slices.DeleteFunc(sys.Rules, func(r Rule[S]) bool { return r.Name != rule })
	if rule != "progress" {
		sys.Goal = nil
	}
	return func() Result { return Explore(sys, limit) }
}

// hold requires that nothing is broken: in the quick explorations, in the full ones where no race detector slows them
// down, and in the large ones where those are asked for.
func hold(t *testing.T, quick, full, most []run) {
	if raceEnabled {
		full = nil
	}
	if !*large {
		most = nil
	}
	for _, explore := range slices.Concat(quick, full, most) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			res := explore()
			t.Log(res)
			if res.Broken != nil {
				t.Fatalf("%s\n%s", res.Name, res.Broken)
			}
			require.True(t, res.Complete, "stopped at the limit of states")
		})
	}
}

func TestProtocolHolds(t *testing.T) {
	hold(t, []run{
		all(Node(NodeScope{Procs: 2, Lease: 1, InFlight: 3}, NodeRules{})),
		all(Node(NodeScope{Procs: 2, Lease: 1, Renewal: 1, InFlight: 2, Crashes: 1}, NodeRules{})),
		all(Node(NodeScope{Procs: 2, Lease: 1, InFlight: 2, Yields: true}, NodeRules{})),
		all(Count(6, CountRules{})),
		all(Split(SplitScope{Contenders: 2, NodeCrash: 1, Crashes: 1}, SplitRules{})),
		all(Split(SplitScope{Contenders: 2, Tied: true, NodeCrash: 1, Crashes: 1}, SplitRules{})),
		all(Fence(FenceScope{Clients: 2, Spread: 1, Late: true}, FenceRules{})),
		all(Fence(FenceScope{Clients: 2, Spread: 1, Losses: 1, Repair: true}, FenceRules{})),
		all(Fence(FenceScope{Clients: 3, Spread: 1, Repair: true}, FenceRules{})),
		all(Fence(FenceScope{Clients: 2, Spread: 1, Losses: 1, Repair: true, Force: true}, FenceRules{})),
	}, []run{
		all(Node(NodeScope{Procs: 2, Lease: 2, Renewal: 1, InFlight: 3}, NodeRules{})),
		all(Node(NodeScope{Procs: 2, Lease: 1, Renewal: 1, InFlight: 3, Crashes: 1}, NodeRules{})),
		all(Node(NodeScope{Procs: 2, Lease: 1, InFlight: 3, Uneven: true}, NodeRules{})),
		all(Node(NodeScope{Procs: 3, Lease: 1, InFlight: 2}, NodeRules{})),
		all(Node(NodeScope{Procs: 2, Lease: 1, InFlight: 3, Yields: true}, NodeRules{})),
		all(Split(SplitScope{Contenders: 3}, SplitRules{})),
		all(Split(SplitScope{Contenders: 3, Tied: true}, SplitRules{})),
		all(Fence(FenceScope{Clients: 2, Spread: 2}, FenceRules{})),
		all(Fence(FenceScope{Clients: 2, Spread: 1, Losses: 2, Repair: true}, FenceRules{})),
		all(Fence(FenceScope{Clients: 2, Spread: 2, Losses: 1}, FenceRules{})),
		all(Fence(FenceScope{Clients: 2, Spread: 2, Losses: 1, Repair: true, Force: true}, FenceRules{})),
	}, []run{
		all(Node(NodeScope{Procs: 3, Lease: 1, Renewal: 1, InFlight: 2, Crashes: 1}, NodeRules{})),
		all(Node(NodeScope{Procs: 2, Lease: 2, Renewal: 2, InFlight: 4, Crashes: 1}, NodeRules{})),
		all(Node(NodeScope{Procs: 2, Lease: 2, Renewal: 2, InFlight: 2, Yields: true}, NodeRules{})),
		all(Split(SplitScope{Contenders: 3, NodeCrash: 1}, SplitRules{})),
		all(Split(SplitScope{Contenders: 3, Crashes: 1}, SplitRules{})),
		all(Fence(FenceScope{Clients: 2, Spread: 3}, FenceRules{})),
		all(Fence(FenceScope{Clients: 3, Spread: 2}, FenceRules{})),
		all(Fence(FenceScope{Clients: 2, Spread: 2, Losses: 2, Repair: true}, FenceRules{})),
	})
}

// reached explores until some state is like that, so that a rule cannot hold for want of anything happening.
func reached[S comparable](t *testing.T, sys System[S], what string, like func(S) bool) {
	t.Helper()
	sys.Goal = nil
	sys.Rules = []Rule[S]{{what, func(s S) string {
		if like(s) {
			return "reached"
		}
		return ""
	}}}
	res := Explore(sys, limit)
	require.NotNil(t, res.Broken, "%s: never: %s", res.Name, what)
	t.Logf("%s, after %d steps", what, len(res.Broken.Trace))
}

func TestNodeReaches(t *testing.T) {
	plain := Node(NodeScope{Procs: 2, Lease: 2, Renewal: 2, InFlight: 3, Crashes: 1}, NodeRules{})
	any1 := func(like func(s *nodeState, a *acq) bool) func(nodeState) bool {
		return func(s nodeState) bool {
			return slices.ContainsFunc(s.ids[:], func(a acq) bool { return like(&s, &a) })
		}
	}
	reached(t, plain, "a holder whose lease outlasts its belief", any1(func(s *nodeState, a *acq) bool {
		return a.phase == held && a.bound < s.lease
	}))
	reached(t, plain, "a holder with an acquire that may still come", any1(func(_ *nodeState, a *acq) bool {
		return a.phase == held && a.doubt
	}))
	reached(t, plain, "a lock taken for one that is swept", any1(func(_ *nodeState, a *acq) bool {
		return a.phase == limbo && a.owns
	}))
	reached(t, plain, "a crashed process in the queue behind an owner", any1(func(s *nodeState, a *acq) bool {
		return a.phase == crashed && a.place > 0 && s.owner() >= 0
	}))
	yields := Node(NodeScope{Procs: 2, Lease: 1, InFlight: 3, Yields: true}, NodeRules{})
	reached(t, yields, "a yielded lock held by the other", func(s nodeState) bool {
		return s.ids[0].phase == held && s.ids[1].phase == waiting && s.ids[1].seen > 0
	})
}

func TestQuorumReaches(t *testing.T) {
	split := Split(SplitScope{Contenders: 3, NodeCrash: 1}, SplitRules{})
	reached(t, split, "a quorum of all nodes that are left, A gone", func(s splitState) bool {
		return s.deadN != 0 && s.done&1 != 0 && s.contends(2) && s.votes(2) == quorum
	})
	fence := Fence(FenceScope{Clients: 2, Spread: 2, Losses: 1, Repair: true, Late: true}, FenceRules{})
	reached(t, fence, "a holder by a node that came back", func(s fenceState) bool {
		return s.losses == 0 && slices.ContainsFunc(s.client[:], func(c fenceClient) bool {
			return c.phase == holding && c.votes() == nodes && c.former == 0
		})
	})
	reached(t, fence, "a belief that was raised by a write-back", func(s fenceState) bool {
		return slices.ContainsFunc(s.node[:], func(n fenceNode) bool {
			return n.owner > 0 && !n.departed && n.counter > n.grant
		})
	})
	reached(t, fence, "a late acquire that owns a node while another holds", func(s fenceState) bool {
		owns := slices.ContainsFunc(s.node[:], func(n fenceNode) bool { return n.departed && n.owner == 1 })
		return owns && s.client[1].phase == holding && s.client[0].phase == contending
	})
}
