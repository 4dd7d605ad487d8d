package model

import "testing"

// The goroutines of the local scopes, each by 1 + the one under whose lease it locks: A, children of A's lease or of
// another child's, and strangers.
var (
	siblings  = [routines]int8{0, 1, 1, 0}
	nested    = [routines]int8{0, 1, 2, 0}
	child     = [routines]int8{0, 1, 0, -1}
	strangers = [routines]int8{0, 0, 0, -1}
	crowd     = [routines]int8{0, 0, 0, 0}
)

func TestLocalHolds(t *testing.T) {
	hold(t, []run{
		all(Local(LocalScope{Parents: siblings, Block: 2}, LocalRules{})),
		all(Local(LocalScope{Parents: siblings, Try: 2, Block: 2}, LocalRules{})),
		all(Local(LocalScope{Parents: nested, Block: 2}, LocalRules{})),
		all(Local(LocalScope{Parents: child, Block: 2, Faults: 2}, LocalRules{})),
		all(Local(LocalScope{Parents: child, Try: 2, Block: 1, Close: true, Faults: 1}, LocalRules{})),
		all(Local(LocalScope{Parents: strangers, Block: 2, Close: true}, LocalRules{})),
		all(Local(LocalScope{Parents: strangers, Block: 3, Offers: true, Close: true}, LocalRules{})),
		all(Local(LocalScope{Parents: strangers, Block: 3, Offers: true, Faults: 2}, LocalRules{})),
		all(Local(LocalScope{Parents: child, Try: 4, Block: 2, Offers: true, Faults: 1}, LocalRules{})),
		all(Local(LocalScope{Parents: crowd, Block: 4, Offers: true}, LocalRules{})),
		all(Local(LocalScope{Parents: crowd, Block: 2, Refill: true}, LocalRules{})),
		all(Local(LocalScope{Parents: strangers, Block: 2, Refill: true, Faults: 2}, LocalRules{})),
		all(Local(LocalScope{Parents: strangers, Block: 2, Refill: true, Close: true}, LocalRules{})),
	}, []run{
		all(Local(LocalScope{Parents: crowd, Block: 2, Refill: true, Faults: 1}, LocalRules{})),
		all(Local(LocalScope{Parents: siblings, Block: 2, Refill: true, Faults: 1}, LocalRules{})),
		all(Local(LocalScope{Parents: crowd, Block: 4, Offers: true, Faults: 1}, LocalRules{})),
		all(Local(LocalScope{Parents: siblings, Block: 2, Offers: true, Faults: 1}, LocalRules{})),
		all(Local(LocalScope{Parents: siblings, Block: 2, Faults: 1}, LocalRules{})),
		all(Local(LocalScope{Parents: nested, Block: 2, Faults: 1}, LocalRules{})),
		all(Local(LocalScope{Parents: siblings, Block: 2, Close: true}, LocalRules{})),
		all(Local(LocalScope{Parents: strangers, Block: 2, Close: true, Faults: 1}, LocalRules{})),
	}, []run{
		all(Local(LocalScope{Parents: siblings, Block: 2, Close: true, Faults: 2}, LocalRules{})),
		all(Local(LocalScope{Parents: nested, Try: 4, Block: 1, Close: true, Faults: 2}, LocalRules{})),
	})
}

func local(name, rule string, steps int, scope LocalScope, rules LocalRules) broken {
	return broken{name: name, run: one(Local(scope, rules), rule), rule: rule, steps: steps}
}

