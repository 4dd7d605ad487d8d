package model

// What a process does: the rules of acquisition, belief and sweep.

// hold makes i believe. A poll that is still open may run after the hold is over.
func (w *nodeSystem) hold(s *nodeState, i int, token, bound int8) {
	a := &s.ids[i]
	a.phase, a.token, a.bound = held, token, bound
	s.older = s.older || token <= s.top
	s.top = max(s.top, token)
	a.doubt = a.doubt || a.open
	a.open = false
	a.giveUpAsk()
}

// end is the end of a wait or of a hold: nothing counts for i any more but the answer to its release.
func (w *nodeSystem) end(s *nodeState, i int) {
	a := &s.ids[i]
	a.doubt = a.doubt || a.open && !w.rules.ForgetOpen
	a.open = false
	a.giveUpAsk()
	a.forgetReplies()
	a.phase, a.bound, a.token = releasing, 0, 0
	switch {
	case w.rules.ReleaseOnce:
		a.rel, a.phase, a.doubt = 1, over, false
	case w.rules.ReuseID:
		a.rel, a.phase, a.open = min(a.rel+1, 2), waiting, false
	}
}

// starts emits new work and crashes.
func (w *nodeSystem) starts(s nodeState, i int, emit func(Step[nodeState])) {
	a := &s.ids[i]
	id := [3]int8{int8(i)}
	if a.phase == unused && s.inFlight() < w.InFlight {
		n := s
		n.ids[i] = acq{phase: waiting, ask: 1, open: true}
		emit(Step[nodeState]{Act: Action{"{c} asks for the lock", id}, To: n, Fault: true})
	}
	if a.phase != crashed && s.crashes > 0 {
		n := s
		n.crashes--
		old := *a
		old.giveUpAsk()
		n.ids[i] = acq{
			phase: crashed, owns: old.owns, place: old.place,
			late: old.late, rel: old.rel, renew: old.renew, yield: old.yield,
		}
		emit(Step[nodeState]{Act: Action{"{c} crashes", id}, To: n, Fault: true})
	}
}

// acts emits what the process of i can do by itself.
func (w *nodeSystem) acts(s nodeState, i int, emit func(Step[nodeState])) {
	id := [3]int8{int8(i)}
	room := s.inFlight() < w.InFlight
	n := s
	a := &n.ids[i]
	switch {
	case a.phase == waiting:
		if w.pollable(&s, i) && (room || a.open && a.late == 0) {
			a.doubt = a.doubt || a.open
			a.giveUpAsk()
			a.ask, a.open = 1, true
			emit(Step[nodeState]{Act: Action{"{c} polls", id}, To: n})
		}
		n = s
		w.end(&n, i)
		emit(Step[nodeState]{Act: Action{"{c} gives up", id}, To: n, Fault: true})
	case a.phase == held:
		w.end(&n, i)
		emit(Step[nodeState]{Act: Action{"{c} unlocks", id}, To: n})
		w.keeps(s, i, room, emit)
	case a.phase == releasing && room && a.rel < 2:
		a.rel++
		emit(Step[nodeState]{Act: Action{"{c} sends a release", id}, To: n})
	}
}

// pollable reports whether i may poll. The right rule lets it at any time.
func (w *nodeSystem) pollable(s *nodeState, i int) bool {
	return s.ids[i].open || !w.rules.NoPoll
}

// keeps emits what a holder can do with its hold.
func (w *nodeSystem) keeps(s nodeState, i int, room bool, emit func(Step[nodeState])) {
	a := &s.ids[i]
	if room && w.Renewal > 0 && a.renew == 0 && a.renewed == 0 && !a.refused {
		n := s
		n.ids[i].renew = 1
		emit(Step[nodeState]{Act: Action{"{c} sends a renewal", [3]int8{int8(i)}}, To: n})
	}
	if room && w.Yields && a.yield[1] == 0 {
		n := s
		w.yield(&n, i, a.token)
		emit(Step[nodeState]{Act: Action{"{c} yields grant {t}", [3]int8{int8(i), a.token}}, To: n})
	}
}

// yield gives a grant back. It is void from the moment of sending.
func (w *nodeSystem) yield(s *nodeState, i int, g int8) {
	a := &s.ids[i]
	if a.yield[1] > 0 {
		return
	}
	a.yield[1] = g
	if !w.rules.BelieveYielded {
		a.seen = max(a.seen, g)
	}
	a.phase, a.bound, a.token, a.renewed, a.refused = waiting, 0, 0, 0, false
}

