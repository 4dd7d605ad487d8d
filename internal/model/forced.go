package model

import (
	"fmt"
	"strings"
)

const forcedClients = 3 // the first has a quorum, and no other has, when the forcing begins

// forcedNode is one node: its owner, its queue, and what has become of the forcer's two commands.
type forcedNode struct {
	owner  int8 // 0 for none, else 1 and the client
	queued uint8
	first  int8 // unasked; yes where the answer was heard in time, failed where it was not
	had    int8 // the owner that the answer to the first names
	second int8
}

// forcedState is a forced unlock of a lock that the first client has.
type forcedState struct {
	node  [nodes]forcedNode
	phase int8  // of the forcer
	only  uint8 // whom the second round ends
}

const (
	forcing int8 = iota
	ending       // the owners that may have a quorum again are being ended
	freed        // it has said that the lock is free
)

// ForcedRules switches rules off. The zero value is the protocol.
type ForcedRules struct {
	Once       bool // there is no second round
	HeldAlone  bool // the second round leaves queues alone
	HadAQuorum bool // it ends only an owner that was found at a quorum
	Somewhere  bool // one node that has ended them is enough
}

type forcedSystem struct{ rules ForcedRules }

// Forced is the system of a lock of a quorum that is forced open node by node, beside contenders in any queue. The order
// of a queue is left open: tickets are not in it. The holder does not ask for nodes again meanwhile, as it does only after the time of a
// command, and each node answers within it or not at all.
func Forced(rules ForcedRules) System[forcedState] {
	w := &forcedSystem{rules}
	var init forcedState
	for n := 1; n < nodes; n++ {
		init.node[n].owner = 1
	}
	init.node[0].owner, init.node[0].queued = 2, 1
	return System[forcedState]{
		Name:  "a forced unlock",
		Init:  init,
		Steps: w.steps,
		Rules: []Rule[forcedState]{{"deposed", deposed}, {"the others go on", goesOn}},
		Show:  forcedState.String,
	}
}

// deposed: the owner that had a quorum when the forcing began has none once it was said to be over.
func deposed(s forcedState) string {
	if n := s.owned(0); s.phase == freed && n >= quorum {
		return fmt.Sprintf("the lock was forced open, and its holder has %d nodes", n)
	}
	return ""
}

// goesOn: where all nodes have answered no owner is ended but those that were found.
func goesOn(s forcedState) string {
	for n := range s.node {
		if s.node[n].first != yes {
			return ""
		}
	}
	if s.phase == ending {
		return "a contender is ended once more though all nodes have answered"
	}
	return ""
}

func (s *forcedState) owned(client int) (n int) {
	for i := range s.node {
		if int(s.node[i].owner) == client+1 {
			n++
		}
	}
	return n
}

func (w *forcedSystem) steps(s forcedState, emit func(Step[forcedState])) {
	goes := func(to forcedState, text string, args ...int) {
		act := Action{Text: text}
		for i, a := range args {
			act.Args[i] = int8(a)
		}
		emit(Step[forcedState]{Act: act, To: to})
	}
	for n := range nodes {
		w.forced(s, n, goes)
		w.contend(s, n, goes)
	}
	if heard := s.heard(func(v *forcedNode) int8 { return v.first }); s.phase == forcing && heard >= quorum {
		next := s
		if next.only = w.survivors(&s, heard); next.only == 0 || w.rules.Once {
			next.phase = freed
			goes(next, "the lock is said to be free")
		} else {
			next.phase = ending
			goes(next, "{t} nodes are silent: the second round begins", nodes-heard)
		}
	}
	heard := s.heard(func(v *forcedNode) int8 { return v.second })
	if s.phase == ending && (heard >= quorum || heard > 0 && w.rules.Somewhere) {
		next := s
		next.phase = freed
		goes(next, "the lock is said to be free, once more")
	}
}

// heard is how many answers of a round were heard.
func (s *forcedState) heard(of func(*forcedNode) int8) (n int) {
	for i := range s.node {
		if of(&s.node[i]) == yes {
			n++
		}
	}
	return n
}

// survivors are the owners that may have had a quorum, and may have one again.
func (w *forcedSystem) survivors(s *forcedState, heard int) (only uint8) {
	for c := range forcedClients {
		had := 0
		for n := range s.node {
			if v := &s.node[n]; v.first == yes && int(v.had) == c+1 {
				had++
			}
		}
		silent := nodes - heard
		if w.rules.HadAQuorum {
			silent = 0
		}
		if had > 0 && had < heard && had+silent >= quorum && heard < nodes {
			only |= 1 << c
		}
	}
	return only
}

// forced is what the forcer's two commands do at a node. One that was given up may still run.
func (w *forcedSystem) forced(s forcedState, n int, goes func(forcedState, string, ...int)) {
	v := s.node[n]
	for _, answer := range []int8{yes, failed} {
		how := map[int8]string{yes: "", failed: ", and nobody hears"}[answer]
		if v.first == unasked && (answer == failed || s.phase == forcing) {
			next := s
			me := &next.node[n]
			me.first, me.owner = answer, 0
			if answer == yes {
				me.had = v.owner
			}
			handed(next, n, goes, "{n} is forced"+how)
		}
		if v.second == unasked && (answer == failed && s.phase == freed && s.only > 0 || s.phase == ending) {
			next := s
			me := &next.node[n]
			me.second = answer
			if !w.rules.HeldAlone {
				me.queued &^= s.only
			}
			if v.owner > 0 && s.only&(1<<(v.owner-1)) != 0 {
				me.owner = 0
			}
			handed(next, n, goes, "{n} ends them"+how)
		}
	}
}

// contend is what clients other than the holder do at a node: they queue there, give back to the queue, and leave.
func (w *forcedSystem) contend(s forcedState, n int, goes func(forcedState, string, ...int)) {
	for c := 1; c < forcedClients; c++ {
		next := s
		me := &next.node[n]
		switch {
		case int(me.owner) == c+1:
			me.owner = 0
			handed(next, n, goes, "{n} is given back")
			me.queued |= 1 << c
			handed(next, n, goes, "{n} is given back by one that goes on")
		case me.queued&(1<<c) == 0:
			me.queued |= 1 << c
			handed(next, n, goes, "{n} is asked for")
		}
	}
}

// handed goes on with each client that node n may be handed to, if it is free and has a queue.
func handed(s forcedState, n int, goes func(forcedState, string, ...int), text string) {
	v := s.node[n]
	if v.owner != 0 || v.queued == 0 {
		goes(s, text, n)
		return
	}
	for c := range forcedClients {
		if v.queued&(1<<c) != 0 {
			next := s
			next.node[n].owner, next.node[n].queued = int8(c)+1, v.queued&^(1<<c)
			goes(next, text+", and {c} has it", n, c)
		}
	}
}

func (s forcedState) String() string {
	var b strings.Builder
	for n := range s.node {
		v := &s.node[n]
		fmt.Fprintf(&b, "n%d %c", n+1, "-ABC"[v.owner])
		for c := range forcedClients {
			if v.queued&(1<<c) != 0 {
				fmt.Fprintf(&b, "<%c", 'A'+c)
			}
		}
		b.WriteString(" ")
	}
	b.WriteString([...]string{"", "| ending ", "| FREE "}[s.phase])
	for c := range forcedClients {
		if s.only&(1<<c) != 0 {
			fmt.Fprintf(&b, "%c", 'A'+c)
		}
	}
	return b.String()
}