func TestBrokenLocalIsCaught(t *testing.T) {
	family := LocalScope{Parents: siblings, Block: 2}
	tries := LocalScope{Parents: siblings, Try: 2, Block: 2}
	closes := LocalScope{Parents: strangers, Block: 2, Close: true}
	offers := LocalScope{Parents: strangers, Block: 3, Offers: true, Faults: 1}
	refills := LocalScope{Parents: crowd, Block: 2, Refill: true, Faults: 1}
	fails := LocalScope{Parents: strangers, Block: 2, Faults: 1}
	catch(t, []broken{
		local("re-entry asks only whether the hold has leases", "one owner", 14, family, LocalRules{AnyLease: true}),
		local("re-entry asks only whether the hold has leases: fencing", "tokens differ", 14, family,
			LocalRules{AnyLease: true}),
		local("TryLock asks only whether the hold has leases", "one owner", 14, tries, LocalRules{AnyLeaseTry: true}),
		local("a lease that is over hides a live one around it", "no wait for oneself", 12,
			LocalScope{Parents: nested, Block: 2}, LocalRules{HideOuter: true}),
		local("who is handed a hold after Close forgets it", "progress", 4, closes, LocalRules{ForgetRefused: true}),
		local("Close forgets a hold that is being passed on", "progress", 9, closes, LocalRules{ForgetPassed: true}),
		local("Close does not wait for calls", "progress", 6, closes, LocalRules{WaitForNone: true}),
		local("an offer calls nobody", "progress", 9, offers, LocalRules{NoCall: true}),
		local("an offer calls nobody: it sleeps", "no sleep beside an offer", 9, offers, LocalRules{NoCall: true}),
		local("who gives up leaves the offer", "progress", 10, offers, LocalRules{StrandOffer: true}),
		local("a lost hold stays offered", "progress", 10, offers, LocalRules{KeepOffer: true}),
		local("one is overtaken without end", "bounded overtaking", 18,
			LocalScope{Parents: crowd, Block: 4, Offers: true}, LocalRules{Unbounded: true}),
		local("a block is given to whatever hold is live", "tokens rise", 23, refills, LocalRules{RefillAnyone: true}),
		local("a block is gone on with twice", "tokens rise", 23, refills, LocalRules{RefillAgain: true}),
		local("a lost hold keeps the gate", "progress", 4, fails, LocalRules{NoLeave: true}),
	})
}

func TestLocalReaches(t *testing.T) {
	scope := LocalScope{Parents: siblings, Block: 2, Close: true, Faults: 1}
	at := func(g int, where int8) func(localState) bool {
		return func(s localState) bool { return s.routine[g].at == where }
	}
	plain := Local(scope, LocalRules{})
	reached(t, plain, "a child whose re-entry was refused holds the lock by itself", func(s localState) bool {
		return s.routine[1].at == inside && s.routine[1].owner == 2
	})
	reached(t, plain, "three leases of one owner while a stranger waits", func(s localState) bool {
		return s.hold[0].leases == 7 && at(3, inLine)(s)
	})
	reached(t, plain, "a hold that was granted with a release, passed on in memory", func(s localState) bool {
		return s.counter > 2 && s.routine[0].at == gone && s.issued > 3
	})
	refills := Local(LocalScope{Parents: crowd, Block: 2, Refill: true, Faults: 1}, LocalRules{})
	reached(t, refills, "a hold that went on with its next block", func(s localState) bool {
		return s.issued == 3 && s.counter == 4 && s.redis == 1 && s.hold[0].state == liveHold
	})
	reached(t, refills, "tokens that come when their hold is over", func(s localState) bool {
		return s.hold[0].state == lostHold && s.hold[0].refill == reserved && s.redis == 2
	})
	offers := Local(LocalScope{Parents: crowd, Block: 4, Offers: true, Faults: 1}, LocalRules{})
	reached(t, offers, "one who came in vain, and is passed the hold", func(s localState) bool {
		return s.routine[1].past > 0 && s.routine[1].baton > 1
	})
	reached(t, offers, "one who took an offer as it gave up, and offers it to the next", func(s localState) bool {
		return s.routine[1].at == gone && !s.routine[1].had && s.offered != 0 && s.issued == 1
	})
	reached(t, plain, "a lock that stands after Close, its lease with a caller", func(s localState) bool {
		return s.close == sweptClose && s.redis > 0 && s.routine[0].at == inside
	})
}
