// Package gate queues the goroutines of one process that want the same key, first come first
// served but for those who overtake while the first is being woken.
//
// Only the goroutine at the gate talks to Redis. It got there with a baton from the one before it:
// what that one had already achieved, or nothing. However many goroutines wait, Redis sees one
// contender per process and key.
//
// The one at the gate hands on in one of two ways. Pass gives gate and baton to the first in the
// line, whose turn it is however long it takes to wake up. Offer calls the first and leaves the
// baton where it is: until the called one comes, a goroutine that enters takes it at once, which
// costs no switch of goroutines. Overtaking is bounded. Nobody overtakes one who has come in vain,
// was called longer ago than Soon, or was overtaken mostOvertakes times: Offer then passes.
//
// Where nobody waits the one at the gate may leave a baton to rest there, for the next who comes.
//
// So a gate is free, taken or offered, or a baton rests there:
//
//	free     Enter: taken.
//	taken    Enter: joins the line. Pass: taken by the first. Offer: offered, or as Pass.
//	         Leave: taken by the first with no baton, or free. Rest: as Offer or Pass, or rests.
//	rests    Enter: taken, with the baton. Withdraw: free.
//	offered  Enter: taken, with the baton. The first comes, because it was called or since it gives
//	         up: taken, with the baton. Leave, for what was offered is worth nothing any more: taken
//	         by the first with no baton.
//
// Nobody sleeps beside what is offered: the first in the line has been called, and whatever else
// wakes it makes it look too. One who gives up in that moment returns with the baton.
package gate

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// ErrClosed is returned to those who wait at gates that have been closed.
var ErrClosed = errors.New("gates closed")

// ErrNothingYet is the remark about a goroutine that came to a gate with no baton and has told
// nothing yet.
var ErrNothingYet = errors.New("nothing heard yet")

const (
	// Soon is about what a goroutine needs to wake up.
	Soon = 4 * time.Microsecond
	// mostOvertakes is how often one in the line is overtaken at most.
	mostOvertakes = 3
)

// A Left error is returned to one that gave up in the line. It matches the cause of that.
type Left struct {
	Cause  error
	Remark error         // what the goroutine at the gate told last, nil that all is well
	Stood  time.Duration // for how long there has been a remark
	Waited time.Duration // for how long the one that gave up was in the line
}

// Error tells the cause, and the remark.
func (e *Left) Error() string {
	if e.Remark == nil {
		return e.Cause.Error()
	}
	return e.Cause.Error() + ": " + e.Remark.Error()
}

// Unwrap returns the cause.
func (e *Left) Unwrap() error { return e.Cause }

// Gates holds a gate for each key in use. The zero value is not usable; call New.
type Gates[T comparable] struct {
	closed  chan struct{}
	waiters sync.Pool // that nobody knows any more, for reuse
	seed    maphash.Seed
	yards   [yards]yard[T]
}

// yards is how many mutexes the gates have. Keys that nobody wants at the same time seldom meet at
// one of them, however many processors there are.
const yards = 64

// yard has the gates of the keys with one hash, on cache lines of its own.
type yard[T comparable] struct {
	// mu guards what follows, every line, and who sends to a waiter. Invariant: a key has a line
	// exactly while its gate is taken or offered, or a baton rests there, for which nobody waits; a
	// waiter is in its line until it has been given the gate, has taken what was offered, or has
	// given up; one that is called and has not come in vain either has the call in its channel or is
	// about to ask for mu; and where something is offered, the first in the line is such a one.
	mu    sync.Mutex
	gates map[string]*line[T]
	spare []*line[T]

	_ [8]uint64
}

func (g *Gates[T]) yardOf(key string) *yard[T] { return &g.yards[maphash.String(g.seed, key)%yards] }

// of returns the yard of key's gate, locked.
func (g *Gates[T]) of(key string) *yard[T] {
	y := g.yardOf(key)
	y.mu.Lock()
	return y
}

type line[T comparable] struct {
	first, last *waiter[T]

	offered bool
	rests   bool
	baton   T // that is offered, or rests

	remark error
	since  time.Duration // there has been a remark since then
}

