package model

// What the server does with a command: the Lua scripts, without their wire format.

// take is for a free lock.
func (w *nodeSystem) take(s *nodeState, i int, lease int8) {
	s.counter++
	s.ids[i].owns = true
	s.lease = lease
}

// keep lengthens the lease.
func (w *nodeSystem) keep(s *nodeState, ticks int8) {
	if w.rules.ShortenLease {
		s.lease = ticks
	}
	s.lease = max(s.lease, ticks)
}

func (w *nodeSystem) join(s *nodeState, i int) {
	if s.ids[i].place > 0 {
		return
	}
	place := int8(1)
	for j := range s.ids {
		// Where processes yield to each other, the ticket is the process's letter.
		if s.ids[j].place > 0 && (!w.Yields || j <= i) {
			place = max(place, s.ids[j].place+1)
		}
	}
	for j := range s.ids {
		if s.ids[j].place >= place {
			s.ids[j].place++
		}
	}
	s.ids[i].place = place
}

func (s *nodeState) leave(i int) {
	place := s.ids[i].place
	if place == 0 {
		return
	}
	s.ids[i].place = 0
	for j := range s.ids {
		if s.ids[j].place > place {
			s.ids[j].place--
		}
	}
}

func (s *nodeState) head() int {
	for i := range s.ids {
		if s.ids[i].place == 1 {
			return i
		}
	}
	return -1
}

// handOver gives the free lock to the first waiter whose process listens, me being granted by the caller's reply. The
// lease is the new owner's own.
func (w *nodeSystem) handOver(s *nodeState, from, me int) {
	for i := s.head(); i >= 0; i = s.head() {
		s.leave(i)
		if i == me || s.ids[i].phase != crashed || w.rules.GrantToDead {
			lease := w.leaseOf(i)
			if w.rules.ReleasersLease {
				lease = w.leaseOf(from)
			}
			w.take(s, i, lease)
			if i != me {
				s.wasted = s.wasted || s.ids[i].phase == crashed
				w.push(s, i)
			}
			return
		}
	}
}

// push sends a grant. It may be lost at once.
func (w *nodeSystem) push(s *nodeState, i int) {
	a := &s.ids[i]
	if a.phase == crashed || s.inFlight() >= w.InFlight {
		return
	}
	for k := range a.push {
		if a.push[k] == 0 {
			a.push[k] = s.counter
			return
		}
	}
}

// acquire is acquire.lua for i. It returns the answer.
func (w *nodeSystem) acquire(s *nodeState, i int) (int8, int8) {
	switch owner := s.owner(); {
	case owner == i:
		w.keep(s, w.leaseOf(i))
	case owner >= 0:
		w.join(s, i)
	case s.head() < 0:
		w.take(s, i, w.leaseOf(i))
	default:
		// Expiry and Redisson's unlock leave a free lock with a queue: whoever finds it serves the queue.
		w.join(s, i)
		w.handOver(s, i, i)
	}
	if s.ids[i].owns {
		return owned, s.counter
	}
	return queued, s.counter
}

// release is release.lua for i.
func (w *nodeSystem) release(s *nodeState, i int) {
	s.leave(i)
	owner := s.owner()
	if owner != i && !w.rules.ReleaseAnyOwner || owner < 0 {
		return
	}
	s.ids[owner].owns, s.lease = false, 0
	w.handOver(s, i, -1)
}

// giveBack is a quorum node's YIELD for i, of grant number g: compare, then let a lower ticket have the lock, or keep
// it under a new number, so that a second copy of the command finds nothing to do.
func (w *nodeSystem) giveBack(s *nodeState, i int, g int8) {
	if !s.ids[i].owns || s.counter != g && !w.rules.YieldAnyGrant {
		return
	}
	s.ids[i].owns = false
	if head := s.head(); head >= 0 && head < i {
		w.join(s, i)
		w.handOver(s, i, -1)
		return
	}
	w.take(s, i, w.leaseOf(i))
	w.push(s, i)
}

// serve emits what the server can do with commands on their way from i, each with its answer or with the answer lost.
func (w *nodeSystem) serve(s nodeState, i int, emit func(Step[nodeState])) {
	a := &s.ids[i]
	id := [3]int8{int8(i)}
	dead := a.phase == crashed // its commands still run, and no answer to them is missed
	if a.ask > 0 {
		n := s
		age := n.ids[i].ask
		n.ids[i].ask = 0
		reply, num := w.acquire(&n, i)
		emit(Step[nodeState]{Act: Action{"{c}'s acquire runs, its answer is lost", id}, To: n, Fault: !dead})
		if !dead {
			n.ids[i].reply, n.ids[i].replyAge, n.ids[i].replyNum = reply, age, num
			emit(Step[nodeState]{Act: Action{"{c}'s acquire runs", id}, To: n})
		}
	}
	if a.late > 0 {
		n := s
		n.ids[i].late--
		w.acquire(&n, i)
		emit(Step[nodeState]{Act: Action{"a late acquire of {c} runs", id}, To: n})
	}
	if a.rel > 0 {
		n := s
		n.ids[i].rel--
		w.release(&n, i)
		emit(Step[nodeState]{Act: Action{"{c}'s release runs, its answer is lost", id}, To: n, Fault: !dead})
		if !dead {
			n.ids[i].relDone = true
			emit(Step[nodeState]{Act: Action{"{c}'s release runs", id}, To: n})
		}
	}
	w.serveRenew(s, i, emit)
	for k, g := range a.yield {
		if g > 0 {
			n := s
			n.ids[i].yield[k] = 0
			w.giveBack(&n, i, g)
			emit(Step[nodeState]{Act: Action{"{c}'s yield of grant {t} runs", [3]int8{int8(i), g}}, To: n})
		}
	}
}

func (w *nodeSystem) serveRenew(s nodeState, i int, emit func(Step[nodeState])) {
	a := &s.ids[i]
	if a.renew == 0 {
		return
	}
	id := [3]int8{int8(i)}
	dead := a.phase == crashed
	n := s
	n.ids[i].renew = 0
	if a.owns {
		w.keep(&n, w.Renewal)
	}
	emit(Step[nodeState]{Act: Action{"{c}'s renewal runs, its answer is lost", id}, To: n, Fault: !dead})
	if dead {
		return
	}
	if a.owns {
		n.ids[i].renewed = a.renew
	} else {
		n.ids[i].refused = true
	}
	emit(Step[nodeState]{Act: Action{"{c}'s renewal runs", id}, To: n})
}
