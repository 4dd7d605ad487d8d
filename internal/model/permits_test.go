package model

import "testing"

// The scopes of the permits system.
var (
	permitsPlain = PermitsScope{
		N: 2, Need: [4]int8{1, 2, 1}, Proc: [4]int8{0, 1, 2}, Calls: [4]int8{1, 1, 1}, Lease: 2,
	}
	permitsFour = PermitsScope{
		N: 3, Need: [4]int8{1, 2, 1, 2}, Proc: [4]int8{0, 1, 2, 3}, Calls: [4]int8{1, 1, 1, 1}, Lease: 2,
	}
	permitsJava = PermitsScope{
		N: 2, Need: [4]int8{2, 1}, Proc: [4]int8{0, 1}, Calls: [4]int8{1, 1}, Lease: 2, Comes: 1,
	}
	permitsJavaPlain = PermitsScope{
		N: 2, Need: [4]int8{1, 2, 1}, Proc: [4]int8{0, 1, 2}, Calls: [4]int8{1, 1, 1}, Lease: 2, Comes: 1,
	}
	permitsJavaThree = PermitsScope{
		N: 3, Need: [4]int8{2, 1}, Proc: [4]int8{0, 1}, Calls: [4]int8{1, 1}, Lease: 2, Comes: 1,
	}
	permitsRenews = PermitsScope{
		N: 2, Need: [4]int8{2, 1}, Proc: [4]int8{0, 1}, Calls: [4]int8{1, 1}, Lease: 2, Renews: true, Comes: 1,
	}
	permitsPasses = PermitsScope{
		N: 2, Need: [4]int8{1, 1, 2}, Proc: [4]int8{0, 0, 1}, Calls: [4]int8{3, 0, 1}, Lease: 2, Passes: 1,
	}
	permitsPassesRenews = PermitsScope{
		N: 2, Need: [4]int8{1, 1, 2}, Proc: [4]int8{0, 0, 1}, Calls: [4]int8{3, 0, 1}, Lease: 2, Passes: 1, Renews: true,
	}
	permitsLingers = PermitsScope{
		N: 2, Need: [4]int8{1, 1, 2}, Proc: [4]int8{0, 0, 1}, Calls: [4]int8{2, 0, 1}, Lease: 3, Linger: 2,
	}
	permitsLingersAll = PermitsScope{
		N: 2, Need: [4]int8{2, 2, 1}, Proc: [4]int8{0, 1, 2}, Calls: [4]int8{1, 1, 1}, Lease: 3, Linger: 3,
	}
	permitsLingersOwn = PermitsScope{
		N: 2, Need: [4]int8{1, 1, 2}, Proc: [4]int8{0, 0, 0}, Calls: [4]int8{2, 0, 1}, Lease: 3, Linger: 2,
	}
)

// failing is the scope with so many faults.
func (s PermitsScope) failing(faults int8) PermitsScope {
	s.Faults = faults
	return s
}

// crashing is the scope with one crash.
func (s PermitsScope) crashing() PermitsScope {
	s.Crashes = 1
	return s
}

// ahead is the scope with a JVM whose clock is so many ticks ahead of the server's.
func (s PermitsScope) ahead(ticks int8) PermitsScope {
	s.Ahead = ticks
	return s
}

// deleting is the scope where the counter is deleted once.
func (s PermitsScope) deleting() PermitsScope {
	s.Deletes = 1
	return s
}

// resizing is the scope where the size is set, to one of sizes after the other.
func (s PermitsScope) resizing(sizes ...int8) PermitsScope {
	copy(s.Sizes[:], sizes)
	return s
}

// sparing is the scope where relock's waiters are not told of what the line does not take.
func (s PermitsScope) sparing() PermitsScope {
	s.Sparing = true
	return s
}

