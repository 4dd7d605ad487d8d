package model

import (
	"slices"
	"testing"
)

// The callers of the system of several locks.
var (
	allTogether = SeveralCall{Locks: 3, Gathers: true}
	allInTurn   = SeveralCall{Locks: 3}
	anyTogether = SeveralCall{Locks: 3, Any: true, Gathers: true}
	anyInLine   = SeveralCall{Locks: 3, Any: true}
	plainFirst  = SeveralCall{Locks: 1}
	plainSecond = SeveralCall{Locks: 2}
)

func several(copies, losses int8, callers ...SeveralCall) SeveralScope {
	s := SeveralScope{Copies: copies, Losses: losses, GivesUp: true}
	copy(s.Callers[:], callers)
	return s
}

func TestSeveralHolds(t *testing.T) {
	hold(t, []run{
		all(Several(several(1, 1, allInTurn, allInTurn, plainFirst), SeveralRules{})),
		all(Several(several(1, 1, allTogether, allTogether), SeveralRules{})),
		all(Several(several(2, 1, allTogether, plainFirst, plainSecond), SeveralRules{})),
		all(Several(several(0, 1, anyInLine, anyInLine, plainFirst), SeveralRules{})),
		all(Several(several(2, 1, anyTogether, plainFirst, plainSecond), SeveralRules{})),
		all(Several(several(1, 1, allTogether, anyTogether), SeveralRules{})),
	}, []run{
		all(Several(several(1, 1, allTogether, allInTurn, anyInLine), SeveralRules{})),
		all(Several(several(1, 1, allTogether, allTogether, anyTogether), SeveralRules{})),
		all(Several(several(1, 1, anyTogether, anyTogether, allTogether), SeveralRules{})),
	}, []run{
		all(Several(several(2, 1, allTogether, allTogether, anyTogether), SeveralRules{})),
		all(Several(several(2, 1, anyTogether, anyTogether, allTogether), SeveralRules{})),
		all(Several(several(3, 2, allTogether, allTogether, allTogether), SeveralRules{})),
	})
}

func ofSeveral(name, rule string, steps int, scope SeveralScope, rules SeveralRules) broken {
	return broken{name: name, run: one(Several(scope, rules), rule), rule: rule, steps: steps}
}

func TestBrokenSeveralIsCaught(t *testing.T) {
	never := several(0, 0, allInTurn, allInTurn)
	never.GivesUp = false
	catch(t, []broken{
		ofSeveral("All takes its locks in the order in which they are given", "progress", 4, never, SeveralRules{GivenOrder: true}),
		ofSeveral("a gather takes a part, and keeps it", "nothing left", 4, several(0, 0, allTogether, plainFirst), SeveralRules{GathersPart: true}),
		ofSeveral("a gather without an answer is not swept", "nothing left", 2, several(1, 0, allTogether), SeveralRules{SweepsNone: true}),
		ofSeveral("a gather that may come late is swept once", "nothing left", 4, several(1, 0, allTogether), SeveralRules{SweepsOnce: true}),
		ofSeveral("a loss is unheard while All waits", "all or none", 7, several(0, 1, allInTurn, plainSecond), SeveralRules{LossUnheard: true}),
		ofSeveral("Any stays in line", "nothing left", 4, several(0, 0, anyInLine, plainFirst), SeveralRules{StaysInLine: true}),
		ofSeveral("Any keeps a second grant", "nothing left", 5, several(0, 0, anyInLine), SeveralRules{KeepsSecond: true}),
	})
}

func TestSeveralReaches(t *testing.T) {
	scope := Several(several(1, 1, allTogether, anyTogether, plainFirst), SeveralRules{})
	some := func(like func(s *severalState, v *severalCaller) bool) func(severalState) bool {
		return func(s severalState) bool {
			return slices.ContainsFunc(s.caller[:], func(v severalCaller) bool { return like(&s, &v) })
		}
	}
	reached(t, scope, "a caller with one lock that waits for the other", some(func(_ *severalState, v *severalCaller) bool {
		return v.phase == severalWaits && v.has == 1 && v.in == 2
	}))
	reached(t, scope, "a loss that is not heard of while All waits", some(func(_ *severalState, v *severalCaller) bool {
		return v.phase == severalWaits && v.lost != 0
	}))
	reached(t, scope, "a late gather that took locks behind its call", some(func(s *severalState, v *severalCaller) bool {
		return v.phase == severalDone && v.sweeps && s.lock[0].owner == 4
	}))
	reached(t, scope, "two grants at one time", func(s severalState) bool {
		return s.caller[1].phase == severalWaits && s.lock[0].owner == 2 && s.lock[1].owner == 2
	})
}
