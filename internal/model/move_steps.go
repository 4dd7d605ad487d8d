package model

// What happens while an acquisition moves: the giver, the takers, the contender, and the server.

type moveEmit func(s moveState, fault bool, text string, args ...int8)

func (w *moveSystem) steps(s moveState, emit func(Step[moveState])) {
	goes := func(to moveState, fault bool, text string, args ...int8) {
		act := Action{Text: text}
		copy(act.Args[:], args)
		w.tidy(&to)
		emit(Step[moveState]{Act: act, To: to, Fault: fault})
	}
	w.gives(s, goes)
	w.takes(s, goes)
	w.contends(s, goes)
	s.each(func(i int8, _ *moveID) {
		w.runs(s, i, goes)
		w.sweeps(s, i, goes)
	})
	next := s
	w.tick(&next)
	goes(next, false, "a tick passes")
}

// tidy clears what has no effect any more.
func (w *moveSystem) tidy(s *moveState) {
	s.each(func(_ int8, a *moveID) {
		if a.phase != moveAsks && (a.phase != moveHolds || !w.rules.TrustLonger) {
			a.late = min(a.late+min(a.ask, 1), 1)
			a.ask, a.sent = 0, false
			a.reply, a.age, a.told = 0, 0, 0
		}
		if a.phase != moveSweeps && a.phase != moveLimbo {
			a.relDone = false
		}
		if a.bound == 0 {
			a.token = 0
		}
		if a.phase == moveOver {
			a.doubt, a.deposed = false, false
		}
	})
	if s.own.phase != moveHolds {
		s.renewed = 0
	}
	if !s.waits {
		s.sleep, s.wake = 0, s.wake && s.second > 0
	}
	s.wakes = s.wakes && s.second > 0
}

func (s *moveState) inFlight() int {
	n := int(s.acquire) + int(min(s.renew, 1)+min(s.renewed, 1))
	s.each(func(_ int8, a *moveID) {
		n += int(min(a.ask, 1) + a.late + a.rel + min(a.reply, 1))
		if a.relDone {
			n++
		}
	})
	return n
}

// where names an id in an action: its process, and the attempt.
func where(i int8) (c, t int8) {
	if i == moveOwn {
		return 0, 1
	}
	return 1 + (i-moveB1)/moveTries, 1 + (i-moveB1)%moveTries
}

// over is the end of an acquisition at its process, which is trusted no more.
func (s *moveState) over(i, phase int8) {
	a := s.id(i)
	a.doubt = a.doubt || a.phase == moveAsks && phase == moveSweeps && i != moveOwn && (a.sent || a.late > 0)
	a.phase, a.bound = phase, 0
}

// trust makes i trusted.
func (s *moveState) trust(token int8, deposed bool) {
	if token <= s.top && !deposed {
		s.broken = "token: one is trusted that is not above all before"
	}
	s.top = max(s.top, token)
}

// gives emits what the giver does.
func (w *moveSystem) gives(s moveState, goes moveEmit) {
	a := &s.own
	next := s
	me := &next.own
	room := s.inFlight() < w.InFlight
	switch a.phase {
	case moveHolds:
		if w.rules.TrustLonger {
			if !a.sent && room {
				me.sent, me.ask = true, 1
				goes(next, false, "{c} sends the move", 0)
			} else if a.sent {
				me.phase, me.bound = moveAsks, 0
				goes(next, false, "{c}'s trust ends", 0)
			}
		} else {
			me.phase, me.bound = moveAsks, 0
			goes(next, false, "{c} hands over: its trust ends", 0)
		}
		if next = s; w.Renews && room && s.renew == 0 && s.renewed == 0 {
			next.renew = 1
			goes(next, false, "{c} sends a renewal", 0)
		}
		if next = s; s.renewed > 0 {
			next.own.bound, next.renewed = max(a.bound, w.Lease-(s.renewed-1)), 0
			goes(next, false, "{c} hears: renewed", 0)
		}
	case moveAsks:
		w.asks(s, moveOwn, goes)
		if next = s; a.reply == moveYes {
			next.own.reply, next.known = 0, true
			next.over(moveOwn, w.handed(a))
			goes(next, false, "{c} hears: moved, and returns the handle", 0)
		} else if a.reply == moveNo {
			next.own.reply = 0
			next.over(moveOwn, w.handed(a))
			goes(next, false, "{c} hears: lost", 0)
		}
		next = s
		next.over(moveOwn, moveSweeps)
		if w.rules.ForgetOwn {
			next.own.phase = moveOver
		}
		goes(next, true, "{c} gives up the hand-over", 0)
	}
	if next = s; s.push {
		next.push = false
		if p := s.own.phase; p == moveOver || p == moveLimbo || p == moveSweeps {
			next.own.phase, next.own.left = moveSweeps, 0
		}
		goes(next, false, "{c} hears of a grant that it does not want", 0)
		next = s
		next.push = false
		goes(next, true, "the message of {c}'s grant is lost", 0)
	}
}

