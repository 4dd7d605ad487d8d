package model

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

const maxProcs = 3

type phase int8

const (
	unused    phase = iota // an id that nothing knows of: as good as new
	waiting                // contends for the lock
	held                   // believes that it holds the lock
	releasing              // over for its caller; a release is repeated until it is answered
	limbo                  // released and answered, but an acquire may still come late
	over                   // nothing more will be sent
	crashed
)

// What an acquire was answered.
const (
	noReply int8 = iota
	owned
	queued
)

// acq is an acquisition id: what its process knows, what the server knows, and what is on its way between them. Ages
// count ticks since a command was sent; sent+1 is stored, so that 0 means none.
type acq struct {
	phase phase
	bound int8 // ticks for which it may believe, held only
	base  int8 // age of the latest poll that was answered "queued", of the first acquire before that
	seen  int8 // fencing counter in that answer
	token int8 // held only
	left  int8 // ticks of limbo
	open  bool // the last acquire is unanswered
	doubt bool // an acquire may come late

	owns  bool
	place int8 // in the queue, from 1

	ask      int8 // the acquire that is waited for
	late     int8 // acquires that nobody waits for any more
	reply    int8
	replyAge int8
	replyNum int8 // token, or counter
	rel      int8 // releases
	relDone  bool // a release was answered
	renew    int8
	renewed  int8
	refused  bool // a renewal was answered "not yours"
	push     [2]int8
	yield    [2]int8 // grant numbers given back
}

// nodeState is one Redis and the processes that use it.
type nodeState struct {
	lease   int8 // ticks until the lock expires
	counter int8 // fencing counter, which is also the number of the grant
	top     int8 // highest token that was ever believed
	older   bool // a token was believed after a higher one
	wasted  bool // the lock was handed to a crashed process
	crashes int8 // that may still come
	ids     [maxProcs]acq
}

func (s *nodeState) owner() int {
	for i := range s.ids {
		if s.ids[i].owns {
			return i
		}
	}
	return -1
}

// inFlight counts commands, answers and messages on their way.
func (s *nodeState) inFlight() int {
	n := 0
	for i := range s.ids {
		n += s.ids[i].inFlight()
	}
	return n
}

func (a *acq) inFlight() int {
	n := int(a.late + a.rel)
	for _, there := range [...]bool{
		a.ask > 0, a.reply != noReply, a.relDone, a.renew > 0, a.renewed > 0, a.refused,
		a.push[0] > 0, a.push[1] > 0, a.yield[0] > 0, a.yield[1] > 0,
	} {
		if there {
			n++
		}
	}
	return n
}

// known reports whether the server or the network still knows of the id.
func (a *acq) known() bool { return a.owns || a.place > 0 || a.inFlight() > 0 }

// forgetReplies is for what nobody listens to any more.
func (a *acq) forgetReplies() {
	a.reply, a.replyAge, a.replyNum, a.relDone, a.renewed, a.refused = 0, 0, 0, false, 0, false
}

// giveUpAsk turns the acquire that is waited for into a late one.
func (a *acq) giveUpAsk() {
	if a.ask > 0 {
		a.ask, a.late = 0, min(a.late+1, 1)
	}
	a.reply, a.replyAge, a.replyNum = 0, 0, 0
}

// tidy clears what has no effect any more. A message without effect is as good as lost.
func (w *nodeSystem) tidy(s nodeState) nodeState {
	stale := false // a token at or below top may still be believed
	for i := range s.ids {
		a := &s.ids[i]
		w.tidyAcq(a, s.counter)
		if a.phase == over && !a.known() {
			*a = acq{}
		}
		stale = stale || a.reply == owned && a.replyNum <= s.top || a.push[1] > 0 && a.push[1] <= s.top ||
			a.push[0] > 0 && a.push[0] <= s.top || a.owns && a.phase == waiting && s.counter <= s.top
	}
	if !stale {
		s.top = 0
	}
	return s
}

// tidyAcq is tidy for one process, whose server stands at counter.
func (w *nodeSystem) tidyAcq(a *acq, counter int8) {
	if !w.contends(a) {
		a.base, a.seen = 0, 0
	}
	for k, token := range a.push {
		if a.phase == held && !w.Yields || w.contends(a) && token <= a.seen && !w.rules.BelieveAnyGrant {
			a.push[k] = 0
		}
	}
	if !w.Yields {
		a.seen = 0 // what is left in flight is above it, and so is what will be
		if a.reply == queued && (a.push[0] == 0 || a.push[0] > a.replyNum) && (a.push[1] == 0 || a.push[1] > a.replyNum) {
			a.replyNum = 0
		}
	} else if a.seen < counter && (a.reply != owned || a.replyNum > a.seen) {
		a.seen = 0
	}
}

