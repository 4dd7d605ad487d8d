package model

import "testing"

func TestWriteBackHolds(t *testing.T) {
	hold(t, []run{
		all(WriteBack(WriteBackScope{Down: true, Faults: 1}, WriteBackRules{})),
		all(WriteBack(WriteBackScope{Context: true, Down: true, Faults: 1}, WriteBackRules{})),
		all(WriteBack(WriteBackScope{Context: true, Faults: 1}, WriteBackRules{})),
		all(WriteBack(WriteBackScope{Held: true, Down: true, Faults: 1}, WriteBackRules{})),
	}, []run{
		all(WriteBack(WriteBackScope{Held: true, Faults: 1}, WriteBackRules{})),
		all(WriteBack(WriteBackScope{Context: true, Down: true, Faults: 2}, WriteBackRules{})),
	}, []run{
		all(WriteBack(WriteBackScope{Context: true, Held: true, Faults: 1}, WriteBackRules{})),
		all(WriteBack(WriteBackScope{Context: true, Faults: 2}, WriteBackRules{})),
		all(WriteBack(WriteBackScope{Context: true, Held: true, Faults: 2}, WriteBackRules{})),
	})
}

func writeBack(name, rule string, steps, cycle int, scope WriteBackScope, rules WriteBackRules) broken {
	return broken{name: name, run: one(WriteBack(scope, rules), rule), rule: rule, steps: steps, cycle: cycle}
}

func TestBrokenWriteBackIsCaught(t *testing.T) {
	patient, caller := WriteBackScope{Down: true, Faults: 1}, WriteBackScope{Context: true, Down: true, Faults: 1}
	skips := WriteBackRules{SkipListening: true}
	catch(t, []broken{
		writeBack("a failed write-back skips listening", "listens between sends", 7, 0, caller, skips),
		writeBack("a failed write-back skips listening: deaf to the caller", "progress", 10, 2, caller, skips),
		writeBack("a failed write-back skips listening: never wins", "progress", 9, 2, patient, skips),
		writeBack("a node whose write-back failed counts as ours", "progress", 7, 2, patient,
			WriteBackRules{StillOurs: true}),
		writeBack("a write-back ends with the caller's context", "silence is the node's", 5, 0, caller,
			WriteBackRules{CallersTime: true}),
		writeBack("numbers count without a write-back", "evidence", 4, 0, patient, WriteBackRules{NoEvidence: true}),
	})
}

func TestWriteBackReaches(t *testing.T) {
	plain := WriteBack(WriteBackScope{Faults: 2}, WriteBackRules{})
	reached(t, plain, "won by a node that was raised", func(s writeState) bool {
		return s.won && s.node[1].own > 0 && s.node[1].own < s.node[1].counted
	})
	reached(t, plain, "won by a node that forgot the contender and voted again", func(s writeState) bool {
		return s.won && s.faults == 1 && s.node[1].own == 3 && s.node[2].own == 0
	})
	reached(t, plain, "a write-back that is answered after its grant was replaced", func(s writeState) bool {
		return s.node[1].fence > underWay && s.node[1].own != s.node[1].under
	})
}