// handed is what follows an answered hand-over.
func (w *moveSystem) handed(a *moveID) int8 {
	if a.doubt && !w.rules.ForgetDoubt || w.rules.SweepHandle {
		return moveSweeps
	}
	return moveOver
}

// asks emits the sending of a move of i.
func (w *moveSystem) asks(s moveState, i int8, goes moveEmit) {
	a := s.id(i)
	c, t := where(i)
	if s.inFlight() >= w.InFlight && (a.ask == 0 || a.late > 0) || a.reply != 0 {
		return
	}
	next := s
	me := next.id(i)
	me.late = min(a.late+min(a.ask, 1), 1)
	me.ask, me.sent = 1, true
	text := "{c}.{t} sends the move"
	if a.sent {
		text = "{c}.{t} sends the move again"
	}
	goes(next, false, text, c, t)
}

// takes emits what the takers do.
func (w *moveSystem) takes(s moveState, goes moveEmit) {
	for p := range s.taker {
		for k := range w.Tries[p] {
			w.take(s, moveB1+int8(p)*moveTries+k, goes)
		}
	}
}

func (w *moveSystem) take(s moveState, i int8, goes moveEmit) {
	a := s.id(i)
	c, t := where(i)
	next := s
	switch a.phase {
	case moveBlank:
		if s.known && (t == 1 || s.id(i-1).gaveUp && !w.rules.ReuseID) {
			next.id(i).phase = moveAsks
			goes(next, true, "{c}.{t} takes over", c, t)
		}
		if next = s; w.Seen && t == 1 && (s.holder == moveOwn || s.holder == moveOther) {
			next.id(i).phase, next.id(i).seen = moveAsks, s.holder
			goes(next, true, "{c}.{t} takes over, by the holder's id", c, t)
		}
	case moveAsks:
		w.asks(s, i, goes)
		if next.id(i).reply = 0; a.reply == moveYes {
			since := a.age - 1
			me := next.id(i)
			if since < w.Lease {
				me.phase, me.bound, me.token, me.doubt = moveHolds, w.Lease-since, a.told, false
				next.trust(a.told, a.deposed)
				if next.took++; next.took > 1 {
					next.broken = "handle: a second taker is trusted"
				} else if s.between && !a.deposed {
					next.broken = "between the giver and the taker another had the lock"
				}
				goes(next, false, "{c}.{t} hears: moved, token {t}", c, t, a.told)
			} else {
				next.over(i, moveSweeps)
				goes(next, false, "{c}.{t} hears: moved, too late", c, t)
			}
		} else if a.reply == moveNo {
			next.over(i, moveOver)
			goes(next, false, "{c}.{t} hears: lost", c, t)
		}
		next = s
		next.over(i, moveSweeps)
		next.id(i).gaveUp = true
		goes(next, true, "{c}.{t} gives up", c, t)
	case moveHolds:
		next.over(i, moveSweeps)
		goes(next, false, "{c}.{t} unlocks", c, t)
	case moveSweeps, moveLimbo, moveOver:
		if w.rules.ReuseID && a.gaveUp {
			me := next.id(i)
			me.phase, me.gaveUp, me.doubt = moveAsks, false, false
			goes(next, true, "{c}.{t} takes over once more", c, t)
		}
	}
}

