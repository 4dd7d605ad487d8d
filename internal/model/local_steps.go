package model

// What the goroutines of one process do: Lock, TryLock, Unlock, Close, and the watchdog that loses a hold.

func (w *localSystem) steps(s localState, emitRaw func(Step[localState])) {
	emit := func(text string, s localState, fault bool, args ...int) {
		act := Action{Text: text}
		for i, a := range args {
			act.Args[i] = int8(a)
		}
		if fault && act.Text[0] != '!' {
			s.faults--
		}
		if act.Text[0] == '!' {
			act.Text = act.Text[1:] // costs nothing: new work
		}
		s.collect()
		emitRaw(Step[localState]{Act: act, To: s, Fault: fault})
	}
	for g := range routines {
		if w.Parents[g] >= 0 {
			w.lock(s, g, emit)
			w.gated(s, g, emit)
			w.unlock(s, g, emit)
		}
	}
	for h := range s.hold {
		w.redis(s, h, emit)
	}
	w.closes(s, emit)
}

type localEmit func(text string, s localState, fault bool, args ...int)

// collect frees what nobody refers to any more.
func (s *localState) collect() {
	for i := range s.hold {
		h := &s.hold[i]
		used := int(s.redis) == i+1 || h.refill == asked || h.refill == reserved || h.owed || h.closing || int(s.offered) == i+2
		for g := range s.routine {
			r := &s.routine[g]
			used = used || int(r.hold) == i+1 || int(r.baton) == i+2
		}
		if !used {
			*h = localHold{}
		}
	}
}

// lease says of g's lease whether it was unlocked or never was, and whether it was lost.
func (s *localState) lease(g int8) (over, lost bool) {
	r := &s.routine[g]
	if !r.had || r.over {
		return true, false
	}
	return false, r.at == gone || s.hold[r.hold-1].state == lostHold
}

// enclosing returns 1 + the goroutine whose lease g's context carries and that is not over, 0 for none.
func (w *localSystem) enclosing(s *localState, g int) int8 {
	for p := w.Parents[g]; p > 0; p = w.Parents[p-1] {
		if over, _ := s.lease(p - 1); !over {
			return p
		}
		if w.rules.HideOuter {
			break
		}
	}
	return 0
}

func (w *localSystem) tries(g int) bool { return w.Try&(1<<g) != 0 }

// lock emits what happens up to the gate, and re-entry.
func (w *localSystem) lock(s localState, g int, emit localEmit) {
	r := s.routine[g]
	next := s
	me := &next.routine[g]
	switch r.at {
	case unborn:
		if p := w.Parents[g]; s.close == open && (p == 0 || s.routine[p-1].had) {
			me.at = outside
			emit("!{c} calls Lock", next, true, g)
		}
	case outside:
		w.looks(s, g, emit)
	case wantsOps:
		h := &next.hold[r.hold-1]
		if h.ops != 0 {
			return
		}
		over, _ := s.lease(r.under - 1)
		anyLease := w.rules.AnyLease || w.rules.AnyLeaseTry && w.tries(g)
		switch {
		case over && !anyLease || h.state == endedHold || h.state == liveHold && h.leases == 0:
			*me = localRoutine{at: outside}
			emit("{c} has ops: the enclosing lease is over", next, false, g)
		case h.state != liveHold:
			next.done(g)
			emit("{c} cannot re-enter: the lock was lost", next, false, g)
		default:
			h.ops, me.at = int8(g)+1, entering
			emit("{c} has ops and sends its re-entry", next, false, g)
		}
	case entering:
		h := &next.hold[r.hold-1]
		h.ops = 0
		if s.faults > 0 {
			again := next
			if again.routine[g].at = wantsOps; w.tries(g) {
				again.done(g)
			}
			emit("{c}'s re-entry is not answered", again, true, g)
		}
		if over, _ := s.lease(r.under - 1); h.state != liveHold && over {
			*me = localRoutine{at: outside}
			emit("{c}'s re-entry is answered: the enclosing lease is over", next, false, g)
			return
		}
		if h.state != liveHold {
			next.done(g)
			emit("{c}'s re-entry is answered: the lock was lost", next, false, g)
			return
		}
		me.owner, me.token = s.routine[r.under-1].owner, next.tokenOf(h)
		h.leases |= 1 << g
		me.at, me.had = inside, true
		emit("{c} HAS RE-ENTERED with token {t}", next, false, g, int(me.token))
	}
}

// tokenOf is the token of h's leases.
func (s *localState) tokenOf(h *localHold) int8 {
	for g := range s.routine {
		if h.leases&(1<<g) != 0 {
			return s.routine[g].token
		}
	}
	return 0
}

