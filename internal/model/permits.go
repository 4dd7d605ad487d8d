package model

import (
	"bytes"
	"fmt"
	"math/bits"
	"strings"
)

// permitSlots is how many acquisitions the permits system has room for.
const permitSlots = 4

// Further answers to a question.
const (
	isTooMany int8 = isHeld + 1 + iota
	isNoSize
)

// permitEntry is one acquisition: what its process believes, what the server keeps, and what is on its way.
type permitEntry struct {
	phase  int8 // as in linger
	fresh  bool // granted by the answer to its first question: none waited behind it then
	told   bool // another wants permits
	passed int8 // times that it was passed on in memory
	base   int8 // ticks since the first question was sent, or the last one that was answered "queued"
	asked  int8 // ticks since the first question was sent
	bound  int8 // ticks that the grant is believed for
	robbed bool // a JVM took from it before its end

	in    uint8 // its members in the set, by bit: the lowest is member 1
	left  int8  // ticks until their score is past
	place int8  // in the line, 0 for none

	ask      int8 // 1 + ticks since the question was sent that is under way
	again    bool // which is not the first
	late     bool // a question that no caller waits for is under way
	reply    int8
	replyAge int8
	repeated bool // the answer is to one that is not the first
	set      bool // a command that makes the counter anew is under way
	push     bool // the message of its grant is under way
	look     bool // the message that another wants permits is
	wake     bool // the message that permits may be free is
	rel      bool // a release is under way
	relLate  bool // and another copy
	quit     bool // its release was answered
	renew    int8 // 1 + ticks since the renewal was sent
	renewed  int8 // likewise, and answered
}

type permitState struct {
	id      [permitSlots]permitEntry
	calls   [permitSlots]int8 // that will still be made, at the first slot of a seat
	line    [permitSlots]int8 // goroutines behind the gate, there too
	crashed [permitSlots]bool // by process

	free    int8 // the counter
	absent  bool // which was deleted
	hushed  bool // and no command of a waiter or holder has found that
	size    int8 // what counter and set are to add up to
	most    int8 // what may be believed: the size, and beyond it what was held when that was lowered
	turn    bool // one permit is left to Redisson's waiters
	lateSet bool // a doubled command that makes the counter anew is under way

	java       bool // Redisson's caller believes that it has a permit, or has one to release
	javaIn     bool // its member is in the set
	javaLeft   int8 // ticks until its score is past, by the server's clock
	javaBound  int8 // ticks that it believes for
	javaWaits  bool
	javaWake   bool // the message that permits may be free is on its way to it
	javaComes  int8 // calls that are still to come
	javaRobbed bool // its permit was reaped before its time, since its clock is behind

	sizes   int8 // how many of the scope's sizes were set
	deletes int8 // how often the counter may still be deleted
	faults  int8
	crashes int8
	lost    bool // a message was, or a process
	broken  string
}

// PermitsRules switches rules off. The zero value is the protocol.
type PermitsRules struct {
	TakeAgain     bool // an acquire that comes twice takes twice
	RestStays     bool // an acquire does not look at what is left of its own entry
	CountRepeat   bool // a repeated acquire does not lengthen the lease, and is counted from
	FastPast      bool // an acquire that finds permits does not look at the line
	PassBig       bool // a small waiter is served past a big one that does not fit
	ServeOne      bool // a command serves one waiter
	DeadKept      bool // a head that does not fit stays in line when its client is dead
	GrantDead     bool // a head that fits is granted when its client is dead
	ReapLast      bool // relock reaps a member at a time, the last of an entry first
	QuietReap     bool // what an acquire reaps beyond what the line takes is not published
	ReleaseAll    bool // a release counts k, however many members were there
	AddToNone     bool // a release counts against an absent counter
	QuietNone     bool // a release that finds no counter publishes nothing
	QuietLeaver   bool // a waiter that leaves the line serves none
	QuietTooMany  bool // nor does one that is told of too few permits
	TooManyOver   bool // a waiter that is told of too few permits sends no release
	QuietRelease  bool // what a release leaves, and none in line takes, is not published
	Recreate      bool // a renewal writes what it does not find
	ReviveRest    bool // a renewal lengthens what is left of an entry
	QuietRest     bool // a renewal publishes nothing of what it frees
	NewWhole      bool // the counter is made anew without regard to what is held
	NewAnyway     bool // and also when it is there
	QuietNew      bool // the one that makes it anew publishes nothing
	QuietSize     bool // a new size serves none, and publishes nothing
	NoSweep       bool // a release that is answered is the last one
	DateByReply   bool // a grant is believed from when it was heard of
	BelieveOn     bool // a renewal that is refused is taken for one that was not answered
	AnyAnswer     bool // a grant by the answer to a repeated question is kept idle
	Handed        bool // so is one by message
	NoWish        bool // holders are not told that permits are wanted
	OwnUnheard    bool // nor are those of the asker's own process
	WantedAwaits  bool // a wish that comes before the grant is dropped
	WantedIgnored bool // an idle hold does not mind a wish
	PassLate      bool // a hold is passed on when its time is over
	PassUnbounded bool // a hold is passed on any number of times
	NoTurn        bool // relock leaves nothing to Redisson's waiters
}

