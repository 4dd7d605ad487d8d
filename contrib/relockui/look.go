package relockui

import (
	"context"
	"sync"
	"time"
)

const (
	fresh   = time.Second      // least time between two looks
	thrift  = 9                // spares Redis: after a look, a pause of at least this many times its duration
	idle    = 10 * time.Second // a look is cancelled if nobody has asked for this long
	overdue = 5 * time.Second  // how long a request waits if the last result is old, or there is none
	soon    = time.Second      // how long a request waits for a newer result
)

// look reads something from Redis for all its viewers: one goroutine at most reads, and none while nobody
// asks.
type look[T any] struct {
	parent context.Context
	read   func(context.Context) (T, error)

	mu    sync.Mutex    // guards the fields below
	last  seen[T]       // the last result
	ended time.Time     // when the last look ended
	busy  chan struct{} // closed when the look under way ends; nil without one
	leave *time.Timer   // cancels the look under way
}

// seen is the result of a look.
type seen[T any] struct {
	what T
	at   time.Time // when the look began; zero if none has succeeded
	took time.Duration
	err  error // why the last look failed; the other fields are an earlier one's
}

// see returns the last result. If a newer look is due or under way, it waits for that, but not for long.
func (l *look[T]) see(ctx context.Context) seen[T] {
	l.mu.Lock()
	rest, patience := max(fresh, thrift*l.last.took), soon
	if time.Since(l.ended) > rest+idle { // nobody has looked for a while
		patience = overdue
	}
	if l.busy == nil && time.Since(l.ended) >= rest {
		l.begin()
	}
	busy := l.busy
	if busy != nil {
		l.leave.Reset(idle)
	}
	l.mu.Unlock()
	if busy != nil {
		wait := time.NewTimer(patience)
		defer wait.Stop()
		select {
		case <-busy:
		case <-wait.C:
		case <-ctx.Done():
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// begin begins a look. The caller holds mu.
func (l *look[T]) begin() {
	ctx, cancel := context.WithCancel(l.parent)
	busy := make(chan struct{})
	l.busy, l.leave = busy, time.AfterFunc(idle, cancel)
	go func() {
		defer close(busy)
		defer cancel()
		began := time.Now()
		what, err := l.read(ctx)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.leave.Stop()
		l.busy, l.ended, l.last.err = nil, time.Now(), err
		if err == nil {
			l.last = seen[T]{what: what, at: began, took: l.ended.Sub(began)}
		}
	}()
}

// stale makes the next call of see begin a new look, unless one is under way.
func (l *look[T]) stale() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = time.Time{}
}
