package model

import (
	"fmt"
	"strings"
)

// spreadNode is a node of a quorum. A counter of 0 is one that is missing.
type spreadNode struct {
	counter int8
	mute    int8 // ticks of its quarantine that are left
	own     int8 // number of its grant to the attempt under way, 0 for none
}

// spreadState is one lock of a quorum, and the attempt under way: holds follow each other, and some attempts come to
// nothing.
type spreadState struct {
	clock  int8 // of the node whose clock is behind
	node   [nodes]spreadNode
	issued int8
	repeat bool
	ticks  int8 // that may still pass
	losses int8
}

// SpreadRules switches rules off. The zero value is the protocol.
type SpreadRules struct {
	NoWrite   bool // the token is not written back
	CountOnly bool // a grant counts on from the counter whatever the clock says
}

// SpreadScope is how much is explored.
type SpreadScope struct {
	Spread     int8 // how far the nodes' clocks are apart
	Lead       int8 // how far grants may bring a counter ahead of all clocks
	Quarantine int8 // in ticks
	Losses     int8 // of one node's memory, or at once of all
	Ticks      int8
}

type spreadSystem struct {
	SpreadScope
	rules SpreadRules
}

// Spread is the system of fencing tokens of a quorum where a node that forgot is told nothing: the clock alone has to
// bring its numbers above all that were reserved. It does where the quarantine is longer than spread and lead together.
func Spread(scope SpreadScope, rules SpreadRules) System[spreadState] {
	w := &spreadSystem{scope, rules}
	return System[spreadState]{
		Name:  fmt.Sprintf("tokens of a quorum %+v", scope),
		Init:  spreadState{clock: 4, ticks: scope.Ticks, losses: scope.Losses},
		Steps: w.steps,
		Rules: []Rule[spreadState]{{"tokens rise", func(s spreadState) string {
			if s.repeat {
				return "a holder got a token that is not above all that were given out before"
			}
			return ""
		}}},
		Show: spreadState.String,
	}
}

// at is the clock of node n: the first is behind, the last is ahead.
func (w *spreadSystem) at(s *spreadState, n int) int8 {
	return s.clock + [nodes]int8{0, w.Spread / 2, w.Spread}[n]
}

func (w *spreadSystem) steps(s spreadState, emit func(Step[spreadState])) {
	goes := func(s spreadState, fault bool, text string, args ...int) {
		act := Action{Text: text}
		for i, a := range args {
			act.Args[i] = int8(a)
		}
		emit(Step[spreadState]{Act: act, To: s, Fault: fault})
	}
	votes := 0
	for n := range nodes {
		v := s.node[n]
		next := s
		if v.own > 0 {
			votes++
		} else if v.mute == 0 && v.counter < s.clock+w.Spread+w.Lead {
			me := &next.node[n]
			me.counter++
			if !w.rules.CountOnly {
				me.counter = max(me.counter, w.at(&s, n))
			}
			me.own = me.counter
			goes(next, false, "{n} grants, number {t}", n, int(me.own))
		}
	}
	if votes >= quorum {
		next := s
		token := w.win(&next)
		goes(next, false, "HOLDS with token {t}, and lets go", int(token))
	}
	if votes > 0 {
		next := s
		next.over()
		goes(next, false, "gives up")
	}
	if s.ticks > 0 {
		next := s
		next.tick()
		goes(next, false, "a tick passes")
	}
	w.forgets(s, goes)
}

// win is a hold: the token is the lowest number that a quorum of the grants reaches, written back where it takes that.
func (w *spreadSystem) win(s *spreadState) int8 {
	var token int8
	for n := range nodes {
		reached := 0
		for m := range nodes {
			if own := s.node[m].own; own > 0 && own <= s.node[n].own {
				reached++
			}
		}
		if own := s.node[n].own; reached >= quorum && (token == 0 || own < token) {
			token = own
		}
	}
	evidence := 0
	for n := range nodes {
		if s.node[n].own >= token {
			evidence++
		}
	}
	for n := range nodes {
		// A grant of a former life is believed, and no write-back reaches it.
		v := &s.node[n]
		if v.own > 0 && v.own < token && v.mute == 0 && evidence < quorum && !w.rules.NoWrite {
			v.counter = max(v.counter, token)
			evidence++
		}
	}
	if evidence >= quorum || w.rules.NoWrite {
		s.repeat = token <= s.issued
		s.issued = max(s.issued, token)
	}
	s.over()
	return token
}

func (s *spreadState) over() {
	for n := range s.node {
		s.node[n].own = 0
	}
}

// tick brings all clocks on. At the end of a quarantine no belief from before it is left.
func (s *spreadState) tick() {
	s.ticks--
	s.clock++
	for n := range s.node {
		if v := &s.node[n]; v.mute > 0 {
			if v.mute--; v.mute == 0 {
				v.own = 0
			}
		}
	}
}

func (w *spreadSystem) forgets(s spreadState, goes func(spreadState, bool, string, ...int)) {
	if s.losses == 0 {
		return
	}
	every := s
	every.losses--
	for n := range nodes {
		if v := s.node[n]; v.mute == 0 && v.counter > 0 {
			next := s
			next.losses--
			next.node[n].counter, next.node[n].mute = 0, w.Quarantine
			goes(next, true, "{n} loses its memory", n)
		}
		every.node[n].counter, every.node[n].mute = 0, w.Quarantine
	}
	goes(every, true, "all nodes lose their memory")
}

func (s spreadState) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "clock %d", s.clock)
	for n, v := range s.node {
		fmt.Fprintf(&b, ", n%d %d", n+1, v.counter)
		if v.mute > 0 {
			fmt.Fprintf(&b, " quarantined for %d", v.mute)
		}
		if v.own > 0 {
			fmt.Fprintf(&b, " own %d", v.own)
		}
	}
	return b.String()
}
