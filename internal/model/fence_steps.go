package model

import "slices"

// What clients and nodes of a quorum do.

// attempt emits the end of client c's attempt.
func (w *fenceSystem) attempt(s fenceState, c int, emit func(Step[fenceState])) {
	text := "{c} gives up"
	if s.client[c].phase == holding {
		text = "{c} unlocks"
	}
	next := s
	w.depart(&next, c)
	emit(step(next, text, c))
	for n := range nodes {
		if w.Late && !s.lateAnywhere() {
			later := next
			later.client[c].late |= 1 << n
			later.client[c].owed |= 1 << n
			emit(step(later, text+", an acquire to {n} is still on its way", c, n))
		}
	}
}

// lateAnywhere reports whether a late acquire is on its way: one at a time is explored.
func (s *fenceState) lateAnywhere() bool {
	for c := range s.client {
		if s.client[c].late != 0 {
			return true
		}
	}
	return false
}

// depart ends c's attempt: releases are owed to every node, and what is on its way is of a former attempt.
func (w *fenceSystem) depart(s *fenceState, c int) {
	old := s.client[c]
	mine := &s.client[c]
	*mine = fenceClient{owed: 1<<nodes - 1, late: old.late}
	if w.rules.StoppedTells {
		mine.tells = old.tells
	}
	if w.rules.UnguardedWrite && old.writeTo > 0 {
		mine.writeTo, mine.write, mine.stray = old.writeTo, old.write, true
	}
	for n := range nodes {
		if int(s.node[n].owner) == c+1 {
			s.node[n].departed = true
		}
		if w.rules.ReleaseHeard && old.belief[n] == 0 {
			mine.owed &^= 1 << n
		}
	}
}

func (w *fenceSystem) grantTo(n *fenceNode, c int, departed bool) {
	n.counter++
	n.owner, n.departed, n.grant = int8(c)+1, departed, n.counter
}

// serve emits what node n can do for client c.
func (w *fenceSystem) serve(s fenceState, c, n int, emit func(Step[fenceState])) {
	mine, node, bit := &s.client[c], &s.node[n], uint8(1)<<n
	free := node.owner == 0 && node.mode == serving && node.counter < s.low()+w.Spread
	if free && mine.belief[n] == 0 && (mine.phase == contending || w.Repair) {
		next := s
		w.grantTo(&next.node[n], c, false)
		emit(step(next, "{n} grants to {c}, number {t}", n, c, int(node.counter)+1))
	}
	if mine.late&bit != 0 && free {
		next := s
		next.client[c].late &^= bit
		w.grantTo(&next.node[n], c, true)
		emit(step(next, "{n} grants to a late acquire of {c}", n, c))
	}
	if int(node.owner) == c+1 && (node.departed || mine.belief[n] == 0) {
		next := s
		next.node[n].owner, next.node[n].departed, next.node[n].grant = 0, false, 0
		emit(step(next, "{c}'s lease on {n} ends", c, n))
	}
	if mine.owed&bit != 0 {
		next := s
		next.client[c].owed &^= bit
		if !w.rules.NoLeftMark {
			next.client[c].late &^= bit
		}
		if int(node.owner) == c+1 && node.departed {
			next.node[n].owner, next.node[n].departed, next.node[n].grant = 0, false, 0
		}
		emit(step(next, "{c}'s release of {n} runs", c, n))
	}
}

// hear emits what client c learns of node n.
func (w *fenceSystem) hear(s fenceState, c, n int, emit func(Step[fenceState])) {
	mine, node, bit := &s.client[c], &s.node[n], uint8(1)<<n
	if mine.belief[n] > 0 {
		next := s
		next.client[c].belief[n] = 0
		next.client[c].former &^= bit
		w.lapsed(&next, c)
		emit(step(next, "{c}'s belief in {n} runs out", c, n))
		return
	}
	if int(node.owner) == c+1 && !node.departed {
		next := s
		next.client[c].belief[n] = node.grant
		w.regained(&next, c)
		emit(step(next, "{c} hears that it owns {n}, number {t}", c, n, int(node.grant)))
	}
	if mine.ghost[n] > 0 {
		next := s
		next.client[c].ghost[n] = 0
		next.client[c].belief[n] = mine.ghost[n]
		emit(step(next, "{c} hears of a grant by {n}'s former life", c, n))
	}
}

// lapsed is called when c lost a belief. A hold that is below its quorum for an instant is over for good.
func (w *fenceSystem) lapsed(s *fenceState, c int) {
	mine := &s.client[c]
	if mine.phase == holding && mine.votes() < quorum && !w.rules.ReviveHold {
		w.depart(s, c)
	}
}

