package model

import (
	"fmt"
	"strings"
)

// batched is how many locks a process holds in the batch system.
const batched = 4

// What may be wrong with a lock's own key.
const (
	sound     int8 = iota
	otherType      // it is no hash any more
	noRights       // this client may not touch it
)

// batchLock is a held lock: what Redis has, and what its holder knows. Times are ticks.
type batchLock struct {
	key    int8
	hurt   bool // something was wrong with the key at some time
	held   bool
	ttl    int8
	wrong  bool // the count in Redis is not the holder's
	dirty  bool // the holder knows that it may be wrong: renewals write it
	until  int8
	asked  bool // in this tick
	lost   bool
	missed bool // its last renewal was not answered
}

// batchState is one process's locks on one Redis, and the renewal under way: commands, each with locks by bit.
type batchState struct {
	lock   [batched]batchLock
	parts  [batched]uint8
	sent   int8 // commands of this renewal, with those to come
	full   bool // Redis is out of memory
	faults int8
	silent int8 // commands that may go unanswered
}

// BatchRules switches rules off. The zero value is the protocol.
type BatchRules struct {
	CountFirst bool // the count is written before the lease is lengthened, and an error ends the script
	FailBatch  bool // an error about one lock ends the script
	NeverSplit bool // a renewal that is refused as a whole is sent again as it was
	TakeCount  bool // a renewal that was not answered counts as one that wrote the counts
}

// BatchScope is how much is explored.
type BatchScope struct {
	Locks  int
	Lease  int8 // in ticks; renewals are due every second
	Faults int8 // keys of another type, rights withdrawn, Redis out of memory, counts that go unsure
	Silent int8 // renewals that are not answered; Lease must have room for them
	Parts  int8 // commands that a renewal may become, 0 for any number
}

type batchSystem struct {
	BatchScope
	rules BatchRules
}

// Batch is the system of several locks that are renewed by one command, while Redis answers.
func Batch(scope BatchScope, rules BatchRules) System[batchState] {
	w := &batchSystem{scope, rules}
	init := batchState{faults: scope.Faults, silent: scope.Silent}
	for i := range scope.Locks {
		init.lock[i] = batchLock{held: true, ttl: scope.Lease, until: scope.Lease}
	}
	return System[batchState]{
		Name:  fmt.Sprintf("renewals in a batch %+v", scope),
		Init:  init,
		Steps: w.steps,
		Rules: []Rule[batchState]{
			{"no lock falls with another", fallsAlone}, {"belief is ownership", batchOwnership},
			{"unsure is known", unsureIsKnown},
		},
		Show: batchState.String,
	}
}

// fallsAlone: a lock whose own key is sound is not lost while Redis answers.
func fallsAlone(s batchState) string {
	for i := range s.lock {
		if l := &s.lock[i]; l.lost && !l.hurt {
			return fmt.Sprintf("%s is lost, and nothing was wrong with its key", letter(i))
		}
	}
	return ""
}

// batchOwnership: who is believed to hold does, unless its key was taken away.
func batchOwnership(s batchState) string {
	for i := range s.lock {
		if l := &s.lock[i]; l.until > 0 && !l.lost && !l.held && !l.hurt {
			return letter(i) + " is believed in and is not held"
		}
	}
	return ""
}

func unsureIsKnown(s batchState) string {
	for i := range s.lock {
		if l := &s.lock[i]; l.held && !l.lost && l.wrong && !l.dirty {
			return letter(i) + "'s count is wrong, and its holder does not know"
		}
	}
	return ""
}

func (w *batchSystem) steps(s batchState, emit func(Step[batchState])) {
	goes := func(s batchState, fault bool, text string, args ...int) {
		act := Action{Text: text}
		for i, a := range args {
			act.Args[i] = int8(a)
		}
		emit(Step[batchState]{Act: act, To: s, Fault: fault})
	}
	w.harm(s, goes)
	if s.parts[0] != 0 {
		w.runs(s, goes)
		return
	}
	due := uint8(0)
	for i := range w.Locks {
		if l := &s.lock[i]; !l.lost && !l.asked && (l.missed || l.until <= w.Lease-2) {
			due |= 1 << i
		}
	}
	if next := s; due != 0 {
		next.parts[0], next.sent = due, 1
		goes(next, false, "a renewal is sent")
	} else {
		w.tick(&next)
		goes(next, false, "a tick passes")
	}
}