type waiter[T comparable] struct {
	prev, next *waiter[T]
	hears      chan word[T] // one slot
	joined     time.Duration

	called    bool
	vain      bool          // it came, and somebody had overtaken it
	calledAt  time.Duration // first
	overtaken int
}

// word is what a waiter is told: that the gate is its own, or to come and see.
type word[T any] struct {
	given bool
	baton T
}

// New returns gates that nobody stands at.
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

// EnterSeen is Enter for one whom seen watches, unless that is nil. It is told nothing of a gate
// that is free, or offered.
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
		case told := <-w.hears:
			if !told.given {
				told = g.come(key, w)
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
	told, left := g.quit(key, w)
	switch {
	case told.given:
		return told.baton, nil
	case ctx.Err() != nil:
		left.Cause = context.Cause(ctx)
		return told.baton, left
	}
	return told.baton, ErrClosed
}

// TryEnter takes key's gate if it is free, and returns the baton that rests there, if one does.
func (g *Gates[T]) TryEnter(key string) (baton T, free bool) {
	y := g.of(key)
	defer y.mu.Unlock()
	l := y.gates[key]
	switch {
	case l == nil:
		y.open(key)
	case l.rests:
		baton = l.take()
	default:
		return baton, false
	}
	return baton, true
}

// Withdraw takes away the baton that rests at key's gate, if it is that one.
func (g *Gates[T]) Withdraw(key string, baton T) {
	y := g.of(key)
	defer y.mu.Unlock()
	if l := y.gates[key]; l != nil && l.rests && l.baton == baton {
		l.take()
		y.free(key, l)
	}
}

// Remark notes what those are told who give up in the line behind the caller, who is at key's gate;
// nil says that all is well. It stays when the gate goes to the next. Remark reports whether
// somebody waits.
func (g *Gates[T]) Remark(key string, remark error) bool {
	y := g.of(key)
	defer y.mu.Unlock()
	l := y.gates[key]
	if l == nil {
		return false
	}
	l.note(remark)
	return l.first != nil
}

// Waiting reports whether somebody waits behind the caller, who is at key's gate.
func (g *Gates[T]) Waiting(key string) bool {
	y := g.of(key)
	defer y.mu.Unlock()
	l := y.gates[key]
	return l != nil && l.first != nil
}

// Pass hands the gate and a baton to the next waiter. It returns false, and the caller stays at the
// gate, when nobody waits.
func (g *Gates[T]) Pass(key string, baton T) bool {
	y := g.of(key)
	defer y.mu.Unlock()
	return y.gates[key].give(baton)
}

// Offer is Pass, but that a goroutine which enters before the next waiter has woken up may have the
// gate and the baton. It is for callers who had the baton for no longer than Soon, as others
// probably will. now is a reading of clock.Mono.
func (g *Gates[T]) Offer(key string, baton T, now time.Duration) bool {
	y := g.of(key)
	defer y.mu.Unlock()
	l := y.gates[key]
	return l.offer(baton, now)
}

// Rest leaves key's gate, where the caller is: baton goes to who waits, as by Offer where soon is
// set and else as by Pass; where nobody waits rest stays there for whoever comes next. It reports
// whether that is so.
func (g *Gates[T]) Rest(key string, baton, rest T, soon bool, now time.Duration) (rests bool) {
	y := g.of(key)
	defer y.mu.Unlock()
	l := y.gates[key]
	if soon && l.offer(baton, now) || !soon && l.give(baton) {
		return false
	}
	l.baton, l.rests = rest, true
	return true
}

// Leave gives up the gate, and what the caller may have offered there: the next waiter comes to it
// with no baton.
func (g *Gates[T]) Leave(key string) {
	y := g.of(key)
	defer y.mu.Unlock()
	l := y.gates[key]
	l.take()
	var none T
	if !l.give(none) {
		y.free(key, l)
	} else if l.remark == nil {
		l.note(ErrNothingYet)
	}
}

// Close turns away everyone who waits or comes later. Those at a gate keep it until they leave.
func (g *Gates[T]) Close() { close(g.closed) }

// Len returns how many gates are taken.
func (g *Gates[T]) Len() int {
	n := 0
	for i := range g.yards {
		y := &g.yards[i]
		y.mu.Lock()
		n += len(y.gates)
		y.mu.Unlock()
	}
	return n
}

