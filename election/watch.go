package election

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/relock-go/relock"
)

const (
	watchEvery = time.Second     // between two questions of Watch
	watchMost  = 8 * time.Second // the same while Redis does not answer
)

// Leader asks Redis for the leader at this instant, as [relock.Mutex.State] does. Held is false
// while no process leads. Client names the leader, if both it and this process have
// [relock.WithClientName]; Holder is an id that is new in each grant of the lock.
func (e *Election) Leader(ctx context.Context) (relock.State, error) { return e.m.State(ctx) }

// Watch tells of the leader as Leader does: at once, and then each time that it changes, until ctx
// ends or the loop over it does.
//
//	for state, err := range leader.Watch(ctx) {
//
// Redis tells no process of a change that it has no part in, so Watch asks each second: one
// command, two with a client name. It may miss a term that is shorter. It sees the beginning and
// the end of this process's own terms at once, and asks nothing in between. All this happens in the
// loop, which has no goroutine of its own.
//
// An error says that the leader is not known for now, once until Redis answers again. Watch then
// asks in growing intervals of 8 seconds at most. An error that no retry heals is the last one: a
// closed client, or a Redis that refuses.
func (e *Election) Watch(ctx context.Context) iter.Seq2[relock.State, error] {
	return func(yield func(relock.State, error) bool) { e.watch(ctx, e.m.State, yield) }
}

// watch is Watch by the answers of ask.
func (e *Election) watch(
	ctx context.Context,
	ask func(context.Context) (relock.State, error),
	yield func(relock.State, error) bool,
) {
	if ctx == nil {
		yield(relock.State{}, errNilContext)
		return
	}
	var told relock.State // if known is set
	known, failing, pause := false, false, watchEvery
	for ctx.Err() == nil {
		e.mu.Lock() // before the question: no change behind it is missed
		leads, changed := e.now.ctx, e.changed
		e.mu.Unlock()
		is, err := ask(ctx)
		final := err != nil && !errors.Is(err, relock.ErrUnavailable)
		switch {
		case ctx.Err() != nil:
			return
		case final, err != nil && !failing:
			if !yield(relock.State{}, err) || final {
				return
			}
			known, failing = false, true
		case err != nil:
			pause = min(2*pause, watchMost)
		default:
			if !known || differ(is, told) {
				if !yield(is, nil) {
					return
				}
				told = is
			}
			known, failing, pause = true, false, watchEvery
		}
		next := time.NewTimer(pause)
		rest, over := next.C, (<-chan struct{})(nil)
		if known && leads != nil && leads.Err() == nil {
			rest, over = nil, leads.Done() // the leader is this process until then
		}
		select {
		case <-rest:
		case <-over:
		case <-changed:
		case <-ctx.Done():
		}
		next.Stop()
	}
}

// differ reports whether the leader has changed, or its name has become known.
func differ(is, was relock.State) bool {
	return is.Held != was.Held || is.Holder != was.Holder ||
		is.Client != was.Client && is.Client != (relock.ClientInfo{})
}
