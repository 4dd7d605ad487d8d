package model

import "math/bits"

// What readers and writers do, and time; the scripts are in rw_server.go.

type rwEmit func(text string, to rwState, fault bool, args ...int)

func (w *rwSystem) steps(s rwState, emitRaw func(Step[rwState])) {
	emit := func(text string, to rwState, fault bool, args ...int) {
		act := Action{Text: text}
		for i, a := range args {
			act.Args[i] = int8(a)
		}
		w.tidy(&to)
		emitRaw(Step[rwState]{Act: act, To: to, Fault: fault})
	}
	for i := range s.id {
		if w.Side[i] == noMode {
			continue
		}
		w.serve(s, i, emit)
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
	if w.Crash && s.faults > 0 {
		w.crash(s, emit)
	}
	if w.Back && s.faults > 0 {
		next := s
		next.faults--
		next.back = true
		emit("the server's clock jumps back", next, true)
	}
	w.redisson(s, emit)
	w.tick(s, emit)
}

// crash emits the end of a process. What it has sent still runs.
func (w *rwSystem) crash(s rwState, emit rwEmit) {
	for p := range s.crashed {
		next := s
		used := false
		for i := range next.id {
			e := &next.id[i]
			if int(w.Proc[i]) == p && w.Side[i] != noMode {
				used = used || e.phase != blank
				*e = rwEntry{
					in: e.in, key: e.key, place: e.place, keeps: e.keeps, first: e.first, down: e.down, owed: e.owed && w.Polled,
					late: e.late || e.ask > 0, rel: e.rel, relLate: e.relLate, renew: e.renew,
				}
				next.calls[i], next.line[i] = 0, 0
			}
		}
		if used && !s.crashed[p] {
			next.faults--
			next.crashed[p], next.lost = true, true
			emit("process {t} crashes", next, true, p+1)
		}
	}
}

// tidy forgets what has no effect any more.
func (w *rwSystem) tidy(s *rwState) {
	for i := range s.id {
		e := &s.id[i]
		if e.phase == ends && e.quit && !e.rel && (!e.late && !e.relLate && e.renew == 0 || w.rules.NoSweep) {
			*e = rwEntry{in: e.in, place: e.place, keeps: e.keeps, late: e.late}
		}
		if e.phase != asking {
			e.told, e.base, e.known, e.wake, e.again, e.repeated = false, 0, 0, false, false, false
			e.owed = e.owed && e.place > 0
			if e.place == 0 {
				e.before = 0
			}
			if e.down > 0 && (e.phase != working || !s.id[e.down-1].in) && !e.late {
				e.down = 0
			}
		}
		if e.phase != asking && !e.open {
			e.asked = 0
		}
		if e.phase == asking && w.Window == 0 {
			e.asked, e.told = 0, false
		}
		if e.place == 0 {
			e.over, e.waited, e.keeps = 0, 0, 0
		}
		if e.phase != working {
			e.bound = 0
			if e.phase != asking || e.down == 0 {
				e.num = 0
			}
		}
		if !e.in && e.reply != isMine && !e.push {
			e.first = 0
		}
		if e.phase != working && e.phase != asking {
			e.look = false
		}
	}
	s.rank()
}

// rank renumbers tokens and tickets by their order, so that there is no end to them.
func (s *rwState) rank() {
	rank := func(visit func(func(*int8))) {
		used := uint64(1)
		visit(func(n *int8) { used |= 1 << *n })
		visit(func(n *int8) { *n = int8(bits.OnesCount64(used & (1<<*n - 1))) })
	}
	least := int8(64)
	for i := range s.id {
		for _, t := range [...]int8{s.id[i].place, s.id[i].known} {
			if t > 0 {
				least = min(least, t)
			}
		}
	}
	if s.upTo < least {
		s.upTo = 0 // those it was for are in
	}
	if least == 64 {
		s.clock = 0
	}
	for i := range s.id {
		for k := range s.id {
			if s.id[k].place == 0 && s.id[k].known == 0 {
				s.id[i].before &^= 1 << k
			}
		}
	}
	rank(s.tickets)
	rank(func(do func(*int8)) {
		for _, n := range [...]*int8{&s.counter, &s.lastWriter, &s.topWriter, &s.top} {
			do(n)
		}
		for i := range s.id {
			do(&s.id[i].first)
			do(&s.id[i].num)
		}
	})
}

// tickets visits them.
func (s *rwState) tickets(do func(*int8)) {
	do(&s.clock)
	do(&s.upTo)
	for i := range s.id {
		do(&s.id[i].place)
		do(&s.id[i].known)
	}
}

// serve emits what the server does with commands.
func (w *rwSystem) serve(s rwState, i int, emit rwEmit) {
	e, dead := &s.id[i], w.dead(&s, i)
	if e.ask > 0 {
		next := s
		me := &next.id[i]
		me.ask, me.again = 0, false
		reply := w.acquire(&next, i)
		if s.faults > 0 {
			lost := next
			lost.faults--
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
		next.id[i].late = false
		w.acquire(&next, i)
		if e.phase == ends {
			next.id[i].quit = false // what it did is still to be undone
		}
		emit("a late question of {c} runs", next, false, i)
	}
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
	if e.renew > 0 {
		next := s
		me := &next.id[i]
		me.renew = 0
		if in := w.prolong(&next, i); in {
			me.renewed = e.renew
		} else if e.phase == working {
			w.end(&next, i)
		}
		if dead || e.phase != working {
			me.renewed = 0
		}
		emit("{c}'s renewal runs", next, false, i)
	}
}

// end is the end of a wait or of a hold: what it asked for and was not answered may still come.
func (w *rwSystem) end(s *rwState, i int) {
	e := &s.id[i]
	s.line[w.seat(i)] += e.let
	*e = rwEntry{
		phase: ends, in: e.in, key: e.key, place: e.place, keeps: e.keeps, first: e.first, down: e.down,
		owed: e.owed, before: e.before, over: e.over, waited: e.waited,
		late: e.late || e.ask > 0, rel: e.rel, relLate: e.relLate, renew: e.renew,
	}
}

// begin starts a lease.
func (w *rwSystem) begin(s *rwState, i int) {
	e := &s.id[i]
	e.uses++
	if e.num < s.topWriter || e.num == s.topWriter && e.down == 0 || w.Side[i] == writes && e.num <= s.top {
		s.broken = "token of " + letter(i) + " is not above all before that it may not meet"
	}
	s.top = max(s.top, e.num)
	if w.Side[i] == writes {
		s.topWriter = max(s.topWriter, e.num)
	}
}

// granted makes i hold the lock, and lets in those behind the gate.
func (w *rwSystem) granted(s *rwState, i int, bound int8, fresh bool) {
	e, seat := &s.id[i], w.seat(i)
	writer := int(e.down) - 1
	if bound <= 0 || writer >= 0 && s.id[writer].phase != working && !w.rules.DownBlind && !w.rules.Gap {
		w.end(s, i)
		return
	}
	e.late = e.late || e.ask > 0
	e.ask, e.reply, e.push = 0, unheard, false
	if e.down > 0 && s.lastWriter != e.num {
		s.broken = "gap: another wrote before " + letter(i) + " read"
	}
	e.phase, e.bound, e.num = working, bound, e.first
	w.begin(s, i)
	if w.Side[i] == reads && e.down == 0 {
		e.let, s.line[seat] = s.line[seat], 0
		e.open = fresh && !e.told
		e.open = w.joinable(s, i)
	}
	if writer >= 0 && s.id[writer].phase == working {
		w.end(s, writer)
		s.id[writer].rel = true
	}
}

// joinable reports whether one that comes may share the hold.
func (w *rwSystem) joinable(s *rwState, i int) bool {
	e := &s.id[i]
	return e.open && e.phase == working && (e.asked < w.Window || w.rules.NoWindow && w.Window > 0) && e.bound > 0
}

// shutGate ends that all who come may join. An idle hold is released.
func (w *rwSystem) shutGate(s *rwState, i int) {
	e := &s.id[i]
	e.open = false
	if e.phase == working && e.uses == 0 && e.let == 0 {
		w.end(s, i)
	}
}

// comesToGate emits a call: it joins a hold of its process, stands behind the gate, or asks.
func (w *rwSystem) comesToGate(s rwState, seat int, emit rwEmit) {
	gate, open, empty := -1, -1, -1
	for i := range s.id {
		e := &s.id[i]
		switch {
		case w.Side[i] != w.Side[seat] || w.Proc[i] != w.Proc[seat]:
		case e.phase == asking && e.down == 0, e.phase == working && w.Side[i] == writes:
			gate = i
		case e.open:
			open = i
		case *e == rwEntry{} && empty < 0:
			empty = i
		}
	}
	asks := func(next rwState, text string) {
		next.id[empty] = rwEntry{phase: asking, ask: 1}
		emit(text, next, false, empty)
	}
	if s.line[seat] > 0 && gate < 0 && open < 0 && empty >= 0 {
		next := s
		next.line[seat]--
		asks(next, "one that stood behind the gate asks as {c}")
	}
	if s.calls[seat] == 0 {
		return
	}
	next := s
	next.calls[seat]--
	switch {
	case open >= 0 && w.joinable(&s, open):
		w.judge(&next, open)
		w.begin(&next, open)
		emit("one more comes, and shares the hold of {c}", next, false, open)
	case gate >= 0 && w.Side[seat] == reads && s.line[seat] == 0:
		next.line[seat]++
		emit("one more comes behind {c}'s gate", next, false, seat)
	case gate < 0 && empty >= 0:
		if open >= 0 {
			w.shutGate(&next, open)
		}
		asks(next, "{c} asks for the lock")
	}
}

// judge notes a lease without a command that begins when somebody else has waited for too long.
func (w *rwSystem) judge(s *rwState, i int) {
	for k := range s.id {
		if w.seat(k) != w.seat(i) && !w.dead(s, k) && s.id[k].place > 0 && s.id[k].waited >= w.Window {
			s.broken = "window: " + letter(i) + " is shared beside " + letter(k) + ", who waits"
		}
	}
	if s.waits > w.Window {
		s.broken = "window: " + letter(i) + " is shared beside one of Redisson's, who waits"
	}
}

// acts emits what a process does with an acquisition.
func (w *rwSystem) acts(s rwState, i int, emit rwEmit) {
	e, next := &s.id[i], s
	switch me := &next.id[i]; e.phase {
	case asking:
		if e.ask == 0 && e.reply == unheard && e.down == 0 {
			me.ask, me.again, me.wake = 1, true, false
			emit("{c} asks again", next, false, i)
		}
		if next = s; s.faults > 0 || e.down > 0 && e.ask == 0 && e.reply == unheard {
			if e.down == 0 || e.ask > 0 || e.reply != unheard {
				next.faults--
			}
			w.end(&next, i)
			emit("{c} gives up", next, next.faults != s.faults, i)
		}
	case working:
		w.works(s, i, emit)
	case ends:
		if !e.rel && !e.quit {
			me.rel = true
			emit("{c} sends its release", next, false, i)
		}
	}
}

// downgrading is the reader that the writer i is about to be, -1 for none.
func (s *rwState) downgrading(i int) int {
	for k := range s.id {
		if s.id[k].down == int8(i+1) && s.id[k].phase == asking {
			return k
		}
	}
	return -1
}

// works emits what a holder does.
func (w *rwSystem) works(s rwState, i int, emit rwEmit) {
	e, next := &s.id[i], s
	me := &next.id[i]
	if e.let > 0 {
		me.let--
		w.begin(&next, i)
		emit("one that was let in comes, and shares the hold of {c}", next, false, i)
	}
	if next = s; e.uses > 0 && s.downgrading(i) < 0 {
		me.uses--
		switch {
		case me.uses > 0, me.let > 0 && !w.rules.NoAwait, w.Linger && w.joinable(&next, i):
			emit("{c} unlocks, and its hold stays", next, false, i)
		case me.let > 0:
			me.rel = true
			emit("{c} unlocks and sends its release", next, false, i)
		default:
			w.end(&next, i)
			me.rel = true
			emit("{c} unlocks and sends its release", next, false, i)
		}
	}
	if next = s; w.Renews && e.renew == 0 && e.renewed == 0 && e.bound < w.leaseOf(i) {
		me.renew = 1
		emit("{c} sends a renewal", next, false, i)
	}
	if w.Down && w.Side[i] == writes && e.uses > 0 && s.downgrading(i) < 0 {
		for k := range s.id {
			if w.Side[k] == reads && w.Proc[k] == w.Proc[i] && s.id[k] == (rwEntry{}) {
				next = s
				next.id[k] = rwEntry{phase: asking, ask: 1, down: int8(i + 1), num: e.num}
				if w.rules.Gap {
					w.end(&next, i)
					next.id[i].rel = true
				}
				emit("{c} asks to read on", next, false, i)
				break
			}
		}
	}
}

// hears emits what answers lead to.
func (w *rwSystem) hears(s rwState, i int, emit rwEmit) {
	e, next := &s.id[i], s
	me := &next.id[i]
	if e.reply != unheard {
		me.reply, me.replyAge, me.repeated = unheard, 0, false
		switch {
		case e.reply == isMine:
			age := e.replyAge
			if w.rules.DateByReply {
				age = 0
			}
			w.granted(&next, i, w.leaseOf(i)-age, !e.repeated || w.rules.AnyAnswer)
			emit("{c} HEARS that it has the lock", next, false, i)
		case e.reply == isHeld:
			w.end(&next, i)
			if writer := int(e.down) - 1; s.id[writer].phase == working {
				w.end(&next, writer)
			}
			emit("{c} hears that its writer is lost", next, false, i)
		default:
			me.base, me.known, me.push = e.replyAge, e.place, e.push && e.in
			emit("{c} hears that it is queued", next, false, i)
		}
	}
	if next = s; e.renewed > 0 {
		me.renewed = 0
		me.bound = max(e.bound, w.leaseOf(i)-e.renewed+1)
		if w.rules.RenewWindow {
			me.asked = 0
		}
		emit("{c} hears that its lease is renewed", next, false, i)
	}
}

// deliver emits the messages, and their loss.
func (w *rwSystem) deliver(s rwState, i int, emit rwEmit) {
	e := &s.id[i]
	lossy := func(to rwState, text string) {
		if s.faults > 0 {
			to.faults--
			to.lost = true
			emit(text, to, true, i)
		}
	}
	if next := s; e.push {
		next.id[i].push = false
		lossy(next, "the message of {c}'s grant is lost")
		if e.phase == asking {
			w.granted(&next, i, w.leaseOf(i)-e.base, w.rules.Handed)
		}
		emit("{c} HEARS by message that it has the lock", next, false, i)
	}
	if next := s; e.look {
		me := &next.id[i]
		me.look = false
		lossy(next, "word for {c} that another wants the lock is lost")
		if e.phase == asking && !w.rules.WantedAwaits && !w.rules.WantedIgnored {
			me.told = true
		}
		if e.phase == working && !w.rules.WantedIgnored {
			w.shutGate(&next, i)
		}
		emit("{c} hears that another wants the lock", next, false, i)
	}
	if next := s; e.wake && e.ask == 0 && e.reply == unheard { // else it asks once it has its answer
		me := &next.id[i]
		me.wake, me.ask, me.again = false, 1, true
		emit("{c} hears that the lock may be open", next, false, i)
	}
}

// tick emits the passing of time. That something is under way meanwhile is a fault.
func (w *rwSystem) tick(s rwState, emit rwEmit) {
	delayed := s.turn
	for i := range s.id {
		delayed = delayed || s.id[i].busy() && !w.dead(&s, i)
	}
	if delayed && (s.faults == 0 || s.turn) {
		return
	}
	if delayed {
		s.faults--
	}
	for i := range s.id {
		w.older(&s, i)
	}
	if s.ttl = max(0, s.ttl-1); s.ttl == 0 && s.java != noMode {
		s.ttl = w.Dog // it has renewed
	}
	if s.mode != noMode && s.ttl == 0 {
		s.lost = true
		for i := range s.id {
			s.id[i].in = false
		}
		s.mode = noMode
	}
	if s.waits > 0 {
		s.waits = min(s.waits+1, w.Window+2)
	}
	emit("a tick passes", s, delayed)
}

func (w *rwSystem) older(s *rwState, i int) {
	e := &s.id[i]
	if e.key > 0 {
		if e.key--; e.key == 0 && e.in {
			s.lost = true
		}
	}
	if e.place > 0 {
		if e.waited == 0 && w.Side[i] == reads && s.mode == readMode {
			e.wake = e.phase == asking && !w.dead(s, i) // it is shut out no more
		}
		e.waited = min(e.waited+1, max(w.Window, 1))
		if w.dead(s, i) {
			e.keeps = max(0, e.keeps-1)
		}
	}
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
	if e.phase == asking || e.open {
		e.asked = min(e.asked+1, w.Window)
	}
	if e.phase == working {
		if e.bound--; e.bound <= 0 {
			s.lost = true
			w.end(s, i)
			return
		}
		if e.open && e.asked >= w.Window && !w.rules.NoWindow {
			w.shutGate(s, i)
		}
	}
}
