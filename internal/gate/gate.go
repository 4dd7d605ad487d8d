// Package gate queues the goroutines of one process that want the same key. They are served in the
// order in which they came, except that a running goroutine may overtake the first waiter while
// that is being woken.
//
// Only the goroutine at the gate talks to Redis. It got there with a baton from the one before it:
// what that one had already achieved, or nothing. However many goroutines wait, Redis sees one
// contender per process and key.
//
// The goroutine at the gate hands on in one of two ways. Pass gives gate and baton to the first
// waiter. It is that waiter's turn, however long it takes to wake up. Offer calls the first waiter
// and leaves the baton where it is. Until the called waiter comes, a goroutine that enters takes
// the baton at once, which costs no switch of goroutines. Overtaking is bounded. A waiter is no
// longer overtaken if it has come in vain, was called longer ago than Soon, or was overtaken
// maxOvertakes times: Offer then passes.
//
// If no goroutine waits, the one at the gate may leave a baton to rest there for the next to enter.
// Or it opens the gate: then all that wait are given a baton, and so are all that come until that is
// withdrawn, and none of them is at the gate.
//
// So a gate is free, taken or offered, or a baton rests there, or it is open:
//
//	free     Enter: taken.
//	taken    Enter: joins the line. Pass: taken by the first. Offer: offered, or as Pass.
//	         Leave: taken by the first with no baton, or free. Rest: as Offer or Pass, or rests.
//	         Open: open.
//	rests    Enter: taken, with the baton. Withdraw: free.
//	open     Enter: open, with the baton. Withdraw: free.
//	offered  Enter: taken, with the baton. The first comes, because it was called or because it
//	         gives up: taken, with the baton. Leave, for what was offered is worth nothing any
//	         more: taken by the first with no baton.
//
// No waiter sleeps beside an offer. The first in the line has been called, and whatever else wakes
// it makes it look, too. A waiter that gives up in that moment returns with the baton.
package gate

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// ErrClosed is returned to goroutines that wait at gates that have been closed.
var ErrClosed = errors.New("gates closed")

// ErrUnreported stands for the report of a goroutine that came to a gate with no baton and has
// reported nothing yet.
var ErrUnreported = errors.New("nothing heard yet")

const (
	// Soon is about what a goroutine needs to wake up.
	Soon = 4 * time.Microsecond
	// maxOvertakes is how often one waiter is overtaken at most.
	maxOvertakes = 3
)

// A Left error is returned to a waiter that gave up. It matches the cause of that.
type Left struct {
	Cause  error
	Report error         // the last one from the gate, nil if all is well
	Stood  time.Duration // for how long the report has been other than nil
	Waited time.Duration // for how long the waiter was in the line
}

// Error is the cause's text, and the report's.
func (e *Left) Error() string {
	if e.Report == nil {
		return e.Cause.Error()
	}
	return e.Cause.Error() + ": " + e.Report.Error()
}

// Unwrap returns the cause.
func (e *Left) Unwrap() error { return e.Cause }

// Gates holds a gate for each key in use. The zero value is not usable; call New.
type Gates[T comparable] struct {
	closed  chan struct{}
	waiters sync.Pool // *waiter: those that no goroutine refers to any more
	seed    maphash.Seed
	shards  [shards]shard[T]
}

// shards is how many mutexes the gates have. Goroutines that want different keys seldom meet at one
// mutex, however many processors there are.
const shards = 64

// shard has the gates of the keys with one hash, on cache lines of its own.
type shard[T comparable] struct {
	// mu guards what follows, every line, and sending to a waiter. Invariants:
	//
	//   - A key has a line exactly while its gate is taken or offered, or a baton rests there.
	//   - While a baton rests, or the gate is open, the line has no waiter.
	//   - A waiter is in its line until it was given the gate, took an offer, or gave up.
	//   - A waiter that was called, and has not come in vain, will look: the call is in its channel, or
	//     the waiter has received it and is about to lock mu.
	//   - While something is offered, the first in the line is such a waiter.
	mu    sync.Mutex
	gates map[string]*line[T]
	spare []*line[T]

	_ [8]uint64
}

