package model

// What happens to a result: the leaders, those that wait for them, and the server.

type onceEmit func(s onceState, fault bool, text string, args ...int8)

func (w *onceSystem) steps(s onceState, emit func(Step[onceState])) {
	goes := func(to onceState, fault bool, text string, args ...int8) {
		act := Action{Text: text}
		copy(act.Args[:], args)
		emit(Step[onceState]{Act: act, To: to, Fault: fault})
	}
	for p := range int8(onceProcs) {
		w.comes(s, p, goes)
		w.hears(s, p, goes)
		w.runs(s, p, goes)
		w.serves(s, p, goes)
	}
	w.harms(s, goes)
}

// comes emits callers that come.
func (w *onceSystem) comes(s onceState, p int8, goes onceEmit) {
	next := s
	me := &next.proc[p]
	switch {
	case s.comes == 0 || me.joins:
	case me.phase == onceAway:
		next.comes--
		me.phase, me.old, me.out = onceReads, s.stale, true
		goes(next, true, "{c} asks for the result", p)
	default:
		next.comes--
		me.joins, me.jold = true, s.stale
		goes(next, true, "another caller of {c} waits", p)
	}
}

// asks sends the leader's next command.
func (me *onceProc) asks(phase int8) {
	me.phase, me.out, me.answer, me.jmay = phase, true, onceUnheard, me.joins
}

// serves emits that the server runs the command of p.
func (w *onceSystem) serves(s onceState, p int8, goes onceEmit) {
	next := s
	me := &next.proc[p]
	switch {
	case me.phase == onceWaits && s.holder == 0:
		next.last++
		next.ofB |= p << next.last
		me.run, me.trusts = next.last, true
		next.holder = w.entry(p, me.run)
		me.asks(onceRereads)
		if w.rules.ReadOnce {
			me.out, me.answer = false, 1
		}
		goes(next, false, "{c} is granted the lock, as {t}", p, me.run)
	case me.out && me.phase != onceKeeps:
		me.out, me.answer = false, 1+s.result
		goes(next, false, "{c}'s question is answered", p)
	case me.out:
		me.out, me.answer = false, w.keep(&next, p, me.run)
		goes(next, false, "{c}'s result comes", p)
		if s.faults > 0 {
			lost := next
			lost.faults--
			lost.proc[p].out, lost.proc[p].answer = true, onceUnheard
			goes(lost, true, "{c}'s result comes, the answer is lost, and it is sent again", p)
			twice := next
			twice.faults--
			twice.late |= 1 << me.run
			goes(twice, true, "{c}'s result comes, and once more later", p)
		}
	}
	for run := range s.last + 1 {
		if next = s; s.late&(1<<run) != 0 && s.ofB>>run&1 == p {
			next.late &^= 1 << run
			w.keep(&next, p, run)
			goes(next, false, "the result of {t} comes late", run)
		}
	}
}

// keep is the script that leaves the result of a run.
func (w *onceSystem) keep(s *onceState, p, run int8) int8 {
	switch {
	case s.result == run && !w.rules.RepeatLoses:
		return onceKept
	case s.holder != w.entry(p, run) && !w.rules.Blind:
		return onceLost
	case s.marked:
		return onceForgotten
	case s.begun>>(run+1) != 0:
		s.broken = "late: a later run has begun"
	case s.result != 0 && s.result != run:
		s.broken = "late: it takes another's place"
	}
	s.result = run
	return onceKept
}

// hears emits that the leader of p hears its answer.
func (w *onceSystem) hears(s onceState, p int8, goes onceEmit) {
	next := s
	me := &next.proc[p]
	switch {
	case me.answer == onceUnheard:
	case me.phase == onceKeeps:
		switch me.answer {
		case onceKept:
			w.lands(&next, p, me.run)
		case onceLost:
			if s.result == me.run {
				next.broken = "stands: the caller is told that its result was not left"
			}
			w.lands(&next, p, 0)
		default:
			if !me.forgot {
				next.broken = "left: no Forget came since the lock was granted"
			}
			w.lands(&next, p, 0)
		}
		goes(next, false, "{c} hears what became of its result", p)
	case me.answer > 1:
		w.lands(&next, p, me.answer-1)
		goes(next, false, "{c} hears the result", p)
	case me.phase == onceReads:
		me.phase, me.answer = onceWaits, onceUnheard
		goes(next, false, "{c} hears that there is no result, and waits for the lock", p)
	case me.phase == onceRereads:
		me.phase, me.answer = onceRuns, onceUnheard
		next.begun |= 1 << me.run
		goes(next, false, "{c} hears that there is no result, and runs", p)
	}
}

// runs emits what becomes of the run of p.
func (w *onceSystem) runs(s onceState, p int8, goes onceEmit) {
	if s.proc[p].phase != onceRuns {
		return
	}
	next := s
	if s.proc[p].trusts {
		next.proc[p].asks(onceKeeps)
		goes(next, false, "{c}'s run ends", p)
	}
	next = s
	w.lands(&next, p, 0)
	goes(next, s.proc[p].trusts, "{c}'s run fails, or its lease is lost", p)
}

// lands ends the leader's question with a result, 0 for none, and gives the lock back. The caller that waits takes the result, or
// leads.
func (w *onceSystem) lands(s *onceState, p, result int8) {
	was := s.proc[p]
	s.proc[p] = onceProc{}
	if result != 0 {
		s.gives(result, was.old)
	}
	switch {
	case !was.joins:
	case result != 0 && (was.jmay || w.rules.AnyAnswer):
		s.gives(result, was.jold)
	default:
		s.proc[p] = onceProc{phase: onceReads, old: was.jold, out: true}
	}
}

// gives is the result of a run to a caller that came when old were older than a Forget.
func (s *onceState) gives(run, old int8) {
	switch {
	case old&(1<<run) != 0:
		s.broken = "older: a caller that came after Forget gets what was made before"
	case s.given == 0:
		s.given = run
	case s.given != run && !s.harmed:
		s.broken = "one: two results were given, and nothing was lost"
	}
}

// harms emits Forget, and what is lost.
func (w *onceSystem) harms(s onceState, goes onceEmit) {
	next := s
	if s.forgets > 0 {
		next.forgets--
		next.harmed, next.result, next.stale = true, 0, s.begun
		next.marked = s.holder != 0 && !w.rules.Unmarked || s.marked
		for p := range next.proc {
			next.proc[p].forgot = next.proc[p].phase > onceWaits
		}
		goes(next, true, "Forget comes")
	}
	if next = s; s.result != 0 && s.faults > 0 {
		next.faults--
		next.harmed, next.result = true, 0
		goes(next, true, "the result expires")
	}
	trusted := false
	for p := range int8(onceProcs) {
		me := s.proc[p]
		trusted = trusted || me.trusts && s.holder == w.entry(p, me.run)
		if next = s; me.trusts && s.faults > 0 {
			next.faults--
			next.harmed, next.proc[p].trusts = true, false
			goes(next, true, "{c} loses its lease", p)
		}
	}
	if next = s; s.holder != 0 && !trusted { // given back, or its lease has run out
		next.holder, next.marked = 0, s.marked && w.rules.MarkStays
		goes(next, false, "the lock is free")
	}
}
