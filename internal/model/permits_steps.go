package model

// What the processes of the permits system do, and time; the scripts are in permits_server.go.

type permitEmit func(text string, to permitState, fault bool, args ...int)

func (w *permitSystem) steps(s permitState, emitRaw func(Step[permitState])) {
	emit := func(text string, to permitState, fault bool, args ...int) {
		act := Action{Text: text}
		for i, a := range args {
			act.Args[i] = int8(a)
		}
		w.tidy(&to)
		emitRaw(Step[permitState]{Act: act, To: to, Fault: fault})
	}
	for i := range s.id {
		if w.Need[i] == 0 {
			continue
		}
		w.runs(s, i, emit)
		if w.dead(&s, i) {
			continue
		}
		w.hears(s, i, emit)
		w.deliver(s, i, emit)
		w.acts(s, i, emit)
		if w.seat(i) == i {
			w.comesToGate(s, i, emit)
		}
	}
	w.crash(s, emit)
	w.operator(s, emit)
	w.redisson(s, emit)
	w.tick(s, emit)
}

// tidy forgets what has no effect any more.
func (w *permitSystem) tidy(s *permitState) {
	for i := range s.id {
		e := &s.id[i]
		if e.phase == ends && e.quit && !e.rel && (!e.late && !e.relLate && e.renew == 0 || w.rules.NoSweep) {
			*e = permitEntry{in: e.in, left: e.left, place: e.place, late: e.late}
		}
		if e.phase != asking {
			e.base, e.wake, e.again, e.repeated, e.set = 0, false, false, false, false
		}
		if w.Linger == 0 || e.phase != asking && !e.fresh {
			e.asked, e.told, e.fresh, e.look = 0, false, false, false
		}
		if e.phase != working && e.phase != lingers {
			e.bound, e.passed = 0, 0
			if e.phase != asking {
				e.look, e.told, e.robbed = false, false, false
			}
		}
	}
	s.most = max(s.size, min(s.most, s.held()))
	s.hushed = s.hushed && s.absent
	s.javaWake = s.javaWake && s.javaWaits
	rank := int8(1)
	for i := w.next(s, 0); i >= 0; i = w.next(s, s.id[i].place) {
		s.id[i].place = rank
		rank++
	}
}

// crash emits the end of a process. What it has sent still runs.
func (w *permitSystem) crash(s permitState, emit permitEmit) {
	for p := range s.crashed {
		if s.crashes == 0 || s.crashed[p] {
			continue
		}
		next, used := s, false
		for i := range next.id {
			e := &next.id[i]
			if int(w.Proc[i]) != p || w.Need[i] == 0 {
				continue
			}
			used = used || e.phase != blank
			*e = permitEntry{
				in: e.in, left: e.left, place: e.place,
				late: e.late || e.ask > 0, rel: e.rel, relLate: e.relLate, renew: e.renew,
			}
			next.calls[i], next.line[i] = 0, 0
		}
		if used {
			next.crashes--
			next.crashed[p], next.lost = true, true
			emit("process {t} crashes", next, true, p+1)
		}
	}
}

// operator emits what is done to the counter by hand, and by late commands.
func (w *permitSystem) operator(s permitState, emit permitEmit) {
	if s.deletes > 0 && !s.absent {
		next := s
		next.deletes--
		next.absent, next.hushed, next.free = true, true, 0
		emit("the counter is deleted", next, true)
	}
	if int(s.sizes) < len(w.Sizes) && w.Sizes[s.sizes] > 0 {
		next := s
		next.sizes++
		w.setSize(&next, w.Sizes[s.sizes])
		emit("the size is set to {t}", next, true, int(w.Sizes[s.sizes]))
	}
	if next := s; s.lateSet {
		next.lateSet = false
		w.resize(&next)
		emit("a doubled command makes the counter anew", next, false)
	}
}

// runs emits what the server does with commands.
func (w *permitSystem) runs(s permitState, i int, emit permitEmit) {
	w.runsQuestion(s, i, emit)
	w.runsResize(s, i, emit)
	w.runsRelease(s, i, emit)
	w.runsRenewal(s, i, emit)
}

