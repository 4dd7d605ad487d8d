// Package lookup has the goroutines of a process that look for the same thing share one lookup: one of
// them asks, and the others wait in memory for what it finds. A goroutine takes no answer to a question that
// was sent before it came: what it looks for may have changed by then.
package lookup

import (
	"cmp"
	"context"
	"sync"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// Node is the Redis that is asked.
type Node interface {
	Done() <-chan struct{} // closed when those that wait are to leave
	Down() bool            // whether it leaves commands without an answer
}

// Lookups are those under way, one for each name at most. The zero Lookups has none.
type Lookups struct {
	mu  sync.Mutex // guards what follows, and the fields of each Lookup; locked alone
	all map[string]*Lookup
	now uint64 // counts the lookups that were begun, and the questions that were sent
}

// A Lookup is a goroutine's way to an answer, on which it may ask several times. The goroutine that leads
// it calls Ask for each question, and End; the others read Result and Found once it has ended.
type Lookup struct {
	Result string
	Found  bool // without a result, another goroutine begins the next lookup

	of     *Lookups
	node   Node
	names  *wire.Names
	came   uint64        // when the goroutine that leads it came
	asked  uint64        // when the latest question was sent
	silent uint64        // when a question was first sent that has no answer yet, 0 if none is out
	ended  chan struct{} // closed by End
	next   *Lookup       // that of callers that waited for this one in vain
}

// Join returns a lookup of that lock's result that was asked for since the call; or a new one, without a
// result, which the caller leads and has to End. Meanwhile it waits. It fails if ctx ends, as a caller in the
// line of a lock does, or with wire.ErrClosed.
func (ls *Lookups) Join(ctx context.Context, n *wire.Names, node Node) (*Lookup, error) {
	l, came, leads := ls.enter(n, node)
	for !leads {
		select {
		case <-l.ended:
		case <-ctx.Done():
			return nil, l.gaveUp(ctx, came)
		case <-node.Done():
			return nil, wire.ErrClosed
		}
		if l.Found && l.asked > came {
			return l, nil
		}
		if l, leads = ls.follow(l, came); leads && ctx.Err() != nil {
			l.End()
			return nil, l.gaveUp(ctx, came)
		}
	}
	return l, nil
}

// enter returns the lookup of a name, when the caller came, and whether it has begun the lookup.
func (ls *Lookups) enter(n *wire.Names, node Node) (l *Lookup, came uint64, leads bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, leads = ls.lookup(n, node)
	if leads {
		l.came = ls.now
	}
	return l, ls.now, leads
}

// follow returns the next lookup for a caller that waited for one in vain. It may have ended: to one that
// wakes up late it is still good.
func (ls *Lookups) follow(l *Lookup, came uint64) (next *Lookup, leads bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.next == nil {
		l.next, leads = ls.lookup(l.names, l.node)
	}
	if leads {
		l.next.came, l.next.silent = came, cmp.Or(l.silent, l.next.silent)
	}
	return l.next, leads
}

// lookup returns the lookup of a name, a new one if there is none. The caller holds ls.mu.
func (ls *Lookups) lookup(n *wire.Names, node Node) (l *Lookup, begun bool) {
	if l = ls.all[n.Lock]; l != nil {
		return l, false
	}
	if ls.all == nil {
		ls.all = make(map[string]*Lookup)
	}
	ls.now++ // as if its first question was sent
	l = &Lookup{of: ls, node: node, names: n, silent: ls.now, ended: make(chan struct{})}
	ls.all[n.Lock] = l
	return l, true
}

// Ask asks a question for a goroutine that waits until ctx ends. A question that has no answer by then stays
// one without an answer, also for the goroutine that leads next; other failures are answers. If it is the
// first, and the goroutine has waited for others, it had no time left to ask: it fails as one that waits.
func (l *Lookup) Ask(ctx context.Context, question func() (result string, found bool, err error)) (err error) {
	l.of.mu.Lock()
	first := l.asked == 0
	l.of.now++
	l.asked = l.of.now
	l.silent = cmp.Or(l.silent, l.asked)
	l.of.mu.Unlock()
	l.Result, l.Found, err = question()
	switch {
	case err == nil || ctx.Err() == nil:
		l.of.mu.Lock()
		l.silent = 0
		l.of.mu.Unlock()
	case first && wire.Transient(err) && !l.isSilent(l.came):
		return l.gaveUp(ctx, l.came)
	}
	return err
}

// gaveUp returns the error of a goroutine that came then and has waited for others: that Redis gives no
// answer, if none came all the time, else that the lock is busy.
func (l *Lookup) gaveUp(ctx context.Context, came uint64) error {
	if l.isSilent(came) || l.node.Down() {
		return &wire.NodeError{Op: driver.Acquire, Name: l.names.Name, Err: wire.ErrNoAnswer, Cause: context.Cause(ctx)}
	}
	return &wire.HeldError{Name: l.names.Name, Local: true, Cause: context.Cause(ctx)}
}

// isSilent reports whether no question was answered since a goroutine came then.
func (l *Lookup) isSilent(came uint64) bool {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	return l.silent != 0 && l.silent <= came
}

// End ends the lookup: those that wait for it go on. It acts once.
func (l *Lookup) End() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.of.all[l.names.Lock] == l {
		delete(l.of.all, l.names.Lock)
		close(l.ended)
	}
}
