package model

import "math/bits"

// What processes that linger do, and the server; its scripts are in linger_server.go.

type lingerEmit func(text string, to lingerState, fault bool, args ...int)

func (w *lingerSystem) steps(s lingerState, emitRaw func(Step[lingerState])) {
	emit := func(text string, to lingerState, fault bool, args ...int) {
		act := Action{Text: text}
		for i, a := range args {
			act.Args[i] = int8(a)
		}
		w.tidy(&to)
		emitRaw(Step[lingerState]{Act: act, To: to, Fault: fault})
	}
	for i := range s.id {
		w.serve(s, i, emit)
		w.deliver(s, i, emit)
		if p := &s.proc[i/2]; !p.crashed && !p.stopped {
			w.hears(s, i, emit)
			w.acts(s, i, emit)
		}
	}
	for p := range s.proc {
		w.process(s, p, emit)
	}
	w.foreigner(s, emit)
	w.ticks(s, emit)
}

// tidy forgets what concerns nobody any more.
func (w *lingerSystem) tidy(s *lingerState) {
	for i := range s.id {
		a := &s.id[i]
		over := a.phase == ends && a.quit && a.ask == 0 && !a.rel
		if gone := s.proc[i/2].crashed && !a.owns && a.place == 0 && a.ask == 0 && !a.rel; over || gone {
			*a = lingerID{}
		}
	}
	owner := s.owner()
	for i := range s.id {
		a := &s.id[i]
		if a.believes() && !a.fresh {
			a.base, a.left, a.next = 0, 0, 0
		}
		if owner < 0 || s.id[owner].phase != asking && !s.id[owner].fresh {
			a.waited = 0 // nobody could pass it over
		}
	}
	s.rank()
}

// rank renumbers the grants by their order, so that there is no end to them.
func (s *lingerState) rank() {
	used := uint64(1) | 1<<s.counter | 1<<(s.issued/lingerBlock)
	for i := range s.id {
		used |= 1<<s.id[i].first | 1<<(s.id[i].next/lingerBlock)
	}
	rank := func(grant int8) int8 { return int8(bits.OnesCount64(used & (1<<grant - 1))) }
	s.counter = rank(s.counter)
	s.issued = lingerBlock*rank(s.issued/lingerBlock) + s.issued%lingerBlock
	for i := range s.id {
		a := &s.id[i]
		a.first, a.next = rank(a.first), lingerBlock*rank(a.next/lingerBlock)+a.next%lingerBlock
	}
}

// cacheable reports whether the hold may go to a Lock of its process without a command.
func (w *lingerSystem) cacheable(s *lingerState, i int) bool {
	a := &s.id[i]
	if !a.fresh || a.told || a.left == 0 || s.proc[i/2].closed {
		return false
	}
	return (a.base < w.Linger || w.rules.NoBound) && (a.bound > 0 || w.rules.NoBelief)
}

// active returns the acquisition that process p has and is not over, -1 for none, and a free one.
func (s *lingerState) active(p int) (active, free int) {
	active, free = -1, -1
	for _, i := range [2]int{2 * p, 2*p + 1} {
		switch s.id[i].phase {
		case blank:
			if free < 0 && s.id[i] == (lingerID{}) {
				free = i
			}
		case ends:
		default:
			active = i
		}
	}
	return active, free
}

// process emits the Locks of a process, and what befalls it as a whole.
func (w *lingerSystem) process(s lingerState, p int, emit lingerEmit) {
	proc := &s.proc[p]
	if proc.crashed {
		return
	}
	if proc.stopped {
		next := s
		next.proc[p].stopped = false
		emit("{c} goes on", next, false, p)
		return
	}
	if s.faults > 0 {
		next := s
		next.faults--
		next.proc[p].stopped, next.proc[p].late = true, true
		emit("{c} is stopped", next, true, p)
		if next = s; !w.Stops {
			next.faults--
			next.proc[p].crashed = true
			emit("{c} crashes", next, true, p)
		}
	}
	if proc.deaf {
		next := s
		next.proc[p].deaf = false
		for i := range next.id {
			next.id[i].told = next.id[i].told || i/2 == p && next.id[i].phase != blank && !w.rules.MissedForgets
			w.leaveIdle(&next, i)
		}
		emit("{c}'s inbox is subscribed", next, false, p)
	}
	active, free := s.active(p)
	if w.Close && !proc.closed && proc.locks == 0 && (active < 0 || s.id[active].phase == lingers) {
		next := s
		next.proc[p].closed = true
		if active >= 0 && !w.rules.CloseForgets {
			next.id[active].phase = ends
		} else if active >= 0 {
			next.id[active].phase = blank
		}
		emit("{c} is closed", next, true, p)
	}
	if proc.locks > 0 && !proc.closed {
		w.locks(s, p, active, free, emit)
	}
}

