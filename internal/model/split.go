package model

import (
	"fmt"
	"slices"
	"strings"
)

const (
	nodes  = 3
	quorum = 2
)

// What a contender knows of one node.
const (
	apart     int8 = iota // it is not known there
	inQueue               // it asked, and owns nothing that it knows of
	owning                // it believes in a grant
	regranted             // likewise, in one by which the node answered its yield
	yielding              // it gave the grant back and has no answer yet
	disowned              // that was lost, and it will not say it again
)

// splitState is a vote of contenders over three nodes. Commands and messages are folded into the steps: what they may
// do on their way is explored node by node.
type splitState struct {
	owner  [nodes]int8  // 1 + contender, 0 for none
	queue  [nodes]uint8 // contenders by bit
	view   [maxProcs][nodes]int8
	nudged uint8 // contenders by bit: another asked them to look whether they are to yield, and they have not yielded since
	done   uint8 // contenders that unlocked or gave up; their view says where releases are still due
	deadC  uint8
	deadN  uint8
	crashC int8 // crashes of contenders that may still come
	crashN int8
}

// SplitRules switches rules off. The zero value is the protocol.
type SplitRules struct {
	NeverYield     bool // a minority keeps what it owns
	AlwaysYield    bool // a minority gives way to any other waiter, not only to a lower ticket
	YieldOnce      bool // a yield that was lost is not repeated
	ReleaseHeard   bool // releases go only to nodes that are known to have granted
	NeverServeDead bool // nobody frees what a crashed owner left
	ForgetNudge    bool // a nudge is dropped by a contender that waits for its vote timeout
	OwnOrder       bool // node 2 has another order of equal tickets than the others
}

// SplitScope is how much is explored. Contender A has the lowest ticket, then B, then C. Where they are tied, all have one
// ticket, which is lower than none: by their members A is first in each queue, then B, then C, and none of them knows that.
type SplitScope struct {
	Contenders int
	Tied       bool
	NodeCrash  int8
	Crashes    int8 // of contenders
}

type splitSystem struct {
	SplitScope
	rules SplitRules
}

// Split is the system of contenders that divide the votes of three nodes. Its goal must come in every fair run:
// somebody has a quorum, or nobody is left.
func Split(scope SplitScope, rules SplitRules) System[splitState] {
	w := &splitSystem{scope, rules}
	return System[splitState]{
		Name:  fmt.Sprintf("split vote %+v", scope),
		Init:  splitState{crashC: scope.Crashes, crashN: scope.NodeCrash},
		Steps: w.steps,
		Rules: []Rule[splitState]{{"one quorum", oneQuorum}, {"no orphan", w.noOrphan}},
		Goal:  w.decided, Progress: Inevitable,
		Show: splitState.String,
	}
}

func believes(view int8) bool { return view == owning || view == regranted }

// votes counts the nodes that c believes in.
func (s *splitState) votes(c int) int {
	n := 0
	for _, v := range s.view[c] {
		if believes(v) {
			n++
		}
	}
	return n
}

func (s *splitState) live(c int) bool { return s.deadC&(1<<c) == 0 }

func (s *splitState) contends(c int) bool { return (s.deadC|s.done)&(1<<c) == 0 }

func (s *splitState) up(n int) bool { return s.deadN&(1<<n) == 0 }

func (w *splitSystem) steps(s splitState, emit func(Step[splitState])) {
	for n := range nodes {
		w.nodeSteps(s, n, emit)
	}
	for c := range w.Contenders {
		if s.live(c) && s.crashC > 0 {
			next := s
			next.crashC--
			next.deadC |= 1 << c
			next.view[c] = [nodes]int8{}
			next.nudged &^= 1 << c
			emit(Step[splitState]{Act: Action{"{c} crashes", [3]int8{int8(c)}}, To: next, Fault: true})
		}
		for n := range nodes {
			if s.contends(c) {
				w.contend(s, c, n, emit)
				w.yields(s, c, n, emit)
				w.timesOut(s, c, n, emit)
			} else {
				w.release(s, c, n, emit)
			}
		}
		w.ends(s, c, emit)
	}
}

// turn is the fairness class of what contender c does at node n.
func turn(kind, c, n int) uint8 { return uint8(kind*maxProcs*nodes + c*nodes + n) }

// Kinds of turns.
const (
	asks = iota
	hears
	givesBack
	isServed
	lets
	passes
	nudges
)

// grant gives a free node to its lowest ticket that lives. Those who crashed are taken off the queue on the way.
func (w *splitSystem) grant(s *splitState, n int) {
	s.owner[n] = 0
	for i := range maxProcs {
		c := i
		if w.rules.OwnOrder && n == 1 {
			c = maxProcs - 1 - i
		}
		if s.queue[n]&(1<<c) != 0 {
			s.queue[n] &^= 1 << c
			if s.live(c) {
				s.owner[n] = int8(c) + 1
				return
			}
		}
	}
}

