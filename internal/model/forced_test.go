package model

import "testing"

func TestForcedHolds(t *testing.T) {
	hold(t, []run{all(Forced(ForcedRules{}))}, nil, nil)
}

func TestBrokenForcedIsCaught(t *testing.T) {
	forced := func(name string, steps int, rules ForcedRules) broken {
		return broken{name: name, run: one(Forced(rules), "deposed"), rule: "deposed", steps: steps}
	}
	catch(t, []broken{
		forced("one round", 3, ForcedRules{Once: true}),
		forced("queues are left alone", 8, ForcedRules{HeldAlone: true}),
		forced("only what had a quorum is ended", 3, ForcedRules{HadAQuorum: true}),
		forced("one node is enough", 5, ForcedRules{Somewhere: true}),
	})
}

func TestForcedReaches(t *testing.T) {
	plain := Forced(ForcedRules{})
	reached(t, plain, "the holder has a quorum again while it is being ended", func(s forcedState) bool {
		return s.phase == ending && s.owned(0) >= quorum
	})
	reached(t, plain, "another has a quorum in the end", func(s forcedState) bool {
		return s.phase == freed && s.only > 0 && s.owned(1) >= quorum
	})
}