// runs emits what the server does with commands of i, and their loss.
func (w *moveSystem) runs(s moveState, i int8, goes moveEmit) {
	a := s.id(i)
	c, t := where(i)
	if next := s; a.ask > 0 {
		me := next.id(i)
		me.ask = 0
		goes(next, true, "{c}.{t}'s move is lost", c, t)
		reply, token := w.move(&next, i)
		goes(next, true, "{c}.{t}'s move runs, its answer is lost", c, t)
		me.reply, me.age, me.told = reply, a.ask, token
		goes(next, false, "{c}.{t}'s move runs", c, t)
	}
	if next := s; a.late > 0 {
		next.id(i).late--
		goes(next, true, "a late move of {c}.{t} is lost", c, t)
		w.move(&next, i)
		goes(next, false, "a late move of {c}.{t} runs", c, t)
	}
	if next := s; a.rel > 0 {
		me := next.id(i)
		me.rel--
		goes(next, true, "{c}.{t}'s release is lost", c, t)
		w.release(&next, i, func(next moveState, text string) {
			goes(next, true, "{c}.{t}'s release runs, its answer is lost"+text, c, t)
			next.id(i).relDone = true
			goes(next, false, "{c}.{t}'s release runs"+text, c, t)
		})
	}
	if i != moveOwn {
		return
	}
	if next := s; s.renew > 0 {
		next.renew = 0
		goes(next, true, "{c}'s renewal is lost", 0)
		if s.in(moveOwn) {
			if s.lease < w.Lease {
				next.lease, next.stood = w.Lease, 0
			}
			goes(next, true, "{c}'s renewal runs, its answer is lost", 0)
			next.renewed = s.renew
		}
		goes(next, false, "{c}'s renewal runs", 0)
	}
	if next := s; s.acquire > 0 {
		next.acquire--
		goes(next, true, "a late acquire of {c} is lost", 0)
		switch {
		case s.in(moveOwn):
			next.lease, next.stood = w.Lease, 0
		case s.holder == moveNone:
			w.grant(&next, moveOwn)
		default:
			next.queued = true
		}
		goes(next, false, "a late acquire of {c} runs", 0)
	}
}

// grant is what acquire and hand-over do for a free lock.
func (w *moveSystem) grant(s *moveState, to int8) {
	s.counter++
	s.holder, s.lease, s.stood, s.first, s.others = to, w.Lease, 0, s.counter, true
	s.between = s.between || s.own.phase != moveHolds
	if to == moveOwn {
		s.queued = false
	}
}

// move is move.lua for i: the giver's from its own id to the handle, a taker's from the handle to its id. A taker that has
// seen an id alone is refused.
func (w *moveSystem) move(s *moveState, i int8) (reply, token int8) {
	from, to, lease, block := moveHandle, i, w.Lease, true
	if i == moveOwn {
		from, to, lease, block = moveOwn, moveHandle, w.Handle, false
	} else if a := s.id(i); a.seen != moveNone {
		if from = a.seen; !w.rules.AnyID && !s.in(to) {
			return moveNo, 0
		}
	}
	switch {
	case s.in(to):
		switch {
		case i == moveOwn && w.rules.RepeatRenews:
			s.lease = lease
		case i != moveOwn && !w.rules.CountRepeat:
			s.lease, s.stood = max(s.lease, lease), 0
		}
		return moveYes, s.first
	case !s.in(from) && !w.rules.AnyFrom:
		return moveNo, 0
	case i == moveOwn && s.others && !w.rules.AnyGrant && !w.rules.AnyFrom:
		return moveNo, 0
	}
	if block && !w.rules.KeepToken {
		s.counter++
		s.first = s.counter
	}
	if w.rules.KeepOld {
		s.also = from
	}
	if lease < s.lease && !w.rules.Silent {
		s.wake, s.wakes = true, !w.rules.WakesOne
	}
	s.holder, s.lease, s.stood = to, lease, 0
	return moveYes, s.first
}

// clear frees the lock.
func (s *moveState) clear() {
	s.holder, s.also, s.lease, s.stood, s.first, s.others = moveNone, moveNone, 0, 0, 0, false
}

// release is release.lua for i. A free lock is handed over to the giver's own id if that is queued, or told of to the
// contender.
func (w *moveSystem) release(s *moveState, i int8, then func(moveState, string)) {
	next := *s
	if i == moveOwn {
		next.queued = false
		if w.rules.SweepHandle && s.holder == moveHandle {
			i = moveHandle
		}
	}
	if !s.in(i) {
		then(next, "")
		return
	}
	if a := s.id(s.holder); s.holder == moveHandle && s.known || a != nil && a.phase == moveAsks && s.holder != moveOwn {
		next.broken = "free: the lock is, between the answers of the hand-over and the taking over"
	}
	w.free(&next, then)
}

// free clears the lock and hands it over.
func (w *moveSystem) free(s *moveState, then func(moveState, string)) {
	s.clear()
	next := *s
	next.wake = true
	if !s.queued {
		then(next, "")
		return
	}
	next = *s
	w.grant(&next, moveOwn)
	next.push = true
	then(next, ": handed to A")
	if s.waits {
		next = *s
		next.wake = true
		then(next, ": told to D")
	}
}

// sweeps emits what the sweeper does for i.
func (w *moveSystem) sweeps(s moveState, i int8, goes moveEmit) {
	a := s.id(i)
	c, t := where(i)
	if next := s; a.phase == moveSweeps && a.rel < 1 && !a.relDone && s.inFlight() < w.InFlight {
		next.id(i).rel++
		goes(next, false, "{c}.{t}'s release is sent", c, t)
	}
	if next := s; a.relDone {
		me := next.id(i)
		me.relDone = false
		switch {
		case a.phase != moveSweeps:
		case a.doubt:
			me.phase, me.left = moveLimbo, w.Lease
		default:
			me.phase = moveOver
		}
		goes(next, false, "{c}.{t} hears: released", c, t)
	}
}

