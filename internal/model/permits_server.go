package model

import (
	"math"
	"math/bits"
)

// What the server of the permits system does: its scripts, and Redisson's.

// next is the first in line behind a place, -1 for none.
func (w *permitSystem) next(s *permitState, behind int8) int {
	next := -1
	for i := range s.id {
		if p := s.id[i].place; p > behind && (next < 0 || p < s.id[next].place) {
			next = i
		}
	}
	return next
}

// join stands i in line.
func (w *permitSystem) join(s *permitState, i int) {
	if s.id[i].place > 0 {
		return
	}
	last := int8(0)
	for k := range s.id {
		last = max(last, s.id[k].place)
	}
	s.id[i].place = last + 1
}

// fits reports whether so many permits may be taken now: in Redisson's turn one is left to its waiters.
func (w *permitSystem) fits(s *permitState, need int8) bool {
	free := s.free
	if s.turn && !w.rules.NoTurn {
		free--
	}
	return !s.absent && free >= need
}

// drop takes members out of the set, and counts them where there is a counter. It returns how many they were.
func (w *permitSystem) drop(s *permitState, i int, members uint8) int8 {
	e := &s.id[i]
	n := int8(bits.OnesCount8(e.in & members))
	if e.in &^= members; e.in == 0 {
		e.left = 0
	}
	if !s.absent {
		s.free += n
	}
	return n
}

// take gives i its permits, and notes whom it passes.
func (w *permitSystem) take(s *permitState, i int) {
	e := &s.id[i]
	for k := range s.id {
		v := &s.id[k]
		if k != i && v.place > 0 && !w.dead(s, k) && (e.place == 0 || v.place < e.place) {
			s.broken = "past: one is served before another that stands before it"
		}
	}
	if w.dead(s, i) && e.ask == 0 && !e.late {
		s.broken = "grave: one is granted permits, and is dead"
	}
	s.free -= w.Need[i]
	if s.turn && s.free < 1 {
		s.broken = "turn: one takes the permit that is left to Java"
	}
	e.in, e.left, e.place, e.robbed = w.all(i), w.Lease, 0, false
}

// reap ends what is past by the server's clock: whole entries, and Redisson's permits. It returns how many.
func (w *permitSystem) reap(s *permitState) (n int8) {
	for i := range s.id {
		e := &s.id[i]
		switch {
		case e.in == 0 || e.left > 0:
		case w.rules.ReapLast:
			n += w.drop(s, i, 1<<(bits.Len8(e.in)-1))
		default:
			n += w.drop(s, i, e.in)
		}
	}
	if s.javaIn && s.javaLeft == 0 {
		w.dropJava(s)
		n++
	}
	return n
}

func (w *permitSystem) dropJava(s *permitState) {
	s.javaIn = false
	s.javaRobbed = s.java && s.javaBound > 0
	if !s.absent {
		s.free++
	}
}

// serve grants permits to the line, and returns whether me was. me is answered, others get a message.
func (w *permitSystem) serve(s *permitState, me int) (mine bool) {
	behind := int8(0)
	for {
		i := w.next(s, behind)
		switch {
		case i < 0:
			return mine
		case w.Sparing && i != me && !s.absent && w.Need[i] > s.free+s.held():
			s.id[i].place = 0 // its next question will tell it
			continue
		case !w.fits(s, w.Need[i]):
			if i != me && w.dead(s, i) && !w.rules.DeadKept {
				s.id[i].place = 0
				continue
			}
			if !w.rules.PassBig {
				return mine
			}
			behind = s.id[i].place
			continue
		case i != me && w.dead(s, i) && !w.rules.GrantDead:
			s.id[i].place = 0
			continue
		}
		w.take(s, i)
		s.id[i].push = i != me && !w.dead(s, i)
		mine = mine || i == me
		if w.rules.ServeOne {
			return mine
		}
	}
}

// publish tells all that wait that permits may be free.
func (w *permitSystem) publish(s *permitState) {
	w.rouse(s)
	s.javaWake = s.javaWaits
}

