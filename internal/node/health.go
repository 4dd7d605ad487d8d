package node

import (
	"context"
	"strings"
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
	silent  breaker    // the node did not answer
	refuses breaker    // the node refused a vote
	refusal error      // the last one
}

// breaker is a circuit breaker: while it is open, a node is not asked. When its pause is over, one
// caller is let through: the probe. To the others the breaker stays open until the probe has its
// answer.
type breaker struct {
	pause   clock.Backoff
	until   time.Time // open until then; zero for closed
	probing bool      // the probe is out
}

func newHealth(timeout time.Duration) *health {
	pause := clock.Backoff{Least: min(20*time.Millisecond, timeout), Most: timeout}
	return &health{silent: breaker{pause: pause}, refuses: breaker{pause: pause}}
}

// left returns for how long the breaker is still open, 0 if it is closed. If its pause has just
// passed, left returns 0 too, and its caller is the probe: to the others the breaker is open for
// another time-out, or until the probe has its answer.
func (b *breaker) left(now time.Time) time.Duration {
	if b.until.IsZero() {
		return 0
	}
	if left := b.until.Sub(now); left > 0 {
		return left
	}
	b.until, b.probing = now.Add(b.pause.Most), true
	return 0
}

// open opens the breaker for its next pause. If the breaker is open and no probe is out, it does
// nothing: the command that failed was sent before, and tells nothing new.
func (b *breaker) open(now time.Time) {
	if !b.probing && now.Before(b.until) {
		return
	}
	b.until, b.probing = now.Add(b.pause.Next()), false
}

// close closes the breaker. Its next pause is as short as the first.
func (b *breaker) close() {
	b.until, b.probing = time.Time{}, false
	b.pause.Reset()
}

// answered closes the breaker silent if the node answered (err is nil), and opens it if it did not.
func (h *health) answered(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.silent.close()
		return
	}
	h.silent.open(time.Now())
}

// Idle reports whether the node should not be asked, since it did not answer lately.
func (h *health) Idle() bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.silent.left(time.Now()) > 0
}

// Voted is told what became of each vote. It opens the breaker refuses if the node refused for a
// reason of its own, and closes it on any other answer.
func (h *health) Voted(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case link.Unanswered(err):
	case !wire.OfNode(err):
		h.refuses.close()
	default:
		h.refusal = err
		h.refuses.open(time.Now())
	}
}

// Refusing returns for how long the node should not be asked for a vote, and why. A caller that gets
// 0 may be the probe, as breaker.left says.
func (h *health) Refusing() (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refuses.left(time.Now()), h.refusal
}

// reachability tells an observer by turns that a node went down and that it came back.
type reachability struct {
	tell     func(cause error) // may be nil
	wentDown func()            // called when the node goes down; may be nil
	down     atomic.Bool       // the last command was not answered; written under mu
	last     atomic.Pointer[failure]

	mu      sync.Mutex // guards the rest
	cause   error      // why the last command was not answered; nil if the node is not down
	told    bool       // the observer was told last that the node is down
	telling bool       // a goroutine calls tell, and calls it again for what came meanwhile
}

// failure is why the node could not be reached, and when.
type failure struct {
	err error
	at  time.Time
}

// fails notes an error with which the node failed. It leaves out errors that only say that no answer
// came in time: a caller without an answer knows that.
func (r *reachability) fails(err error) {
	text := err.Error()
	if strings.Contains(text, context.DeadlineExceeded.Error()) || strings.Contains(text, context.Canceled.Error()) {
		return
	}
	r.last.Store(&failure{err, time.Now()})
}

// answered notes a command's result, nil for an answer, and calls tell if the node went down or came
// back. No other goroutine waits while tell runs.
func (r *reachability) answered(err error) {
	if err != nil {
		r.fails(err)
	} else if r.last.Load() != nil {
		r.last.Store(nil)
	}
	if r.down.Load() == (err != nil) {
		return
	}
	r.mu.Lock()
	r.cause = err
	if r.down.Swap(err != nil) == (err != nil) {
		r.mu.Unlock()
		return
	}
	if err != nil && r.wentDown != nil {
		r.wentDown()
	}
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