// runs emits what becomes of the next command: refused as a whole where one of its keys may not be touched, or run.
func (w *batchSystem) runs(s batchState, goes func(batchState, bool, string, ...int)) {
	next := s
	part := s.parts[0]
	copy(next.parts[:], s.parts[1:])
	next.parts[batched-1] = 0
	refused := false
	for i := range w.Locks {
		refused = refused || part&(1<<i) != 0 && s.lock[i].key == noRights
	}
	if refused {
		if w.split(&next, part) {
			goes(next, false, "the command is refused, and goes on in halves")
			return
		}
		w.unanswered(&next, part)
		goes(next, false, "the command is refused")
		return
	}
	failed := !w.script(&next, part)
	if s.silent > 0 {
		mute := next
		mute.silent--
		w.unanswered(&mute, part)
		goes(mute, true, "the command runs, its answer is lost")
	}
	if failed {
		w.unanswered(&next, part)
		goes(next, false, "the script ends with an error")
		return
	}
	for i := range w.Locks {
		if l := &next.lock[i]; part&(1<<i) != 0 {
			l.asked, l.missed = true, false
			if l.held && l.key == sound {
				l.until, l.dirty = w.Lease, false
			} else {
				l.lost = true
			}
		}
	}
	goes(next, false, "the command runs")
}

// split puts the halves of part behind the commands to come. It returns false where there is nothing to split.
func (w *batchSystem) split(s *batchState, part uint8) bool {
	var locks []int
	for i := range w.Locks {
		if part&(1<<i) != 0 {
			locks = append(locks, i)
		}
	}
	if w.rules.NeverSplit || len(locks) < 2 || w.Parts > 0 && s.sent+2 > w.Parts {
		return false
	}
	var halves [2]uint8
	for k, i := range locks {
		halves[2*k/len(locks)] |= 1 << i
	}
	at := 0
	for s.parts[at] != 0 {
		at++
	}
	s.parts[at], s.parts[at+1] = halves[0], halves[1]
	s.sent += 2
	return true
}

// unanswered is what the holder makes of a command without an answer, or with an error: nothing, and again soon.
func (w *batchSystem) unanswered(s *batchState, part uint8) {
	for i := range w.Locks {
		if l := &s.lock[i]; part&(1<<i) != 0 {
			l.asked, l.missed = true, true
			l.dirty = l.dirty && !w.rules.TakeCount
		}
	}
}

// script is renew.lua. It returns false where an error ended it. A Redis that is out of memory refuses a script's first
// write if that may take more; to lengthen a lease takes none.
func (w *batchSystem) script(s *batchState, part uint8) bool {
	wrote := false
	count := func(l *batchLock) bool {
		if !l.dirty {
			return true
		}
		if s.full && !wrote {
			return false
		}
		l.wrong, wrote = false, true
		return true
	}
	for i := range w.Locks {
		l := &s.lock[i]
		switch {
		case part&(1<<i) == 0:
		case l.key == otherType:
			if w.rules.FailBatch {
				return false
			}
		case !l.held:
		default:
			if w.rules.CountFirst && !count(l) {
				return false
			}
			l.ttl, wrote = max(l.ttl, w.Lease), true
			count(l)
		}
	}
	return true
}

func (w *batchSystem) tick(s *batchState) {
	for i := range w.Locks {
		l := &s.lock[i]
		l.asked = false
		if l.held {
			if l.ttl--; l.ttl == 0 {
				l.held, l.wrong = false, false
			}
		}
		if !l.lost {
			if l.until--; l.until == 0 {
				l.lost = true
			}
		}
		if l.lost {
			*l = batchLock{key: l.key, hurt: l.hurt, lost: true}
		}
	}
}

// harm emits what may happen to keys, counts and memory.
func (w *batchSystem) harm(s batchState, goes func(batchState, bool, string, ...int)) {
	if s.full {
		next := s
		next.full = false
		goes(next, true, "Redis has memory again")
	}
	if s.faults == 0 {
		return
	}
	s.faults--
	if next := s; !s.full {
		next.full = true
		goes(next, true, "Redis is out of memory")
	}
	for i := range w.Locks {
		l := s.lock[i]
		if l.lost || l.key != sound {
			continue
		}
		next := s
		me := &next.lock[i]
		me.key, me.hurt, me.held, me.ttl, me.wrong = otherType, true, false, 0, false
		goes(next, true, "{c}'s key becomes one of another type", i)
		next = s
		next.lock[i].key, next.lock[i].hurt = noRights, true
		goes(next, true, "the rights to {c}'s key are withdrawn", i)
		if next = s; !l.dirty {
			next.lock[i].dirty, next.lock[i].wrong = true, true
			goes(next, true, "a lower count of {c} is not answered, and has not run", i)
		}
	}
}

func (s batchState) String() string {
	var b strings.Builder
	for i := range s.lock {
		l := &s.lock[i]
		if *l == (batchLock{}) {
			continue
		}
		fmt.Fprintf(&b, "%s%s ", letter(i), [...]string{"", " no hash", " no rights"}[l.key])
		switch {
		case l.lost:
			b.WriteString("LOST")
		case l.held:
			fmt.Fprintf(&b, "%d of %d", l.until, l.ttl)
		default:
			fmt.Fprintf(&b, "%d of none", l.until)
		}
		if l.dirty {
			b.WriteString("?")
		}
		b.WriteString(", ")
	}
	if s.full {
		b.WriteString("full, ")
	}
	return strings.TrimSuffix(b.String(), ", ")
}