// rouse tells relock's waiters alone.
func (w *permitSystem) rouse(s *permitState) {
	for i := range s.id {
		if e := &s.id[i]; e.phase == asking && !w.dead(s, i) {
			e.wake = true
		}
	}
}

// tellRest publishes what the line did not take: in a sparing scope only where one of Redisson's waits.
func (w *permitSystem) tellRest(s *permitState) {
	if !w.Sparing || s.absent || s.javaWaits {
		w.tellFree(s)
	}
}

// tellFree publishes what is free, or that there is no counter, so that waiters ask and make it anew.
func (w *permitSystem) tellFree(s *permitState) {
	if s.absent || s.free > 0 {
		w.publish(s)
	}
	s.hushed = false
}

// acquire is the script.
func (w *permitSystem) acquire(s *permitState, i int) int8 {
	e := &s.id[i]
	if e.in&1 != 0 && !w.rules.TakeAgain {
		if !w.rules.CountRepeat {
			e.left = max(e.left, w.Lease)
		}
		e.place = 0
		return isMine
	}
	freed := int8(0)
	if !w.rules.RestStays && !w.rules.TakeAgain {
		freed = w.drop(s, i, e.in)
	}
	if s.absent {
		return isNoSize
	}
	if (w.next(s, 0) < 0 || w.rules.FastPast) && w.fits(s, w.Need[i]) {
		w.take(s, i)
		if freed > 0 {
			w.tellRest(s)
		}
		return isMine
	}
	freed += w.reap(s)
	if w.Need[i] > s.free+s.held() {
		e.place = 0
		if !w.rules.QuietTooMany {
			w.serve(s, -1)
		}
		if freed > 0 {
			w.tellRest(s)
		}
		return isTooMany
	}
	w.join(s, i)
	mine := w.serve(s, i)
	if freed > 0 && !w.rules.QuietReap {
		w.tellRest(s)
	}
	if mine {
		return isMine
	}
	w.judgeWait(s, i)
	w.wish(s, i)
	return isQueued
}

// judgeWait notes that i is told to wait, and its permits are free: none stands before it, or only the dead.
func (w *permitSystem) judgeWait(s *permitState, i int) {
	about := "asleep: one is told to wait beside permits that fit it"
	for k := w.next(s, 0); k != i; k = w.next(s, s.id[k].place) {
		if !w.dead(s, k) {
			return
		}
		about = "dead: one is told to wait for another that is gone"
	}
	if w.fits(s, w.Need[i]) {
		s.broken = about
	}
}

// wish tells the holders that permits are wanted, if i is first in line.
func (w *permitSystem) wish(s *permitState, i int) {
	if w.rules.NoWish || w.next(s, 0) != i {
		return
	}
	for k := range s.id {
		if s.id[k].in != 0 && !w.dead(s, k) && !(w.rules.OwnUnheard && w.Proc[k] == w.Proc[i]) {
			s.id[k].look = true
		}
	}
}

// resize is the script that makes an absent counter anew.
func (w *permitSystem) resize(s *permitState) {
	if !s.absent && !w.rules.NewAnyway {
		return
	}
	if s.absent {
		s.absent, s.size = false, w.N
		s.most = max(w.N, s.held())
	}
	s.free = w.N - s.held()
	if w.rules.NewWhole {
		s.free = w.N
	}
	if !w.rules.QuietNew {
		w.tellRest(s)
	}
}

// setSize is the script of SetPermits.
func (w *permitSystem) setSize(s *permitState, size int8) {
	s.absent, s.size, s.free = false, size, size-s.held()
	s.most = max(size, s.held())
	if w.rules.QuietSize {
		return
	}
	w.serve(s, -1)
	w.tellFree(s)
}

