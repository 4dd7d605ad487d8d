package model

// What the server of the read-write system does: its scripts, and Redisson's.

// head is the first in the line of a side, -1 for nobody.
func (w *rwSystem) head(s *rwState, side int8) int {
	head := -1
	for i := range s.id {
		if p := s.id[i].place; p > 0 && w.Side[i] == side && (head < 0 || p < s.id[head].place) {
			head = i
		}
	}
	return head
}

// alive is the first in the line of a side whose process listens; those before it are taken out.
func (w *rwSystem) alive(s *rwState, side int8) int {
	i := w.head(s, side)
	for i >= 0 && w.dead(s, i) && !w.rules.DeadKept && !(w.Polled && s.id[i].keeps > 0) {
		s.id[i].place = 0
		i = w.head(s, side)
	}
	return i
}

// join stands i in its line: at the ticket that it knows, else behind all that wait and behind the phase, whatever the
// clock says.
func (w *rwSystem) join(s *rwState, i int) {
	e := &s.id[i]
	if e.place > 0 {
		return
	}
	switch {
	case e.known > 0:
		e.place = e.known
	case w.rules.TicketByClock && s.back:
		e.place = s.squeeze(w.lastIn(s, w.Side[i]))
	default:
		s.clock++
		e.place = s.clock
	}
	e.waited, e.over, e.before, e.keeps = 0, 0, 0, w.patience()
	for k := range s.id {
		if v := &s.id[k]; w.Side[k] == reads && (v.place > 0 || v.known > 0) {
			e.before |= 1 << k
		}
	}
}

// patience is for how many ticks a waiter that polls keeps its place without a question: half of its lease.
func (w *rwSystem) patience() int8 {
	if !w.Polled {
		return 0
	}
	return w.Lease / 2
}

// lastIn is the last ticket in the line of a side.
func (w *rwSystem) lastIn(s *rwState, side int8) (last int8) {
	for i := range s.id {
		if w.Side[i] == side {
			last = max(last, s.id[i].place)
		}
	}
	return last
}

// squeeze makes room for a ticket behind last, and returns it.
func (s *rwState) squeeze(last int8) int8 {
	s.tickets(func(t *int8) {
		if *t > last {
			*t++
		}
	})
	return last + 1
}

// wipe ends all that hold.
func (s *rwState) wipe() {
	for i := range s.id {
		if e := &s.id[i]; e.in {
			e.in, e.key = false, 0
		}
	}
	if s.java != noMode {
		s.broken = "exclusion: Redisson's hold is deleted"
	}
	s.mode, s.ttl = noMode, 0
}

// readersLeft is for how long readers hold the lock at most.
func (w *rwSystem) readersLeft(s *rwState) int8 {
	left := int8(0)
	if s.java == reads {
		left = w.Dog
	}
	for i := range s.id {
		if s.id[i].in && w.Side[i] == reads {
			left = max(left, s.id[i].key)
		}
	}
	return left
}

// shut reports whether Redisson's waiters keep new readers out of a lock that is read.
func (w *rwSystem) shut(s *rwState) bool {
	head := w.head(s, reads)
	return s.waits > 0 && !w.rules.Unshut && (head < 0 || s.id[head].waited < 1)
}

// opens reports whether i, which is or would be in line, may come in now.
func (w *rwSystem) opens(s *rwState, i int) bool {
	switch {
	case s.mode == noMode:
		return true
	case s.mode == writeMode:
		return false
	case w.Side[i] == writes:
		if w.readersLeft(s) > 0 && !w.rules.BlindWriter {
			return false
		}
		s.wipe()
		return true
	}
	e := &s.id[i]
	return e.place > 0 && e.place <= s.upTo || w.Polled && !w.keptOut(s, i) || w.alive(s, writes) < 0 && !w.shut(s)
}

// keptOut reports whether another waiter that polls comes before i.
func (w *rwSystem) keptOut(s *rwState, i int) bool {
	mine := s.id[i].place
	if mine == 0 {
		mine = 127
	}
	v, r := w.alive(s, writes), w.alive(s, reads)
	if w.Side[i] == reads {
		return v >= 0 && mine > s.upTo && (s.mode != noMode || mine > s.id[v].place) && !w.rules.Unkept
	}
	return v >= 0 && v != i || r >= 0 && (s.id[r].place < mine || s.id[r].place <= s.upTo) && !w.rules.Unyielding
}

