package model

import (
	"fmt"
	"strings"
)

// Who the lock is granted to.
const (
	nobody int8 = iota
	asker       // a client that is answered: it acquires, asks again where the answer is lost, unlocks
	waiter      // a client in the queue: it is granted by a message, and polls
	java        // Redisson's RFencedLock, which counts by INCR
)

// tokenState is one lock's fencing counter under the server's clock, and those it is granted to. Times and tokens are
// of the same unit: a token is what the clock said, or more. A counter of 0 is one that is missing.
type tokenState struct {
	clock   int8
	counter int8
	ends    int8 // when the counter expires, 0 for never

	copied      bool // a replica or a snapshot has what follows
	copy        int8
	copyEnds    int8
	owner       int8
	first       int8 // relock:first of the grant in force
	tokens      int8 // and how many they are
	lease       int8 // ticks
	unanswered  bool // the asker does not know of its grant
	reached     int8 // last token of an earlier grant, whose release may come late and raise the counter; 0 for none
	queued      bool // the waiter waits
	seen        int8 // counter in the answer to its last poll
	age         int8 // of that poll: a message dates a grant from there
	push        int8 // first token of a grant on its way to it
	believes    bool
	top         int8 // highest token that was ever reserved
	repeat      bool // a grant began at or below it
	wrong       bool // an answer named other tokens than the grant has
	stale       bool // the waiter believed in a grant that is over
	missed      bool // it took a grant in force for one that is over
	ticks       int8 // that may still pass
	grants      int8 // that may still come
	losses      int8
	jumps       int8
	javasGrants int8
}

// TokenRules switches rules off. The zero value is the protocol.
type TokenRules struct {
	CountOnly   bool // a grant counts on from the counter whatever the clock says
	Lag         int8 // a counter less than that behind the clock is counted on from
	RaisedOnly  bool // the expiry is written only where the counter is raised to the clock
	ClockOnly   bool // the expiry counts from the clock, be the counter ahead of it or not
	Given       bool // a counter that has no expiry is given one
	Unrounded   bool // the expiry that grants of a span share counts from the first of them, not from the end of the span
	Dropped     bool // a release deletes the counter where the clock has passed it
	WholeBlock  bool // the answer to an acquire sent again is the counter less a whole block
	MissingZero bool // a waiter is told that a missing counter is 0
	NoCut       bool // blocks are not cut
	RaiseZero   bool // a missing counter is raised to whatever a release says, were it below the clock
	AnyProposal bool // a grant begins at what is proposed, however far ahead of the clock that is
}

// TokenScope is how much is explored.
type TokenScope struct {
	Block     int8 // tokens that a grant reserves, unless it is cut to one
	Lead      int8 // how far a whole block may run ahead of the clock
	Retention int8 // how long the counter stays, 0 for ever
	Span      int8 // grants of so many ticks share an expiry, 0 for none that do
	Lease     int8
	Ticks     int8
	Losses    int8
	Gap       int8 // how far the clock has come when the Redis is back after a loss
	Back      int8 // how far the clock is set back, once; then nothing is said of how fast tokens are used up
	Grants    int8 // how many there are then
	Java      int8 // grants by Redisson
	JavaFirst bool // it made the counter, which has no expiry
	Raises    bool // releases raise the counter, as on a quorum's nodes
	Proposes  bool // who asks or releases may propose where the grant is to begin, as on a quorum's nodes
}

type tokenSystem struct {
	TokenScope
	rules TokenRules
}

// Tokens is the system of fencing tokens that are a hybrid logical clock: the next after the counter, or what the
// server's clock says if that is more. Without a clock that is set back it is assumed that tokens are not used up
// faster than the clock goes on for long: no grant is asked for while the counter is Lead ahead.
func Tokens(scope TokenScope, rules TokenRules) System[tokenState] {
	w := &tokenSystem{scope, rules}
	init := tokenState{
		clock: 4, ticks: scope.Ticks, grants: scope.Grants, losses: scope.Losses, javasGrants: scope.Java,
		jumps: min(1, scope.Back),
	}
	if scope.JavaFirst {
		init.counter, init.top = 1, 1
	}
	rule := func(name string, broken func(*tokenState) bool, what string) Rule[tokenState] {
		return Rule[tokenState]{name, func(s tokenState) string {
			if broken(&s) {
				return what
			}
			return ""
		}}
	}
	return System[tokenState]{
		Name:  fmt.Sprintf("tokens %+v", scope),
		Init:  init,
		Steps: w.steps,
		Rules: []Rule[tokenState]{
			rule("tokens rise", func(s *tokenState) bool { return s.repeat },
				"a grant begins at a token that was reserved before"),
			rule("answers are right", func(s *tokenState) bool { return s.wrong },
				"an answer names other tokens than the grant has"),
			rule("exclusion", func(s *tokenState) bool { return s.stale },
				"a grant that is over is believed in"),
			rule("grants count", func(s *tokenState) bool { return s.missed },
				"a grant in force is taken for one that is over"),
		},
		Show: tokenState.String,
	}
}

