package model

import (
	"fmt"
	"strings"
)

// Goroutines and holds of one process in the local system.
const (
	routines = 4
	holds    = 3
)

// Where a goroutine is in its one Lock and Unlock.
const (
	unborn    int8 = iota
	outside        // in Lock: looks for an enclosing lease
	wantsOps       // found one: waits for its hold's ops
	entering       // has ops, the re-entry's count is on its way
	inLine         // waits behind the gate
	atGate         // contends in Redis for all who wait behind it
	trying         // in TryLock, asks Redis once
	starting       // its lease is among the hold's, Lock has not returned
	inside         // Lock returned the lease
	dropping       // in Unlock: waits for ops
	leaving        // has ops, the lower count is on its way
	finishing      // was the last one: passes the hold on, or ends it
	letting        // the hold is ended, its release is on its way
	granted        // that release was answered with a grant for those behind the gate
	gone           // Lock failed, or Unlock returned
)

type localRoutine struct {
	at    int8
	hold  int8 // 1 + hold that it is concerned with, 0 for none
	under int8 // 1 + goroutine whose lease it re-enters with
	owner int8 // 1 + goroutine of the outermost lease that its own was taken under, itself for an outermost one
	token int8
	baton int8 // handed to it in line: 0 none yet, 1 the gate alone, 2 + hold
	call  int8 // to come and see, in line
	past  int8 // how often it was overtaken since
	had   bool // Lock returned a lease
	over  bool // its lease was unlocked
	keeps bool // it is at the gate although it only tries
}

// The states of a hold.
const (
	noHold int8 = iota
	liveHold
	endedHold
	lostHold
)

type localHold struct {
	state   int8
	ops     int8  // 1 + goroutine that has it
	leases  uint8 // goroutines by bit
	told    uint8 // goroutines whose lease Close ended
	token   int8  // next of the block
	left    int8  // tokens left of it
	atGate  bool
	next    bool // its release takes a place for those behind the gate
	watched bool // it is in the watchdog's heap
	closing bool // and Close has taken it from there
	owed    bool // the sweeper is to release it
	refill  int8 // how far the question for the next block has come
	more    int8 // first token of that
}

// localState is one client: its goroutines that lock one name, the gate, the holds, and what Redis knows.
type localState struct {
	routine [routines]localRoutine
	hold    [holds]localHold
	line    [routines]int8 // 1 + goroutine, first come first
	taken   bool           // somebody is at the gate, or it is offered
	offered int8           // 2 + hold that is
	redis   int8           // 1 + hold that owns the lock
	counter int8
	issued  int8 // highest token of an outermost lease
	repeat  bool // one was not above all before
	close   int8 // how far Close has come
	faults  int8
}

// How far Close has come.
const (
	open       int8 = iota
	barred          // closed is set, the gates turn waiters away
	collected       // the holds that the watchdog had are being lost
	sweptClose      // the arbiter is closed: nothing is sent any more
)

// LocalRules switches rules off. The zero value is the protocol.
type LocalRules struct {
	AnyLease      bool // re-entry asks only whether the hold has leases, not whether the enclosing one is over
	AnyLeaseTry   bool // the same where TryLock re-enters
	HideOuter     bool // a lease that is over hides a live one around it
	ForgetPassed  bool // Close forgets a hold that is on its way between two goroutines
	ForgetRefused bool // who is handed a hold after Close forgets it
	WaitForNone   bool // Close does not wait for the calls that are under way
	NoLeave       bool // a lost hold does not open the gate
	NoCall        bool // an offer calls nobody
	StrandOffer   bool // who gives up leaves what is offered to it where it is
	KeepOffer     bool // a hold that is lost stays offered
	Unbounded     bool // one is overtaken any number of times
	RefillAnyone  bool // a block that comes is given to whatever hold is live
	RefillAgain   bool // a block is gone on with twice
}

// LocalScope is how much is explored.
type LocalScope struct {
	Parents [routines]int8 // 1 + goroutine under whose lease's context each locks, 0 for none; -1 for no such goroutine
	Try     uint8          // goroutines that call TryLock, by bit
	Block   int8
	Offers  bool // holds may be offered; else they are passed
	Refill  bool // the next block is asked for before one is used up
	Close   bool
	Faults  int8 // lost holds, unanswered commands, callers that give up
}

type localSystem struct {
	LocalScope
	rules LocalRules
}