func (w *permitSystem) runsQuestion(s permitState, i int, emit permitEmit) {
	e := &s.id[i]
	if e.ask > 0 {
		next := s
		reply := w.acquire(&next, i)
		me := &next.id[i]
		me.ask, me.again = 0, false
		if s.faults > 0 {
			lost := next
			lost.faults--
			lost.lost = s.lost || reply == isNoSize // others wait for what it leads to
			emit("{c}'s question runs, its answer is lost", lost, true, i)
		}
		me.reply, me.replyAge, me.repeated = reply, e.ask-1, e.again
		emit("{c}'s question runs", next, false, i)
		if s.faults > 0 && !e.late {
			next.faults--
			me.late = true
			emit("{c}'s question runs, and comes a second time", next, true, i)
		}
	}
	if e.late {
		next := s
		reply := w.acquire(&next, i)
		next.id[i].late = false
		next.lost = s.lost || e.phase == asking && reply == isNoSize
		if e.phase == ends {
			next.id[i].quit = false // what it did is still to be undone
		}
		emit("a late question of {c} runs", next, false, i)
	}
}

func (w *permitSystem) runsResize(s permitState, i int, emit permitEmit) {
	if !s.id[i].set {
		return
	}
	next := s
	next.id[i].set = false
	w.resize(&next)
	next.id[i].ask, next.id[i].again = 1, true
	emit("{c} makes the counter anew, and asks again", next, false, i)
	if s.faults > 0 && !s.lateSet {
		next.faults--
		next.lateSet = true
		emit("{c} makes the counter anew, by a command that comes a second time", next, true, i)
	}
}

func (w *permitSystem) runsRelease(s permitState, i int, emit permitEmit) {
	e, dead := &s.id[i], w.dead(&s, i)
	if e.rel {
		next := s
		next.id[i].rel = false
		w.release(&next, i)
		if dead || s.faults > 0 {
			lost := next
			if !dead {
				lost.faults--
			}
			emit("{c}'s release runs, its answer is lost", lost, !dead, i)
		}
		if !dead {
			next.id[i].quit = true
			emit("{c}'s release runs", next, false, i)
			if s.faults > 0 && !e.relLate {
				next.faults--
				next.id[i].relLate = true
				emit("{c}'s release runs, and comes a second time", next, true, i)
			}
		}
	}
	if e.relLate {
		next := s
		next.id[i].relLate = false
		w.release(&next, i)
		emit("a late release of {c} runs", next, false, i)
	}
}

func (w *permitSystem) runsRenewal(s permitState, i int, emit permitEmit) {
	e, dead := &s.id[i], w.dead(&s, i)
	if e.renew == 0 {
		return
	}
	next := s
	in := w.prolong(&next, i)
	me := &next.id[i]
	me.renew = 0
	if s.faults > 0 && !dead {
		lost := next
		lost.faults--
		emit("{c}'s renewal runs, its answer is lost", lost, true, i)
	}
	me.robbed = false // it has asked
	switch {
	case dead || e.phase != working && e.phase != lingers:
	case in:
		me.renewed = e.renew
	case !w.rules.BelieveOn:
		w.end(&next, i)
	}
	emit("{c}'s renewal runs", next, false, i)
}

// end is the end of a wait or of a hold: what it asked for and was not answered may still come.
func (w *permitSystem) end(s *permitState, i int) {
	e := &s.id[i]
	*e = permitEntry{
		phase: ends, in: e.in, left: e.left, place: e.place,
		late: e.late || e.ask > 0, rel: e.rel, relLate: e.relLate, renew: e.renew,
	}
}

// granted makes i hold its permits.
func (w *permitSystem) granted(s *permitState, i int, bound int8, fresh bool) {
	e := &s.id[i]
	if bound <= 0 {
		w.end(s, i)
		s.line[w.seat(i)]++ // its caller asks under a new id
		return
	}
	e.late = e.late || e.ask > 0
	e.ask, e.reply, e.push = 0, unheard, false
	e.phase, e.bound, e.fresh = working, bound, fresh
}