// regained is called when c won a belief.
func (w *fenceSystem) regained(s *fenceState, c int) {
	mine := &s.client[c]
	s.revived = s.revived || mine.phase == holding && mine.votes() == quorum && mine.passed
}

// forget emits that node n loses its memory. Its clients know nothing of that.
func (w *fenceSystem) forget(s fenceState, n int, emit func(Step[fenceState])) {
	if s.losses == 0 {
		return
	}
	next := s
	next.losses--
	next.node[n] = fenceNode{}
	if !w.rules.NoQuarantine {
		next.node[n].mode = quarantine
	}
	for c := range w.Clients {
		mine := &next.client[c]
		if mine.belief[n] > 0 {
			mine.former |= 1 << n
		} else if w.rules.BelieveFormer && mine.phase == contending && int(s.node[n].owner) == c+1 {
			mine.ghost[n] = s.node[n].grant
		}
		if int(mine.writeTo) == n+1 {
			mine.writeTo, mine.write, mine.stray = 0, 0, false // it carries the former birth
		}
	}
	emit(step(next, "{n} loses its memory", n))
}

// recover emits how node n comes back: its quarantine ends when no belief of its former life can be left, then it takes
// the counters of the others.
func (w *fenceSystem) recover(s fenceState, n int, emit func(Step[fenceState])) {
	switch s.node[n].mode {
	case quarantine:
		if w.rules.SeedEarly && s.node[n].seeded|1<<n != 1<<nodes-1 {
			w.seed(s, n, emit)
		}
		for c := range w.Clients {
			if s.client[c].former&(1<<n) != 0 {
				return
			}
		}
		next := s
		next.node[n].mode = seeding
		if w.rules.NoSeed {
			next.node[n].mode = serving
		}
		emit(step(next, "{n}'s quarantine ends", n))
	case seeding:
		w.seed(s, n, emit)
	}
}

// seed emits how node n is told the others' counters: by a contender that heard that n forgot, and then asked them, or by
// a holder that did, of those that keep the lock for it.
// What it was told so far stands in n's counter, which nobody looks at before the seed has run.
func (w *fenceSystem) seed(s fenceState, n int, emit func(Step[fenceState])) {
	told := func(m int, counter int8, text string, args ...int) {
		next := s
		node := &next.node[n]
		node.counter = max(node.counter, counter)
		node.seeded |= 1 << m
		emit(step(next, text, args...))
	}
	for m := range nodes {
		other := &s.node[m]
		if m == n || s.node[n].seeded&(1<<m) != 0 {
			continue
		}
		if other.mode == serving {
			told(m, other.counter, "for {n}'s seed {n} answers with its counter {t}", n, m, int(other.counter))
		}
		if int(s.votedAt) == m+1 {
			told(m, s.vote, "for {n}'s seed an older answer of {n} is taken, {t}", n, m, int(s.vote))
		}
	}
	begin := func(text string, counter int8) {
		next := s
		node := &next.node[n]
		node.mode, node.seeded, node.remind, node.counter = serving, 0, 0, max(node.counter, counter)
		emit(step(next, text, n, int(node.counter)))
	}
	if s.node[n].mode == quarantine {
		return
	}
	if s.node[n].seeded|1<<n == 1<<nodes-1 {
		begin("{n} is seeded with {t}", 0)
	}
	if s.node[n].remind > 0 {
		begin("{n} is seeded with a winner's token: {t}", s.node[n].remind)
	}
}

// stalls emits that a contender which waits at node n is stopped with n's counter in its hands, or on its way to it.
func (w *fenceSystem) stalls(s fenceState, n int, emit func(Step[fenceState])) {
	if s.node[n].owner == 0 || s.votedAt > 0 || s.losses == 0 {
		return
	}
	next := s
	next.votedAt, next.vote = int8(n)+1, s.node[n].counter
	switch {
	case w.rules.SeedBefore:
		emit(step(next, "a contender hears that it waits at {n}, counter {t}, and is stopped", n, int(next.vote)))
	case w.rules.SeedSentBefore:
		emit(step(next, "a contender waits at {n}, counter {t}, and is stopped before it hears so", n, int(next.vote)))
	}
}

// force emits that node n is taken from a holder, by somebody who may do so at any time and at any of the nodes.
func (w *fenceSystem) force(s fenceState, n int, emit func(Step[fenceState])) {
	node := &s.node[n]
	if c := int(node.owner) - 1; w.Force && c >= 0 && !node.departed && s.client[c].phase == holding {
		next := s
		next.node[n].owner, next.node[n].grant = 0, 0
		emit(step(next, "{n} is taken from {c} by force", n, c))
	}
}

