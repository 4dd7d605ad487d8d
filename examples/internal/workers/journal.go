package workers

import (
	"context"
	"slices"
	"sync"
)

// Journal keeps what workers say. Its zero value is empty.
type Journal[E any] struct {
	mu     sync.Mutex // guards what follows
	events []E
	added  chan struct{} // closed at the next event; nil while no call waits
}

// Add is for Start's said.
func (j *Journal[E]) Add(event E) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, event)
	if j.added != nil {
		close(j.added)
		j.added = nil
	}
}

// All returns the events so far.
func (j *Journal[E]) All() []E {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clip(j.events)
}

// Await returns the first event that matches, and waits for it if there is none yet.
func (j *Journal[E]) Await(ctx context.Context, matches func(E) bool) (event E, err error) {
	for seen := 0; ; {
		j.mu.Lock()
		events := j.events
		if j.added == nil {
			j.added = make(chan struct{})
		}
		added := j.added
		j.mu.Unlock()
		if at := slices.IndexFunc(events[seen:], matches); at >= 0 {
			return events[seen+at], nil
		}
		seen = len(events)
		select {
		case <-added:
		case <-ctx.Done():
			return event, context.Cause(ctx)
		}
	}
}