// PermitsScope is how much is explored. Slots of one process and one amount make a seat: goroutines that stand in one
// line of their process.
type PermitsScope struct {
	N           int8 // permits
	Need        [permitSlots]int8
	Proc, Calls [permitSlots]int8
	Lease       int8 // in ticks
	Passes      int8 // how often a hold may be passed on in memory
	Linger      int8 // ticks that a hold without a caller is kept
	Renews      bool
	Sparing     bool // what the line does not take is told to Redisson alone, and what can never fit leaves the line
	Comes       int8 // calls of Redisson's
	Ahead       int8 // ticks that its clock is ahead of the server's
	Deletes     int8 // of the counter
	Sizes       [2]int8
	Faults      int8 // messages late, lost or doubled, callers that give up
	Crashes     int8
}

type permitSystem struct {
	PermitsScope
	rules PermitsRules
}

// Permits is the system of one Redis with a semaphore: acquisitions of one permit or more by a few processes, which
// may pass holds on in memory and keep them for a while, and one caller of Redisson's that takes a permit at a time.
// Its goal is that all have been served, and all permits are back, but for those of the dead.
func Permits(scope PermitsScope, rules PermitsRules) System[permitState] {
	w := &permitSystem{scope, rules}
	return System[permitState]{
		Name: fmt.Sprintf("permits %+v", scope),
		Init: permitState{
			calls: scope.Calls, free: scope.N, size: scope.N, most: scope.N, javaComes: scope.Comes,
			deletes: scope.Deletes, faults: scope.Faults, crashes: scope.Crashes,
		},
		Steps: w.steps,
		Rules: []Rule[permitState]{
			{"limit", w.limit}, {"belief is ownership", w.ownership}, {"the account", w.account},
			{"member 1 stands for all", w.together}, {"nobody is passed in line", permitBroken("past")},
			{"no sleeper", w.noSleeper}, {"wanted is minded", w.wantedMinded}, {"no orphan", w.noOrphan},
			{"the dead keep nobody out", permitBroken("dead")}, {"no grant to the dead", permitBroken("grave")},
			{"nobody waits for nothing", permitBroken("asleep")},
			{"one is left to Java", permitBroken("turn")}, {"bounded overtaking", permitBroken("bound")},
		},
		Canon: w.canon,
		Goal:  w.quiet,
		Show:  w.show,
	}
}

// canon orders acquisitions of as many permits and calls, each alone in its process: all that there is about one
// stands in its slot.
func (w *permitSystem) canon(s permitState) permitState {
	for i := range s.id {
		for k := i + 1; k < len(s.id) && w.alone(i); k++ {
			if w.Need[k] != w.Need[i] || w.Calls[k] != w.Calls[i] || !w.alone(k) {
				continue
			}
			if a, b := w.bytes(&s, i), w.bytes(&s, k); bytes.Compare(b[:], a[:]) < 0 {
				p, q := w.Proc[i], w.Proc[k]
				s.id[i], s.id[k] = s.id[k], s.id[i]
				s.calls[i], s.calls[k] = s.calls[k], s.calls[i]
				s.line[i], s.line[k] = s.line[k], s.line[i]
				s.crashed[p], s.crashed[q] = s.crashed[q], s.crashed[p]
			}
		}
	}
	return s
}