func (w *splitSystem) nodeSteps(s splitState, n int, emit func(Step[splitState])) {
	if s.up(n) && s.crashN > 0 {
		next := s
		next.crashN--
		next.deadN |= 1 << n
		next.owner[n], next.queue[n] = 0, 0
		emit(Step[splitState]{Act: Action{"{n} stops", [3]int8{int8(n)}}, To: next, Fault: true})
	}
	if owner := int(s.owner[n]) - 1; s.up(n) && owner >= 0 && !s.live(owner) && !w.rules.NeverServeDead {
		next := s
		w.grant(&next, n)
		act := Action{"{c}'s lease on {n} ends, a poll serves the queue", [3]int8{int8(owner), int8(n)}}
		emit(Step[splitState]{Act: act, To: next, Class: turn(passes, 0, n)})
	}
}

// contend emits what brings c a grant of n, or takes one away with the node.
func (w *splitSystem) contend(s splitState, c, n int, emit func(Step[splitState])) {
	who := [3]int8{int8(c), int8(n)}
	switch view := s.view[c][n]; {
	case !s.up(n):
		if view != apart {
			next := s
			next.view[c][n] = apart
			next.nudged &^= 1 << c
			emit(Step[splitState]{Act: Action{"{c}'s belief in {n} runs out", who}, To: next, Class: turn(passes, c, n)})
		}
	case view == apart:
		next := s
		next.queue[n] |= 1 << c
		next.view[c][n] = inQueue
		if next.owner[n] == 0 {
			w.grant(&next, n)
		}
		emit(Step[splitState]{Act: Action{"{c} asks {n}", who}, To: next, Class: turn(asks, c, n)})
	case view == inQueue && int(s.owner[n]) == c+1:
		next := s
		next.view[c][n] = owning
		emit(Step[splitState]{Act: Action{"{c} hears that it owns {n}", who}, To: next, Class: turn(hears, c, n)})
	}
}

// rival reports whether c knows a node at which a lower ticket owns or waits, or any other where it always yields.
func (w *splitSystem) rival(s *splitState, c int) bool {
	rivals := uint8(1)<<c - 1
	if w.Tied {
		rivals = 0
	}
	if w.rules.AlwaysYield {
		rivals = ^(uint8(1) << c)
	}
	for n := range nodes {
		there := s.queue[n]
		if s.owner[n] > 0 {
			there |= 1 << (s.owner[n] - 1)
		}
		if s.view[c][n] != apart && there&rivals != 0 {
			return true
		}
	}
	return false
}

// gives reports whether c is to give back the one node that it has: it has too few, and a lower ticket waits for that, or
// it was nudged.
func (w *splitSystem) gives(s *splitState, c int) bool {
	return s.votes(c) < quorum && !w.rules.NeverYield && (w.rival(s, c) || s.nudged&(1<<c) != 0)
}

// give gives n back.
func (s *splitState) give(c, n int) {
	s.view[c][n] = yielding
	s.nudged &^= 1 << c
}

// heeds reports whether c remembers a nudge, which may come from a node that c does not know it has: not where c has a
// quorum, or nothing to give.
func (w *splitSystem) heeds(s *splitState, c int) bool {
	waits := w.rules.ForgetNudge && slices.Contains(s.view[c][:], regranted)
	return s.contends(c) && s.votes(c) > 0 && s.votes(c) < quorum && !waits
}

// timesOut emits what a minority does once its vote timeout is over: it nudges the owners of the nodes that it lacks, and
// gives back what it was granted again.
func (w *splitSystem) timesOut(s splitState, c, n int, emit func(Step[splitState])) {
	if !believes(s.view[c][n]) || !s.up(n) || s.votes(c) >= quorum {
		return
	}
	next := s
	if w.gives(&s, c) {
		next.give(c, n)
	}
	for m := range nodes {
		other := int(s.owner[m]) - 1
		if s.view[c][m] == inQueue && other >= 0 && other != c && w.heeds(&s, other) {
			next.nudged |= 1 << other
		}
	}
	if next != s {
		act := Action{"{c}, which has {n}, nudges the other owners", [3]int8{int8(c), int8(n)}}
		if next.view[c][n] == yielding {
			act.Text = "{c} nudges the other owners, and yields {n}"
		}
		emit(Step[splitState]{Act: act, To: next, Class: turn(nudges, c, n)})
	}
}

