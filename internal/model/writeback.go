package model

import (
	"fmt"
	"strings"
)

// What became of a question to a node, a vote or a write-back.
const (
	unasked  int8 = iota
	underWay      // it has not run yet, or nobody will ever know
	yes           // the node is ours, as the answer says
	no            // the answer says that it is not
	failed        // it was not answered in time
)

// What is wrong with a node.
const (
	well  int8 = iota
	hangs      // it answers nothing
	full       // it votes and refuses write-backs
)

// writeNode is one node and how the contender's leg stands there. Numbers are levels: the highest is level 3, at which
// grants count no further.
type writeNode struct {
	owner   int8 // 0 nobody, 1 the contender, 2 another
	queued  bool // the contender waits there
	count   int8 // fencing counter
	grant   int8 // number of the grant in force
	health  int8
	push    bool // its grant is on its way
	vote    int8
	voted   int8 // the number in the answer
	fence   int8
	raiseTo int8 // of the write-back that is out
	under   int8 // the grant that it was sent under
	own     int8 // number of the grant believed in, 0 for none
	counted int8 // how far the node is known to have counted
	due     bool // to be asked at the next chance
	silent  bool // it is taken for a node that does not answer
}

// writeState is one contender's election: a loop that acts, then listens.
type writeState struct {
	node   [nodes]writeNode
	inside bool // the loop waits for write-backs alone; SkipListening only
	deaf   bool // it has sent write-backs since it listened last
	spins  bool // and has sent more since
	ended  bool // the caller's context is over
	passed bool // that was ready once when the loop took something else
	won    bool
	gaveUp bool
	faults int8
}

// WriteBackRules switches rules off. The zero value is the protocol.
type WriteBackRules struct {
	SkipListening bool // the loop waits for its write-backs alone, and begins anew when they fail
	StillOurs     bool // a node whose write-back failed is believed in all the same
	NoEvidence    bool // the token is not written back at all
	CallersTime   bool // a write-back ends with the caller's context, which counts as a node that does not answer
}

// WriteBackScope is how much is explored.
type WriteBackScope struct {
	Context bool // the caller's context ends some time
	Held    bool // another holds n2 and n3 at first
	Down    bool // n3 never answers
	Faults  int8 // messages lost, grants lost, nodes that hang or are full for a while
}

type writeBackSystem struct {
	WriteBackScope
	rules WriteBackRules
}

// WriteBack is the system of one contender that comes by a quorum whose counters differ. Its goal comes in every fair
// run without further faults: it has won, or has given up because its caller's context is over.
func WriteBack(scope WriteBackScope, rules WriteBackRules) System[writeState] {
	w := &writeBackSystem{scope, rules}
	init := writeState{faults: scope.Faults}
	init.node[0].count = 2
	for n := range nodes {
		init.node[n].vote = underWay
		if scope.Held && n > 0 {
			init.node[n].owner = 2
		}
	}
	if scope.Down {
		init.node[nodes-1].health = hangs
	}
	return System[writeState]{
		Name:  fmt.Sprintf("write-back %+v", scope),
		Init:  init,
		Steps: w.steps,
		Rules: []Rule[writeState]{
			{"listens between sends", listens}, {"silence is the node's", silenceIsTheNodes}, {"evidence", evidence},
		},
		Goal:     func(s writeState) bool { return s.won || s.gaveUp && s.ended },
		Progress: Inevitable,
		Show:     writeState.String,
	}
}

func listens(s writeState) string {
	if s.spins {
		return "write-backs are sent again, and nothing was listened to in between"
	}
	return ""
}

func silenceIsTheNodes(s writeState) string {
	for n := range s.node {
		if v := &s.node[n]; v.silent && v.health == well {
			return fmt.Sprintf("n%d is well and taken for a node that does not answer", n+1)
		}
	}
	return ""
}

// evidence: a winner's quorum has counted as far as its token, where no fault took a node from it.
func evidence(s writeState) string {
	if !s.won {
		return ""
	}
	token, n := s.token(), 0
	for i := range s.node {
		if v := &s.node[i]; v.own > 0 && v.count >= token {
			n++
		}
	}
	if n < quorum {
		return fmt.Sprintf("the token is %d, and %d nodes have counted so far", token, n)
	}
	return ""
}

// token is the lowest number that a quorum of the grants reaches, 0 without a quorum.
func (s *writeState) token() int8 {
	var sorted [nodes]int8
	owned := 0
	for n := range s.node {
		own := s.node[n].own
		if own == 0 {
			continue
		}
		at := owned
		for ; at > 0 && sorted[at-1] > own; at-- {
			sorted[at] = sorted[at-1]
		}
		sorted[at] = own
		owned++
	}
	if owned < quorum {
		return 0
	}
	return sorted[quorum-1]
}

// act is what the loop does before it listens: win, or send what is due.
func (w *writeBackSystem) act(s *writeState) {
	if token := s.token(); token > 0 {
		counted := 0
		for n := range s.node {
			if v := &s.node[n]; v.own > 0 && v.counted >= token {
				counted++
			}
		}
		if counted >= quorum || w.rules.NoEvidence {
			s.won = true
			return
		}
		w.raise(s, token)
		if s.inside {
			return
		}
	}
	for n := range s.node {
		if v := &s.node[n]; v.due && v.vote == unasked {
			v.vote, v.due = underWay, false
		}
	}
}

// raise sends the write-backs of token that are not out.
func (w *writeBackSystem) raise(s *writeState, token int8) {
	for n := range s.node {
		v := &s.node[n]
		if v.own > 0 && v.counted < token && v.fence == unasked {
			v.fence, v.raiseTo, v.under = underWay, token, v.own
			s.spins = s.spins || s.deaf && w.rules.SkipListening
			s.inside = w.rules.SkipListening
		}
	}
	s.deaf = s.inside
}

func (s writeState) String() string {
	var b strings.Builder
	for n := range s.node {
		v := &s.node[n]
		fmt.Fprintf(&b, "n%d %s:%d", n+1, [...]string{"-", "A", "other"}[v.owner], v.count)
		b.WriteString([...]string{"", " hangs", " full"}[v.health])
		if v.own > 0 {
			fmt.Fprintf(&b, " own %d", v.own)
		}
		if v.fence != unasked {
			b.WriteString(" fence " + [...]string{"", "out", "yes", "no", "failed"}[v.fence])
		}
		if n < nodes-1 {
			b.WriteString(", ")
		}
	}
	for _, flag := range []struct {
		on   bool
		text string
	}{{s.inside, "deaf"}, {s.ended, "context over"}, {s.won, "WON"}, {s.gaveUp, "gave up"}} {
		if flag.on {
			b.WriteString(" | " + flag.text)
		}
	}
	return b.String()
}
