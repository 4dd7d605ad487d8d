// Package gate queues the goroutines of one process that want the same key, first come first served.
//
// Only the goroutine at the gate talks to Redis. It got there with a baton from the one before it: what that one had
// already achieved, or nothing. However many goroutines wait, Redis sees one contender per process and key.
package gate

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed is returned to those who wait at gates that have been closed.
var ErrClosed = errors.New("gates closed")

// Gates holds a gate for each key in use. The zero value is not usable; call New.
type Gates[T any] struct {
	closed chan struct{}

	// mu guards gates and every list in them. Invariant: a key has an entry exactly while somebody is at its gate; a
	// waiter is in its gate's list exactly until its baton has been put into its channel or it gave up.
	mu    sync.Mutex
	gates map[string]*line[T]
}

type line[T any] struct {
	first, last *waiter[T]
}

type waiter[T any] struct {
	prev, next *waiter[T]
	baton      chan T
}

// New returns gates that nobody stands at.
func New[T any]() *Gates[T] {
	return &Gates[T]{closed: make(chan struct{}), gates: make(map[string]*line[T])}
}

// Enter waits for the turn at key's gate and returns the baton handed over, the zero T when the gate was free. On
// failure the caller is not at the gate: ctx ended (its cause is returned) or the gates were closed. A baton that
// arrives together with the end of ctx is returned without error; the caller decides what becomes of it.
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
	if !g.quit(key, w) {
		return <-w.baton, nil
	}
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
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
	g.gates[key] = &line[T]{}
	return true
}

// Waiting reports whether somebody waits behind the caller, who is at key's gate.
func (g *Gates[T]) Waiting(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.gates[key]
	return l != nil && l.first != nil
}

// Pass hands the gate and a baton to the next waiter. It returns false, and the caller stays at the gate, when nobody
// waits.
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
	if !g.gates[key].pass(none) {
		delete(g.gates, key)
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
		g.gates[key] = &line[T]{}
		return nil
	}
	w := &waiter[T]{baton: make(chan T, 1), prev: l.last}
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	return w
}

// quit takes w out of the line. It returns false when the baton is already in w's channel.
func (g *Gates[T]) quit(key string, w *waiter[T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(w.baton) == 1 {
		return false
	}
	g.gates[key].remove(w)
	return true
}

// pass sends baton to the first waiter. The caller holds the mutex, so nobody else fills that channel.
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
