package model

import "testing"

// The scopes of the linger system.
var (
	lingerPlain   = LingerScope{Locks: [2]int8{2, 1}, Lease: 2, Linger: 1, Block: 2}
	lingerFails   = LingerScope{Locks: [2]int8{2, 1}, Lease: 2, Linger: 1, Block: 2, Faults: 1}
	lingerTries   = LingerScope{Locks: [2]int8{2, 1}, Lease: 2, Linger: 1, Block: 2, Try: true, Faults: 1}
	lingerStops   = LingerScope{Locks: [2]int8{2, 1}, Lease: 1, Linger: 2, Block: 2, Faults: 1, Stops: true}
	lingerRenews  = LingerScope{Locks: [2]int8{2, 0}, Lease: 2, Linger: 3, Block: 2, Renews: true, Faults: 1}
	lingerForeign = LingerScope{Locks: [2]int8{2, 0}, Lease: 2, Linger: 1, Block: 2, Foreign: 1, Faults: 1}
	lingerDeaf    = LingerScope{Locks: [2]int8{2, 1}, Lease: 2, Linger: 1, Block: 2, Deaf: true}
	lingerCloses  = LingerScope{Locks: [2]int8{2, 0}, Lease: 2, Linger: 1, Block: 2, Close: true}
)

func TestLingerHolds(t *testing.T) {
	hold(t, []run{
		all(Linger(lingerPlain, LingerRules{})),
		all(Linger(lingerTries, LingerRules{})),
		all(Linger(lingerRenews, LingerRules{})),
		all(Linger(lingerForeign, LingerRules{})),
		all(Linger(lingerDeaf, LingerRules{})),
		all(Linger(lingerCloses, LingerRules{})),
		all(Linger(lingerStops, LingerRules{})),
	}, []run{
		all(Linger(lingerFails, LingerRules{})),
		all(Linger(LingerScope{Locks: [2]int8{3, 2}, Lease: 2, Linger: 2, Block: 2}, LingerRules{})),
		all(Linger(LingerScope{Locks: [2]int8{2, 1}, Lease: 2, Linger: 1, Block: 2, Foreign: 1}, LingerRules{})),
		all(Linger(LingerScope{Locks: [2]int8{2, 1}, Lease: 2, Linger: 3, Block: 2, Renews: true, Faults: 1}, LingerRules{})),
		all(Linger(LingerScope{Locks: [2]int8{2, 1}, Lease: 2, Linger: 3, Block: 2, Faults: 1, Stops: true}, LingerRules{})),
	})
}

func linger(name, rule string, steps int, scope LingerScope, rules LingerRules) broken {
	return broken{name: name, run: one(Linger(scope, rules), rule), rule: rule, steps: steps}
}

func TestBrokenLingerIsCaught(t *testing.T) {
	twice := LingerScope{Locks: [2]int8{2, 1}, Lease: 3, Linger: 1, Block: 2, Faults: 2}
	long := LingerScope{Locks: [2]int8{1, 0}, Lease: 3, Linger: 2, Block: 2, Renews: true}
	foreign := LingerScope{Locks: [2]int8{2, 0}, Lease: 3, Linger: 1, Block: 2, Foreign: 1, Faults: 2}
	more := LingerScope{Locks: [2]int8{3, 2}, Lease: 2, Linger: 2, Block: 2}
	calls := lingerTries
	calls.Faults = 0
	catch(t, []broken{
		linger("a renewal prolongs the time to linger", "idle is bounded", 13, long, LingerRules{RenewDates: true}),
		linger("a question that was sent again dates the grant", "no lease past the bound", 9,
			foreign, LingerRules{AnyAnswer: true}),
		linger("a question that was sent again makes a hold linger", "looks are minded", 12, twice,
			LingerRules{AnyAnswer: true}),
		linger("the answer dates the grant", "no lease past the bound", 7, lingerForeign, LingerRules{DateByReply: true}),
		linger("a grant by message lingers", "looks are minded", 10, more, LingerRules{Handed: true}),
		linger("a look that comes before the grant is dropped", "looks are minded", 7, lingerPlain,
			LingerRules{LookAwaits: true}),
		linger("looks are ignored", "looks are minded", 7, lingerPlain, LingerRules{LookIgnored: true}),
		linger("TryLock tells nobody", "looks are minded", 6, calls, LingerRules{TryTellsNone: true}),
		linger("a cached lock does not ask whether the lease still runs", "no lease past the bound", 6, lingerStops,
			LingerRules{NoBelief: true}),
		linger("a cached lock does not ask for how long", "no lease past the bound", 7, lingerForeign,
			LingerRules{NoBound: true, NoTimer: true}),
		linger("idle holds have no timer", "idle is bounded", 10, long, LingerRules{NoTimer: true}),
		linger("the loss of an idle hold sends nothing", "no orphan", 6, lingerRenews, LingerRules{ForgetIdle: true}),
		linger("a hold that is being released is used", "belief is ownership", 7, lingerPlain, LingerRules{UseEnded: true}),
		linger("Close leaves idle holds alone", "no orphan", 9, lingerCloses, LingerRules{CloseForgets: true}),
		linger("a hold lingers that hears nothing", "looks are minded", 7, lingerDeaf, LingerRules{DeafLingers: true}),
		linger("what was missed is forgotten", "looks are minded", 8, lingerDeaf, LingerRules{MissedForgets: true}),
	})
}

func TestLingerReaches(t *testing.T) {
	reached(t, Linger(lingerPlain, LingerRules{}), "a lease from the cache", func(s lingerState) bool {
		return s.id[0].phase == working && s.issued%lingerBlock == 1
	})
	reached(t, Linger(lingerStops, LingerRules{}), "an idle hold that its process has not seen to", func(s lingerState) bool {
		return s.id[0].phase == lingers && s.id[2].owns
	})
}