func (g *Gates[T]) shardOf(key string) *shard[T] {
	return &g.shards[maphash.String(g.seed, key)%shards]
}

// lockShard returns the shard of key's gate, locked.
func (g *Gates[T]) lockShard(key string) *shard[T] {
	s := g.shardOf(key)
	s.mu.Lock()
	return s
}

type line[T comparable] struct {
	first, last *waiter[T]

	offered bool
	rests   bool
	open    bool
	baton   T // the one that is offered, that rests, or that all are given

	report error         // nil: all is well
	since  time.Duration // since when the report is other than nil
}

type waiter[T comparable] struct {
	prev, next *waiter[T]
	signals    chan signal[T] // one slot
	joined     time.Duration

	called    bool
	vain      bool          // it answered the call, and the offer was taken
	calledAt  time.Duration // the first time
	overtaken int
}

// signal is sent to a waiter. With given, the gate is its own. Else it is a call: the waiter is to
// look whether the offer still stands.
type signal[T any] struct {
	given bool
	baton T
}

// New returns gates, all of them free.
func New[T comparable]() *Gates[T] {
	return &Gates[T]{closed: make(chan struct{}), seed: maphash.MakeSeed()}
}

// Enter waits for the turn at key's gate and returns the baton handed over, the zero T when the
// gate was free. On failure the caller is not at the gate: ctx ended (a *Left is returned) or the
// gates were closed. A baton that arrives together with the end of ctx is returned without error;
// the caller decides what becomes of it.
func (g *Gates[T]) Enter(ctx context.Context, key string) (T, error) {
	return g.EnterSeen(ctx, key, nil)
}

// A Watcher is told once its goroutine is in a line, and must not block: the gate may be its own by
// then.
type Watcher interface{ Waits() }

// EnterSeen is Enter, and calls seen.Waits, unless seen is nil, once the caller stands in the line. It
// does not call it where the caller need not wait: at a gate that is free, offered or open, or where a
// baton rests.
func (g *Gates[T]) EnterSeen(ctx context.Context, key string, seen Watcher) (T, error) {
	baton, w := g.join(key)
	if w == nil {
		return baton, nil
	}
	if seen != nil {
		seen.Waits()
	}
	for {
		select {
		case told := <-w.signals:
			if !told.given {
				told = g.answerCall(key, w)
			}
			if told.given {
				g.waiters.Put(w)
				return told.baton, nil
			}
			continue
		case <-ctx.Done():
		case <-g.closed:
		}
		break
	}
	told, left := g.giveUp(key, w)
	switch {
	case told.given:
		return told.baton, nil
	case ctx.Err() != nil:
		left.Cause = context.Cause(ctx)
		return told.baton, left
	}
	return told.baton, ErrClosed
}

// TryEnter takes key's gate if it is free, and returns the baton that rests there, if one does. At an
// open gate it returns that baton, and the caller is not at the gate.
func (g *Gates[T]) TryEnter(key string) (baton T, free bool) {
	s := g.lockShard(key)
	defer s.mu.Unlock()
	l := s.gates[key]
	switch {
	case l == nil:
		s.open(key)
	case l.open:
		return l.baton, false
	case l.rests:
		baton = l.takeBaton()
	default:
		return baton, false
	}
	return baton, true
}

// Open opens key's gate, where the caller is. It gives waited to all that wait, and returns how many
// they were. With stays, those that come are given came, until that is withdrawn. Else the gate is
// free.
func (g *Gates[T]) Open(key string, waited, came T, stays bool) (given int) {
	s := g.lockShard(key)
	defer s.mu.Unlock()
	l := s.gates[key]
	for l.give(waited) {
		given++
	}
	if !stays {
		s.free(key, l)
		return given
	}
	l.baton, l.open = came, true
	return given
}

