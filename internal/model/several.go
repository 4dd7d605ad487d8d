package model

import (
	"fmt"
	"strings"
)

// SeveralScope is which callers there are, and what may go wrong.
type SeveralScope struct {
	Callers [3]SeveralCall
	Losses  int8 // of a lock that a caller has
	Copies  int8 // gathers that run twice, late or without an answer
	GivesUp bool // a caller that waits may give up
}

// SeveralCall is what a caller asks for, nothing where it has no locks.
type SeveralCall struct {
	Locks   uint8
	Any     bool
	Gathers bool // it asks for them together before it waits
}

// SeveralRules switches rules off. The zero value is the protocol.
type SeveralRules struct {
	GivenOrder  bool // A takes its locks in another order than B
	GathersPart bool // a gather of all takes what is free
	SweepsNone  bool // a gather without an answer is not swept
	SweepsOnce  bool // it is swept once, though it may still run
	LossUnheard bool // a caller that waits for the next lock does not hear that one is lost
	StaysInLine bool // Any stays in the lines of the others
	KeepsSecond bool // it leaves their lines, and keeps what it was granted there
}

const severalLocks = 2

// severalCaller is one call of All or Any. Sets of locks are masks.
type severalCaller struct {
	phase  int8
	in     uint8 // locks that it has an entry for and waits to hear of
	has    uint8
	gather uint8 // those of them that it has by its gather
	lost   uint8 // those of them that Redis has freed, unheard
	told   uint8 // and those of which it went on though it has heard that
	leaves uint8 // locks of which it is to end its entries
	sweeps bool  // it is to end what its gather may have taken
	late   bool  // a copy of its gather may still run
	copied bool  // one was sent
}

const (
	severalIdle int8 = iota
	severalAsks      // its gather is out
	severalWaits
	severalHolds
	severalDone
)

// severalLock is a lock in Redis. Entries are 1 and the caller's number; that of a gather is 3 more.
type severalLock struct {
	owner int8
	line  [3]int8
}

type severalState struct {
	lock   [severalLocks]severalLock
	caller [3]severalCaller
	losses int8
	copies int8
}

type severalSystem struct {
	scope SeveralScope
	rules SeveralRules
}

// Several is the system of callers of several locks of one Redis: All, which takes them in one order, and Any, which waits for all of
// them and keeps the first; both may ask for what is free together before. What one lock's waiters, messages and sweeps may meet is
// Node's: here an entry is put in line, granted and ended in one step each.
func Several(scope SeveralScope, rules SeveralRules) System[severalState] {
	w := &severalSystem{scope, rules}
	return System[severalState]{
		Name:  "several locks",
		Init:  severalState{losses: scope.Losses, copies: scope.Copies},
		Steps: w.steps,
		Rules: []Rule[severalState]{
			{"exclusion", severalExclusion}, {"nothing left", w.nothingLeft}, {"no sleeper", severalSleeper},
			{"all or none", w.allOrNone},
		},
		Goal: severalState.ended,
		Show: severalState.String,
	}
}

// severalExclusion: of those that believe in a lock one at most has not lost it, and Redis keeps it for that one.
func severalExclusion(s severalState) string {
	for l := range s.lock {
		for c := range s.caller {
			v, bit := &s.caller[c], uint8(1)<<l
			if v.has&bit&^v.lost != 0 && s.lock[l].owner != v.entry(c, bit) {
				return fmt.Sprintf("%c believes in lock %d, which is not its own", 'A'+c, l)
			}
		}
	}
	return ""
}

