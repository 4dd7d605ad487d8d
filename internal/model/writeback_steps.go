package model

import "strings"

// What nodes do with votes and write-backs, and what the contender's loop hears.

// Turns at one node, for fairness.
const (
	votes = iota
	fences
	hearsVote
	hearsFence
	hearsPush
	comesDue
	heals
	letsIt
	turnKinds
)

// Turns that are no node's.
const (
	contextEnds = turnKinds*nodes + iota
	hearsEnd
)

type writeEmit func(s writeState, class int, text string, n int)

func (w *writeBackSystem) steps(s writeState, emit func(Step[writeState])) {
	if s.won || s.gaveUp {
		return
	}
	goes := func(s writeState, class int, text string, n int) {
		text, slow := strings.CutPrefix(text, "!") // nothing may rely on it
		emit(Step[writeState]{Act: Action{text, [3]int8{int8(n)}}, To: s, Class: uint8(class), Fault: slow})
	}
	for n := range s.node {
		at := func(kind int) int { return kind*nodes + n }
		w.serves(s, n, at, goes)
		w.hears(s, n, at, goes)
		w.faults(s, n, emit)
	}
	if next := s; w.Context && !s.ended {
		next.ended = true
		if w.rules.CallersTime {
			for n := range next.node {
				if v := &next.node[n]; v.fence == underWay {
					v.fence, v.silent = failed, true
				}
			}
		}
		goes(next, contextEnds, "the caller's context is over", 0)
	}
	if next := s; s.ended && !s.inside {
		next.gaveUp = true
		goes(next, hearsEnd, "the contender gives up", 0)
	}
}

// serves emits what happens at node n.
func (w *writeBackSystem) serves(s writeState, n int, at func(int) int, goes writeEmit) {
	v := s.node[n]
	next := s
	me := &next.node[n]
	if v.vote == underWay && v.health == hangs {
		me.vote, me.silent = failed, true
		goes(next, at(votes), "the vote at {n} is not answered in time", n)
	} else if v.vote == underWay {
		if v.owner == 0 {
			me.take()
		}
		me.vote, me.voted = no, 0
		if me.queued = me.owner != 1; !me.queued {
			me.vote, me.voted = yes, me.grant
		}
		goes(next, at(votes), "{n} answers the vote", n)
	}
	next = s
	if v.fence == underWay && v.health == hangs {
		me.fence, me.silent = failed, true
		goes(next, at(fences), "the write-back to {n} is not answered in time", n)
	} else if v.fence == underWay {
		switch {
		case v.health == full:
			me.fence = failed
		case v.owner == 1:
			me.fence, me.count = yes, max(v.count, v.raiseTo)
		default:
			me.fence = no
		}
		goes(next, at(fences), "{n} answers the write-back", n)
	}
	next = s
	if v.health != well && !w.down(n) {
		me.health, me.silent = well, false
		goes(next, at(heals), "{n} is well again", n)
	}
	next = s
	if v.owner == 2 && v.health != hangs {
		if me.owner = 0; v.queued {
			me.take()
			me.push = true
		}
		goes(next, at(letsIt), "the other lets {n} go", n)
	}
}

// down reports whether n is the node that never answers.
func (w *writeBackSystem) down(n int) bool { return w.Down && n == nodes-1 }

// take grants the free node to the contender.
func (v *writeNode) take() {
	v.owner, v.queued = 1, false
	v.count = min(v.count+1, 3)
	v.grant = v.count
}

// believe is a grant heard of.
func (v *writeNode) believe(number int8) {
	if v.own != number {
		v.own, v.counted = number, number
	}
}

// hears emits what the loop takes in about node n. While it waits for write-backs alone, that is nothing else.
func (w *writeBackSystem) hears(s writeState, n int, at func(int) int, goes writeEmit) {
	v := s.node[n]
	if s.inside {
		if v.fence > underWay {
			next := s
			w.note(&next, n)
			next.inside = false
			for m := range next.node {
				next.inside = next.inside || next.node[m].fence != unasked
			}
			if !next.inside {
				w.act(&next)
			}
			goes(next, at(hearsFence), "the contender notes {n}'s answer", n)
		}
		return
	}
	// Of two things that are ready a select takes either: the end of the context is not passed over twice.
	if s.ended && s.passed {
		return
	}
	listen := func(kind int, text string, take func(s *writeState, v *writeNode)) {
		next := s
		next.passed, next.deaf = s.ended, false
		take(&next, &next.node[n])
		w.act(&next)
		goes(next, at(kind), text, n)
	}
	if v.vote > underWay {
		listen(hearsVote, "the contender hears {n}'s vote", func(_ *writeState, v *writeNode) { v.hear() })
	}
	if v.fence > underWay {
		listen(hearsFence, "the contender hears of its write-back to {n}", func(s *writeState, _ *writeNode) { w.note(s, n) })
	}
	if v.push {
		listen(hearsPush, "the contender gets {n}'s grant", func(_ *writeState, v *writeNode) {
			v.push = false
			if v.own == 0 {
				v.believe(v.grant)
			}
		})
	}
	if v.vote == unasked && !v.due {
		text := "{n} is to be asked again"
		if v.own > 0 {
			text = "!a third of a lease is over, {n} is to be asked again"
		}
		listen(comesDue, text, func(_ *writeState, v *writeNode) { v.due = true })
	}
}

// hear takes the answer to a vote.
func (v *writeNode) hear() {
	if v.vote == yes && v.owner == 1 && v.voted == v.grant {
		v.believe(v.voted)
	} else {
		v.own, v.counted = 0, 0
	}
	v.silent = v.silent && v.vote == failed
	v.vote, v.voted = unasked, 0
}

// note takes the answer to a write-back: a node that did not confirm it is not ours until it has voted again.
func (w *writeBackSystem) note(s *writeState, n int) {
	v := &s.node[n]
	switch {
	case v.own != v.under:
	case v.fence == yes:
		v.counted = max(v.counted, v.raiseTo)
	case w.rules.StillOurs || w.rules.SkipListening:
	default:
		v.own, v.counted = 0, 0
	}
	v.fence, v.raiseTo, v.under = unasked, 0, 0
}

// faults emits what may go wrong at node n.
func (w *writeBackSystem) faults(s writeState, n int, emit func(Step[writeState])) {
	if s.faults == 0 || w.down(n) {
		return
	}
	v := s.node[n]
	fault := func(text string, change func(v *writeNode)) {
		next := s
		next.faults--
		change(&next.node[n])
		emit(Step[writeState]{Act: Action{text, [3]int8{int8(n)}}, To: next, Fault: true})
	}
	if v.owner == 1 {
		fault("{n} forgets the contender, another takes it", func(v *writeNode) {
			v.owner, v.push = 2, false
			v.count = min(v.count+1, 3)
		})
	}
	if v.push {
		fault("{n}'s grant is lost on its way", func(v *writeNode) { v.push = false })
	}
	if v.fence == yes {
		fault("the answer to the write-back to {n} is lost", func(v *writeNode) { v.fence = failed })
	}
	if v.health == well {
		fault("{n} hangs", func(v *writeNode) { v.health = hangs })
		fault("{n} is out of memory", func(v *writeNode) { v.health = full })
	}
}