// join appends a waiter, or takes the gate, with what is offered there, and returns no waiter.
func (g *Gates[T]) join(key string) (baton T, w *waiter[T]) {
	y := g.of(key)
	defer y.mu.Unlock()
	l := y.gates[key]
	switch {
	case l == nil:
		y.open(key)
		return baton, nil
	case l.rests:
		return l.take(), nil
	case l.offered:
		l.first.overtaken++
		return l.take(), nil
	}
	if w, _ = g.waiters.Get().(*waiter[T]); w == nil {
		w = &waiter[T]{hears: make(chan word[T], 1)}
	}
	*w = waiter[T]{hears: w.hears, prev: l.last, joined: clock.Mono()}
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	return baton, w
}

// come takes what w was called for, unless w was overtaken.
func (g *Gates[T]) come(key string, w *waiter[T]) (told word[T]) {
	y := g.of(key)
	defer y.mu.Unlock()
	if told, came := w.catch(y.gates[key]); came {
		return told
	}
	w.vain = true
	return told
}

// quit takes w out of the line, unless the gate is its own by now.
func (g *Gates[T]) quit(key string, w *waiter[T]) (told word[T], left *Left) {
	y := g.of(key)
	defer y.mu.Unlock()
	l := y.gates[key]
	if told, came := w.catch(l); came {
		return told, nil
	}
	l.remove(w)
	left = &Left{Remark: l.remark, Waited: clock.Mono() - w.joined}
	if l.remark != nil {
		left.Stood = clock.Mono() - l.since
	}
	return told, left
}

// catch returns what w was given or can take. A call that w has not heard is answered by that.
func (w *waiter[T]) catch(l *line[T]) (told word[T], came bool) {
	select {
	case told = <-w.hears:
	default:
	}
	if !told.given && l.offered && l.first == w {
		l.remove(w)
		told = word[T]{given: true, baton: l.take()}
	}
	return told, told.given
}

// maxSpare is how many lines are kept for reuse, for each mutex.
const maxSpare = 4

// open makes a line for a key whose gate is free. The caller holds the mutex.
func (y *yard[T]) open(key string) {
	var l *line[T]
	if n := len(y.spare); n > 0 {
		l, y.spare = y.spare[n-1], y.spare[:n-1]
	} else {
		l = new(line[T])
	}
	l.remark, l.since = ErrNothingYet, clock.Mono()
	if y.gates == nil {
		y.gates = make(map[string]*line[T])
	}
	y.gates[key] = l
}

// free ends the line of a key whose gate nobody is at any more. The caller holds the mutex.
func (y *yard[T]) free(key string, l *line[T]) {
	delete(y.gates, key)
	if len(y.spare) < maxSpare {
		y.spare = append(y.spare, l)
	}
}

// note changes the remark. It stands since the first of those that follow each other.
func (l *line[T]) note(remark error) {
	if l.remark == nil {
		l.since = clock.Mono()
	}
	l.remark = remark
}

// take ends an offer or a rest, if there is one, and returns its baton.
func (l *line[T]) take() (baton T) {
	baton, l.baton, l.offered, l.rests = l.baton, baton, false, false
	return baton
}

// offer calls the first waiter, and leaves baton where it is until that one comes; one who was
// called before, and may not be overtaken any more, is given it. The caller holds the mutex.
func (l *line[T]) offer(baton T, now time.Duration) bool {
	w := l.first
	switch {
	case w == nil:
		return false
	case !w.called:
		w.called, w.calledAt = true, now
		w.hears <- word[T]{}
	case w.vain || w.overtaken >= mostOvertakes || now-w.calledAt > Soon:
		return l.give(baton)
	}
	l.offered, l.baton = true, baton
	return true
}

// give sends baton to the first waiter. The caller holds the mutex, so nobody else fills that
// channel; a call that is still in there has become needless.
func (l *line[T]) give(baton T) bool {
	w := l.first
	if w == nil {
		return false
	}
	l.remove(w)
	select {
	case <-w.hears:
	default:
	}
	w.hears <- word[T]{given: true, baton: baton}
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
