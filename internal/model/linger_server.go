package model

// What the server of the linger system does: its scripts, its clock, and Redisson's waiters.

func (s *lingerState) owner() int {
	for i := range s.id {
		if s.id[i].owns {
			return i
		}
	}
	return -1
}

// head is the first in the queue, -1 for nobody.
func (s *lingerState) head() int {
	head := -1
	for i := range s.id {
		if p := s.id[i].place; p > 0 && (head < 0 || p < s.id[head].place) {
			head = i
		}
	}
	return head
}

// join stands i in the queue behind all others.
func (s *lingerState) join(i int) {
	if s.id[i].place > 0 {
		return
	}
	last := int8(0)
	for k := range s.id {
		last = max(last, s.id[k].place)
	}
	s.id[i].place, s.id[i].waited = last+1, 0
}

// leaveLine takes i out of the queue; who is behind comes up.
func (s *lingerState) leaveLine(i int) {
	was := s.id[i].place
	if was == 0 {
		return
	}
	s.id[i].place, s.id[i].waited = 0, 0
	for k := range s.id {
		if s.id[k].place > was {
			s.id[k].place--
		}
	}
}

// take makes i the owner, with a block of tokens.
func (w *lingerSystem) take(s *lingerState, i int) {
	s.leaveLine(i)
	s.counter++
	s.id[i].owns, s.id[i].first, s.id[i].tried = true, s.counter, false
	s.lease = w.Lease
	if s.foreign > 0 {
		s.foreign = 1 // it was free until now
	}
}

// handOver gives the free lock to whoever is first and listens. me is answered, others get a message.
func (w *lingerSystem) handOver(s *lingerState, me int) {
	for {
		i := s.head()
		if i < 0 {
			return
		}
		if i != me && s.proc[i/2].crashed {
			s.leaveLine(i)
			continue
		}
		w.take(s, i)
		s.id[i].push = i != me
		return
	}
}

// free ends the ownership of i.
func (s *lingerState) free(i int) {
	s.id[i].owns, s.id[i].first, s.id[i].tried = false, 0, false
	s.lease = 0
}

// acquire is the script. It tells the holder that somebody waits, or has tried.
func (w *lingerSystem) acquire(s *lingerState, i int) int8 {
	a := &s.id[i]
	if a.owns {
		s.lease = w.Lease
		return isMine
	}
	owner := s.owner()
	if owner < 0 && !s.java {
		if !a.try {
			s.join(i)
			w.handOver(s, i)
		} else if s.head() < 0 {
			w.take(s, i)
		} else {
			w.handOver(s, -1)
		}
		if a.owns {
			return isMine
		}
		owner = s.owner()
	} else if !a.try {
		s.join(i)
	}
	if owner >= 0 && owner/2 != i/2 && !(a.try && w.rules.TryTellsNone) {
		s.id[owner].look = true
	}
	if a.try {
		if owner >= 0 && owner/2 != i/2 {
			s.id[owner].tried = true
		}
		return isHeld
	}
	return isQueued
}

// release is the script; queues stands the process's next acquisition in line.
func (w *lingerSystem) release(s *lingerState, i int) (queued int) {
	a := &s.id[i]
	queued = -1
	if !a.owns {
		s.leaveLine(i)
		return queued
	}
	s.free(i)
	if a.queues && s.id[i^1].phase == asking {
		queued = i ^ 1
		s.join(queued)
	}
	if s.foreign > 0 {
		s.foreign = 1 // it is given a turn
	} else {
		w.handOver(s, queued)
	}
	return queued
}