// alone reports whether the process of i has no other slot.
func (w *permitSystem) alone(i int) bool {
	for k := range w.Proc {
		if k != i && w.Need[k] > 0 && w.Proc[k] == w.Proc[i] {
			return false
		}
	}
	return w.Need[i] > 0
}

// bytes writes down all that there is about i.
func (w *permitSystem) bytes(s *permitState, i int) [19]byte {
	e := &s.id[i]
	return [...]byte{
		byte(s.calls[i]), byte(s.line[i]), bit(s.crashed[w.Proc[i]]),
		byte(e.phase), byte(e.passed), byte(e.base), byte(e.asked), byte(e.bound), e.in, byte(e.left), byte(e.place),
		byte(e.ask), byte(e.reply), byte(e.replyAge), byte(e.renew), byte(e.renewed),
		bit(e.fresh) | bit(e.told)<<1 | bit(e.robbed)<<2 | bit(e.again)<<3,
		bit(e.late) | bit(e.repeated)<<1 | bit(e.set)<<2 | bit(e.push)<<3,
		bit(e.look) | bit(e.wake)<<1 | bit(e.rel)<<2 | bit(e.relLate)<<3 | bit(e.quit)<<4,
	}
}

// permitBroken is a rule that a step breaks.
func permitBroken(about string) func(permitState) string {
	return func(s permitState) string {
		if strings.HasPrefix(s.broken, about) {
			return s.broken
		}
		return ""
	}
}

func (w *permitSystem) dead(s *permitState, i int) bool { return s.crashed[w.Proc[i]] }

// all is the members of i when none is missing.
func (w *permitSystem) all(i int) uint8 { return 1<<w.Need[i] - 1 }

// seat is the first slot of i's process and amount.
func (w *permitSystem) seat(i int) int {
	for k := range i {
		if w.Need[k] == w.Need[i] && w.Proc[k] == w.Proc[i] {
			return k
		}
	}
	return i
}

// held is how many members the set has.
func (s *permitState) held() (n int8) {
	for i := range s.id {
		n += int8(bits.OnesCount8(s.id[i].in))
	}
	if s.javaIn {
		n++
	}
	return n
}

// believes reports whether a caller relies on i's permits, which no JVM took by a clock that is ahead.
func (w *permitSystem) believes(s *permitState, i int) bool {
	e := &s.id[i]
	return (e.phase == working || e.phase == lingers) && e.bound > 0 && !e.robbed && !w.dead(s, i)
}

// limit: no more permits are relied on than there are. What was held when the size was lowered may end in peace.
func (w *permitSystem) limit(s permitState) string {
	n := int8(0)
	for i := range s.id {
		if w.believes(&s, i) {
			n += w.Need[i]
		}
	}
	if s.java && s.javaBound > 0 && !s.javaRobbed {
		n++
	}
	if n > s.most {
		return fmt.Sprintf("%d permits are relied on, of %d", n, s.most)
	}
	return ""
}

// ownership: a holder that believes has all its members in the set, for no shorter.
func (w *permitSystem) ownership(s permitState) string {
	for i := range s.id {
		if e := &s.id[i]; w.believes(&s, i) && (e.in != w.all(i) || e.left < e.bound) {
			return letter(i) + " believes what the server does not grant"
		}
	}
	return ""
}

// account: a counter that is there and the set add up to the size.
func (w *permitSystem) account(s permitState) string {
	if !s.absent && s.free+s.held() != s.size {
		return fmt.Sprintf("%d free and %d held make another size than %d", s.free, s.held(), s.size)
	}
	return ""
}

// together: no command finds member 1 of an entry that others are missing of.
func (w *permitSystem) together(s permitState) string {
	for i := range s.id {
		if in := s.id[i].in; in&1 != 0 && in != w.all(i) {
			return letter(i) + " has its member 1, and not all"
		}
	}
	return ""
}