// Withdraw takes away the baton that rests at key's gate, or that is given to all, if it is that one.
func (g *Gates[T]) Withdraw(key string, baton T) {
	s := g.lockShard(key)
	defer s.mu.Unlock()
	if l := s.gates[key]; l != nil && (l.rests || l.open) && l.baton == baton {
		l.takeBaton()
		s.free(key, l)
	}
}

// Report sets what the waiters at key's gate return with if they give up. The caller is at the
// gate; nil says that all is well. The report stays when the gate goes to the next goroutine.
// Report returns whether any goroutine waits.
func (g *Gates[T]) Report(key string, report error) bool {
	s := g.lockShard(key)
	defer s.mu.Unlock()
	l := s.gates[key]
	if l == nil {
		return false
	}
	l.setReport(report)
	return l.first != nil
}

// Waiting reports whether any goroutine waits behind the caller, which is at key's gate.
func (g *Gates[T]) Waiting(key string) bool {
	s := g.lockShard(key)
	defer s.mu.Unlock()
	l := s.gates[key]
	return l != nil && l.first != nil
}

// Pass hands the gate and a baton to the next waiter. If there is none it returns false, and the
// caller stays at the gate.
func (g *Gates[T]) Pass(key string, baton T) bool {
	s := g.lockShard(key)
	defer s.mu.Unlock()
	return s.gates[key].give(baton)
}

// Offer is Pass, except that a goroutine which enters before the next waiter has woken up takes the
// gate and the baton. It is for callers that had the baton for no longer than Soon, as the next
// ones probably will. now is a reading of clock.Mono.
func (g *Gates[T]) Offer(key string, baton T, now time.Duration) bool {
	s := g.lockShard(key)
	defer s.mu.Unlock()
	l := s.gates[key]
	return l.offer(baton, now)
}

// Rest leaves key's gate, where the caller is. If a goroutine waits, baton goes to it: by Offer if
// soon is set, else by Pass. If none waits, the baton rest stays there for the next goroutine that
// enters, and Rest returns true.
func (g *Gates[T]) Rest(key string, baton, rest T, soon bool, now time.Duration) (rests bool) {
	s := g.lockShard(key)
	defer s.mu.Unlock()
	l := s.gates[key]
	if soon && l.offer(baton, now) || !soon && l.give(baton) {
		return false
	}
	l.baton, l.rests = rest, true
	return true
}

// Leave gives up the gate, and what the caller may have offered there. The next waiter comes to the
// gate with no baton.
func (g *Gates[T]) Leave(key string) {
	s := g.lockShard(key)
	defer s.mu.Unlock()
	l := s.gates[key]
	l.takeBaton()
	var none T
	if !l.give(none) {
		s.free(key, l)
	} else if l.report == nil {
		l.setReport(ErrUnreported)
	}
}

// Close turns away the goroutines that wait, and those that would have to wait later. A goroutine
// at a gate keeps it until it leaves.
func (g *Gates[T]) Close() { close(g.closed) }

// Len returns how many gates are taken.
func (g *Gates[T]) Len() int {
	n := 0
	for i := range g.shards {
		s := &g.shards[i]
		s.mu.Lock()
		n += len(s.gates)
		s.mu.Unlock()
	}
	return n
}

// join appends a waiter, or takes the gate, with what is offered there, and returns no waiter.
func (g *Gates[T]) join(key string) (baton T, w *waiter[T]) {
	s := g.lockShard(key)
	defer s.mu.Unlock()
	l := s.gates[key]
	switch {
	case l == nil:
		s.open(key)
		return baton, nil
	case l.open:
		return l.baton, nil
	case l.rests:
		return l.takeBaton(), nil
	case l.offered:
		l.first.overtaken++
		return l.takeBaton(), nil
	}
	if w, _ = g.waiters.Get().(*waiter[T]); w == nil {
		w = &waiter[T]{signals: make(chan signal[T], 1)}
	}
	*w = waiter[T]{signals: w.signals, prev: l.last, joined: clock.Mono()}
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	return baton, w
}