// contends emits what the contender does, and a forced unlock.
func (w *moveSystem) contends(s moveState, goes moveEmit) {
	next := s
	switch {
	case s.bound > 0:
		next.bound, next.deposed = 0, false
		if s.holder != moveOther {
			goes(next, false, "{c} unlocks, in vain", 3)
			break
		}
		w.free(&next, func(next moveState, text string) { goes(next, false, "{c} unlocks"+text, 3) })
	case s.waits && (s.wake || s.sleep == 0) || !s.waits && s.comes > 0:
		if !s.waits {
			next.comes--
		}
		next.waits, next.wake, next.sleep = true, false, 0
		if s.holder != moveNone {
			next.sleep = s.lease
			if w.Poll > 0 && !w.rules.SleepsByLease {
				next.sleep = min(next.sleep, w.Poll)
			}
			goes(next, !s.waits, "{c} asks, and is told to wait for {t}", 3, next.sleep)
			break
		}
		if mine := next; s.queued {
			w.grant(&mine, moveOwn)
			mine.push = true
			mine.sleep = w.Lease
			if w.Poll > 0 {
				mine.sleep = min(mine.sleep, w.Poll)
			}
			goes(mine, !s.waits, "{c} asks, and the lock is handed to A", 3)
		}
		w.grant(&next, moveOther)
		next.waits, next.bound = false, w.Lease
		next.trust(next.first, false)
		goes(next, !s.waits, "{c} asks, and has the lock", 3)
	}
	w.second(s, goes)
	if next = s; s.wake && s.lost > 0 {
		next.wake, next.wakes, next.missed = false, false, true
		next.lost--
		goes(next, true, "the message to {c} is lost", 3)
	}
	if next = s; s.forces > 0 && s.holder != moveNone {
		next.forces--
		if a := next.id(s.holder); a != nil {
			a.deposed = true
		}
		next.deposed = next.deposed || s.holder == moveOther
		w.free(&next, func(next moveState, text string) { goes(next, true, "the lock is forced"+text) })
	}
}

// second emits what the second thread of Redisson's does. What it takes, it gives back at once.
func (w *moveSystem) second(s moveState, goes moveEmit) {
	if next := s; w.Threads && s.waits && s.second == 0 && s.holder != moveNone && s.comes > 0 {
		next.comes--
		next.second = 1 + s.lease
		goes(next, true, "{c} asks, and is told to wait for {t}", 4, s.lease)
	}
	if next := s; s.second > 0 && (s.wake || s.wakes || s.second == 1) {
		next.wakes = false
		next.wake = s.wake && s.wakes // what wakes all does not use up the one
		if next.second = 1 + s.lease; s.holder != moveNone {
			goes(next, false, "{c} asks again, and is told to wait for {t}", 4, s.lease)
			return
		}
		next.second = 0
		next.counter++
		next.between = s.between || s.own.phase != moveHolds
		next.wake = true
		goes(next, false, "{c} has the lock, and unlocks", 4)
	}
	if next := s; w.Threads && s.waits {
		next.waits = false
		goes(next, true, "{c} gives up waiting", 3)
	}
}

// tick lets leases and trust grow shorter together.
func (w *moveSystem) tick(s *moveState) {
	most := w.Lease + 1
	older := func(age *int8) {
		if *age > 0 {
			*age = min(*age+1, most)
		}
	}
	s.each(func(i int8, a *moveID) {
		older(&a.ask)
		if a.reply != 0 {
			older(&a.age)
		}
		if a.bound > 0 {
			if a.bound--; a.bound == 0 {
				s.over(i, moveSweeps)
			}
		}
		if a.phase == moveLimbo {
			if a.left--; a.left == 0 {
				a.phase, a.doubt = moveSweeps, false
				if !w.Later {
					a.late = 0
					if i == moveOwn {
						s.acquire = 0
					}
				}
			}
		}
	})
	older(&s.renew)
	older(&s.renewed)
	if s.bound = max(0, s.bound-1); s.bound == 0 {
		s.deposed = false
	}
	s.sleep, s.second = max(0, s.sleep-1), max(min(1, s.second), s.second-1)
	if s.holder != moveNone {
		s.stood++
		if s.lease--; s.lease <= 0 {
			s.clear()
		}
	}
}
