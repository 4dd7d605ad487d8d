package model

import "testing"

// The scopes of the move system.
var (
	movePlain  = MoveScope{Lease: 2, Handle: 1, Tries: [2]int8{1, 1}, Comes: 1, InFlight: 2}
	moveRenews = MoveScope{Lease: 2, Handle: 1, Tries: [2]int8{1, 0}, Late: 1, Renews: true, Comes: 1, InFlight: 3}
	moveAgain  = MoveScope{Lease: 2, Handle: 1, Tries: [2]int8{2, 0}, Comes: 1, InFlight: 3}
	moveLater  = MoveScope{Lease: 2, Handle: 1, Tries: [2]int8{2, 0}, Late: 1, Comes: 1, InFlight: 2, Later: true}
	moveForced = MoveScope{Lease: 2, Handle: 1, Tries: [2]int8{1, 1}, Comes: 1, Forces: 1, InFlight: 2}
	moveJava   = MoveScope{Lease: 3, Handle: 1, Tries: [2]int8{1, 0}, Renews: true, Comes: 1, Lost: 1, InFlight: 2}
	moveJavas  = MoveScope{Lease: 3, Handle: 1, Tries: [2]int8{1, 0}, Comes: 2, Threads: true, InFlight: 2}
	movePolls  = MoveScope{Lease: 3, Handle: 1, Tries: [2]int8{1, 0}, Poll: 1, Comes: 1, Lost: 1, InFlight: 2}
	moveSeen   = MoveScope{Lease: 2, Handle: 1, Tries: [2]int8{1, 0}, Comes: 1, InFlight: 2, Seen: true}
	moveLong   = MoveScope{Lease: 2, Handle: 3, Tries: [2]int8{1, 1}, Comes: 1, InFlight: 2}
	moveLate   = MoveScope{Lease: 2, Handle: 1, Tries: [2]int8{1, 1}, Late: 1, Comes: 1, InFlight: 2}
)

func TestMoveHolds(t *testing.T) {
	hold(t, []run{
		all(Move(movePlain, MoveRules{})),
		all(Move(moveRenews, MoveRules{})),
		all(Move(moveAgain, MoveRules{})),
		all(Move(moveForced, MoveRules{})),
		all(Move(moveJava, MoveRules{})),
		all(Move(moveJavas, MoveRules{})),
		all(Move(movePolls, MoveRules{})),
		all(Move(moveLong, MoveRules{})),
		all(Move(moveSeen, MoveRules{})),
		all(Move(moveLate, MoveRules{})),
		all(Move(moveLater, MoveRules{})),
	}, []run{
		all(Move(MoveScope{Lease: 2, Handle: 1, Tries: [2]int8{2, 1}, Comes: 1, InFlight: 2}, MoveRules{})),
		all(Move(MoveScope{Lease: 2, Handle: 1, Tries: [2]int8{1, 1}, Late: 1, Comes: 2, InFlight: 2}, MoveRules{})),
		all(Move(MoveScope{Lease: 2, Handle: 1, Tries: [2]int8{1, 1}, Late: 1, Comes: 1, InFlight: 3}, MoveRules{})),
		all(Move(MoveScope{Lease: 2, Handle: 1, Tries: [2]int8{1, 0}, Late: 1, Renews: true, Comes: 2, Forces: 1, InFlight: 3},
			MoveRules{})),
	})
}

func move(name, rule string, steps int, scope MoveScope, rules MoveRules) broken {
	return broken{name: name, run: one(Move(scope, rules), rule), rule: rule, steps: steps}
}

func TestBrokenMoveIsCaught(t *testing.T) {
	catch(t, []broken{
		move("trust ends after the move is sent", "exclusion", 4, movePlain, MoveRules{TrustLonger: true}),
		move("a move leaves the old field, which a renewal lengthens", "bounded", 5, moveRenews, MoveRules{KeepOld: true}),
		move("a move leaves the old field, which is swept", "never free between", 6, moveRenews, MoveRules{KeepOld: true}),
		move("a move leaves the handle's field", "exclusion", 12, movePlain, MoveRules{KeepOld: true}),
		move("a move does not ask who holds", "exclusion", 10, movePlain, MoveRules{AnyFrom: true}),
		move("a move does not ask who holds: the handle", "a handle is used once", 12, movePlain, MoveRules{AnyFrom: true}),
		move("a move does not ask which grant it moves", "none between", 11, moveRenews, MoveRules{AnyGrant: true}),
		move("a move does not ask which grant it moves: the handle", "a handle is used once", 17,
			MoveScope{Lease: 2, Handle: 1, Tries: [2]int8{1, 1}, Late: 1, InFlight: 3}, MoveRules{AnyGrant: true}),
		move("a taker takes the id of a holder for a handle", "exclusion", 4, moveSeen, MoveRules{AnyID: true}),
		move("a taker goes on with the giver's token", "tokens rise", 8, movePlain, MoveRules{KeepToken: true}),
		move("a repeated move sets the lease of the handle again", "bounded", 8, moveLong, MoveRules{RepeatRenews: true}),
		move("a taker counts from a repeated move that lengthens nothing", "exclusion", 13, movePlain, MoveRules{CountRepeat: true}),
		move("a taker counts from a repeated move that lengthens nothing: its lease", "belief is ownership", 11, movePlain,
			MoveRules{CountRepeat: true}),
		move("the giver's sweeper ends the handle", "never free between", 6, movePlain, MoveRules{SweepHandle: true}),
		move("a taker that gave up tries again under its id", "exclusion", 13, moveAgain, MoveRules{ReuseID: true}),
		move("a shorter lease is not announced", "no sleeper", 5, moveJava, MoveRules{Silent: true}),
		move("a shorter lease is announced to one thread", "no sleeper", 8, moveJavas, MoveRules{WakesOne: true}),
		move("a waiter sleeps for the lease, and misses the message", "no sleeper", 6, movePolls, MoveRules{SleepsByLease: true}),
		move("nothing follows a hand-over without an answer", "no orphan", 2, movePlain, MoveRules{ForgetOwn: true}),
		move("nothing follows an answered hand-over, though an acquire may come", "no orphan", 5, moveRenews,
			MoveRules{ForgetDoubt: true}),
	})
}

func TestMoveReaches(t *testing.T) {
	plain := Move(moveAgain, MoveRules{})
	reached(t, plain, "a taker that is trusted on its second try", func(s moveState) bool { return s.taker[0][1].bound > 0 })
	reached(t, plain, "a late move that used the handle for an attempt that is over", func(s moveState) bool {
		return s.holder == moveB1 && s.taker[0][0].phase == moveLimbo && s.taker[0][1].phase == moveAsks
	})
	reached(t, plain, "a handle whose time is over, and the lock another's", func(s moveState) bool {
		return s.known && s.took == 0 && s.bound > 0
	})
	reached(t, plain, "a handle that stands, though its giver had no answer", func(s moveState) bool {
		return s.holder == moveHandle && s.own.phase == moveOver && !s.known
	})
	reached(t, Move(moveForced, MoveRules{}), "a taker that is trusted beside another, for force", func(s moveState) bool {
		return s.taker[0][0].bound > 0 && s.bound > 0
	})
	reached(t, Move(moveRenews, MoveRules{}), "a late renewal of an id that has moved", func(s moveState) bool {
		return s.renew > 0 && s.taker[0][0].bound > 0
	})
}