// keeps reports whether the hold of i may be idle for its process.
func (w *permitSystem) keeps(s *permitState, i int) bool {
	e := &s.id[i]
	return e.fresh && !e.told && e.asked < w.Linger && e.bound > 0
}

// comesToGate emits a call: it takes an idle hold of its process, stands behind the gate, or asks.
func (w *permitSystem) comesToGate(s permitState, seat int, emit permitEmit) {
	gate, idle, empty := -1, -1, -1
	for i := range s.id {
		e := &s.id[i]
		switch {
		case w.Need[i] != w.Need[seat] || w.Proc[i] != w.Proc[seat]:
		case e.phase == asking:
			gate = i
		case e.phase == lingers && w.keeps(&s, i):
			idle = i
		case *e == permitEntry{} && empty < 0:
			empty = i
		}
	}
	next := s
	waits := s.line[seat] > 0
	if waits {
		next.line[seat]--
	} else if s.calls[seat] > 0 {
		next.calls[seat]--
	} else {
		return
	}
	switch {
	case idle >= 0:
		next.id[idle].phase = working
		emit("one more comes, and takes the idle hold of {c}", next, false, idle)
	case gate < 0 && empty >= 0:
		next.id[empty] = permitEntry{phase: asking, ask: 1}
		emit("{c} asks for {t}", next, false, empty, int(w.Need[seat]))
	case gate >= 0 && !waits:
		next.line[seat]++
		emit("one more comes behind {c}'s gate", next, false, seat)
	}
	if waits && s.calls[seat] > 0 {
		next = s
		next.calls[seat]--
		next.line[seat]++
		emit("one more comes behind {c}'s gate", next, false, seat)
	}
}

// acts emits what a process does with an acquisition.
func (w *permitSystem) acts(s permitState, i int, emit permitEmit) {
	e, next := &s.id[i], s
	me := &next.id[i]
	switch e.phase {
	case asking:
		if e.ask == 0 && e.reply == unheard && !e.set {
			me.ask, me.again, me.wake = 1, true, false
			emit("{c} asks again", next, false, i)
		}
		if next = s; s.faults > 0 {
			next.faults--
			w.end(&next, i)
			emit("{c} gives up", next, true, i)
		}
	case working:
		seat := w.seat(i)
		switch {
		case s.line[seat] > 0 && (e.passed < w.Passes || w.rules.PassUnbounded):
			w.passesOn(&next, i)
			emit("{c} passes its permits on in memory", next, false, i)
		case w.keeps(&s, i):
			me.phase = lingers
			emit("{c} is done, and keeps its permits", next, false, i)
		default:
			w.end(&next, i)
			me.rel = true
			emit("{c} sends its release", next, false, i)
		}
	case ends:
		if !e.rel && !e.quit {
			me.rel = true
			emit("{c} sends its release again", next, false, i)
		}
	}
	holds := e.phase == working || e.phase == lingers
	if next = s; w.Renews && holds && e.renew == 0 && e.renewed == 0 && e.bound < w.Lease {
		me.renew = 1
		emit("{c} sends a renewal", next, false, i)
	}
}

// passesOn gives a hold to the next goroutine of its process.
func (w *permitSystem) passesOn(s *permitState, i int) {
	e := &s.id[i]
	s.line[w.seat(i)]--
	if e.passed++; e.passed > w.Passes {
		s.broken = "bound: one is passed on past the bound"
		e.passed = w.Passes
	}
}