// leaveIdle ends an idle hold that somebody else may wait for.
func (w *lingerSystem) leaveIdle(s *lingerState, i int) {
	if a := &s.id[i]; a.phase == lingers && a.told && !w.rules.LookIgnored {
		a.phase = ends
	}
}

// locks is a Lock: the idle hold is taken, or ended for a new acquisition.
func (w *lingerSystem) locks(s lingerState, p, active, free int, emit lingerEmit) {
	next := s
	next.proc[p].locks--
	if w.rules.UseEnded && active < 0 {
		for _, i := range [2]int{2 * p, 2*p + 1} {
			if a := &s.id[i]; a.phase == ends && a.bound > 0 && a.left > 0 && a.fresh {
				used := next
				used.id[i].phase = working
				w.begin(&used, i)
				emit("{c} takes back the hold that it releases", used, false, p)
			}
		}
	}
	switch {
	case active >= 0 && s.id[active].phase != lingers:
	case active >= 0 && w.cacheable(&s, active):
		w.begin(&next, active)
		emit("{c} LOCKS from its cache", next, false, p)
	case free >= 0:
		if active >= 0 {
			next.id[active].phase = ends
		}
		next.id[free] = lingerID{phase: asking, ask: 1, try: w.Try && p == 1}
		emit("{c} calls Lock and asks", next, false, p)
	}
}

// begin starts a lease with the next token.
func (w *lingerSystem) begin(s *lingerState, i int) {
	a := &s.id[i]
	if a.next <= s.issued {
		s.broken = "token of " + letter(i/2) + " is not above all before"
	}
	if a.phase != asking {
		w.judge(s, i)
	}
	s.issued = max(s.issued, a.next)
	a.phase, a.idle = working, 0
	a.next++
	if a.left--; a.left == 0 {
		a.next = 0
	}
}

// judge notes a lease without a command that begins when somebody else has waited for too long. One whose process was
// stopped knows no better, but it must have asked its own clock.
func (w *lingerSystem) judge(s *lingerState, i int) {
	if !s.id[i].owns {
		s.broken = "bound: " + letter(i/2) + " locks what Redis has ended"
	}
	for k := range s.id {
		if k/2 != i/2 && s.id[k].place > 0 && s.id[k].waited >= w.Linger {
			s.broken = "bound: " + letter(i/2) + " locks from its cache beside one who waits"
		}
	}
	if s.foreign > w.Linger {
		s.broken = "bound: " + letter(i/2) + " locks from its cache beside one of Redisson's who waits"
	}
}

// acts emits what the process does with an acquisition.
func (w *lingerSystem) acts(s lingerState, i int, emit lingerEmit) {
	a, p := &s.id[i], i/2
	next := s
	me := &next.id[i]
	switch a.phase {
	case asking:
		if out := s.id[i^1].rel && s.id[i^1].queues; a.ask == 0 && a.reply == unheard && !a.try && !out {
			me.ask, me.again = 1, true
			emit("{c} asks again", next, false, p)
		}
		if next = s; s.faults > 0 && !w.Stops {
			next.faults--
			next.id[i].phase = ends
			emit("{c} gives up", next, true, p)
		}
	case working:
		w.unlocks(s, i, emit)
	case ends:
		if !a.rel && !a.quit {
			me.rel = true
			emit("{c} sends its release", next, false, p)
		}
	}
	next = s
	if a.believes() && w.Renews && a.renew == 0 && a.renewed == 0 && a.bound < w.Lease {
		next.id[i].renew = 1
		emit("{c} sends a renewal", next, false, p)
	}
}

