package node

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// health is how a node of a quorum has answered this client of late. A node that does not answer is
// left alone for a while. A node that answers but refuses votes is asked for no votes for a while.
type health struct {
	mu      sync.Mutex // guards the rest
	silent  rest       // the node did not answer
	refuses rest       // the node refused a vote
	refusal error      // the last
}

// rest is a time in which a node is not asked. When the time is over, one caller is let through: the
// probe. The others rest on until it has its answer.
type rest struct {
	pause   clock.Backoff
	until   time.Time // zero for no rest
	probing bool      // the probe is out
}

func newHealth(timeout time.Duration) *health {
	pause := clock.Backoff{Least: min(20*time.Millisecond, timeout), Most: timeout}
	return &health{silent: rest{pause: pause}, refuses: rest{pause: pause}}
}

// left is how much of the rest is left at now, 0 if there is none. If the rest has just passed, left
// makes its caller the probe: the others rest on, for a time-out at most.
func (r *rest) left(now time.Time) time.Duration {
	if r.until.IsZero() {
		return 0
	}
	if left := r.until.Sub(now); left > 0 {
		return left
	}
	r.until, r.probing = now.Add(r.pause.Most), true
	return 0
}

// lengthen begins the next rest. It does nothing during a rest, unless the probe is out: a command
// that fails then was sent before the rest began, and tells nothing new.
func (r *rest) lengthen(now time.Time) {
	if !r.probing && now.Before(r.until) {
		return
	}
	r.until, r.probing = now.Add(r.pause.Next()), false
}

// end ends the rest. The next one is as short as the first.
func (r *rest) end() {
	r.until, r.probing = time.Time{}, false
	r.pause.Reset()
}

// answered is Node.answered, as far as it concerns rests.
func (h *health) answered(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.silent.end()
		return
	}
	h.silent.lengthen(time.Now())
}

// Idle reports whether the node should not be asked: it did not answer lately.
func (h *health) Idle() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.silent.left(time.Now()) > 0
}

// Voted is told of each answer to a vote.
func (h *health) Voted(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case link.Unanswered(err):
	case !wire.OfNode(err):
		h.refuses.end()
	default:
		h.refusal = err
		h.refuses.lengthen(time.Now())
	}
}

// Refusing is how long no vote should be asked for again, and why. A caller that gets 0 may be the
// probe, as rest.left says.
func (h *health) Refusing() (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refuses.left(time.Now()), h.refusal
}

// reachability tells an observer that a node went and that it came back, by turns.
type reachability struct {
	tell func(cause error) // may be nil
	down atomic.Bool       // the last command was not answered; written under mu

	mu      sync.Mutex // guards the rest
	cause   error      // why it was not answered; nil if the node is not down
	told    bool       // that it is down
	telling bool       // a goroutine calls tell, and then tells what came meanwhile
}

// answered is Node.answered. tell may take its time: no other goroutine waits for that.
func (r *reachability) answered(err error) {
	if r.down.Load() == (err != nil) {
		return
	}
	r.mu.Lock()
	r.cause = err
	r.down.Store(err != nil)
	if r.telling || r.tell == nil {
		r.mu.Unlock()
		return
	}
	r.telling = true
	for r.told != (r.cause != nil) {
		cause := r.cause
		r.told = cause != nil
		r.mu.Unlock()
		r.tell(cause)
		r.mu.Lock()
	}
	r.telling = false
	r.mu.Unlock()
}