// still reports whether nothing is under way and nothing was lost.
func (w *permitSystem) still(s *permitState) bool {
	if s.lost || s.turn || s.javaWake || s.lateSet {
		return false
	}
	for i := range s.id {
		if e := &s.id[i]; s.crashed[w.Proc[i]] || e.busy() || e.late || e.relLate {
			return false
		}
	}
	return true
}

// busy reports whether something is under way that a tick would be long for.
func (e *permitEntry) busy() bool {
	return e.ask > 0 || e.reply != unheard || e.set || e.push || e.look || e.wake || e.rel || e.renew > 0 || e.renewed > 0 ||
		e.phase == ends && !e.quit
}

// noSleeper: with nothing under way, no waiter sleeps beside permits that fit: neither the first in line of those that
// may ever fit, nor Redisson's caller. Nor do all wait for a counter that a release has found gone.
func (w *permitSystem) noSleeper(s permitState) string {
	if !w.still(&s) {
		return ""
	}
	if s.javaWaits && !s.absent && s.free > 0 {
		return "Java sleeps beside a free permit"
	}
	for i := w.next(&s, 0); i >= 0; i = w.next(&s, s.id[i].place) {
		switch {
		case s.id[i].phase != asking:
			return "" // it is to be released
		case s.absent && !s.hushed:
			return letter(i) + " waits for a counter that is gone"
		case s.absent, w.Need[i] <= s.size && s.free < w.Need[i]:
			return ""
		case w.Need[i] <= s.free:
			return letter(i) + " sleeps beside permits that fit it"
		}
	}
	return ""
}

// wantedMinded: with nothing under way, none keeps permits idle beside one that waits for some.
func (w *permitSystem) wantedMinded(s permitState) string {
	first := w.next(&s, 0)
	if first < 0 || !w.still(&s) {
		return ""
	}
	for i := range s.id {
		if s.id[i].phase == lingers {
			return letter(i) + " keeps permits idle beside " + letter(first) + ", who waits"
		}
	}
	return ""
}

func (w *permitSystem) noOrphan(s permitState) string {
	for i := range s.id {
		if e := &s.id[i]; (e.in != 0 || e.place > 0) && e.phase == blank && !w.dead(&s, i) {
			return letter(i) + " is over, yet stands at the server, and nobody releases it"
		}
	}
	return ""
}

// quiet is when all are served, and no permits but those of the dead are held. While the counter is gone, and no
// waiter of relock's asks, Redisson's caller waits.
func (w *permitSystem) quiet(s permitState) bool {
	for i := range s.id {
		e := &s.id[i]
		if !w.dead(&s, i) && (e.phase != blank || e.in != 0 || s.calls[i] > 0 || s.line[i] > 0) {
			return false
		}
	}
	return !s.java && (!s.javaWaits || s.absent)
}

func (w *permitSystem) show(s permitState) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d free", s.free)
	if s.absent {
		b.Reset()
		b.WriteString("no counter")
	}
	for i := range s.id {
		if e := &s.id[i]; e.in != 0 {
			fmt.Fprintf(&b, ", %s has %d of %d for %d", letter(i), bits.OnesCount8(e.in), w.Need[i], e.left)
		}
	}
	if s.javaIn {
		fmt.Fprintf(&b, ", Java has 1 for %d", s.javaLeft)
	}
	for i := w.next(&s, 0); i >= 0; i = w.next(&s, s.id[i].place) {
		fmt.Fprintf(&b, ", %s waits for %d", letter(i), w.Need[i])
	}
	if s.javaWaits {
		b.WriteString(", Java waits")
	}
	if s.turn {
		b.WriteString(" in its turn")
	}
	for i := range s.id {
		e := &s.id[i]
		if e.phase == blank {
			continue
		}
		fmt.Fprintf(&b, " | %s %s", letter(i), [...]string{"", "asks", "HOLDS", "KEEPS", "ends"}[e.phase])
		if e.bound > 0 {
			fmt.Fprintf(&b, " for %d", e.bound)
		}
	}
	return b.String()
}