func TestPermitsHold(t *testing.T) {
	hold(t, []run{
		all(Permits(permitsPlain.crashing(), PermitsRules{})),
		all(Permits(permitsPlain.resizing(1, 3), PermitsRules{})),
		all(Permits(permitsJava.failing(1), PermitsRules{})),
		all(Permits(permitsJava.resizing(1, 2), PermitsRules{})),
		all(Permits(permitsJavaThree.failing(1), PermitsRules{})),
		all(Permits(permitsJava.resizing(1, 2).sparing(), PermitsRules{})),
		all(Permits(permitsRenews.ahead(1), PermitsRules{})),
		all(Permits(permitsPasses, PermitsRules{})),
		all(Permits(permitsLingers, PermitsRules{})),
		all(Permits(permitsLingersOwn, PermitsRules{})),
		all(Permits(permitsPlain.failing(1).crashing(), PermitsRules{})),
		all(Permits(permitsPlain.failing(1).resizing(1), PermitsRules{})),
		all(Permits(permitsPlain.failing(1).resizing(1).sparing(), PermitsRules{})),
		all(Permits(permitsPlain.deleting().resizing(1), PermitsRules{})),
		all(Permits(permitsFour.crashing(), PermitsRules{})),
		all(Permits(permitsJava.failing(2), PermitsRules{})),
		all(Permits(permitsJava.failing(1).deleting(), PermitsRules{})),
		all(Permits(permitsJava.failing(1).resizing(1, 2), PermitsRules{})),
		all(Permits(permitsJava.failing(1).resizing(1, 2).sparing(), PermitsRules{})),
		all(Permits(permitsJavaPlain.sparing(), PermitsRules{})),
		all(Permits(permitsRenews.failing(1).ahead(1), PermitsRules{})),
		all(Permits(permitsRenews.failing(1).ahead(-1), PermitsRules{})),
		all(Permits(permitsPasses.crashing(), PermitsRules{})),
		all(Permits(permitsPassesRenews, PermitsRules{})),
		all(Permits(permitsLingers.crashing(), PermitsRules{})),
		all(Permits(permitsLingersAll, PermitsRules{})),
		all(Permits(permitsLingers.failing(1), PermitsRules{})),
		all(Permits(permitsPasses.failing(1), PermitsRules{})),
		all(Permits(permitsPlain.failing(1).deleting(), PermitsRules{})),
	}, []run{
		all(Permits(permitsPlain.failing(1).deleting().resizing(1), PermitsRules{})),
		all(Permits(permitsJavaPlain.failing(1), PermitsRules{})),
		all(Permits(permitsJavaPlain.deleting(), PermitsRules{})),
		all(Permits(permitsJava.failing(2).deleting(), PermitsRules{})),
		all(Permits(permitsLingersAll.failing(1), PermitsRules{})),
	})
}

func permits(name, rule string, steps int, scope PermitsScope, rules PermitsRules) broken {
	return broken{name: name, run: one(Permits(scope, rules), rule), rule: rule, steps: steps}
}

func TestBrokenPermitsAreCaught(t *testing.T) {
	catch(t, []broken{
		permits("an acquire that comes twice takes twice", "the account", 3, permitsPlain.failing(1),
			PermitsRules{TakeAgain: true}),
		permits("an acquire does not look at what is left of its entry", "the account", 8, permitsJavaThree.failing(1),
			PermitsRules{RestStays: true}),
		permits("a repeated acquire lengthens nothing, and is counted from", "belief is ownership", 6, permitsJava.failing(1),
			PermitsRules{CountRepeat: true}),
		permits("an acquire that finds permits passes the line", "nobody is passed in line", 6, permitsPlain,
			PermitsRules{FastPast: true}),
		permits("a small one is served past a big head", "nobody is passed in line", 6, permitsPlain,
			PermitsRules{PassBig: true}),
		permits("a command serves one, and tells Redisson's alone", "no sleeper", 11, permitsPlain.sparing(),
			PermitsRules{ServeOne: true}),
		permits("a command serves one", "nobody waits for nothing", 29, permitsPasses, PermitsRules{ServeOne: true}),
		permits("a dead heavy head stays", "the dead keep nobody out", 7, permitsPlain.crashing(),
			PermitsRules{DeadKept: true}),
		permits("permits are granted to the dead", "no grant to the dead", 8, permitsPlain.crashing(),
			PermitsRules{GrantDead: true}),
		permits("reaping takes parts, the last member first", "belief is ownership", 9, permitsPlain.failing(1),
			PermitsRules{ReapLast: true}),
		permits("reaping takes parts, the last member first: the set", "member 1 stands for all", 6, permitsPlain.failing(1),
			PermitsRules{ReapLast: true}),
		permits("what is reaped is published to nobody", "no sleeper", 8, permitsJava.failing(1),
			PermitsRules{QuietReap: true}),
		permits("a release counts all its permits, whatever was there", "the account", 8, permitsJava,
			PermitsRules{ReleaseAll: true}),
		permits("a release counts against no counter", "the account", 6, permitsPlain.deleting(),
			PermitsRules{AddToNone: true}),
		permits("a release that finds no counter tells nobody", "no sleeper", 9, permitsPlain.deleting(),
			PermitsRules{QuietNone: true}),
		permits("one that leaves the line serves nobody", "no sleeper", 11, permitsPlain.failing(1),
			PermitsRules{QuietLeaver: true}),
		permits("one that asks for too many serves nobody", "no sleeper", 14, permitsPlain.failing(1).resizing(1),
			PermitsRules{QuietTooMany: true}),
		permits("one that asks for too many releases nothing", "no orphan", 6, permitsJava.failing(1).resizing(1, 2),
			PermitsRules{TooManyOver: true}),
		permits("what nobody in line takes is not published", "no sleeper", 7, permitsJava,
			PermitsRules{QuietRelease: true}),
		permits("a renewal writes what is gone", "the account", 8, permitsRenews, PermitsRules{Recreate: true}),
		permits("a renewal lengthens what is left", "belief is ownership", 7, permitsRenews.ahead(1),
			PermitsRules{ReviveRest: true}),
		permits("a refused renewal is taken for a lost one", "belief is ownership", 7, permitsRenews.ahead(1),
			PermitsRules{BelieveOn: true}),
		permits("a renewal frees the rest in silence", "no sleeper", 10, permitsRenews.failing(1).ahead(1),
			PermitsRules{QuietRest: true}),
		permits("the counter is made anew without what is held", "the account", 7, permitsPlain.deleting(),
			PermitsRules{NewWhole: true}),
		permits("the counter is made anew without what is held: the limit", "limit", 10, permitsPlain.deleting(),
			PermitsRules{NewWhole: true}),
		permits("the counter is made anew where it is", "the account", 6, permitsPlain.deleting().resizing(1),
			PermitsRules{NewAnyway: true}),
		permits("one that makes the counter anew tells nobody", "no sleeper", 8, permitsJava.deleting(),
			PermitsRules{QuietNew: true}),
		permits("one that sets the size tells nobody", "no sleeper", 7, permitsPlain.resizing(3),
			PermitsRules{QuietSize: true}),
		permits("a late acquire is not swept", "no orphan", 5, permitsPlain.failing(1), PermitsRules{NoSweep: true}),
		permits("a lease counts from the answer", "belief is ownership", 4, permitsPlain.failing(1),
			PermitsRules{DateByReply: true}),
		permits("a lease counts from the answer: the limit", "limit", 8, permitsPlain.failing(1),
			PermitsRules{DateByReply: true}),
		permits("a grant by a repeated question is kept idle", "wanted is minded", 16, permitsLingersAll,
			PermitsRules{AnyAnswer: true}),
		permits("a grant by message is kept idle", "wanted is minded", 13, permitsLingersAll,
			PermitsRules{Handed: true}),
		permits("wishes are told to nobody", "wanted is minded", 7, permitsLingers, PermitsRules{NoWish: true}),
		permits("wishes are not told to the asker's process", "wanted is minded", 7, permitsLingersOwn,
			PermitsRules{OwnUnheard: true}),
		permits("a wish before the grant is dropped", "wanted is minded", 8, permitsLingers,
			PermitsRules{WantedAwaits: true}),
		permits("wishes are ignored", "wanted is minded", 8, permitsLingers, PermitsRules{WantedIgnored: true}),
		permits("a hold is passed on when its time is over", "belief is ownership", 6, permitsPasses,
			PermitsRules{PassLate: true}),
		permits("a hold is passed on when its time is over: the limit", "limit", 9, permitsPasses,
			PermitsRules{PassLate: true}),
		permits("a hold is passed on without end", "bounded overtaking", 7, permitsPasses,
			PermitsRules{PassUnbounded: true}),
		permits("relock leaves Redisson nothing", "one is left to Java", 9, permitsJava, PermitsRules{NoTurn: true}),
	})
}

