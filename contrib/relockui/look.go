package relockui

import (
	"context"
	"sync"
	"time"
)

const (
	fresh   = time.Second      // for so long all who ask are shown the same
	thrift  = 9                // a look is followed by a rest so many times as long: Redis is there for others
	idle    = 10 * time.Second // a look is given up when nobody has asked for so long
	overdue = 5 * time.Second  // how long a request waits to see anything at all
	soon    = time.Second      // how long a request waits to see something newer
)

// look is what is seen of something in Redis. All who want to see it share it: one goroutine at
// most reads, and none while nobody asks.
type look[T any] struct {
	parent context.Context
	read   func(context.Context) (T, error)

	mu    sync.Mutex
	last  seen[T]
	ended time.Time     // the last look
	busy  chan struct{} // closed when the look under way ends; nil without one
	leave *time.Timer   // gives that look up
}

// seen is what a look brought.
type seen[T any] struct {
	what T
	at   time.Time // the look began; zero when there was none that went well
	took time.Duration
	err  error // why the last look brought nothing, though an earlier one did
}

// see returns what was seen a moment ago. It waits for what is newer, but not for long.
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

// begin begins a look. The mutex is held.
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

// stale has the next who asks look anew.
func (l *look[T]) stale() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = time.Time{}
}
