package model

import (
	"fmt"
	"slices"
	"strings"
)

// An Action says what happens in a step. Text may hold {c}, {n} and {t}, which stand for the arguments in their order:
// a client's letter, a node and a plain number.
type Action struct {
	Text string
	Args [3]int8
}

func (a Action) String() string {
	var b strings.Builder
	text := a.Text
	for _, arg := range a.Args {
		before, after, found := strings.Cut(text, "{")
		if !found {
			break
		}
		b.WriteString(before)
		switch after[0] {
		case 'c':
			b.WriteString(letter(int(arg)))
		case 'n':
			fmt.Fprintf(&b, "n%d", arg+1)
		default:
			fmt.Fprint(&b, arg)
		}
		text = after[2:]
	}
	return b.String() + text
}

func letter(i int) string { return string(rune('A' + i)) }

// Line is a step of a trace and the state it leads to.
type Line struct {
	Act   string
	State string
}

// A Violation is a rule that does not hold, and how to get there.
type Violation struct {
	Rule  string
	What  string
	Trace []Line
}

func (v *Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", v.Rule, v.What)
	for i, l := range v.Trace {
		fmt.Fprintf(&b, "%4d  %-58s %s\n", 1+i, l.Act, l.State)
	}
	return b.String()
}

// trace replays the way to state i and returns the state it ends in. States on record are canonical, with names
// exchanged at every step; the replay starts from the initial state and keeps each name for the same thing all along.
func (x *search[S]) trace(i uint32) ([]Line, S) {
	return x.replay(x.sys.Init, x.way(i))
}

// way returns the states from the first successor of the initial state to i.
func (x *search[S]) way(i uint32) []uint32 {
	var way []uint32
	for ; i != 0; i = x.parent[i] {
		way = append(way, i)
	}
	slices.Reverse(way)
	return way
}

// replay walks from s through states that equal those of the way but for names.
func (x *search[S]) replay(s S, way []uint32) ([]Line, S) {
	var lines []Line
	for _, j := range way {
		want, found := x.states[j], false
		x.sys.Steps(s, func(step Step[S]) {
			if !found && x.sys.Canon(step.To) == want {
				found = true
				s = step.To
				lines = append(lines, Line{Act: step.Act.String(), State: x.show(step.To)})
			}
		})
		if !found {
			panic("bug: Canon is not a symmetry of Steps: " + x.show(want))
		}
	}
	return lines, s
}

func (x *search[S]) show(s S) string {
	if x.sys.Show == nil {
		return ""
	}
	return x.sys.Show(s)
}