// yields emits what a minority does with the grants it has.
func (w *splitSystem) yields(s splitState, c, n int, emit func(Step[splitState])) {
	who := [3]int8{int8(c), int8(n)}
	if s.view[c][n] == owning && s.up(n) && w.gives(&s, c) {
		next := s
		next.give(c, n)
		emit(Step[splitState]{Act: Action{"{c} yields {n}", who}, To: next, Class: turn(givesBack, c, n)})
	}
	if s.view[c][n] != yielding || !s.up(n) {
		return
	}
	next := s
	w.compare(&next, c, n)
	act := Action{"{n} compares: {c} gives way", [3]int8{int8(n), int8(c)}}
	if next.owner[n] == s.owner[n] {
		act.Text = "{n} compares: {c} keeps it, under a new number"
	}
	emit(Step[splitState]{Act: act, To: next, Class: turn(isServed, c, n)})
	if w.rules.YieldOnce {
		next = s
		next.view[c][n] = disowned
		emit(Step[splitState]{Act: Action{"{c}'s yield of {n} is lost", who}, To: next, Fault: true})
	}
}

// compare is what node n does with c's yield, which is void if c owns the node no more.
func (w *splitSystem) compare(s *splitState, c, n int) {
	s.view[c][n] = inQueue
	if int(s.owner[n]) != c+1 {
		return
	}
	if w.rules.AlwaysYield {
		w.grant(s, n) // to anybody but c, if there is anybody
	}
	s.queue[n] |= 1 << c
	if int(s.owner[n]) == c+1 || s.owner[n] == 0 {
		w.grant(s, n)
	}
	if int(s.owner[n]) == c+1 {
		s.view[c][n] = regranted
	}
}

// ends emits the end of c's hold or of its patience. Releases go to every node, heard of or not.
func (w *splitSystem) ends(s splitState, c int, emit func(Step[splitState])) {
	if !s.contends(c) {
		return
	}
	next := s
	next.done |= 1 << c
	next.nudged &^= 1 << c
	if w.rules.ReleaseHeard {
		for n, view := range s.view[c] {
			if !believes(view) && view != yielding {
				next.view[c][n] = apart
			}
		}
	}
	act := Action{"{c} unlocks", [3]int8{int8(c)}}
	if s.votes(c) < quorum {
		act.Text = "{c} gives up"
	}
	emit(Step[splitState]{Act: act, To: next, Fault: true})
}

// release emits the release of node n, repeated until it ran or the node is gone.
func (w *splitSystem) release(s splitState, c, n int, emit func(Step[splitState])) {
	if s.view[c][n] == apart {
		return
	}
	next := s
	next.view[c][n] = apart
	if s.up(n) {
		next.queue[n] &^= 1 << c
		if int(s.owner[n]) == c+1 {
			w.grant(&next, n)
		}
	}
	act := Action{"{c}'s release of {n} is through", [3]int8{int8(c), int8(n)}}
	emit(Step[splitState]{Act: act, To: next, Class: turn(lets, c, n)})
}

func oneQuorum(s splitState) string {
	first := -1
	for c := range maxProcs {
		if !s.contends(c) || s.votes(c) < quorum {
			continue
		}
		if first >= 0 {
			return fmt.Sprintf("%s and %s both have a quorum", letter(first), letter(c))
		}
		first = c
	}
	return ""
}

// noOrphan: who is over owns nothing that no release is on its way to.
func (w *splitSystem) noOrphan(s splitState) string {
	for n, owner := range s.owner {
		c := int(owner) - 1
		if c >= 0 && s.up(n) && s.live(c) && !s.contends(c) && s.view[c][n] == apart {
			return fmt.Sprintf("%s is over, owns n%d, and nobody releases it", letter(c), n+1)
		}
	}
	return ""
}

// decided is when somebody has a quorum or nobody wants one.
func (w *splitSystem) decided(s splitState) bool {
	idle := true
	for c := range w.Contenders {
		if s.contends(c) {
			idle = false
			if s.votes(c) >= quorum {
				return true
			}
		}
	}
	return idle
}

func (s splitState) String() string {
	var b strings.Builder
	for n, owner := range s.owner {
		if n > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "n%d ", n+1)
		switch {
		case !s.up(n):
			b.WriteString("down")
		case owner > 0:
			b.WriteString(letter(int(owner) - 1))
		default:
			b.WriteString("-")
		}
		for c := range maxProcs {
			if s.queue[n]&(1<<c) != 0 {
				b.WriteString(strings.ToLower(letter(c)))
			}
		}
	}
	for c := range maxProcs {
		if votes := s.votes(c); votes > 0 && s.contends(c) {
			fmt.Fprintf(&b, " | %s believes in %d", letter(c), votes)
		}
	}
	return b.String()
}