// answerCall takes the offer that w was called for, unless another goroutine was faster.
func (g *Gates[T]) answerCall(key string, w *waiter[T]) (told signal[T]) {
	s := g.lockShard(key)
	defer s.mu.Unlock()
	if told, came := w.takeTurn(s.gates[key]); came {
		return told
	}
	w.vain = true
	return told
}

// giveUp takes w out of the line, unless the gate is its own by now.
func (g *Gates[T]) giveUp(key string, w *waiter[T]) (told signal[T], left *Left) {
	s := g.lockShard(key)
	defer s.mu.Unlock()
	l := s.gates[key]
	if told, came := w.takeTurn(l); came {
		return told, nil
	}
	l.remove(w)
	left = &Left{Report: l.report, Waited: clock.Mono() - w.joined}
	if l.report != nil {
		left.Stood = clock.Mono() - l.since
	}
	return told, left
}

// takeTurn returns what w was given, or the offer if w is the first in the line. It empties w's
// channel: a call that w has not received yet is answered by this look. The caller holds the mutex.
func (w *waiter[T]) takeTurn(l *line[T]) (told signal[T], came bool) {
	select {
	case told = <-w.signals:
	default:
	}
	if !told.given && l.offered && l.first == w {
		l.remove(w)
		told = signal[T]{given: true, baton: l.takeBaton()}
	}
	return told, told.given
}

// maxSpare is how many lines a shard keeps for reuse.
const maxSpare = 4

// open makes a line for a free gate, which is taken then. The caller holds the mutex.
func (s *shard[T]) open(key string) {
	var l *line[T]
	if n := len(s.spare); n > 0 {
		l, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		l = new(line[T])
	}
	l.report, l.since = ErrUnreported, clock.Mono()
	if s.gates == nil {
		s.gates = make(map[string]*line[T])
	}
	s.gates[key] = l
}

// free ends the line of a gate that becomes free. The caller holds the mutex.
func (s *shard[T]) free(key string, l *line[T]) {
	delete(s.gates, key)
	if len(s.spare) < maxSpare {
		s.spare = append(s.spare, l)
	}
}

// setReport changes the report. Failures in a row stand since the first of them.
func (l *line[T]) setReport(report error) {
	if l.report == nil {
		l.since = clock.Mono()
	}
	l.report = report
}

// takeBaton ends what the gate has: an offer, a rest, or that it is open. It returns the baton of that.
func (l *line[T]) takeBaton() (baton T) {
	baton, l.baton, l.offered, l.rests, l.open = l.baton, baton, false, false, false
	return baton
}

// offer calls the first waiter, and leaves baton where it is until that waiter comes. A waiter that
// was called before, and must not be overtaken again, is given the baton. The caller holds the
// mutex.
func (l *line[T]) offer(baton T, now time.Duration) bool {
	w := l.first
	switch {
	case w == nil:
		return false
	case !w.called:
		w.called, w.calledAt = true, now
		w.signals <- signal[T]{}
	case w.vain || w.overtaken >= maxOvertakes || now-w.calledAt > Soon:
		return l.give(baton)
	}
	l.offered, l.baton = true, baton
	return true
}

// give sends baton to the first waiter. The caller holds the mutex, so no other goroutine fills the
// channel's one slot. A wake-up that is still in the slot is taken out: the baton says more.
func (l *line[T]) give(baton T) bool {
	w := l.first
	if w == nil {
		return false
	}
	l.remove(w)
	select {
	case <-w.signals:
	default:
	}
	w.signals <- signal[T]{given: true, baton: baton}
	return true
}

func (l *line[T]) remove(w *waiter[T]) {
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}
