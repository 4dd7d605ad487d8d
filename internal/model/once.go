package model

import (
	"fmt"
	"strings"
)

// Where a leader is: the goroutine of its process that asks for a result.
const (
	onceAway    int8 = iota
	onceReads        // its question for a result is out
	onceWaits        // for the lock
	onceRereads      // under the lock
	onceRuns
	onceKeeps // what leaves its result is out
)

// Answers. That to a question is 1 more than the run whose result stands, so 1 for none.
const (
	onceUnheard int8 = iota
	onceKept
	onceLost
	onceForgotten
)

const onceProcs = 2

// onceProc is a process: its leader, and one more caller, which waits for what the leader brings.
type onceProc struct {
	phase  int8
	old    int8 // of the leader's caller: runs that were older than a Forget when it came, as bits
	run    int8 // the number of its hold, and of the run under it
	trusts bool // its hold
	forgot bool // Forget came since that
	out    bool // its command is on its way
	answer int8

	joins bool // the other caller waits
	jold  int8
	jmay  bool // the leader's latest command was sent behind its coming
}

// onceState is one lock of one Redis with a result beside it.
type onceState struct {
	holder int8 // the run that has the lock, by its entry
	marked bool // Forget came during that hold
	result int8 // the run whose result stands
	late   int8 // runs of which another copy of what leaves the result is on its way, as bits
	begun  int8 // runs that have begun, as bits
	stale  int8 // runs that began before a Forget, as bits
	last   int8 // the number of the latest hold
	ofB    int8 // the holds of the second process, as bits

	proc    [onceProcs]onceProc
	comes   int8 // callers that may still come
	forgets int8
	faults  int8

	given  int8 // the run whose result was given first
	harmed bool // a lease was lost, a result expired, or Forget came: another run may be made
	broken string
}

// OnceRules switches rules off. The zero value is the protocol.
type OnceRules struct {
	SameEntry   bool // the runs of a process have one entry, as a hold that is passed on in memory
	Blind       bool // what leaves a result does not look at the hold
	Unmarked    bool // Forget does not mark the hold that stands
	RepeatLoses bool // what leaves a result does not look whether it stands already
	ReadOnce    bool // the result is not read again under the lock
	AnyAnswer   bool // a caller takes what was asked for before it came
	MarkStays   bool // the mark does not end with the hold
}

// OnceScope is how much is explored.
type OnceScope struct{ Comes, Forgets, Faults int8 }

type onceSystem struct{ rules OnceRules }

// Once is the system of a function that runs once: two processes with two callers each, which read a result, run under the
// lock and leave one, while Forget comes, leases are lost and commands run twice, late, or unheard.
func Once(scope OnceScope, rules OnceRules) System[onceState] {
	w := &onceSystem{rules}
	return System[onceState]{
		Name:  fmt.Sprintf("once %+v", scope),
		Init:  onceState{comes: scope.Comes, forgets: scope.Forgets, faults: scope.Faults},
		Steps: w.steps,
		Rules: []Rule[onceState]{
			{"one result", onceRule("one")}, {"no older result", onceRule("older")}, {"no late result", onceRule("late")},
			{"what stands is not called lost", onceRule("stands")}, {"a run leaves its result", onceRule("left")},
		},
		Goal: func(s onceState) bool {
			return s.proc[0].phase == onceAway && s.proc[1].phase == onceAway && s.holder == 0
		},
		Show: onceState.String,
	}
}

func onceRule(about string) func(onceState) string {
	return func(s onceState) string {
		if strings.HasPrefix(s.broken, about) {
			return s.broken
		}
		return ""
	}
}

// entry is what the lock's hash has for a run.
func (w *onceSystem) entry(p, run int8) int8 {
	if w.rules.SameEntry {
		return 100 + p
	}
	return run
}

func (s onceState) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "result %d, held by %d", s.result, s.holder)
	if s.marked {
		b.WriteString(" (forgotten)")
	}
	for i, p := range s.proc {
		if p.phase != onceAway {
			fmt.Fprintf(&b, ", %c %s %d", 'A'+i, [...]string{"", "reads", "waits", "rereads", "runs", "keeps"}[p.phase], p.run)
			if p.phase > onceWaits && !p.trusts {
				b.WriteString(" without trust")
			}
		}
		if p.joins {
			b.WriteString(" +1")
		}
	}
	return b.String()
}
