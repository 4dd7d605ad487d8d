package model

// What happens to a fencing counter: grants, time, losses.

type tokenEmit func(s tokenState, fault bool, text string, args ...int)

func (w *tokenSystem) steps(s tokenState, emit func(Step[tokenState])) {
	goes := func(s tokenState, fault bool, text string, args ...int) {
		act := Action{Text: text}
		for i, a := range args {
			act.Args[i] = int8(a)
		}
		emit(Step[tokenState]{Act: act, To: s, Fault: fault})
	}
	w.asks(s, goes)
	w.waits(s, goes)
	w.time(s, goes)
	if s.losses > 0 {
		w.loses(s, goes)
	}
}

// may reports whether somebody asks for a grant.
func (w *tokenSystem) may(s *tokenState) bool {
	if w.Back > 0 {
		return s.grants > 0
	}
	return s.counter+1 <= s.clock+w.Lead
}

// asks emits what the asker does, and Redisson.
func (w *tokenSystem) asks(s tokenState, goes tokenEmit) {
	if s.owner == nobody && w.may(&s) {
		for _, least := range w.proposals(&s) {
			next := s
			if s.queued {
				w.handOver(&next, least)
				goes(next, false, "the free lock is handed to the waiter: token {t}", int(next.first))
			} else {
				w.grant(&next, asker, least)
				next.unanswered = true
				goes(next, false, "the asker is granted {t} tokens from {t}", int(next.tokens), int(next.first))
			}
		}
	}
	if next := s; s.owner == nobody && s.javasGrants > 0 {
		next.javasGrants--
		next.counter++
		next.owner, next.first, next.tokens, next.lease = java, next.counter, 1, w.Lease
		next.granted()
		goes(next, false, "Redisson counts: token {t}", int(next.first))
	}
	if next := s; s.owner == asker && s.unanswered {
		next.unanswered = false
		goes(next, false, "the asker is answered")
		told := s.first
		if w.rules.WholeBlock {
			told = s.counter - w.Block + 1
		}
		next.wrong = told != s.first
		goes(next, false, "the asker asks again, and is told of token {t}", int(told))
	}
	if next := s; s.reached > 0 {
		next.reached = 0
		if next.counter < s.reached {
			reached := s.reached
			if !w.rules.RaiseZero {
				reached = max(reached, w.counted(&s))
			}
			w.store(&next, reached)
		}
		goes(next, false, "a late release raises the counter to {t}", int(next.counter))
	}
	if next := s; s.owner == asker && !s.unanswered || s.owner == java {
		if w.Raises {
			next.reached = s.first + s.tokens - 1
		}
		next.free()
		w.drop(&next)
		if s.queued && w.may(&s) && s.owner == asker {
			for _, least := range w.proposals(&s) {
				given := next
				w.handOver(&given, least)
				goes(given, false, "the asker hands over to the waiter: token {t}", int(given.first))
			}
			return
		}
		goes(next, false, "the lock is unlocked")
	}
}

// waits emits what the waiter does. Its polls are answered at once; what is slow is the message.
func (w *tokenSystem) waits(s tokenState, goes tokenEmit) {
	next := s
	switch {
	case s.believes:
		if next.believes = false; s.owner == waiter {
			next.free()
			w.drop(&next)
		}
		goes(next, false, "the waiter unlocks")
		return
	case s.owner == waiter:
		next.believes, next.push = true, 0
		goes(next, false, "the waiter polls: the lock is its own, token {t}", int(s.first))
	case s.owner != nobody && (!s.queued || s.seen != w.counted(&s) || s.age > 0):
		next.queued, next.seen, next.age = true, w.counted(&s), 0
		goes(next, false, "the waiter polls: queued, counter {t}", int(next.seen))
	}
	if next = s; s.push > 0 {
		next.push = 0
		real := s.owner == waiter && s.first == s.push
		switch {
		case s.age >= w.Lease:
		case s.push > s.seen:
			next.believes, next.queued = true, false
			next.stale = !real
		default:
			next.missed = real && w.Back == 0
		}
		goes(next, false, "the waiter gets the message of token {t}", int(s.push))
	}
}

// time emits ticks, and a clock that is set back.
func (w *tokenSystem) time(s tokenState, goes tokenEmit) {
	if next := s; s.ticks > 0 {
		next.ticks--
		w.pass(&next, 1)
		goes(next, false, "a tick passes")
	}
	if next := s; s.jumps > 0 {
		next.jumps--
		next.clock -= w.Back
		goes(next, true, "the clock is set back by {t}", int(w.Back))
	}
}

// pass lets time pass. A grant that ends by itself is believed in no more.
func (w *tokenSystem) pass(s *tokenState, by int8) {
	s.clock += by
	if s.age = min(s.age+by, w.Lease); !s.queued && s.push == 0 {
		s.age = 0
	}
	if s.ends > 0 && s.clock >= s.ends {
		s.counter, s.ends = 0, 0
	}
	if s.owner == nobody {
		return
	}
	if s.lease -= by; s.lease <= 0 {
		s.believes = s.believes && s.owner != waiter
		s.free()
	}
}

// loses emits how the counter is lost: alone, with all there is, or back to an older copy. Gap is what the clock of the
// Redis that takes over is ahead of the one that counted, real time included.
func (w *tokenSystem) loses(s tokenState, goes tokenEmit) {
	if s.counter > 0 && (s.copy != s.counter || s.copyEnds != s.ends) {
		next := s
		next.copied, next.copy, next.copyEnds = true, s.counter, s.ends
		goes(next, true, "a copy is made: a replica hears of it, or a snapshot is written")
	}
	lose := func(text string, change func(*tokenState)) {
		next := s
		next.losses--
		change(&next)
		w.pass(&next, w.Gap)
		goes(next, true, text)
	}
	if s.counter == 0 {
		return
	}
	lose("the counter is evicted", func(s *tokenState) { s.counter, s.ends = 0, 0 })
	forget := func(s *tokenState) {
		s.free()
		s.queued, s.push, s.seen, s.age, s.believes = false, 0, 0, 0, false // who was deposed is not asked
	}
	lose("Redis is restarted empty", func(s *tokenState) {
		forget(s)
		s.counter, s.ends = 0, 0
	})
	if s.copied {
		lose("a replica that lags takes over, or an older file is read", func(s *tokenState) {
			forget(s)
			s.counter, s.ends = s.copy, s.copyEnds
		})
	}
}