// nothingLeft: what stands for a caller in Redis it has, waits for or is to end, but for what a copy of its gather took.
func (w *severalSystem) nothingLeft(s severalState) string {
	for l := range s.lock {
		k, bit := &s.lock[l], uint8(1)<<l
		for c := range s.caller {
			v := &s.caller[c]
			queued := false
			for _, e := range k.line {
				queued = queued || e == int8(c)+1
			}
			switch {
			case k.owner == int8(c)+1 && (v.in|v.has|v.leaves)&bit == 0:
				return fmt.Sprintf("lock %d stands for an entry of %c that nothing ends", l, 'A'+c)
			case queued && (v.in|v.leaves)&bit == 0:
				return fmt.Sprintf("%c stands in the line of lock %d, and does not wait there", 'A'+c, l)
			case k.owner == int8(c)+4 && (v.gather|v.leaves)&bit == 0 && !v.sweeps && !v.copied:
				return fmt.Sprintf("lock %d stands for the gather of %c, and nothing ends that", l, 'A'+c)
			}
		}
	}
	return ""
}

// severalSleeper: no caller waits beside a free lock.
func severalSleeper(s severalState) string {
	for l := range s.lock {
		if s.lock[l].owner == 0 && s.lock[l].line[0] != 0 {
			return fmt.Sprintf("lock %d is free, and %c waits", l, 'A'+s.lock[l].line[0]-1)
		}
	}
	return ""
}

// allOrNone: a caller that works has all its locks, or one of Any's, and has not heard that one is lost.
func (w *severalSystem) allOrNone(s severalState) string {
	for c := range s.caller {
		v, call := &s.caller[c], w.scope.Callers[c]
		if v.phase != severalHolds {
			continue
		}
		if one := v.has&(v.has-1) == 0 && v.has != 0; call.Any != one && (call.Any || v.has != call.Locks) {
			return fmt.Sprintf("%c works, and has %02b of %02b", 'A'+c, v.has, call.Locks)
		}
		if v.told != 0 {
			return fmt.Sprintf("%c works, though it has heard that %02b are lost", 'A'+c, v.told)
		}
	}
	return ""
}

// ended: all calls are over, and nothing stands in Redis.
func (s severalState) ended() bool {
	for c := range s.caller {
		if v := &s.caller[c]; v.phase != severalIdle && v.phase != severalDone || v.leaves != 0 || v.sweeps {
			return false
		}
	}
	return s.lock == [severalLocks]severalLock{}
}

// entry is what stands for a caller that has a lock.
func (v *severalCaller) entry(c int, bit uint8) int8 {
	if v.gather&bit != 0 {
		return int8(c) + 4
	}
	return int8(c) + 1
}

// free frees a lock, and grants it to the first in its line.
func (k *severalLock) free() {
	k.owner, k.line = k.line[0], [3]int8{k.line[1], k.line[2]}
}

// open reports whether a lock may be taken at once.
func (k *severalLock) open() bool { return k.owner == 0 && k.line[0] == 0 }

// ask puts an entry in line, or grants it the lock.
func (k *severalLock) ask(e int8) {
	if k.open() {
		k.owner = e
		return
	}
	for i := range k.line {
		if k.line[i] == 0 {
			k.line[i] = e
			return
		}
	}
}

// end ends an entry. kept says that it only leaves the line.
func (k *severalLock) end(e int8, kept bool) {
	if k.owner == e && !kept {
		k.free()
	}
	line := [3]int8{}
	n := 0
	for _, other := range k.line {
		if other != 0 && other != e {
			line[n] = other
			n++
		}
	}
	k.line = line
}

type severalGoes func(to severalState, fault bool, text string, args ...int)

func (w *severalSystem) steps(s severalState, emit func(Step[severalState])) {
	goes := func(to severalState, fault bool, text string, args ...int) {
		act := Action{Text: text}
		for i, a := range args {
			act.Args[i] = int8(a)
		}
		emit(Step[severalState]{Act: act, To: to, Fault: fault})
	}
	for c := range s.caller {
		if w.scope.Callers[c].Locks == 0 {
			continue
		}
		w.gathers(s, c, goes)
		w.waits(s, c, goes)
		w.ends(s, c, goes)
		w.loses(s, c, goes)
	}
}