// contends reports whether a grant would be news to a.
func (w *nodeSystem) contends(a *acq) bool {
	return a.phase == waiting || w.Yields && a.phase == held || w.rules.AdoptOrphan && a.phase == releasing
}

// canon renumbers tokens by rank and orders messages and processes.
func (w *nodeSystem) canon(s nodeState) nodeState {
	for i := range s.ids {
		a := &s.ids[i]
		for k, token := range a.push {
			if token > 0 && !w.contends(a) {
				a.push[k] = 1 // whatever it grants, nobody waits for it
			}
		}
		if a.push[0] < a.push[1] {
			a.push[0], a.push[1] = a.push[1], a.push[0]
		}
		if a.yield[0] < a.yield[1] {
			a.yield[0], a.yield[1] = a.yield[1], a.yield[0]
		}
	}
	s.rank()
	if w.anonymous() {
		s.sort(w.Procs)
	}
	return s
}

// rank renumbers tokens: only their order matters. 0 stands for none and stays.
func (s *nodeState) rank() {
	var used [64]bool
	s.tokens(func(t *int8) { used[*t] = true })
	var rank [64]int8
	for t, next := 1, int8(1); t < len(used); t++ {
		if used[t] {
			rank[t] = next
			next++
		}
	}
	s.tokens(func(t *int8) { *t = rank[*t] })
}

func (s *nodeState) tokens(visit func(*int8)) {
	visit(&s.counter)
	visit(&s.top)
	for i := range s.ids {
		a := &s.ids[i]
		for _, t := range [...]*int8{&a.seen, &a.token, &a.replyNum, &a.push[0], &a.push[1], &a.yield[0], &a.yield[1]} {
			visit(t)
		}
	}
}

// sort orders the processes. All that there is about one stands in its acq, so sorting is an exact symmetry.
func (s *nodeState) sort(procs int) {
	slices.SortFunc(s.ids[:procs], func(a, b acq) int { return compareAcq(&a, &b) })
}

func compareAcq(a, b *acq) int {
	if *a == *b {
		return 0
	}
	x, y := a.bytes(), b.bytes()
	return bytes.Compare(x[:], y[:])
}

func (a *acq) bytes() [20]byte {
	flags := byte(0)
	for i, on := range [...]bool{a.open, a.doubt, a.owns, a.relDone, a.refused} {
		if on {
			flags |= 1 << i
		}
	}
	return [...]byte{
		byte(a.phase), flags, byte(a.place), byte(a.bound), byte(a.base), byte(a.seen), byte(a.token), byte(a.left),
		byte(a.ask), byte(a.late), byte(a.reply), byte(a.replyAge), byte(a.replyNum), byte(a.rel), byte(a.renew),
		byte(a.renewed), byte(a.push[0]), byte(a.push[1]), byte(a.yield[0]), byte(a.yield[1]),
	}
}

func (s nodeState) String() string {
	var b strings.Builder
	if i := s.owner(); i >= 0 {
		fmt.Fprintf(&b, "owner %v for %d", letter(i), s.lease)
	} else {
		b.WriteString("free")
	}
	fmt.Fprintf(&b, ", counter %d", s.counter)
	for place := int8(1); place <= maxProcs; place++ {
		for i := range s.ids {
			if s.ids[i].place == place {
				fmt.Fprintf(&b, ", queued %v", letter(i))
			}
		}
	}
	for i := range s.ids {
		if a := &s.ids[i]; a.phase == held {
			fmt.Fprintf(&b, " | %v BELIEVES token %d for %d", letter(i), a.token, a.bound)
		} else if a.phase != unused && a.phase != crashed {
			fmt.Fprintf(&b, " | %v %v", letter(i), a.phase)
		}
	}
	return b.String()
}

func letter(i int) string { return string(rune('A' + i)) }

func (p phase) String() string {
	return [...]string{"unused", "waits", "holds", "releases", "in limbo", "over", "crashed"}[p]
}
