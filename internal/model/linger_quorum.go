package model

import (
	"fmt"
	"strings"
)

// lingerSeat is one node in the linger system of a quorum: who owns it, and what is on its way between it and the two
// clients, A who may linger and B who comes.
type lingerSeat struct {
	owner  int8 // 0 nobody, 1 A, 2 B
	queued bool // B waits there
	vote   bool // B's is under way
	look   bool // to A
	end    bool // A's release of it is under way
	grant  bool // the message of B's grant is
	told   bool // B knows of its grant
}

// lingerQuorumState is one lock that A holds on a quorum and uses, or keeps idle.
type lingerQuorumState struct {
	seat   [nodes]lingerSeat
	phase  int8 // of A: working, lingers, ends
	told   bool // A heard that it is wanted
	locks  int8 // that A will still call
	begun  bool // B has asked
	faults int8
	lost   bool
}

// LingerQuorumRules switches rules off. The zero value is the protocol.
type LingerQuorumRules struct {
	YieldByNode bool // an idle holder that is told by a node gives back that node alone
	LookIgnored bool // a holder does not mind a look
	LookAwaits  bool // it does while it works, and forgets
	EndOnce     bool // a release that is lost is not sent again
}

// LingerQuorumScope is how much is explored.
type LingerQuorumScope struct {
	Minority bool // A holds two nodes, and nobody the third
	Locks    int8
	Faults   int8 // messages lost
}

type lingerQuorumSystem struct {
	LingerQuorumScope
	rules LingerQuorumRules
}

// LingerQuorum is the system of a quorum's lock that lies idle at A while B contends. Its goal comes in every fair run:
// B has a quorum.
func LingerQuorum(scope LingerQuorumScope, rules LingerQuorumRules) System[lingerQuorumState] {
	w := &lingerQuorumSystem{scope, rules}
	init := lingerQuorumState{phase: working, locks: scope.Locks, faults: scope.Faults}
	for n := range init.seat {
		if !scope.Minority || n < quorum {
			init.seat[n].owner = 1
		}
	}
	return System[lingerQuorumState]{
		Name:  fmt.Sprintf("linger on a quorum %+v", scope),
		Init:  init,
		Steps: w.steps,
		Rules: []Rule[lingerQuorumState]{
			{"belief is ownership", quorumLingers}, {"exclusion", quorumExclusion}, {"looks are minded", quorumMinds},
		},
		Goal:     func(s lingerQuorumState) bool { return s.begun && s.known() >= quorum },
		Progress: Reachable,
		Show:     lingerQuorumState.String,
	}
}

// owned counts the nodes that one owns.
func (s *lingerQuorumState) owned(by int8) (n int) {
	for i := range s.seat {
		if s.seat[i].owner == by {
			n++
		}
	}
	return n
}

// known counts the nodes that B knows to own.
func (s *lingerQuorumState) known() (n int) {
	for i := range s.seat {
		if s.seat[i].told {
			n++
		}
	}
	return n
}

// quorumLingers: who works under the lock, or could by its next Lock, owns a quorum.
func quorumLingers(s lingerQuorumState) string {
	if (s.phase == working || s.phase == lingers && !s.told) && s.owned(1) < quorum {
		return fmt.Sprintf("A takes the lock for its own and owns %d nodes", s.owned(1))
	}
	return ""
}

func quorumExclusion(s lingerQuorumState) string {
	if s.phase == working && s.known() >= quorum {
		return "A works under the lock, and B has a quorum"
	}
	return ""
}

// quorumMinds: where no message was lost and none is under way, no idle hold lies beside one who waits on a quorum.
func quorumMinds(s lingerQuorumState) string {
	waits := 0
	for i := range s.seat {
		v := &s.seat[i]
		if v.look || v.vote {
			return ""
		}
		if v.queued || v.told {
			waits++
		}
	}
	if s.phase == lingers && waits >= quorum && !s.lost {
		return "A keeps the lock idle beside B, who waits"
	}
	return ""
}