// proposals are the tokens that a grant may be asked to begin at, 0 for none: from the clock on to further ahead than is
// taken up.
func (w *tokenSystem) proposals(s *tokenState) []int8 {
	all := []int8{0}
	for ahead := int8(1); w.Proposes && ahead <= w.Lead+2; ahead++ {
		all = append(all, s.clock+ahead)
	}
	return all
}

// reserve is token.lua's: the first of the next tokens, no lower than least, and how many.
func (w *tokenSystem) reserve(s *tokenState, least int8) (first, tokens int8) {
	raised := s.counter == 0 || s.counter+1 < s.clock-w.rules.Lag
	first = s.counter + 1
	if raised && !w.rules.CountOnly {
		first = s.clock
	}
	if least <= s.clock+w.Lead || w.rules.AnyProposal {
		first = max(first, least)
	}
	tokens = w.Block
	if first+tokens-1 > s.clock+w.Lead && !w.rules.NoCut {
		tokens = 1
	}
	if !w.rules.RaisedOnly || raised {
		w.store(s, first+tokens-1)
	}
	s.counter = first + tokens - 1
	return first, tokens
}

// store is kept.lua's: it raises the counter to n.
func (w *tokenSystem) store(s *tokenState, n int8) {
	had := s.counter
	s.counter = n
	from := max(s.clock, n)
	if w.rules.ClockOnly {
		from = s.clock
	}
	if w.Span > 0 && !w.rules.Unrounded {
		from = (from/w.Span + 1) * w.Span
	}
	switch {
	case w.Retention == 0 || had > 0 && s.ends == 0 && !w.rules.Given:
	case had > 0 && w.Span > 0 && had/w.Span == n/w.Span: // the expiry stands already
	default:
		s.ends = from + w.Retention
	}
}

// drop deletes the counter at a release, where the clock has passed it: its next value would be the clock's anyway.
func (w *tokenSystem) drop(s *tokenState) {
	if w.rules.Dropped && s.counter < s.clock {
		s.counter, s.ends = 0, 0
	}
}

// counted is what a waiter is told of the counter.
func (w *tokenSystem) counted(s *tokenState) int8 {
	if s.counter == 0 && !w.rules.MissingZero {
		return s.clock - 1
	}
	return s.counter
}

// grant gives the free lock to somebody, with tokens no lower than least.
func (w *tokenSystem) grant(s *tokenState, to, least int8) {
	first, tokens := w.reserve(s, least)
	s.owner, s.first, s.tokens, s.lease = to, first, tokens, w.Lease
	s.granted()
}

// granted checks a new grant's tokens against all before.
func (s *tokenState) granted() {
	s.repeat = s.repeat || s.first <= s.top
	s.top = max(s.top, s.first+s.tokens-1)
	s.grants = max(0, s.grants-1)
}

// free ends the grant in force.
func (s *tokenState) free() {
	s.owner, s.first, s.tokens, s.lease, s.unanswered = nobody, 0, 0, 0, false
}

// handOver gives the free lock to the waiter in the queue.
func (w *tokenSystem) handOver(s *tokenState, least int8) {
	w.grant(s, waiter, least)
	s.queued, s.push = false, s.first
}

func (s tokenState) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "clock %d, counter ", s.clock)
	if s.counter == 0 {
		b.WriteString("missing")
	} else {
		fmt.Fprint(&b, s.counter)
	}
	if s.ends > 0 {
		fmt.Fprintf(&b, " until %d", s.ends)
	}
	if s.owner != nobody {
		last := s.first + s.tokens - 1
		fmt.Fprintf(&b, " | %s %d-%d for %d", [...]string{"", "asker", "waiter", "Java"}[s.owner], s.first, last, s.lease)
	}
	if s.copied {
		fmt.Fprintf(&b, " | copy %d", s.copy)
	}
	if s.queued {
		fmt.Fprintf(&b, " | queued, seen %d", s.seen)
	}
	if s.push > 0 {
		fmt.Fprintf(&b, " | push %d", s.push)
	}
	return b.String()
}
