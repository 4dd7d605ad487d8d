package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// broken is a protocol with one rule off, and what that must lead to.
type broken struct {
	name  string
	run   run
	rule  string
	steps int // of a shortest trace
	cycle int // what goes round for ever after it, where something must come
}

func node(name, rule string, steps int, scope NodeScope, rules NodeRules) broken {
	return broken{name: name, run: one(Node(scope, rules), rule), rule: rule, steps: steps}
}

func count(name, rule string, steps int, rules CountRules) broken {
	return broken{name: name, run: one(Count(6, rules), rule), rule: rule, steps: steps}
}

func split(name, rule string, steps, cycle int, crashes int8, rules SplitRules) broken {
	scope := SplitScope{Contenders: 2, NodeCrash: 1, Crashes: crashes}
	return broken{name: name, run: one(Split(scope, rules), rule), rule: rule, steps: steps, cycle: cycle}
}

func tied(name string, steps, cycle int, rules SplitRules) broken {
	scope := SplitScope{Contenders: 2, Tied: true, NodeCrash: 1}
	return broken{name: name, run: one(Split(scope, rules), "progress"), rule: "progress", steps: steps, cycle: cycle}
}

func fence(name, rule string, steps int, scope FenceScope, rules FenceRules) broken {
	scope.Clients = 2
	if scope.Spread == 0 {
		scope.Spread = 2
	}
	return broken{name: name, run: one(Fence(scope, rules), rule), rule: rule, steps: steps}
}

func catch(t *testing.T, cases []broken) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			res := c.run()
			require.NotNil(t, res.Broken, "not caught: %v", res)
			t.Logf("%v\n%v", res, res.Broken)
			require.Equal(t, c.rule, res.Broken.Rule)
			require.Len(t, res.Broken.Trace, c.steps)
			require.Len(t, res.Broken.Cycle, c.cycle)
		})
	}
}

func TestBrokenNodeIsCaught(t *testing.T) {
	small := NodeScope{Procs: 2, Lease: 1, InFlight: 3}
	renews := NodeScope{Procs: 2, Lease: 2, Renewal: 1, InFlight: 3}
	catch(t, []broken{
		node("a push counts whatever its token", "exclusion", 15, small, NodeRules{BelieveAnyGrant: true}),
		node("a push counts whatever its token: fencing", "token order", 15, small, NodeRules{BelieveAnyGrant: true}),
		node("a renewal shortens the lease", "exclusion", 9, renews, NodeRules{ShortenLease: true}),
		node("hand-over grants the releaser's lease", "exclusion", 14,
			NodeScope{Procs: 2, Lease: 1, InFlight: 3, Uneven: true}, NodeRules{ReleasersLease: true}),
		node("a late acquire is not swept", "no orphan", 6, small, NodeRules{NoSweep: true}),
		node("a release is sent once", "no orphan", 3, small, NodeRules{ReleaseOnce: true}),
		node("a release passes over an open acquire", "no orphan", 6, small, NodeRules{ForgetOpen: true}),
		node("the last sweep is sent before limbo ends", "no orphan", 12, small, NodeRules{EarlySweep: true}),
		node("an unlocker contends under its old id", "exclusion", 9, small, NodeRules{ReuseID: true}),
		node("a grant for a wait given up serves another", "exclusion", 13, small, NodeRules{AdoptOrphan: true}),
		node("nothing is sent when a belief runs out", "no orphan", 5,
			NodeScope{Procs: 2, Lease: 2, Renewal: 2, InFlight: 3}, NodeRules{ForgetLost: true}),
		node("hand-over does not ask who listens", "no grant to the dead", 8,
			NodeScope{Procs: 2, Lease: 1, InFlight: 3, Crashes: 1}, NodeRules{GrantToDead: true}),
		node("a release frees whoever owns", "exclusion", 13, small, NodeRules{ReleaseAnyOwner: true}),
		node("waiters do not poll", "no sleeper", 6, small, NodeRules{NoPoll: true}),
		node("waiters do not poll: progress", "progress", 6, small, NodeRules{NoPoll: true}),
	})
}

