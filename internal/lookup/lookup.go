// Package lookup has the goroutines of a process that look for the same thing share one lookup: one of
// them asks, and the others wait in memory for what it finds. A goroutine takes no answer to a question that
// was sent before it came: what it looks for may have changed by then.
package lookup

import (
	"cmp"
	"context"
	"errors"
	"sync"
)

// ErrOver says that the waiters are to leave.
var ErrOver = errors.New("lookups are over")

// A Left error is returned to a goroutine that gave up while another one led. It wraps the cause.
type Left struct {
	Cause  error
	Silent bool // no question was answered while the goroutine waited
}

// Error is the cause's text.
func (e *Left) Error() string { return e.Cause.Error() }

// Unwrap returns the cause.
func (e *Left) Unwrap() error { return e.Cause }

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
	name   string
	came   uint64        // when the goroutine that leads it came
	asked  uint64        // when the latest question was sent
	silent uint64        // when a question was first sent that has no answer yet, 0 if none is out
	ended  chan struct{} // closed by End
	next   *Lookup       // that of callers that waited for this one in vain
}

// Join returns a lookup of that name with a result that was asked for since the call; or a new one, without
// a result, which the caller leads and has to End. Meanwhile it waits, until ctx ends, which is a *Left
// error, or over is closed.
func (ls *Lookups) Join(ctx context.Context, name string, over <-chan struct{}) (*Lookup, error) {
	l, came, leads := ls.enter(name)
	for !leads {
		select {
		case <-l.ended:
		case <-ctx.Done():
			return nil, &Left{context.Cause(ctx), l.silentSince(came)}
		case <-over:
			return nil, ErrOver
		}
		if l.Found && l.asked > came {
			return l, nil
		}
		l, leads = ls.follow(l, came)
	}
	return l, nil
}

// enter returns the lookup of a name, when the caller came, and whether it has begun the lookup.
func (ls *Lookups) enter(name string) (l *Lookup, came uint64, leads bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, leads = ls.lookup(name)
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
		l.next, leads = ls.lookup(l.name)
	}
	if leads {
		l.next.came, l.next.silent = came, cmp.Or(l.silent, l.next.silent)
	}
	return l.next, leads
}

// lookup returns the lookup of a name, a new one if there is none. The caller holds ls.mu.
func (ls *Lookups) lookup(name string) (l *Lookup, begun bool) {
	if l = ls.all[name]; l != nil {
		return l, false
	}
	if ls.all == nil {
		ls.all = make(map[string]*Lookup)
	}
	ls.now++ // as if its first question was sent
	l = &Lookup{of: ls, name: name, silent: ls.now, ended: make(chan struct{})}
	ls.all[name] = l
	return l, true
}

// Ask asks a question for a goroutine that waits until ctx ends. A question that has no answer by then stays
// one without an answer, also for the goroutine that leads next. Other failures are answers.
func (l *Lookup) Ask(ctx context.Context, question func() (result string, found bool, err error)) (err error) {
	l.of.mu.Lock()
	l.of.now++
	l.asked = l.of.now
	l.silent = cmp.Or(l.silent, l.asked)
	l.of.mu.Unlock()
	if l.Result, l.Found, err = question(); err == nil || ctx.Err() == nil {
		l.of.mu.Lock()
		l.silent = 0
		l.of.mu.Unlock()
	}
	return err
}

// Silent reports whether no question was answered since the goroutine that leads came, and waited for others.
func (l *Lookup) Silent() bool { return l.silentSince(l.came) }

func (l *Lookup) silentSince(came uint64) bool {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	return l.silent != 0 && l.silent <= came
}

// End ends the lookup: those that wait for it go on. It acts once.
func (l *Lookup) End() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.of.all[l.name] == l {
		delete(l.of.all, l.name)
		close(l.ended)
	}
}
