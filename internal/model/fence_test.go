package model

import (
	"slices"
	"testing"
)

func TestQuorumHolds(t *testing.T) {
	hold(t, []run{
		all(Fence(FenceScope{Clients: 2, Spread: 1, Late: true}, FenceRules{})),
		all(Fence(FenceScope{Clients: 2, Spread: 1, Losses: 1, Repair: true}, FenceRules{})),
		all(Fence(FenceScope{Clients: 3, Spread: 1, Repair: true}, FenceRules{})),
		all(Fence(FenceScope{Clients: 2, Spread: 1, Losses: 1, Repair: true, Force: true}, FenceRules{})),
		all(Fence(FenceScope{Clients: 2, Spread: 2}, FenceRules{})),
		all(Fence(FenceScope{Clients: 2, Spread: 1, Losses: 2, Repair: true}, FenceRules{})),
		all(Fence(FenceScope{Clients: 2, Spread: 2, Losses: 1}, FenceRules{})),
		all(Fence(FenceScope{Clients: 2, Spread: 2, Losses: 1, Repair: true, Force: true}, FenceRules{})),
	}, []run{
		all(Fence(FenceScope{Clients: 2, Spread: 3}, FenceRules{})),
		all(Fence(FenceScope{Clients: 3, Spread: 2}, FenceRules{})),
		all(Fence(FenceScope{Clients: 2, Spread: 2, Losses: 2, Repair: true}, FenceRules{})),
	})
}

func fence(name, rule string, steps int, scope FenceScope, rules FenceRules) broken {
	scope.Clients = 2
	if scope.Spread == 0 {
		scope.Spread = 2
	}
	return broken{name: name, run: one(Fence(scope, rules), rule), rule: rule, steps: steps}
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

func TestQuorumReaches(t *testing.T) {
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