// unlocks emits an Unlock: the hold lingers, or its release is sent, which may queue the next Lock of the process.
func (w *lingerSystem) unlocks(s lingerState, i int, emit lingerEmit) {
	a, p, next := &s.id[i], i/2, s
	me := &next.id[i]
	if w.cacheable(&s, i) {
		me.phase, me.idle = lingers, 0
		emit("{c} unlocks, and its hold LINGERS", next, false, p)
		return
	}
	me.phase, me.rel = ends, true
	emit("{c} unlocks and sends its release", next, false, p)
	if _, free := s.active(p); free >= 0 && s.proc[p].locks > 0 && !(w.Try && p == 1) && !a.rel {
		me.queues = true
		next.proc[p].locks--
		next.id[free] = lingerID{phase: asking}
		emit("{c} unlocks and sends its release, which queues the next", next, false, p)
	}
}

// hears emits what answers lead to. Messages are in deliver.
func (w *lingerSystem) hears(s lingerState, i int, emit lingerEmit) {
	a, p, next := &s.id[i], i/2, s
	me := &next.id[i]
	if a.reply != unheard {
		me.reply, me.replyAge, me.repeated = unheard, 0, false
		switch {
		case a.phase != asking:
			emit("{c} hears an answer too late", next, false, p)
		case a.reply == isMine:
			w.granted(&next, i, w.Lease-a.replyAge, !a.repeated || w.rules.AnyAnswer)
			if w.rules.AnyAnswer {
				next.id[i].base = a.replyAge
			}
			if w.rules.DateByReply {
				next.id[i].base = 0
			}
			emit("{c} HEARS that it has the lock", next, false, p)
		case a.reply == isHeld:
			me.phase = blank
			emit("{c} hears that the lock is held, and leaves", next, false, p)
		default:
			me.base, me.push = a.replyAge, a.push && me.owns // a grant of before that answer counts no more
			emit("{c} hears that it is queued", next, false, p)
		}
	}
	next = s
	if me = &next.id[i]; a.renewed > 0 {
		age := a.renewed - 1
		me.renewed = 0
		if a.believes() {
			me.bound = max(a.bound, w.Lease-age)
			if w.rules.RenewDates {
				me.base = age
			}
		}
		emit("{c} hears that its lease is renewed", next, false, p)
	}
}

// granted makes the lock be worked under.
func (w *lingerSystem) granted(s *lingerState, i int, bound int8, fresh bool) {
	a := &s.id[i]
	if bound <= 0 {
		a.phase = ends
		return
	}
	a.bound, a.fresh = bound, fresh
	a.told = a.told || s.proc[i/2].deaf && !w.rules.DeafLingers
	a.next, a.left = lingerBlock*a.first, w.Block
	w.begin(s, i)
}

// deliver emits the messages, which come to a process that runs and whose inbox is subscribed, and their loss.
func (w *lingerSystem) deliver(s lingerState, i int, emit lingerEmit) {
	a, p := &s.id[i], i/2
	proc := &s.proc[p]
	if (a.push || a.look) && proc.deaf {
		next := s
		next.id[i].push, next.id[i].look = false, false
		emit("nobody listens to a message for {c}", next, false, p)
		return
	}
	if proc.crashed || proc.stopped && !w.Stops && s.faults == 0 {
		return
	}
	if a.push {
		next := s
		me := &next.id[i]
		me.push = false
		if s.faults > 0 && !w.Stops {
			lost := next
			lost.faults--
			lost.lost = true
			emit("the message of {c}'s grant is lost", lost, true, p)
		}
		if !proc.stopped {
			if a.phase == asking {
				w.granted(&next, i, w.Lease-a.base, w.rules.Handed)
			}
			emit("{c} HEARS by message that it has the lock", next, false, p)
		}
	}
	if a.look {
		next := s
		next.id[i].look = false
		if s.faults > 0 && !w.Stops {
			lost := next
			lost.faults--
			lost.lost = true
			emit("a look for {c} is lost", lost, true, p)
		}
		if !proc.stopped {
			next.id[i].told = a.told || a.phase != blank && !(w.rules.LookAwaits && a.phase == asking) && !w.rules.LookIgnored
			w.leaveIdle(&next, i)
			emit("{c} hears that somebody waits", next, false, p)
		}
	}
}