// release is the script.
func (w *permitSystem) release(s *permitState, i int) {
	e := &s.id[i]
	n := w.drop(s, i, e.in)
	switch {
	case n == 0:
		waited := e.place > 0
		e.place = 0
		if !s.absent && !(waited && w.rules.QuietLeaver) {
			w.serve(s, -1)
		}
		return
	case s.absent && w.rules.AddToNone:
		s.absent, s.free = false, n
	case s.absent && w.rules.QuietNone:
		s.hushed = false
		return
	case w.rules.ReleaseAll:
		s.free += w.Need[i] - n
	}
	s.turn = s.turn || s.javaWaits
	w.serve(s, -1)
	if !w.rules.QuietRelease {
		w.tellRest(s)
	}
}

// prolong is the renewal's script. It returns whether i was in.
func (w *permitSystem) prolong(s *permitState, i int) bool {
	e := &s.id[i]
	switch {
	case w.rules.Recreate:
		e.in = w.all(i)
	case w.rules.ReviveRest && e.in != 0:
	case e.in&1 == 0:
		if w.drop(s, i, e.in) > 0 && !w.rules.QuietRest {
			w.tellFree(s)
		}
		return false
	}
	e.left = max(e.left, w.Lease)
	return true
}

// redisson emits what Redisson's caller does: it comes, takes a permit where it may, waits for one, and gives it back.
func (w *permitSystem) redisson(s permitState, emit permitEmit) {
	if !s.java && (s.javaWaits || s.javaComes > 0) {
		w.javaReaps(s, func(next permitState) { w.javaTries(next, emit) })
	}
	if next := s; s.java {
		next.java, next.javaBound, next.javaRobbed = false, 0, false
		if s.javaIn {
			w.dropJava(&next)
			w.addsToNone(&next, 1)
			w.tellFree(&next)
		}
		emit("Java releases its permit", next, false)
	}
	if next := s; s.javaWake && s.faults > 0 {
		next.faults--
		next.javaWake, next.lost = false, true
		emit("word for Java that permits are free is lost", next, true)
	}
	if next := s; s.turn {
		next.turn = false
		w.rouse(&next)
		emit("Java's turn is over", next, false)
	}
}

// javaReaps goes on with what a JVM makes of the set by its own clock, before it takes a permit: one member less, that
// with the lowest score. Of those with one score the lowest in order goes, of an entry member 1.
func (w *permitSystem) javaReaps(s permitState, try func(permitState)) {
	least := int8(math.MaxInt8)
	for i := range s.id {
		if s.id[i].in != 0 {
			least = min(least, s.id[i].left)
		}
	}
	if s.javaIn {
		least = min(least, s.javaLeft)
	}
	if least > max(w.Ahead, 0) {
		try(s)
		return
	}
	for i := range s.id {
		e := &s.id[i]
		if e.in == 0 || e.left > least {
			continue
		}
		next := s
		next.id[i].robbed = e.left > 0 || e.robbed
		w.drop(&next, i, e.in&-e.in)
		w.addsToNone(&next, 1)
		w.tellFree(&next)
		try(next)
	}
	if s.javaIn && s.javaLeft == least {
		w.dropJava(&s)
		w.addsToNone(&s, 1)
		w.tellFree(&s)
		try(s)
	}
}

// addsToNone is Redisson's INCRBY of an absent counter, which makes it anew: what it adds up to from then on is the size.
func (w *permitSystem) addsToNone(s *permitState, n int8) {
	if !s.absent {
		return
	}
	s.absent, s.free = false, n
	s.size = n + s.held()
	s.most = max(s.size, s.most)
}

// javaTries emits Redisson's attempt to take a permit.
func (w *permitSystem) javaTries(s permitState, emit permitEmit) {
	comes := !s.javaWaits
	if comes {
		s.javaComes--
	}
	s.javaWake = false
	if s.absent || s.free < 1 {
		s.javaWaits = true
		emit("Java waits for a permit", s, comes)
		return
	}
	s.free--
	s.java, s.javaIn, s.javaWaits, s.javaRobbed = true, true, false, false
	s.javaLeft, s.javaBound = w.Lease+w.Ahead, w.Lease
	emit("Java takes a permit", s, comes)
}
