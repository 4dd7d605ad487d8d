package model

import "testing"

func TestBatchHolds(t *testing.T) {
	hold(t, []run{
		all(Batch(BatchScope{Locks: 2, Lease: 5, Faults: 2, Silent: 1}, BatchRules{})),
		all(Batch(BatchScope{Locks: 3, Lease: 4, Faults: 2}, BatchRules{})),
		all(Batch(BatchScope{Locks: 4, Lease: 6, Faults: 1, Parts: 3}, BatchRules{})),
	}, []run{
		all(Batch(BatchScope{Locks: 3, Lease: 5, Faults: 2, Silent: 1}, BatchRules{})),
		all(Batch(BatchScope{Locks: 4, Lease: 4, Faults: 2}, BatchRules{})),
	}, []run{
		all(Batch(BatchScope{Locks: 4, Lease: 5, Faults: 3, Silent: 1}, BatchRules{})),
	})
}

func batch(name, rule string, steps int, scope BatchScope, rules BatchRules) broken {
	return broken{name: name, run: one(Batch(scope, rules), rule), rule: rule, steps: steps}
}

func TestBrokenBatchIsCaught(t *testing.T) {
	two := BatchScope{Locks: 2, Lease: 4, Faults: 2}
	alone := "no lock falls with another"
	catch(t, []broken{
		batch("the count is written before the lease", alone, 10, two, BatchRules{CountFirst: true}),
		batch("an error about one lock ends the script", alone, 9, two, BatchRules{FailBatch: true}),
		batch("a renewal refused as a whole is not split", alone, 9, two, BatchRules{NeverSplit: true}),
		batch("renewals are split into few parts, and the next knows nothing of it", alone, 14,
			BatchScope{Locks: 4, Lease: 4, Faults: 2, Parts: 3}, BatchRules{}),
		batch("a renewal without an answer counts as written", "unsure is known", 7,
			BatchScope{Locks: 2, Lease: 5, Faults: 2, Silent: 1}, BatchRules{TakeCount: true}),
	})
}

func TestBatchReaches(t *testing.T) {
	plain := Batch(BatchScope{Locks: 3, Lease: 4, Faults: 2}, BatchRules{})
	reached(t, plain, "a count is written while Redis is out of memory", func(s batchState) bool {
		for i := range s.lock {
			if s.lock[i].hurt || s.lock[i].dirty {
				return false
			}
		}
		return s.full && s.faults == 0
	})
	reached(t, plain, "two locks are lost by their own keys, the third lives", func(s batchState) bool {
		return s.lock[0].lost && s.lock[1].lost && !s.lock[2].lost
	})
}