// tells emits that node n, which forgot, is told a holder's token by the holder, who asked nobody since: right after a
// quorum kept the lock for it, or whenever it goes on.
func (w *fenceSystem) tells(s fenceState, n int, emit func(Step[fenceState])) {
	if s.node[n].mode != seeding {
		return
	}
	for c := range w.Clients {
		token, keep := s.client[c].tells, 0
		for m := range nodes {
			if node := &s.node[m]; int(node.owner) == c+1 && !node.departed {
				keep++
			}
		}
		if token > 0 && (keep >= quorum || w.rules.StoppedTells) && s.node[n].remind != token {
			next := s
			next.node[n].remind = token
			emit(step(next, "{c} tells {n} by itself: {t}", c, n, int(token)))
		}
	}
}

// fence emits how client c, with a quorum, comes by its token: the lowest number that a quorum of its nodes has reached
// or can be raised to, and the raises where that takes any.
func (w *fenceSystem) fence(s fenceState, c int, emit func(Step[fenceState])) {
	mine := &s.client[c]
	if mine.phase == contending && mine.votes() >= quorum {
		token, evidence := w.token(mine)
		if evidence >= quorum {
			next := s
			me := &next.client[c]
			me.phase, me.token = holding, token
			me.writeTo, me.write, me.stray, me.proof = 0, 0, false, [nodes]int8{}
			if w.rules.HolderTells || w.rules.StoppedTells {
				me.tells = token
			}
			next.repeat = token <= s.issued
			next.issued = max(s.issued, token)
			for n := range nodes {
				node := &next.node[n]
				forgot := node.mode == seeding || node.mode == quarantine && w.rules.RemindEarly
				if forgot && (node.remind == 0 || node.remind > token) {
					node.remind = token // it may come at any time; of several the lowest is the worst
				}
			}
			for other := range w.Clients {
				next.client[other].passed = other != c && next.client[other].phase == holding
			}
			emit(step(next, "{c} HOLDS with token {t}", c, int(token)))
		}
		for n, b := range mine.belief {
			write := b > 0 && b < token || w.rules.UnguardedWrite && max(b, mine.proof[n]) < token
			if write && evidence < quorum && mine.writeTo == 0 {
				next := s
				next.client[c].writeTo, next.client[c].write = int8(n)+1, token
				emit(step(next, "{c} sends {n} the write-back of {t}", c, n, int(token)))
			}
		}
	}
	if mine.writeTo > 0 {
		w.writeBack(s, c, emit)
	}
}

// token returns the token that c's beliefs call for, and how many of them bear it out.
func (w *fenceSystem) token(c *fenceClient) (int8, int) {
	var known []int8
	for _, b := range c.belief {
		if b > 0 {
			known = append(known, b)
		}
	}
	slices.Sort(known)
	switch {
	case w.rules.LowestCounter:
		return known[0], quorum
	case w.rules.MedianCounter:
		return known[(len(known)-1)/2], quorum
	case w.rules.NoWrite:
		return known[len(known)-1], quorum
	}
	token, evidence := known[quorum-1], 0
	for n := range nodes {
		if max(c.belief[n], c.proof[n]) >= token {
			evidence++
		}
	}
	return token, evidence
}

// writeBack emits the run of the write-back that is on its way, answered or not, and its loss.
func (w *fenceSystem) writeBack(s fenceState, c int, emit func(Step[fenceState])) {
	mine := &s.client[c]
	n := int(mine.writeTo) - 1
	node := &s.node[n]
	next := s
	me := &next.client[c]
	me.writeTo, me.write, me.stray = 0, 0, false
	emit(step(next, "{c}'s write-back to {n} is lost", c, n))
	held := int(node.owner) == c+1 && !node.departed && !mine.stray
	if !held && !w.rules.UnguardedWrite {
		return
	}
	next.node[n].counter = max(node.counter, mine.write)
	emit(step(next, "{c}'s write-back to {n} runs, its answer is lost", c, n))
	if mine.phase != contending || mine.stray || mine.belief[n] == 0 && !w.rules.UnguardedWrite {
		return
	}
	if mine.belief[n] > 0 {
		me.belief[n] = max(mine.belief[n], mine.write)
	} else {
		me.proof[n] = max(mine.proof[n], mine.write)
	}
	emit(step(next, "{c}'s write-back to {n} runs", c, n))
}
