package model

import "testing"

func TestOnceHolds(t *testing.T) {
	hold(t, []run{
		all(Once(OnceScope{Comes: 3, Forgets: 1, Faults: 2}, OnceRules{})),
		all(Once(OnceScope{Comes: 4, Faults: 1}, OnceRules{})),
	}, []run{
		all(Once(OnceScope{Comes: 4, Forgets: 1, Faults: 2}, OnceRules{})),
		all(Once(OnceScope{Comes: 4, Forgets: 2, Faults: 1}, OnceRules{})),
	}, []run{
		all(Once(OnceScope{Comes: 5, Forgets: 2, Faults: 3}, OnceRules{})),
	})
}

func runsOnce(name, rule string, steps int, scope OnceScope, rules OnceRules) broken {
	return broken{name: name, run: one(Once(scope, rules), rule), rule: rule, steps: steps}
}

func TestBrokenOnceIsCaught(t *testing.T) {
	scope := OnceScope{Comes: 3, Forgets: 1, Faults: 2}
	catch(t, []broken{
		runsOnce("a late result of a run passes for the next of its process", "no late result", 18, scope, OnceRules{SameEntry: true}),
		runsOnce("a result is left without a look at the hold", "no late result", 16, scope, OnceRules{Blind: true}),
		runsOnce("Forget does not mark the run under way", "no older result", 11, scope, OnceRules{Unmarked: true}),
		runsOnce("what is sent again does not look for its own", "what stands is not called lost", 12, scope, OnceRules{RepeatLoses: true}),
		runsOnce("the result is not read under the lock", "one result", 17, scope, OnceRules{ReadOnce: true}),
		runsOnce("a caller takes what was asked for before it came", "no older result", 11, scope, OnceRules{AnyAnswer: true}),
		runsOnce("Forget's mark does not end with the hold", "a run leaves its result", 16, scope, OnceRules{MarkStays: true}),
	})
}

func TestOnceReaches(t *testing.T) {
	sys := Once(OnceScope{Comes: 3, Forgets: 1, Faults: 2}, OnceRules{})
	reached(t, sys, "a result that stands after the lease of its run was lost", func(s onceState) bool {
		return s.result == 1 && s.holder == 2
	})
	reached(t, sys, "a run that leaves nothing, since Forget came", func(s onceState) bool {
		return s.proc[0].answer == onceForgotten && s.proc[0].phase == onceKeeps
	})
	reached(t, sys, "a late result of a run beside the next run", func(s onceState) bool {
		return s.late&(1<<1) != 0 && s.proc[0].phase == onceRuns && s.proc[0].run == 2
	})
	reached(t, sys, "a caller that waits and takes the result", func(s onceState) bool {
		return s.given > 0 && s.comes == 1 && s.proc[0] == onceProc{} && s.proc[1] == onceProc{} && s.last == 1 && s.faults == 2
	})
}