// looks emits the look for an enclosing lease, and the way to the gate where there is none.
func (w *localSystem) looks(s localState, g int, emit localEmit) {
	next := s
	me := &next.routine[g]
	if p := w.enclosing(&s, g); p > 0 {
		if _, lost := s.lease(p - 1); lost {
			next.done(g)
			emit("{c} returns: the enclosing lease was lost", next, false, g)
			return
		}
		me.at, me.under, me.hold = wantsOps, p, s.routine[p-1].hold
		emit("{c} finds the lease of {c}", next, false, g, int(p-1))
		return
	}
	switch {
	case w.tries(g):
		me.at, me.keeps = trying, !s.taken
		next.taken = true
		emit("{c} tries", next, false, g)
	case !s.taken:
		me.at, next.taken = atGate, true
		emit("{c} is at the gate", next, false, g)
	case s.offered != 0:
		me.at, me.baton = inLine, next.takeOffer()
		if first := next.line[0]; first > 0 {
			next.routine[first-1].past++
		}
		emit("{c} overtakes and takes the hold", next, false, g)
	default:
		me.at = inLine
		for i := range next.line {
			if next.line[i] == 0 {
				next.line[i] = int8(g) + 1
				break
			}
		}
		emit("{c} waits behind the gate", next, false, g)
	}
}

// done ends g's calls. What it holds of Redis was given to somebody else before.
func (s *localState) done(g int) {
	r := &s.routine[g]
	*r = localRoutine{at: gone, had: r.had, over: r.over, owner: r.owner, token: r.token}
	if !r.had {
		r.owner, r.token = 0, 0
	}
}

// quit takes g out of the line.
func (s *localState) quit(g int) {
	for i := range s.line {
		if int(s.line[i]) == g+1 {
			copy(s.line[i:], s.line[i+1:])
			s.line[routines-1] = 0
			return
		}
	}
}

// pass hands the gate and a baton to the first in line.
func (s *localState) pass(baton int8) bool {
	first := int(s.line[0]) - 1
	if first < 0 {
		return false
	}
	s.quit(first)
	s.routine[first].baton, s.routine[first].call = baton, uncalled
	return true
}

// gated emits what happens from the gate on until Lock returns.
func (w *localSystem) gated(s localState, g int, emit localEmit) {
	r := s.routine[g]
	next := s
	me := &next.routine[g]
	switch r.at {
	case inLine:
		w.inLine(s, g, emit)
	case atGate, trying:
		if s.redis == 0 {
			if i := next.grant(w.Block, r.at == atGate || r.keeps); i >= 0 {
				w.start(&next, g, i)
				emit("Redis grants to {c}", next, false, g)
			}
		} else if r.at == trying {
			if r.keeps {
				next.leave(&w.rules)
			}
			next.done(g)
			emit("{c} hears that the lock is held", next, false, g)
			return
		}
		if r.at == atGate && (s.close != open || s.faults > 0) {
			next = s
			next.leave(&w.rules)
			next.done(g)
			emit("{c} gives up at the gate", next, s.close == open, g)
		}
	case starting:
		h := &next.hold[r.hold-1]
		switch {
		case s.close == open && h.state == lostHold:
			*me = localRoutine{at: outside}
			emit("{c}'s lock was lost before Lock returned: it waits again", next, false, g)
		default:
			me.at, me.had = inside, true
			emit("{c} HAS THE LOCK with token {t}", next, false, g, int(r.token))
		}
	}
}

func (w *localSystem) inLine(s localState, g int, emit localEmit) {
	r, next := s.routine[g], s
	me := &next.routine[g]
	switch {
	case r.baton == 0:
		w.comes(s, g, emit)
		if s.close != open || s.faults > 0 {
			w.quits(s, g, emit)
		}
	case r.baton == 1:
		me.at, me.baton = atGate, 0
		emit("{c} comes to the gate", next, false, g)
	default:
		if s.faults > 0 {
			me.at, me.hold, me.baton = finishing, r.baton-1, 0
			emit("{c} is handed the hold as it gives up", next, true, g)
			next = s
		}
		i := int(r.baton) - 2
		me.baton = 0
		if s.hold[i].state != liveHold {
			*me = localRoutine{at: outside}
			emit("{c} is handed a hold that was lost: it waits again", next, false, g)
			return
		}
		w.start(&next, g, i)
		emit("{c} is handed the hold", next, false, g)
	}
}

// grant makes a hold of a grant by Redis. It returns -1 where the scope has no room.
func (s *localState) grant(block int8, atGate bool) int {
	for i := range s.hold {
		if s.hold[i] == (localHold{}) {
			s.hold[i] = localHold{state: liveHold, token: s.counter + 1, left: block, atGate: atGate}
			s.counter += block
			s.redis = int8(i) + 1
			return i
		}
	}
	return -1
}

// start is hold.start: the next token for an outermost lease of g. In a client that is closed no caller gets the lock, so
// it is swept: Close, which may be about to end the hold, finds it over.
func (w *localSystem) start(s *localState, g, i int) {
	h := &s.hold[i]
	h.watched = true
	if s.close != open {
		s.routine[g].hold = int8(i) + 1
		s.lose(i, w.rules.ForgetRefused, &w.rules)
		s.done(g)
		return
	}
	s.routine[g] = localRoutine{at: starting, hold: int8(i) + 1, owner: int8(g) + 1, token: h.token}
	s.repeat = s.repeat || h.token <= s.issued
	s.issued = max(s.issued, h.token)
	h.leases |= 1 << g
	h.token++
	h.left--
}
