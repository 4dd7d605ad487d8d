package model

import "fmt"

// A System is a transition system over comparable states: two states are the same when they are equal, so a state must
// hold neither pointers nor values that differ without meaning.
type System[S comparable] struct {
	Name string
	Init S
	// Steps calls emit for everything that can happen in s.
	Steps func(s S, emit func(Step[S]))
	// Canon maps states that differ only by a renaming to one of them. Nil leaves states alone.
	Canon func(S) S
	// Rules hold in every reachable state.
	Rules []Rule[S]
	// Goal must stay possible: some run without further faults leads to it from every state. Nil asks for nothing.
	Goal func(S) bool
	// Show describes a state in a trace, in one line.
	Show func(S) string
}

// A Rule is an invariant. Broken returns what is wrong with a state, "" for nothing.
type Rule[S comparable] struct {
	Name   string
	Broken func(S) string
}

// A Step is one thing that happens.
type Step[S comparable] struct {
	Act Action
	To  S
	// Fault marks what nothing may rely on: losses, crashes, new work, callers that change their mind.
	Fault bool
}

// Result is what an exploration found.
type Result struct {
	Name     string
	States   int
	Edges    int
	Depth    int
	Complete bool // every reachable state was seen
	Broken   *Violation
}

func (r Result) String() string {
	s := fmt.Sprintf("%s: %d states, %d steps, depth %d", r.Name, r.States, r.Edges, r.Depth)
	if !r.Complete && r.Broken == nil {
		s += " (not complete)"
	}
	return s
}

type search[S comparable] struct {
	sys    System[S]
	index  map[S]uint32
	states []S
	parent []uint32
	depth  int

	// The steps that are no faults, kept only when there is a goal: those of state i start at first[i].
	first []uint32
	to    []uint32
	edges int
}

// Explore visits every reachable state, nearest first, until a rule is broken or limit states were seen. The same
// system gives the same result each time, and a broken rule comes with a shortest trace.
func Explore[S comparable](sys System[S], limit int) Result {
	if sys.Canon == nil {
		sys.Canon = func(s S) S { return s }
	}
	x := &search[S]{sys: sys, index: make(map[S]uint32)}
	res := Result{Name: sys.Name}
	x.visit(sys.Canon(sys.Init), 0)
	res.Broken = x.breadthFirst(limit)
	res.States, res.Edges, res.Depth = len(x.states), x.edges, x.depth
	res.Complete = res.Broken == nil && len(x.states) < limit
	if res.Complete && sys.Goal != nil {
		res.Broken = x.progress()
	}
	return res
}

// visit returns whether s is new.
func (x *search[S]) visit(s S, from uint32) (uint32, bool) {
	if i, seen := x.index[s]; seen {
		return i, false
	}
	i := uint32(len(x.states))
	x.index[s] = i
	x.states = append(x.states, s)
	x.parent = append(x.parent, from)
	return i, true
}

func (x *search[S]) breadthFirst(limit int) *Violation {
	if v := x.check(0); v != nil {
		return v
	}
	layerEnd := 1
	for i := 0; i < len(x.states) && len(x.states) < limit; i++ {
		if i == layerEnd {
			x.depth++
			layerEnd = len(x.states)
		}
		if v := x.expand(uint32(i)); v != nil {
			x.depth++
			return v
		}
	}
	return nil
}

func (x *search[S]) expand(i uint32) *Violation {
	if x.sys.Goal != nil {
		x.first = append(x.first, uint32(len(x.to)))
	}
	var broken *Violation
	x.sys.Steps(x.states[i], func(step Step[S]) {
		if broken != nil {
			return
		}
		x.edges++
		j, fresh := x.visit(x.sys.Canon(step.To), i)
		if x.sys.Goal != nil && !step.Fault {
			x.to = append(x.to, j)
		}
		if fresh {
			broken = x.check(j)
		}
	})
	return broken
}

// check returns the first rule that state i breaks.
func (x *search[S]) check(i uint32) *Violation {
	for _, rule := range x.sys.Rules {
		if rule.Broken(x.states[i]) != "" {
			lines, end := x.trace(i)
			return &Violation{Rule: rule.Name, What: rule.Broken(end), Trace: lines}
		}
	}
	return nil
}

// after returns the range of i's steps in x.to.
func (x *search[S]) after(i uint32) (uint32, uint32) {
	if int(i)+1 < len(x.first) {
		return x.first[i], x.first[i+1]
	}
	return x.first[i], uint32(len(x.to))
}