// hears emits the answers and messages that reach i, or are lost on the way.
func (w *nodeSystem) hears(s nodeState, i int, emit func(Step[nodeState])) {
	a := &s.ids[i]
	id := [3]int8{int8(i), a.replyNum}
	if a.reply != noReply {
		n := s
		text := "{c} hears: you own it, token {t}"
		if a.reply == queued {
			text = "{c} hears: queued, counter {t}"
		}
		w.hearReply(&n, i)
		emit(Step[nodeState]{Act: Action{text, id}, To: n})
	}
	for k, token := range a.push {
		if token > 0 {
			n := s
			n.ids[i].push[k] = 0
			emit(Step[nodeState]{Act: Action{"the push of token {t} is lost", [3]int8{token}}, To: n, Fault: true})
			w.hearPush(&n, i, token)
			emit(Step[nodeState]{Act: Action{"{c} gets the push of token {t}", [3]int8{int8(i), token}}, To: n})
		}
	}
	if a.relDone {
		n := s
		w.hearReleased(&n.ids[i])
		emit(Step[nodeState]{Act: Action{"{c} hears: released", id}, To: n})
	}
	if a.renewed > 0 {
		n := s
		n.ids[i].bound = max(a.bound, w.Renewal-(a.renewed-1))
		n.ids[i].renewed = 0
		emit(Step[nodeState]{Act: Action{"{c} hears: renewed", id}, To: n})
	}
	if a.refused {
		n := s
		w.end(&n, i)
		emit(Step[nodeState]{Act: Action{"{c} hears: not yours any more", id}, To: n})
	}
}

// hearReply is the answer to the latest poll, dated from when that was sent.
func (w *nodeSystem) hearReply(s *nodeState, i int) {
	a := &s.ids[i]
	reply, age, num := a.reply, a.replyAge-1, a.replyNum
	a.reply, a.replyAge, a.replyNum, a.open = 0, 0, 0, false
	switch {
	case reply == queued:
		a.base, a.seen = age, max(a.seen, num)
	case w.Yields && num <= a.seen && !w.rules.BelieveYielded:
		w.yield(s, i, num) // it was lost: say it again
	case w.leaseOf(i) > age:
		w.hold(s, i, num, w.leaseOf(i)-age)
	}
}

// hearPush is a grant by message, dated from the latest answered poll: it counts only if it is younger than that.
func (w *nodeSystem) hearPush(s *nodeState, i int, token int8) {
	a := &s.ids[i]
	switch a.phase {
	case waiting:
		if (token > a.seen || w.rules.BelieveAnyGrant) && w.leaseOf(i) > a.base {
			w.hold(s, i, token, w.leaseOf(i)-a.base)
		}
	case releasing:
		if w.rules.AdoptOrphan {
			w.hold(s, i, token, w.leaseOf(i))
		}
		a.doubt = true // it may have been granted after the release ran
	case limbo:
		a.phase, a.doubt, a.left = releasing, true, 0
	case over:
		a.phase = releasing
	}
}

func (w *nodeSystem) hearReleased(a *acq) {
	a.relDone = false
	switch {
	case a.phase != releasing:
	case a.doubt && !w.rules.NoSweep:
		a.phase, a.left = limbo, w.Lease
	default:
		a.phase, a.doubt = over, false
	}
}

// losses emits commands that vanish before they run.
func (w *nodeSystem) losses(s nodeState, i int, emit func(Step[nodeState])) {
	a := &s.ids[i]
	lose := func(there bool, text string, drop func(*acq)) {
		if there {
			n := s
			drop(&n.ids[i])
			emit(Step[nodeState]{Act: Action{text, [3]int8{int8(i)}}, To: n, Fault: true})
		}
	}
	lose(a.ask > 0, "{c}'s acquire is lost", func(a *acq) { a.ask = 0 })
	lose(a.late > 0, "a late acquire of {c} is lost", func(a *acq) { a.late-- })
	lose(a.rel > 0, "{c}'s release is lost", func(a *acq) { a.rel-- })
	lose(a.renew > 0, "{c}'s renewal is lost", func(a *acq) { a.renew = 0 })
	lose(a.yield[0] > 0, "{c}'s yield is lost", func(a *acq) { a.yield[0] = 0 })
	lose(a.relDone, "the answer to {c}'s release is lost", func(a *acq) { a.relDone = false })
}
