package model

// How holds of one process end: Unlock, loss, Close.

// unlock emits what happens from Unlock on.
func (w *localSystem) unlock(s localState, g int, emit localEmit) {
	r := s.routine[g]
	next := s
	me := &next.routine[g]
	switch r.at {
	case inside:
		me.at = dropping
		emit("{c} calls Unlock", next, false, g)
	case dropping:
		w.drop(s, g, emit)
	case leaving:
		next.hold[r.hold-1].ops = 0
		next.done(g)
		emit("{c}'s inner unlock is over", next, false, g)
	case finishing:
		w.finish(s, g, emit)
	case letting:
		w.letsGo(s, g, emit)
	case granted:
		if next.pass(r.hold + 1) {
			next.done(g)
			emit("{c} hands what was granted with its release to the next", next, false, g)
			return
		}
		me.at = finishing
		emit("{c} finds nobody left for what was granted with its release", next, false, g)
	}
}

// drop is hold.drop up to where the count was told or has come to nothing.
func (w *localSystem) drop(s localState, g int, emit localEmit) {
	next := s
	me := &next.routine[g]
	h := &next.hold[me.hold-1]
	switch {
	case h.ops != 0:
		w.cut(s, g, emit)
	case h.state != liveHold || h.leases&(1<<g) == 0:
		next.done(g)
		emit("{c}'s Unlock returns: the lock was lost", next, false, g)
	default:
		h.leases &^= 1 << g
		me.over = true
		if me.at = finishing; h.leases != 0 {
			me.at, h.ops = leaving, int8(g)+1
		}
		emit("{c}'s lease is over", next, false, g)
	}
}

// cut is hold.cut: an Unlock that has waited too long for ops, which a re-entry has.
func (w *localSystem) cut(s localState, g int, emit localEmit) {
	i := s.routine[g].hold - 1
	h := &s.hold[i]
	if s.faults == 0 || h.state != liveHold || h.leases&(1<<g) == 0 {
		return
	}
	h.leases &^= 1 << g
	s.routine[g].over = true
	if s.done(g); h.leases == 0 {
		h.state, h.watched, h.closing, h.owed = endedHold, false, false, true
		if h.atGate {
			s.leave(&w.rules)
		}
	}
	emit("{c}'s Unlock waits no longer for ops", s, true, g)
}

// finish is hold.finish: on to the next goroutine here, or the end of the hold. Whether the bounds let it pass is open.
func (w *localSystem) finish(s localState, g int, emit localEmit) {
	i := s.routine[g].hold
	h := s.hold[i-1]
	next := s
	if h.state != liveHold {
		next.done(g)
		emit("{c} finds its hold lost", next, false, g)
		return
	}
	if h.refill == filled && h.atGate {
		w.nextBlock(&s.hold[i-1])
		h, next = s.hold[i-1], s
	}
	if h.atGate && h.left > 0 && next.pass(i+1) {
		w.ask(&next.hold[i-1])
		next.done(g)
		emit("{c} passes the hold on", next, false, g)
		next = s
	}
	if w.Offers && h.atGate && h.left > 0 && w.offer(&next, i+1) {
		next.done(g)
		emit("{c} offers the hold", next, false, g)
		next = s
	}
	end := &next.hold[i-1]
	end.state, end.watched, end.closing = endedHold, false, false
	end.next = h.atGate && next.line[0] != 0
	next.routine[g].at = letting
	emit("{c} sends the release", next, false, g)
}

// letsGo is the release, and who comes to the gate after it.
func (w *localSystem) letsGo(s localState, g int, emit localEmit) {
	i := s.routine[g].hold
	h := s.hold[i-1]
	next := s
	open := func(s *localState) {
		if h.atGate && h.state == endedHold {
			s.leave(&w.rules)
		}
		s.done(g)
	}
	if s.faults > 0 {
		next.hold[i-1].owed = true
		open(&next)
		emit("{c}'s release is not answered", next, true, g)
		next = s
	}
	if s.redis == i && s.close != sweptClose {
		next.redis = 0
	}
	if h.next && next.redis == 0 {
		with := next
		if n := with.grant(w.Block, true); n >= 0 {
			with.routine[g].at, with.routine[g].hold = granted, int8(n)+1
			emit("{c}'s release runs and grants to those behind it", with, false, g)
		}
	}
	open(&next)
	emit("{c}'s release runs", next, false, g)
}

// lose is hold.lose for hold i. What is forgotten stays in Redis until its lease ends; the rest is swept.
func (s *localState) lose(i int, forget bool, rules *LocalRules) {
	h := &s.hold[i]
	gate := h.atGate
	h.state, h.watched, h.closing, h.atGate, h.leases = lostHold, false, false, false, 0
	h.owed = !forget
	if gate && !rules.NoLeave {
		s.leave(rules)
	}
}

// redis emits what the watchdog and the sweeper do about hold i.
func (w *localSystem) redis(s localState, i int, emit localEmit) {
	h := &s.hold[i]
	next := s
	if h.state == liveHold && h.watched && s.faults > 0 && s.close == open {
		next.lose(i, false, &w.rules)
		emit("h{t} is lost", next, true, i+1)
		next = s
	}
	if h.owed && s.close != sweptClose {
		next.hold[i].owed = false
		if int(s.redis) == i+1 {
			next.redis = 0
		}
		emit("the sweeper ends h{t}", next, false, i+1)
	}
	w.refill(s, i, emit)
}

// closes emits Client.Close, in its order: nobody new, then the holds, then the arbiter with a last sweep.
func (w *localSystem) closes(s localState, emit localEmit) {
	next := s
	switch s.close {
	case open:
		if w.Close {
			next.close = barred
			emit("!Close begins", next, true)
		}
	case barred:
		next.close = collected
		for i := range next.hold {
			next.hold[i].closing = next.hold[i].watched
		}
		emit("Close takes the holds from the watchdog", next, false)
	case collected:
		idle := w.rules.WaitForNone || !s.calls()
		for i := range s.hold {
			h := s.hold[i]
			idle = idle && !h.closing && !h.owed
			if h.closing {
				next = s
				next.hold[i].told = h.leases
				next.lose(i, h.leases != 0 || w.rules.ForgetPassed, &w.rules)
				emit("Close ends h{t}", next, false, i+1)
			}
		}
		if next = s; idle {
			next.close = sweptClose
			emit("Close returns", next, false)
		}
	}
}

// calls reports whether a call is under way.
func (s *localState) calls() bool {
	for g := range s.routine {
		if at := s.routine[g].at; at != unborn && at != inside && at != gone {
			return true
		}
	}
	return false
}