// poll is the part of acquire for what no message can grant.
func (w *rwSystem) poll(s *rwState, i int) int8 {
	w.join(s, i)
	s.id[i].keeps = w.patience()
	if !w.keptOut(s, i) && w.opens(s, i) {
		w.take(s, i)
		return isMine
	}
	w.judgeWait(s, i)
	return isQueued
}

// nextLine is the side that is served next.
func (w *rwSystem) nextLine(s *rwState) int8 {
	r, v := w.head(s, reads), w.head(s, writes)
	if r >= 0 && (v < 0 || s.id[r].place < s.id[v].place || s.id[r].place <= s.upTo || s.mode == readMode) {
		return reads
	}
	return writes
}

// take lets i in, and notes whom it passes.
func (w *rwSystem) take(s *rwState, i int) {
	e := &s.id[i]
	for k := range s.id {
		v := &s.id[k]
		if k == i || v.place == 0 || w.dead(s, k) || w.Side[k] == w.Side[i] {
			continue
		}
		if w.Side[i] == writes {
			v.over = min(v.over+1, 2)
		} else if !e.owed && (s.mode != noMode || v.before&(1<<i) == 0) {
			s.broken = "past: " + letter(i) + " comes in past " + letter(k) + ", who waits to write"
		}
	}
	if !w.rules.ReaderAsWriter || w.Side[i] == writes {
		s.counter++
	}
	if w.Side[i] == reads && s.mode == readMode && s.waits > 0 && !e.owed && e.waited < 1 {
		s.broken = "past: " + letter(i) + " comes in past one of Redisson's, which waits"
	}
	if s.waits > 0 {
		s.waits = 1
	}
	e.place, e.first = 0, s.counter
	if w.Side[i] == writes {
		s.mode, e.in, s.lastWriter = writeMode, true, s.counter
		s.ttl = max(s.ttl, w.Lease)
	} else {
		s.mode = readMode
		w.enter(s, i)
	}
}

// enter writes a reader's field and key.
func (w *rwSystem) enter(s *rwState, i int) {
	e := &s.id[i]
	e.in = true
	if !w.rules.NoKey {
		e.key = max(e.key, w.Lease)
	}
	s.ttl = max(s.ttl, w.Lease)
}

// handOver lets in as many as one command may, and returns whether me or anybody was. me is answered, others get a
// message.
func (w *rwSystem) handOver(s *rwState, me int) (mine, anybody bool) {
	room := w.Batch
	for room > 0 {
		i := w.head(s, w.nextLine(s))
		if i < 0 || !w.opens(s, i) {
			break
		}
		if i != me && w.dead(s, i) {
			s.id[i].place = 0
			continue
		}
		w.take(s, i)
		s.id[i].push = i != me
		mine, anybody = mine || i == me, true
		room--
	}
	if room == 0 || room < w.Batch && s.mode == readMode && s.waits > 0 {
		w.announce(s)
	}
	return mine, anybody
}

// announce tells all that wait that the lock may be open.
func (w *rwSystem) announce(s *rwState) {
	if w.rules.NoAnnounce {
		return
	}
	for i := range s.id {
		if e := &s.id[i]; e.phase == asking && e.down == 0 && !w.dead(s, i) {
			e.wake = true
		}
	}
}

// acquire is the script. A downgrade's question does not wait.
func (w *rwSystem) acquire(s *rwState, i int) int8 {
	e := &s.id[i]
	writer := int(e.down) - 1
	switch {
	case e.in || writer >= 0 && s.id[writer].in && !w.rules.Gap:
		e.place = 0
		if w.Side[i] == reads {
			w.enter(s, i)
			e.first = s.counter
		}
		s.ttl = max(s.ttl, w.Lease)
		return isMine
	case writer >= 0 && !w.rules.Gap:
		if s.mode == noMode && !s.turn && !w.Polled {
			w.handOver(s, -1)
		}
		return isHeld
	case w.head(s, reads) < 0 && w.head(s, writes) < 0 && !s.turn &&
		(s.mode == noMode || s.mode == readMode && w.Side[i] == reads && !w.shut(s)):
		w.take(s, i)
		return isMine
	}
	if w.Polled {
		return w.poll(s, i)
	}
	open := w.opens(s, i)
	w.join(s, i)
	if open && s.turn {
		return isQueued
	}
	if open {
		if mine, _ := w.handOver(s, i); mine {
			return isMine
		}
	}
	w.judgeWait(s, i)
	for k := range s.id {
		if k != i && s.id[k].in && !(w.rules.OwnUnheard && w.Proc[k] == w.Proc[i]) {
			s.id[k].look = !w.dead(s, k)
		}
	}
	return isQueued
}