// serve emits what the server does with commands.
func (w *lingerSystem) serve(s lingerState, i int, emit lingerEmit) {
	a, p := &s.id[i], i/2
	dead := s.proc[p].crashed
	lossy := s.faults > 0 && !w.Stops
	if a.ask > 0 {
		next := s
		me := &next.id[i]
		me.ask, me.again = 0, false
		reply := w.acquire(&next, i)
		if a.phase == ends {
			me.quit = false // what it did is still to be undone
		}
		if lossy || dead {
			lost := next
			if !dead {
				lost.faults--
			}
			if lost.id[i].phase == asking && a.try {
				lost.id[i].phase = ends
			}
			emit("{c}'s question runs, its answer is lost", lost, true, p)
		}
		if !dead {
			me.reply, me.replyAge, me.repeated = reply, a.ask-1, a.again
			emit("{c}'s question runs", next, false, p)
		}
	}
	if a.rel {
		next := s
		me := &next.id[i]
		me.rel, me.queues = false, false
		cut := s
		queued := w.release(&cut, i)
		cut.id[i].rel, cut.id[i].queues = false, false
		if lossy || dead {
			lost := cut
			if !dead {
				lost.faults--
			}
			emit("{c}'s release runs, its answer is lost", lost, true, p)
		}
		if !dead {
			cut.id[i].quit = true
			if queued >= 0 {
				q := &cut.id[queued]
				q.reply, q.replyAge = isQueued, 0
				if q.owns {
					q.reply = isMine
				}
			}
			emit("{c}'s release runs", cut, false, p)
		}
	}
	if a.renew > 0 {
		next := s
		age := a.renew
		next.id[i].renew = 0
		if a.owns {
			next.lease = max(next.lease, w.Lease)
		}
		if lossy || dead || !a.owns {
			lost := next
			if lossy {
				lost.faults--
			}
			emit("{c}'s renewal runs, and is not confirmed", lost, a.owns, p)
		}
		if !dead && a.owns {
			next.id[i].renewed = age
			emit("{c}'s renewal runs", next, false, p)
		}
	}
}

// foreigner emits what one of Redisson's waiters does: it comes, takes the lock when it is free, and lets go.
func (w *lingerSystem) foreigner(s lingerState, emit lingerEmit) {
	next := s
	switch {
	case s.java:
		next.java = false
		w.handOver(&next, -1)
		emit("Java unlocks", next, false)
	case s.foreign > 0 && s.owner() < 0:
		next.java, next.foreign = true, 0
		emit("Java takes the free lock", next, false)
	case s.foreign == 0 && s.come > 0 && s.owner() >= 0:
		next.come--
		next.foreign = 1
		emit("Java begins to wait", next, true)
	}
}

// ticks emits the passing of time. Who is stopped sees to nothing meanwhile.
// That commands and messages are under way meanwhile is a fault.
func (w *lingerSystem) ticks(s lingerState, emit lingerEmit) {
	delayed := s.delayed()
	if delayed {
		if s.faults == 0 {
			return
		}
		s.faults--
	}
	for i := range s.id {
		w.older(&s, i)
	}
	if owner := s.owner(); owner >= 0 {
		if s.lease--; s.lease <= 0 {
			s.free(owner)
		}
	}
	if s.foreign > 0 {
		s.foreign = min(s.foreign+1, w.Linger+2)
	}
	for i := range s.id {
		w.timers(&s, i)
	}
	for p := range s.proc {
		s.proc[p].late = s.proc[p].stopped
	}
	emit("a tick passes", s, delayed)
}

// delayed reports whether something is under way that a tick would be long for.
func (s *lingerState) delayed() bool {
	for i := range s.id {
		a, p := &s.id[i], &s.proc[i/2]
		commands := a.ask > 0 || a.rel || a.renew > 0
		messages := a.reply != unheard || a.push || a.look || a.renewed > 0
		if !p.crashed && (commands || messages && !p.stopped) {
			return true
		}
	}
	return false
}

func (w *lingerSystem) older(s *lingerState, i int) {
	a := &s.id[i]
	if a.place > 0 {
		a.waited = min(a.waited+1, w.Linger+1)
	}
	if a.ask > 0 {
		if a.ask++; a.ask > w.Lease {
			a.ask, a.again = 0, false // an answer would be of no use any more
			if a.phase == asking && a.try {
				a.phase = ends
			}
		}
	}
	if a.reply != unheard {
		a.replyAge = min(a.replyAge+1, w.Lease)
	}
	if a.renew > 0 {
		if a.renew++; a.renew > w.Lease {
			a.renew = 0
		}
	}
	if a.renewed > 0 {
		if a.renewed++; a.renewed > w.Lease {
			a.renewed = 0
		}
	}
	if a.phase == asking || a.believes() {
		a.base = min(a.base+1, max(w.Lease, w.Linger))
	}
	if a.believes() {
		a.bound = max(0, a.bound-1)
	}
	if a.phase == lingers {
		a.idle = min(a.idle+1, w.Linger+1)
	}
}

// timers ends what is over by its process's clock, if that runs.
func (w *lingerSystem) timers(s *lingerState, i int) {
	a, p := &s.id[i], &s.proc[i/2]
	if !a.believes() || p.crashed || p.stopped {
		return
	}
	idle := a.phase == lingers
	switch {
	case a.bound == 0 && idle && w.rules.ForgetIdle:
		a.phase = blank
	case a.bound == 0 && !w.rules.NoBelief:
		a.phase = ends
	case idle && a.base >= w.Linger && !w.rules.NoTimer:
		a.phase = ends
	}
}