// run runs a caller's gather, and returns what it took.
func (w *severalSystem) run(s *severalState, c int) (took uint8) {
	call := w.scope.Callers[c]
	for l := range s.lock {
		if bit := uint8(1) << l; call.Locks&bit != 0 && s.lock[l].open() && !(call.Any && took != 0) {
			took |= bit
		}
	}
	if !call.Any && took != call.Locks && !w.rules.GathersPart {
		return 0
	}
	for l := range s.lock {
		if took&(1<<l) != 0 {
			s.lock[l].owner = int8(c) + 4
		}
	}
	return took
}

// gathers is a call's beginning, its gather and the copies of that.
func (w *severalSystem) gathers(s severalState, c int, goes severalGoes) {
	v, call := s.caller[c], w.scope.Callers[c]
	next := s
	me := &next.caller[c]
	switch {
	case v.phase == severalIdle && call.Gathers:
		me.phase = severalAsks
		goes(next, true, "{c} calls", c)
	case v.phase == severalIdle:
		me.phase = severalWaits
		goes(next, true, "{c} calls", c)
	case v.phase == severalAsks:
		w.gathered(s, c, goes)
	}
	if !v.late {
		return
	}
	next = s
	next.caller[c].late = false
	goes(next, false, "a gather of {c} never comes", c)
	took := w.run(&next, c)
	goes(next, true, "a gather of {c} comes late, and takes {t}", c, int(took))
}

// gathered is what becomes of a gather that is out.
func (w *severalSystem) gathered(s severalState, c int, goes severalGoes) {
	call := w.scope.Callers[c]
	answered := s
	took := w.run(&answered, c)
	me := &answered.caller[c]
	if me.phase = severalWaits; took == call.Locks || call.Any && took != 0 {
		me.phase, me.has, me.gather = severalHolds, took, took
	}
	goes(answered, false, "{c} gathers {t}", c, int(took))
	if s.copies == 0 {
		return
	}
	me.late, me.copied = true, true
	answered.copies--
	goes(answered, true, "{c} gathers {t}, and its gather may run once more", c, int(took))

	unanswered := s
	unanswered.copies--
	me = &unanswered.caller[c]
	me.phase, me.sweeps = severalWaits, !w.rules.SweepsNone
	goes(unanswered, true, "{c}'s gather is lost", c)
	me.late = true
	goes(unanswered, true, "{c}'s gather is not heard of, and may come late", c)
	me.late = false
	took = w.run(&unanswered, c)
	goes(unanswered, true, "{c} gathers {t}, and does not hear of it", c, int(took))
}

// next is the lock for which a caller of All waits next, -1 for none.
func (w *severalSystem) next(v *severalCaller, c int) int {
	for i := range severalLocks {
		l := i
		if w.rules.GivenOrder && c == 0 {
			l = severalLocks - 1 - i
		}
		if bit := uint8(1) << l; w.scope.Callers[c].Locks&bit != 0 && v.has&bit == 0 {
			return l
		}
	}
	return -1
}

// waits is a caller that stands in line: of All for one lock after the other, of Any for all.
func (w *severalSystem) waits(s severalState, c int, goes severalGoes) {
	v, call := s.caller[c], w.scope.Callers[c]
	if v.phase != severalWaits || v.leaves != 0 { // in truth the next entries are others than those that end
		return
	}
	for l := range s.lock {
		bit := uint8(1) << l
		if call.Locks&bit == 0 || !call.Any && w.next(&v, c) != l {
			continue
		}
		next := s
		me := &next.caller[c]
		switch {
		case v.in&bit == 0:
			next.lock[l].ask(int8(c) + 1)
			me.in |= bit
			goes(next, false, "{c} asks for lock {t}", c, l)
		case s.lock[l].owner == int8(c)+1:
			me.in &^= bit
			me.has |= bit
			if call.Any {
				if !w.rules.StaysInLine {
					me.leaves = me.in
				}
				me.in = 0
			}
			if call.Any || me.has == call.Locks {
				me.phase = severalHolds
			}
			goes(next, false, "{c} hears that it has lock {t}", c, l)
		}
	}
	if w.scope.GivesUp {
		next := s
		next.caller[c].letsGo(severalDone)
		goes(next, true, "{c} gives up", c)
	}
}