// judgeWait notes a reader that is told to wait beside readers where no writer that lives is why.
func (w *rwSystem) judgeWait(s *rwState, i int) {
	for k := range s.id {
		if w.Side[k] == writes && s.id[k].place > 0 && (!w.dead(s, k) || s.id[k].keeps > 0) {
			return
		}
	}
	e := &s.id[i]
	if w.Side[i] == reads && e.phase == asking && !e.wake && s.mode == readMode && !w.shut(s) {
		s.broken = "dead: " + letter(i) + " waits for a writer that is gone"
	}
}

// release is the script.
func (w *rwSystem) release(s *rwState, i int) {
	e := &s.id[i]
	e.key = 0
	if !e.in {
		waited := e.place > 0
		e.place = 0
		if w.rules.SweepPhase {
			w.letReaders(s)
		}
		if w.Polled {
			if waited && !w.rules.QuietLeaver {
				w.announce(s)
			}
			return
		}
		if !s.turn && !(waited && w.rules.QuietLeaver) {
			w.handOver(s, -1)
		}
		return
	}
	e.in = false
	if !w.leave(s, i) {
		return
	}
	if w.Polled {
		w.announce(s)
	} else if s.waits > 0 {
		w.announce(s)
		s.turn = true
	} else if _, anybody := w.handOver(s, -1); !anybody {
		w.announce(s)
	}
}

// leave is what becomes of the hash when i has left it. It returns whether the lock is open since.
func (w *rwSystem) leave(s *rwState, i int) bool {
	others := s.java == reads
	for k := range s.id {
		others = others || s.id[k].in
	}
	switch {
	case w.Side[i] == writes:
		if left := w.readersLeft(s); others && left > 0 {
			if !w.rules.ModeLeft {
				s.mode = readMode
			}
			s.ttl = left
			if w.rules.DownCuts {
				s.ttl = 1
			}
		} else {
			s.wipe()
		}
		if !w.rules.NoPhase {
			w.letReaders(s)
			for k := range s.id {
				s.id[k].owed = s.id[k].owed || w.Side[k] == reads && s.id[k].place > 0
			}
		}
		return true
	case s.mode == writeMode, w.readersLeft(s) > 0 && !w.rules.LeaverDeletes:
		return false
	}
	s.wipe()
	if w.rules.ReadPhase {
		w.letReaders(s)
	}
	return true
}

// letReaders makes the readers that wait now come before the next writer.
func (w *rwSystem) letReaders(s *rwState) {
	if w.head(s, reads) >= 0 {
		s.upTo = s.clock
	}
}

// prolong is the renewal's script. It returns whether i was in.
func (w *rwSystem) prolong(s *rwState, i int) bool {
	e := &s.id[i]
	if !e.in && !w.rules.Recreate {
		return false
	}
	e.in = true
	s.ttl = max(s.ttl, w.Lease)
	if w.Side[i] == reads {
		w.enter(s, i)
	}
	return true
}

// redisson emits what one of Redisson's threads does: it comes, takes the lock where it may, renews and lets go.
func (w *rwSystem) redisson(s rwState, emit rwEmit) {
	free := s.mode == noMode || s.mode == readMode && w.Java == reads
	next := s
	if s.java == noMode && free && (s.waits > 0 || s.comes > 0) {
		if s.waits == 0 {
			next.comes--
		}
		next.waits, next.java = 0, w.Java
		next.mode = w.Java
		next.ttl = max(next.ttl, w.Dog)
		if w.Java == writes {
			next.counter++
			next.lastWriter = next.counter // it has no number, and writes
		}
		emit("Java takes the lock", next, s.waits == 0)
	}
	if next = s; s.java == noMode && !free && s.waits == 0 && s.comes > 0 {
		next.comes--
		next.waits = 1
		emit("Java begins to wait", next, true)
	}
	if next = s; s.java == reads && s.ttl != w.Dog {
		next.ttl = w.Dog
		emit("Java renews", next, false)
	}
	if next = s; s.java != noMode {
		w.redissonUnlocks(&next)
		emit("Java unlocks", next, false)
	}
	if next = s; s.turn {
		next.turn = false
		w.announce(&next)
		emit("Java's turn is over", next, false)
	}
}

// redissonUnlocks is Redisson's unlock, of either side.
func (w *rwSystem) redissonUnlocks(s *rwState) {
	s.java = noMode
	if left := w.readersLeft(s); s.mode == readMode && left > 0 {
		s.ttl = left
		return
	}
	s.wipe()
	w.announce(s)
}