func TestBrokenCountIsCaught(t *testing.T) {
	catch(t, []broken{
		count("re-entry and inner unlock add and subtract", "never freed while held", 9, CountRules{Increment: true}),
		count("an acquire sent again adds one", "freed at the end", 7, CountRules{IncrementAcquire: true}),
		count("counts are compared and set", "freed at the end", 13, CountRules{CompareAndSet: true}),
		count("a renewal without a count writes 0", "count is one", 4, CountRules{RenewZero: true}),
	})
}

func TestBrokenYieldIsCaught(t *testing.T) {
	small := NodeScope{Procs: 2, Lease: 1, InFlight: 3, Yields: true}
	catch(t, []broken{
		node("a yield takes whatever grant there is", "exclusion", 12, small, NodeRules{YieldAnyGrant: true}),
		node("a yielded grant counts when it is heard of", "exclusion", 11, small,
			NodeRules{BelieveYielded: true}),
		node("a push counts after its yield", "exclusion", 13, small, NodeRules{BelieveAnyGrant: true}),
	})
}

func TestBrokenSplitIsCaught(t *testing.T) {
	catch(t, []broken{
		split("nobody yields", "progress", 9, 0, 0, SplitRules{NeverYield: true}),
		split("a minority yields to anybody", "progress", 5, 6, 0, SplitRules{AlwaysYield: true}),
		split("a lost yield is not repeated", "progress", 9, 0, 0, SplitRules{YieldOnce: true}),
		split("nobody serves the queue of a dead owner", "progress", 6, 0, 1, SplitRules{NeverServeDead: true}),
		split("releases go only to nodes heard of", "no orphan", 2, 0, 0, SplitRules{ReleaseHeard: true}),
		tied("a nudge before the vote timeout is forgotten", 16, 0, SplitRules{ForgetNudge: true}),
		tied("nodes differ about equal tickets", 10, 5, SplitRules{OwnOrder: true}),
	})
}

func TestBrokenQuorumIsCaught(t *testing.T) {
	plain, loses, narrow := FenceScope{}, FenceScope{Losses: 1}, FenceScope{Losses: 1, Spread: 1}
	catch(t, []broken{
		fence("a node without memory grants at once", "exclusion", 11, loses, FenceRules{NoQuarantine: true}),
		fence("a grant of a former life counts", "exclusion", 15, loses, FenceRules{BelieveFormer: true}),
		fence("a node without memory counts from nothing", "tokens rise", 13, loses, FenceRules{NoSeed: true}),
		fence("a seed is of votes answered before the node forgot", "tokens rise", 23, narrow, FenceRules{SeedBefore: true}),
		fence("a seed is of votes sent before the node forgot", "tokens rise", 23, narrow, FenceRules{SeedSentBefore: true}),
		fence("a seed is of what was asked in the quarantine", "tokens rise", 16, narrow, FenceRules{SeedEarly: true}),
		fence("a winner's token is a seed in the quarantine", "tokens rise", 24, narrow, FenceRules{RemindEarly: true}),
		fence("a holder tells its own token after its hold is over", "tokens rise", 25, narrow, FenceRules{StoppedTells: true}),
		fence("a holder that was forced tells its own token", "tokens rise", 28,
			FenceScope{Losses: 1, Repair: true, Force: true}, FenceRules{HolderTells: true}),
		fence("a write-back does not ask for the owner", "tokens rise", 18, plain, FenceRules{UnguardedWrite: true}),
		fence("the highest counter without a write-back", "tokens rise", 14, plain, FenceRules{NoWrite: true}),
		fence("the lowest counter as token", "tokens rise", 12, plain, FenceRules{LowestCounter: true}),
		fence("the median counter as token", "tokens rise", 12, plain, FenceRules{MedianCounter: true}),
		fence("releases go only to nodes that answered", "no orphan", 2, plain, FenceRules{ReleaseHeard: true}),
		fence("a release leaves no mark", "no orphan", 3, FenceScope{Late: true}, FenceRules{NoLeftMark: true}),
		fence("a lapsed hold revives", "no revival", 18, FenceScope{Repair: true}, FenceRules{ReviveHold: true}),
	})
}