func (w *lingerQuorumSystem) steps(s lingerQuorumState, emitRaw func(Step[lingerQuorumState])) {
	emit := func(text string, next lingerQuorumState, fault bool, args ...int) {
		act := Action{Text: text}
		for i, a := range args {
			act.Args[i] = int8(a)
		}
		emitRaw(Step[lingerQuorumState]{Act: act, To: next, Fault: fault})
	}
	w.holder(s, emit)
	for n := range s.seat {
		w.seat(s, n, emit)
		w.votes(s, n, emit)
	}
}

// holder emits what A does.
func (w *lingerQuorumSystem) holder(s lingerQuorumState, emit func(string, lingerQuorumState, bool, ...int)) {
	next := s
	switch s.phase {
	case working:
		if next.phase = lingers; s.told {
			next.end()
		}
		emit("A unlocks", next, false)
	case lingers:
		if s.locks > 0 && !s.told {
			next.phase = working
			next.locks--
			emit("A LOCKS from its cache", next, true)
		}
		next = s
		next.end()
		emit("A has kept the lock for long enough", next, true) // nothing relies on it
	}
}

// end makes A's hold over, which is told to all nodes.
func (s *lingerQuorumState) end() {
	s.phase = ends
	for n := range s.seat {
		s.seat[n].end = true
	}
}

// seat emits what comes of a node's messages to A, and of A's release of it.
func (w *lingerQuorumSystem) seat(s lingerQuorumState, n int, emit func(string, lingerQuorumState, bool, ...int)) {
	v := &s.seat[n]
	if v.look {
		next := s
		next.seat[n].look = false
		if s.faults > 0 {
			lost := next
			lost.faults--
			lost.lost = true
			emit("{n}'s look is lost", lost, true, n)
		}
		switch {
		case w.rules.LookIgnored, s.phase == working && w.rules.LookAwaits:
		case w.rules.YieldByNode && s.phase == lingers:
			next.seat[n].end = true
		default:
			if next.told = true; s.phase == lingers {
				next.end()
			}
		}
		emit("A hears {n}'s look", next, false, n)
	}
	if !v.end {
		return
	}
	next := s
	next.seat[n].end = false
	if s.faults > 0 {
		lost := next
		lost.faults--
		lost.seat[n].end = !w.rules.EndOnce // it is sent again until it was answered
		emit("A's release of {n} is lost", lost, true, n)
	}
	if v.owner == 1 {
		next.seat[n].owner = 0
		if v.queued {
			next.seat[n].owner, next.seat[n].queued, next.seat[n].grant = 2, false, true
		}
	}
	emit("A's release of {n} runs", next, false, n)
}

// votes emits B's votes, polls included, and the messages of its grants.
func (w *lingerQuorumSystem) votes(s lingerQuorumState, n int, emit func(string, lingerQuorumState, bool, ...int)) {
	v := &s.seat[n]
	next := s
	switch {
	case !v.vote && !v.told:
		next.begun, next.seat[n].vote = true, true
		emit("B votes at {n}", next, v.queued && s.faults == 0 && !s.lost, n) // polls are for what was lost
	case v.vote:
		next.seat[n].vote = false
		if s.faults > 0 {
			lost := next
			lost.faults--
			emit("B's vote at {n} is lost", lost, true, n)
		}
		switch v.owner {
		case 0, 2:
			next.seat[n].owner, next.seat[n].told, next.seat[n].queued = 2, true, false
		default:
			next.seat[n].queued, next.seat[n].look = true, true
		}
		emit("B's vote at {n} runs", next, false, n)
	}
	if v.grant {
		next = s
		next.seat[n].grant, next.seat[n].told = false, true
		emit("B hears that it owns {n}", next, false, n)
	}
}

func (s lingerQuorumState) String() string {
	var b strings.Builder
	for n := range s.seat {
		v := &s.seat[n]
		fmt.Fprintf(&b, "n%d %s", n+1, [...]string{"-", "A", "B"}[v.owner])
		if v.queued {
			b.WriteString("b")
		}
		b.WriteByte(' ')
	}
	b.WriteString("| A " + [...]string{"", "", "WORKS", "LINGERS", "ends"}[s.phase])
	return b.String()
}
