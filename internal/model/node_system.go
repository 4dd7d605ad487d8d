package model

import "fmt"

// NodeRules switches rules of the single-node protocol off or on. The zero value is the protocol.
type NodeRules struct {
	BelieveAnyGrant bool // a push counts whatever its token
	BelieveYielded  bool // an answer about a grant that was given back counts
	YieldAnyGrant   bool // a yield runs on whatever grant its sender has by then
	ShortenLease    bool // a renewal sets the lease to what it asks for
	ReleaseAnyOwner bool // a release frees the lock whoever owns it
	ReleaseOnce     bool // a release is sent once and not repeated
	NoSweep         bool // nothing follows an answered release
	EarlySweep      bool // a release that ran before the end of limbo counts as the last one
	NoPoll          bool // a queued waiter sleeps until it is told
	GrantToDead     bool // hand-over does not ask who listens
	ReleasersLease  bool // hand-over grants the lease of the one who released
	ReuseID         bool // an unlocker contends again under the id whose release is on its way
	AdoptOrphan     bool // a grant for a wait that was given up serves the next local waiter
	ForgetOpen      bool // a release sent while an acquire is unanswered is taken for the last word
	ForgetLost      bool // nothing is sent when a belief runs out
}

// NodeScope is how much of the single-node protocol is explored.
type NodeScope struct {
	Procs    int
	Lease    int8 // in ticks
	Renewal  int8 // what renewals ask for; 0 for none
	InFlight int  // commands, answers and messages at one time
	Crashes  int8
	Yields   bool // a node of a quorum: holders may give a grant back
	Uneven   bool // B's leases are a tick longer than those of the others
}

type nodeSystem struct {
	NodeScope
	rules NodeRules
}

// leaseOf is the lease that i asks for.
func (w *nodeSystem) leaseOf(i int) int8 {
	if w.Uneven && i == 1 {
		return w.Lease + 1
	}
	return w.Lease
}

// anonymous reports whether processes differ in nothing but their letters: neither in tickets nor in leases.
func (w *nodeSystem) anonymous() bool { return !w.Yields && !w.Uneven }

// Node is the system of one Redis and the processes that contend for one lock of it.
func Node(scope NodeScope, rules NodeRules) System[nodeState] {
	w := &nodeSystem{scope, rules}
	kind := "node"
	if scope.Yields {
		kind = "quorum node"
	}
	return System[nodeState]{
		Name:  fmt.Sprintf("%s %+v", kind, scope),
		Init:  nodeState{crashes: scope.Crashes},
		Steps: w.steps,
		Canon: w.canon,
		Rules: []Rule[nodeState]{
			{"exclusion", w.exclusion}, {"token order", w.tokenOrder}, {"no orphan", w.noOrphan},
			{"no sleeper", w.noSleeper}, {"no grant to the dead", w.noneWasted}, {"belief is ownership", w.beliefIsOwnership},
		},
		Goal: w.quiet,
		Show: nodeState.String,
	}
}

func (w *nodeSystem) steps(s nodeState, emitRaw func(Step[nodeState])) {
	emit := func(step Step[nodeState]) {
		step.To = w.tidy(step.To)
		emitRaw(step)
	}
	for i := range w.Procs {
		w.starts(s, i, emit)
		w.serve(s, i, emit)
		w.losses(s, i, emit)
		if s.ids[i].phase != crashed {
			w.hears(s, i, emit)
			w.acts(s, i, emit)
		}
	}
	emit(Step[nodeState]{Act: Action{Text: "a tick passes"}, To: w.tick(s)})
}

// tick lets beliefs and the lease grow shorter together: a belief was counted from when its command was sent, the lease
// from when it ran.
func (w *nodeSystem) tick(s nodeState) nodeState {
	for i := range s.ids {
		w.older(&s, i)
	}
	if owner := s.owner(); owner >= 0 {
		if s.lease--; s.lease <= 0 {
			s.ids[owner].owns, s.lease = false, 0
		}
	}
	return s
}

func (w *nodeSystem) older(s *nodeState, i int) {
	a := &s.ids[i]
	if a.ask > 0 {
		if a.ask++; a.ask > w.leaseOf(i) {
			a.giveUpAsk() // an answer to it would be of no use any more
		}
	}
	if a.reply != noReply {
		if a.replyAge++; a.replyAge > w.leaseOf(i) {
			a.reply, a.replyAge, a.replyNum = 0, 0, 0
		}
	}
	if a.renew > 0 {
		a.renew = min(a.renew+1, w.Renewal+1)
	}
	if a.renewed > 0 {
		if a.renewed++; a.renewed > w.Renewal {
			a.renewed = 0
		}
	}
	a.base = min(a.base+1, w.leaseOf(i))
	if a.phase == held {
		if a.bound--; a.bound == 0 {
			w.end(s, i)
			if w.rules.ForgetLost {
				a.phase = over
			}
		}
	}
	if a.phase == limbo {
		if a.left--; a.left == 0 {
			// The assumption on time of the sweep: an acquire is gone when its limbo ends.
			a.phase, a.doubt, a.late = releasing, false, 0
			a.relDone = a.relDone && w.rules.EarlySweep
		}
	}
}

func (w *nodeSystem) exclusion(s nodeState) string {
	first := -1
	for i := range s.ids {
		if s.ids[i].phase != held {
			continue
		}
		if first >= 0 {
			return fmt.Sprintf("%s and %s both believe that they hold the lock", letter(first), letter(i))
		}
		first = i
	}
	return ""
}

func (w *nodeSystem) tokenOrder(s nodeState) string {
	if s.older {
		return "a token was believed after a token that is not lower"
	}
	return ""
}

// beliefIsOwnership is why exclusion holds: who believes owns the lock on the server, under the same grant, for longer.
func (w *nodeSystem) beliefIsOwnership(s nodeState) string {
	for i := range s.ids {
		a := &s.ids[i]
		if a.phase == held && (!a.owns || a.token != s.counter || a.bound > s.lease) {
			return letter(i) + " believes what the server does not grant"
		}
	}
	return ""
}

func (w *nodeSystem) noOrphan(s nodeState) string {
	for i := range s.ids {
		if a := &s.ids[i]; (a.owns || a.place > 0) && (a.phase == unused || a.phase == over) && a.push == [2]int8{} {
			return letter(i) + " is over, yet stands on the server, and nobody sweeps it"
		}
	}
	return ""
}

func (w *nodeSystem) noneWasted(s nodeState) string {
	if s.wasted {
		return "the lock was handed to a process that does not listen"
	}
	return ""
}

func (w *nodeSystem) noSleeper(s nodeState) string {
	if s.owner() >= 0 {
		return ""
	}
	for i := range s.ids {
		a := &s.ids[i]
		awake := a.ask > 0 || a.reply != noReply || a.push != [2]int8{} || w.pollable(&s, i)
		if a.phase == waiting && !awake {
			return letter(i) + " sleeps beside a free lock"
		}
	}
	return ""
}

// quiet is when everybody has been served and nothing is left to clean up.
func (w *nodeSystem) quiet(s nodeState) bool {
	for i := range s.ids {
		if p := s.ids[i].phase; p != unused && p != over && p != crashed {
			return false
		}
	}
	return true
}
