package model

import "fmt"

// What a holder tells the server about its hold count.
type countOp int8

const (
	noOp     countOp = iota
	takeOp           // acquire
	enterOp          // re-entry
	leaveOp          // inner unlock
	renewOp          // renewal, which repairs the count
	unlockOp         // the last unlock
)

func (o countOp) String() string {
	return [...]string{"", "acquire", "re-entry", "inner unlock", "renewal", "last unlock"}[o]
}

// command is an operation on its way, with the hold count that it writes.
type command struct {
	op    countOp
	count int8
}

const maxLate = 2

// countState is one acquisition's field in the lock's hash and the holder that counts along. The holder does one
// operation at a time and sends it again until it is answered; copies that it no longer waits for stay on their way.
type countState struct {
	exists bool
	stored int8
	local  int8 // hold count of the holder, the operation under way included when it is an unlock
	budget int8 // operations that may still begin
	now    command
	sent   bool // the copy that is waited for is on its way
	heard  bool // or its answer is
	late   [maxLate]command
	over   bool // the last unlock was answered
}

// CountRules switches rules off. The zero value is the protocol.
type CountRules struct {
	Increment        bool // counts go up and down by one, and whoever comes to 0 deletes
	IncrementAcquire bool // an acquire that finds its own field adds one; unlocks go down by one
	CompareAndSet    bool // a count is written only over the count before
	RenewZero        bool // a renewal that has no count to repair writes 0
}

type countSystem struct{ rules CountRules }

// Count is the system of one acquisition and its hold count, with a budget of operations. Sweeps of late acquires are
// not part of it: an acquire that comes after the last unlock was sent is left out.
func Count(budget int8, rules CountRules) System[countState] {
	w := &countSystem{rules}
	return System[countState]{
		Name:  fmt.Sprintf("hold count, %d operations", budget),
		Init:  countState{budget: budget, local: 1, now: command{takeOp, 1}, sent: true},
		Steps: w.steps,
		Rules: []Rule[countState]{
			{"never freed while held", freedWhileHeld}, {"freed at the end", heldAtEnd}, {"count is one", countsNone},
		},
		Goal: func(s countState) bool { return s.over },
		Show: countState.String,
	}
}

func (w *countSystem) steps(s countState, emit func(Step[countState])) {
	if s.now.op == noOp && !s.over {
		w.begin(s, emit)
	}
	if s.sent {
		next := s
		next.sent = false
		w.run(&next, s.now)
		emit(countStep(next, s.now, "runs, its answer is lost", true))
		next.heard = true
		emit(countStep(next, s.now, "runs", false))
	}
	if s.now.op != noOp && !s.heard {
		next := s
		fits := !s.sent || next.linger(s.now)
		next.sent = true
		if fits {
			emit(countStep(next, s.now, "is sent again", false))
		}
	}
	if s.heard {
		emit(countStep(w.answered(s), s.now, "is answered", false))
	}
	for i, c := range s.late {
		if c.op != noOp {
			next := s
			next.late[i] = command{}
			emit(countStep(next, c, "on its way is lost", true))
			w.run(&next, c)
			emit(countStep(next, c, "comes late and runs", false))
		}
	}
}

func countStep(to countState, c command, what string, fault bool) Step[countState] {
	text := fmt.Sprintf("the %v to %d %s", c.op, c.count, what)
	return Step[countState]{Act: Action{Text: text}, To: to.sorted(), Fault: fault}
}

// begin emits the operations that the holder can start.
func (w *countSystem) begin(s countState, emit func(Step[countState])) {
	start := func(op countOp, count int8) {
		next := s
		next.now, next.sent, next.budget = command{op, count}, true, max(0, s.budget-1)
		if op == leaveOp || op == unlockOp {
			next.local = count
		}
		for i, c := range next.late {
			if op == unlockOp && c.op == takeOp {
				next.late[i] = command{} // to undo it is what sweeps are for
			}
		}
		emit(countStep(next, next.now, "is sent", op != unlockOp && op != leaveOp))
	}
	switch {
	case s.local > 1:
		start(leaveOp, s.local-1)
	default:
		start(unlockOp, 0)
	}
	if s.budget > 0 {
		start(enterOp, s.local+1)
		if w.rules.RenewZero {
			start(renewOp, 0)
		} else {
			start(renewOp, s.local)
		}
	}
}

// linger leaves a copy of c on its way. It returns false when there is no room.
func (s *countState) linger(c command) bool {
	for i := range s.late {
		if s.late[i].op == noOp {
			s.late[i] = c
			return true
		}
	}
	return false
}

// answered is the end of the operation under way.
func (w *countSystem) answered(s countState) countState {
	if s.now.op == enterOp {
		s.local = s.now.count
	}
	s.over = s.now.op == unlockOp
	s.now, s.sent, s.heard = command{}, false, false
	return s
}

// run is what the server does. Only an acquire creates the field, only the last unlock deletes it.
func (w *countSystem) run(s *countState, c command) {
	steps := w.rules.Increment || w.rules.IncrementAcquire
	switch {
	case c.op == takeOp && !s.exists:
		s.exists, s.stored = true, 1
	case c.op == takeOp && w.rules.IncrementAcquire:
		s.stored++
	case c.op == takeOp || !s.exists:
	case c.op == unlockOp && !steps && !w.rules.CompareAndSet:
		s.exists, s.stored = false, 0
	case c.op == renewOp:
		s.stored = c.count
	case w.rules.Increment || c.op == unlockOp && steps:
		w.add(s, c)
	case w.rules.CompareAndSet && s.stored != c.before():
	default:
		s.stored = c.count
	}
	s.exists = s.exists && (s.stored > 0 || w.rules.RenewZero)
}

// before is the count over which c would be written.
func (c command) before() int8 {
	if c.op == enterOp {
		return c.count - 1
	}
	return c.count + 1
}

func (w *countSystem) add(s *countState, c command) {
	if c.op == enterOp {
		s.stored = min(s.stored+1, 9)
	} else {
		s.stored--
	}
}

// sorted puts late copies in one order.
func (s countState) sorted() countState {
	a, b := s.late[0], s.late[1]
	if a.op < b.op || a.op == b.op && a.count < b.count {
		s.late[0], s.late[1] = b, a
	}
	return s
}

func freedWhileHeld(s countState) string {
	if !s.exists && s.local > 0 && s.now.op != takeOp {
		return fmt.Sprintf("the lock is free, its holder counts %d", s.local)
	}
	return ""
}

func heldAtEnd(s countState) string {
	if s.over && s.exists {
		return fmt.Sprintf("the last unlock was answered, the lock is held, count %d", s.stored)
	}
	return ""
}

func countsNone(s countState) string {
	if s.exists && s.stored < 1 {
		return "the lock is held and its count says that it is not"
	}
	return ""
}

func (s countState) String() string {
	if !s.exists {
		return fmt.Sprintf("free, holder counts %d", s.local)
	}
	return fmt.Sprintf("held, count %d, holder counts %d", s.stored, s.local)
}