func TestPermitsReach(t *testing.T) {
	reach := func(what string, scope PermitsScope, like func(permitState) bool) {
		t.Helper()
		reached(t, Permits(scope, PermitsRules{}), what, like)
	}
	small := func(like func(*permitEntry) bool) func(*permitState) bool { // A and C are as good as one another
		return func(s *permitState) bool { return like(&s.id[0]) || like(&s.id[2]) }
	}
	waits := small(func(e *permitEntry) bool { return e.place > 0 })
	reach("a small waiter behind a big one, beside a free permit", permitsPlain, func(s permitState) bool {
		return s.free == 1 && s.id[1].place == 1 && waits(&s)
	})
	reach("a late question of one whose release was answered", permitsPlain.failing(1), func(s permitState) bool {
		return s.id[1].phase == ends && s.id[1].quit && s.id[1].late
	})
	reach("a counter that was made anew while permits were held", permitsPlain.deleting(), func(s permitState) bool {
		return s.deletes == 0 && !s.absent && s.id[0].phase == working && s.id[2].phase == working
	})
	reach("a counter below 0 beside one who waits", permitsPlain.resizing(1), func(s permitState) bool {
		return s.free < 0 && waits(&s)
	})
	reach("an entry of which a JVM has reaped member 1", permitsJava.failing(1), func(s permitState) bool {
		return s.id[0].in == 2 && s.id[0].left == 0 && s.java
	})
	reach("one that relies on a permit which a JVM took, whose clock is ahead", permitsJava.ahead(1),
		func(s permitState) bool { return s.id[0].bound > 0 && s.id[0].robbed && s.javaBound > 0 })
	reach("a permit of a JVM whose clock is behind, given away before its time", permitsJava.ahead(-1),
		func(s permitState) bool { return s.javaRobbed && s.javaBound > 0 && s.id[0].bound > 0 })
	reach("a turn of Redisson's in which relock takes what is beyond one permit", permitsJavaPlain, func(s permitState) bool {
		return s.turn && s.free == 1 && small(func(e *permitEntry) bool { return e.push })(&s)
	})
	reach("a hold that was passed on beside the gate's own wait in Redis", permitsPasses, func(s permitState) bool {
		return s.id[0].passed == 1 && s.id[1].place > 0
	})
	reach("an idle hold", permitsLingers, func(s permitState) bool { return s.id[0].phase == lingers })
}