// letsGo ends what a caller has and waits for.
func (v *severalCaller) letsGo(phase int8) {
	v.leaves |= v.in | v.has
	v.in, v.has, v.lost, v.told, v.phase = 0, 0, 0, 0, phase
}

// ends is a caller that unlocks, entries that end, and sweeps.
func (w *severalSystem) ends(s severalState, c int, goes severalGoes) {
	v := s.caller[c]
	if v.phase == severalHolds {
		next := s
		next.caller[c].letsGo(severalDone)
		goes(next, false, "{c} unlocks", c)
	}
	for l := range s.lock {
		bit, next := uint8(1)<<l, s
		me := &next.caller[c]
		switch {
		case v.leaves&bit != 0:
			me.leaves &^= bit
			kept := w.rules.KeepsSecond && v.phase == severalHolds
			next.lock[l].end(v.entry(c, bit), kept)
			me.gather &^= bit
			goes(next, false, "{c} has left lock {t}", c, l)
		case s.lock[l].owner == int8(c)+4 && v.gather&bit == 0 && !v.sweeps && v.copied:
			next.lock[l].free()
			goes(next, false, "the lease that a copy of {c}'s gather took of lock {t} ends", c, l)
		}
	}
	if !v.sweeps {
		return
	}
	next := s
	for l := range next.lock {
		next.lock[l].end(int8(c)+4, false)
	}
	next.caller[c].sweeps = v.late && !w.rules.SweepsOnce
	if next != s {
		goes(next, false, "{c}'s gather is swept", c)
	}
}

// loses is a lock that Redis loses while its caller has it, and how that is told.
func (w *severalSystem) loses(s severalState, c int, goes severalGoes) {
	v := s.caller[c]
	for l := range s.lock {
		if bit := uint8(1) << l; s.losses > 0 && v.has&bit&^v.lost != 0 {
			next := s
			next.losses--
			next.caller[c].lost |= bit
			next.lock[l].free()
			goes(next, true, "lock {t} of {c} is lost", l, c)
		}
	}
	if v.lost&^v.told == 0 {
		return
	}
	next := s
	me := &next.caller[c]
	switch {
	case v.phase == severalHolds:
		me.letsGo(severalDone)
		goes(next, false, "{c} hears of its loss, and unlocks", c)
	case w.rules.LossUnheard:
		me.told = v.lost
		goes(next, false, "{c} hears of its loss, and waits on", c)
	default:
		me.letsGo(severalWaits)
		goes(next, false, "{c} hears of its loss, and begins anew", c)
	}
}

func (s severalState) String() string {
	var b strings.Builder
	for l, k := range s.lock {
		fmt.Fprintf(&b, "lock %d %c", l, "-ABCabc"[k.owner])
		for _, e := range k.line {
			if e != 0 {
				fmt.Fprintf(&b, "<%c", "-ABCabc"[e])
			}
		}
		b.WriteString(" ")
	}
	for c := range s.caller {
		v := &s.caller[c]
		if v.phase == severalIdle {
			continue
		}
		fmt.Fprintf(&b, "| %c %s", 'A'+c, [...]string{"", "gathers", "waits", "WORKS", "is done"}[v.phase])
		for _, part := range []struct {
			what string
			set  uint8
		}{{"has", v.has}, {"lost", v.lost}, {"in", v.in}, {"leaves", v.leaves}} {
			if part.set != 0 {
				fmt.Fprintf(&b, " %s %02b", part.what, part.set)
			}
		}
		if v.sweeps {
			b.WriteString(" sweeps")
		}
		if v.late {
			b.WriteString(" late")
		}
		b.WriteString(" ")
	}
	return b.String()
}