// hears emits what answers lead to.
func (w *permitSystem) hears(s permitState, i int, emit permitEmit) {
	e, next := &s.id[i], s
	me := &next.id[i]
	if e.reply != unheard {
		me.reply, me.replyAge, me.repeated = unheard, 0, false
		switch e.reply {
		case isMine:
			age := e.replyAge
			if w.rules.DateByReply {
				age = 0
			}
			w.granted(&next, i, w.Lease-age, !e.repeated || w.rules.AnyAnswer)
			emit("{c} HEARS that it has its permits", next, false, i)
		case isTooMany:
			w.end(&next, i)
			me.quit = w.rules.TooManyOver
			emit("{c} hears that there are too few for it", next, false, i)
		case isNoSize:
			me.set = true
			emit("{c} hears that there is no counter", next, false, i)
		default:
			me.base, me.push = e.replyAge, e.push && e.in&1 != 0
			emit("{c} hears that it is queued", next, false, i)
		}
	}
	if next = s; e.renewed > 0 {
		me.renewed = 0
		me.bound = max(e.bound, w.Lease-e.renewed+1)
		emit("{c} hears that its lease is renewed", next, false, i)
	}
}

// deliver emits the messages, and their loss.
func (w *permitSystem) deliver(s permitState, i int, emit permitEmit) {
	e := &s.id[i]
	lossy := func(to permitState, text string) {
		if s.faults > 0 {
			to.faults--
			to.lost = true
			emit(text, to, true, i)
		}
	}
	if next := s; e.push {
		next.id[i].push = false
		lossy(next, "the message of {c}'s grant is lost")
		switch {
		case e.phase == asking:
			w.granted(&next, i, w.Lease-e.base, w.rules.Handed)
		case e.phase == ends:
			next.id[i].quit = false // a grant that no caller wants is given back
		}
		emit("{c} HEARS by message that it has its permits", next, false, i)
	}
	if next := s; e.look {
		me := &next.id[i]
		me.look = false
		lossy(next, "word for {c} that permits are wanted is lost")
		me.told = me.told || !w.rules.WantedIgnored && (e.phase != asking || !w.rules.WantedAwaits)
		if e.phase == lingers && me.told {
			w.end(&next, i)
		}
		emit("{c} hears that permits are wanted", next, false, i)
	}
	if next := s; e.wake && e.ask == 0 && e.reply == unheard && !e.set { // else it asks once it has its answer
		me := &next.id[i]
		me.wake = false
		lossy(next, "word for {c} that permits are free is lost")
		me.ask, me.again = 1, true
		emit("{c} hears that permits are free, and asks", next, false, i)
	}
}

// tick emits the passing of time. That something is under way meanwhile is a fault.
func (w *permitSystem) tick(s permitState, emit permitEmit) {
	if s.turn {
		return
	}
	delayed := s.javaWake
	for i := range s.id {
		delayed = delayed || s.id[i].busy() && !w.dead(&s, i)
	}
	if delayed {
		if s.faults == 0 {
			return
		}
		s.faults--
	}
	for i := range s.id {
		w.older(&s, i)
	}
	s.javaLeft = max(0, s.javaLeft-1)
	s.javaBound = max(0, s.javaBound-1)
	emit("a tick passes", s, delayed)
}

func (w *permitSystem) older(s *permitState, i int) {
	e := &s.id[i]
	e.left = max(0, e.left-1)
	if e.ask > 0 {
		if e.ask++; e.ask > w.Lease {
			e.ask, e.again, e.late = 0, false, true // an answer would be of no use any more
		}
	}
	if e.reply != unheard {
		e.replyAge = min(e.replyAge+1, w.Lease)
	}
	if e.renew > 0 {
		e.renew = min(e.renew+1, w.Lease+1)
	}
	if e.renewed > 0 {
		e.renewed = min(e.renewed+1, w.Lease+1)
	}
	if e.phase == asking {
		e.base = min(e.base+1, w.Lease)
	}
	e.asked = min(e.asked+1, w.Linger)
	if e.phase != working && e.phase != lingers {
		return
	}
	if e.bound--; e.bound > 0 {
		if e.phase == lingers && !w.keeps(s, i) {
			w.end(s, i)
		}
		return
	}
	if w.rules.PassLate && s.line[w.seat(i)] > 0 && e.passed < w.Passes {
		w.passesOn(s, i)
		e.bound = 1 // its next renewal will tell
		return
	}
	w.end(s, i)
}
