package model

import "testing"

func TestSpreadHolds(t *testing.T) {
	hold(t, []run{
		all(Spread(SpreadScope{Spread: 2, Lead: 1, Ticks: 3}, SpreadRules{})),
		all(Spread(SpreadScope{Spread: 0, Lead: 1, Quarantine: 2, Losses: 1, Ticks: 4}, SpreadRules{})),
	}, []run{
		all(Spread(SpreadScope{Spread: 1, Lead: 1, Quarantine: 3, Losses: 1, Ticks: 5}, SpreadRules{})),
		all(Spread(SpreadScope{Spread: 2, Lead: 1, Quarantine: 4, Losses: 1, Ticks: 5}, SpreadRules{})),
	}, []run{
		all(Spread(SpreadScope{Spread: 2, Lead: 1, Quarantine: 4, Losses: 2, Ticks: 6}, SpreadRules{})),
		all(Spread(SpreadScope{Spread: 2, Lead: 2, Quarantine: 5, Losses: 2, Ticks: 7}, SpreadRules{})),
	})
}

func spread(name string, steps int, scope SpreadScope, rules SpreadRules) broken {
	return broken{name: name, run: one(Spread(scope, rules), "tokens rise"), rule: "tokens rise", steps: steps}
}

func TestBrokenSpreadIsCaught(t *testing.T) {
	catch(t, []broken{
		spread("a clock for a write-back", 6, SpreadScope{Spread: 2, Lead: 1, Ticks: 3}, SpreadRules{NoWrite: true}),
		spread("a forgetful node counts on", 10, SpreadScope{Spread: 1, Lead: 1, Quarantine: 3, Losses: 1, Ticks: 5},
			SpreadRules{CountOnly: true}),
		spread("a quarantine no longer than the lead", 10,
			SpreadScope{Spread: 0, Lead: 1, Quarantine: 1, Losses: 1, Ticks: 4}, SpreadRules{}),
		spread("a quarantine no longer than spread and lead", 12,
			SpreadScope{Spread: 2, Lead: 1, Quarantine: 3, Losses: 1, Ticks: 5}, SpreadRules{}),
	})
}