// Local is the system of one process: a hold that passes from goroutine to goroutine at the gate, re-entries under
// contexts that outlive their lease, and Close. Its goal is that all calls return and Redis is left without the lock.
// Close is taken to wait as long as calls take; that in the code it does not, where Redis hangs, costs a lease.
func Local(scope LocalScope, rules LocalRules) System[localState] {
	w := &localSystem{scope, rules}
	return System[localState]{
		Name:  fmt.Sprintf("hand-over in a process %+v", scope),
		Init:  localState{faults: scope.Faults},
		Steps: w.steps,
		Rules: []Rule[localState]{
			{"one owner", oneOwner}, {"tokens differ", tokensDiffer}, {"tokens rise", localTokensRise},
			{"belief is ownership", localOwnership}, {"no wait for oneself", w.noSelfWait},
			{"no sleep beside an offer", noSleepBesideOffer}, {"bounded overtaking", boundedOvertaking},
		},
		Goal: localQuiet,
		Show: localState.String,
	}
}

// holders visits the goroutines with a lease that counts.
func (s *localState) holders(visit func(g int, h *localHold)) {
	for i := range s.hold {
		for g := range routines {
			if h := &s.hold[i]; h.state == liveHold && h.leases&(1<<g) != 0 {
				visit(g, h)
			}
		}
	}
}

func oneOwner(s localState) (broken string) {
	first := -1
	s.holders(func(g int, _ *localHold) {
		if first >= 0 && s.routine[g].owner != s.routine[first].owner {
			broken = fmt.Sprintf("%s and %s hold the lock, under different owners", letter(first), letter(g))
		}
		first = g
	})
	return broken
}

func tokensDiffer(s localState) (broken string) {
	for g := range routines {
		for other := range g {
			a, b := &s.routine[g], &s.routine[other]
			if a.token > 0 && b.token > 0 && (a.token == b.token) != (a.owner == b.owner) {
				broken = fmt.Sprintf("%s has token %d, %s has %d", letter(other), b.token, letter(g), a.token)
			}
		}
	}
	return broken
}

func localTokensRise(s localState) string {
	if s.repeat {
		return "an outermost lease has a token that is not above all before"
	}
	return ""
}

func localOwnership(s localState) (broken string) {
	s.holders(func(g int, h *localHold) {
		if s.redis == 0 || h != &s.hold[s.redis-1] {
			broken = letter(g) + " believes what Redis does not grant"
		}
	})
	return broken
}

// noSelfWait: under a live lease of the lock nobody waits for the lock.
func (w *localSystem) noSelfWait(s localState) string {
	for g := range routines {
		if at := s.routine[g].at; at != inLine && at != atGate {
			continue
		}
		for p := w.Parents[g]; p > 0; p = w.Parents[p-1] {
			if over, lost := s.lease(p - 1); !over && !lost {
				return fmt.Sprintf("%s waits for the lock under a lease of %s that counts", letter(g), letter(int(p-1)))
			}
		}
	}
	return ""
}

// localQuiet: all calls have returned, and the lock is free unless Close found a caller with it.
func localQuiet(s localState) bool {
	for g := range s.routine {
		if at := s.routine[g].at; at != unborn && at != gone {
			return false
		}
	}
	if s.taken || s.offered != 0 || s.close != open && s.close != sweptClose {
		return false
	}
	return s.redis == 0 || s.toldOne(&s.hold[s.redis-1])
}

// toldOne reports whether Close ended a lease of h that a caller had.
func (s *localState) toldOne(h *localHold) bool {
	for g := range routines {
		if h.told&(1<<g) != 0 && s.routine[g].had {
			return true
		}
	}
	return false
}

func (s localState) String() string {
	var b strings.Builder
	if s.redis > 0 {
		fmt.Fprintf(&b, "Redis h%d", s.redis)
	} else {
		b.WriteString("Redis free")
	}
	for i := range s.hold {
		if h := &s.hold[i]; h.state != noHold {
			fmt.Fprintf(&b, " | h%d %s", i+1, [...]string{"", "live", "ended", "lost"}[h.state])
			for g := range routines {
				if h.leases&(1<<g) != 0 {
					b.WriteString(" " + letter(g))
				}
			}
			if h.ops > 0 {
				fmt.Fprintf(&b, ", ops %s", letter(int(h.ops-1)))
			}
		}
	}
	for i, g := range s.line {
		if g > 0 && i == 0 {
			b.WriteString(" | line")
		}
		if g > 0 {
			b.WriteString(" " + letter(int(g-1)))
		}
	}
	if s.offered != 0 {
		fmt.Fprintf(&b, " | h%d offered", s.offered-1)
	}
	if s.close != open {
		b.WriteString(" | closed")
	}
	return b.String()
}
