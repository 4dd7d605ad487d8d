// Package gate queues the goroutines of one process that want the same key, first come first
// served.
//
// Only the goroutine at the gate talks to Redis. It got there with a baton from the one before it:
// what that one had already achieved, or nothing. However many goroutines wait, Redis sees one
// contender per process and key.
package gate

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrClosed is returned to those who wait at gates that have been closed.
var ErrClosed = errors.New("gates closed")

// ErrNothingYet is the remark about a goroutine that came to a gate with no baton and has told
// nothing yet.
var ErrNothingYet = errors.New("nothing heard yet")

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
type Gates[T any] struct {
	closed chan struct{}

	// mu guards gates and every list in them. Invariant: a key has an entry exactly while somebody
	// is at its gate; a waiter is in its gate's list exactly until its baton has been put into its
	// channel or it gave up.
	mu    sync.Mutex
	gates map[string]*line[T]
}

type line[T any] struct {
	first, last *waiter[T]

	remark error
	since  time.Time // there has been a remark since then
}

type waiter[T any] struct {
	prev, next *waiter[T]
	baton      chan T
	joined     time.Time
}

// New returns gates that nobody stands at.
func New[T any]() *Gates[T] {
	return &Gates[T]{closed: make(chan struct{}), gates: make(map[string]*line[T])}
}

// Enter waits for the turn at key's gate and returns the baton handed over, the zero T when the
// gate was free. On failure the caller is not at the gate: ctx ended (a *Left is returned) or the
// gates were closed. A baton that arrives together with the end of ctx is returned without error;
// the caller decides what becomes of it.
func (g *Gates[T]) Enter(ctx context.Context, key string) (T, error) {
	var none T
	if g.TryEnter(key) {
		return none, nil
	}
	w := g.join(key)
	if w == nil {
		return none, nil
	}
	select {
	case baton := <-w.baton:
		return baton, nil
	case <-ctx.Done():
	case <-g.closed:
	}
	left := g.quit(key, w)
	if left == nil {
		return <-w.baton, nil
	}
	if ctx.Err() != nil {
		left.Cause = context.Cause(ctx)
		return none, left
	}
	return none, ErrClosed
}

// TryEnter takes key's gate if nobody is there.
func (g *Gates[T]) TryEnter(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, taken := g.gates[key]; taken {
		return false
	}
	g.gates[key] = newLine[T]()
	return true
}

// Remark notes what those are told who give up in the line behind the caller, who is at key's gate;
// nil says that all is well. It stays when the gate goes to the next. Remark reports whether
// somebody waits.
func (g *Gates[T]) Remark(key string, remark error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.gates[key]
	if l == nil {
		return false
	}
	l.note(remark)
	return l.first != nil
}

// Waiting reports whether somebody waits behind the caller, who is at key's gate.
func (g *Gates[T]) Waiting(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.gates[key]
	return l != nil && l.first != nil
}

// Pass hands the gate and a baton to the next waiter. It returns false, and the caller stays at the
// gate, when nobody waits.
func (g *Gates[T]) Pass(key string, baton T) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.gates[key].pass(baton)
}

// Leave gives up the gate: the next waiter comes to it with no baton.
func (g *Gates[T]) Leave(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var none T
	l := g.gates[key]
	if !l.pass(none) {
		delete(g.gates, key)
	} else if l.remark == nil {
		l.note(ErrNothingYet)
	}
}

// Close turns away everyone who waits or comes later. Those at a gate keep it until they leave.
func (g *Gates[T]) Close() { close(g.closed) }

// Len returns how many gates are taken.
func (g *Gates[T]) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.gates)
}

// join appends a waiter, or takes the gate and returns nil when it has become free.
func (g *Gates[T]) join(key string) *waiter[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, taken := g.gates[key]
	if !taken {
		g.gates[key] = newLine[T]()
		return nil
	}
	w := &waiter[T]{baton: make(chan T, 1), prev: l.last, joined: time.Now()}
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	return w
}

// quit takes w out of the line. It returns nil when the baton is already in w's channel.
func (g *Gates[T]) quit(key string, w *waiter[T]) *Left {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(w.baton) == 1 {
		return nil
	}
	l := g.gates[key]
	l.remove(w)
	left := &Left{Remark: l.remark, Waited: time.Since(w.joined)}
	if l.remark != nil {
		left.Stood = time.Since(l.since)
	}
	return left
}

func newLine[T any]() *line[T] {
	return &line[T]{remark: ErrNothingYet, since: time.Now()}
}

// note changes the remark. It stands since the first of those that follow each other.
func (l *line[T]) note(remark error) {
	if l.remark == nil {
		l.since = time.Now()
	}
	l.remark = remark
}

// pass sends baton to the first waiter. The caller holds the mutex, so nobody else fills that
// channel.
func (l *line[T]) pass(baton T) bool {
	w := l.first
	if w == nil {
		return false
	}
	l.remove(w)
	w.baton <- baton
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
