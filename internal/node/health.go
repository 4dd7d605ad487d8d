package node

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// health is how a node has answered this client of late, to all its locks. A node that does not
// answer is left alone for a while, for votes and all else. One that refuses votes, though it
// answers, is asked for fewer.
type health struct {
	mu      sync.Mutex // guards the rest
	silent  rest
	refuses rest
	refusal error // the last
}

// rest is a time in which a node is not asked, but by one probe when it is over.
type rest struct {
	pause   clock.Backoff
	until   time.Time // zero for none
	probing bool      // the probe is out
}

func newHealth(timeout time.Duration) *health {
	pause := clock.Backoff{Least: min(20*time.Millisecond, timeout), Most: timeout}
	return &health{silent: rest{pause: pause}, refuses: rest{pause: pause}}
}

// left is how much of the rest is left at now. A caller that gets 0 is the probe: the others wait
// for what it finds.
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

// lengthen begins the next rest. What else fails during one was sent before it, and tells nothing
// more.
func (r *rest) lengthen(now time.Time) {
	if !r.probing && now.Before(r.until) {
		return
	}
	r.until, r.probing = now.Add(r.pause.Next()), false
}

func (r *rest) end() {
	r.until, r.probing = time.Time{}, false
	r.pause.Reset()
}

// presence is whether a node answers, as is told of it: that it went and that it came, by turns.
type presence struct {
	tell func(cause error) // may be nil
	down atomic.Bool       // a command was not answered, and none was since; written under mu

	mu      sync.Mutex // guards the rest
	cause   error      // why it was not answered, nil while the node is not down
	told    bool       // that it is down
	telling bool       // a goroutine tells, and sees to what comes meanwhile
}

// answered is told of each command as health is. What tell does may take its time: no other goroutine
// waits for that.
func (p *presence) answered(err error) {
	if p.down.Load() == (err != nil) {
		return
	}
	p.mu.Lock()
	p.cause = err
	p.down.Store(err != nil)
	if p.telling || p.tell == nil {
		p.mu.Unlock()
		return
	}
	p.telling = true
	for p.told != (p.cause != nil) {
		cause := p.cause
		p.told = cause != nil
		p.mu.Unlock()
		p.tell(cause)
		p.mu.Lock()
	}
	p.telling = false
	p.mu.Unlock()
}

// answered is told of each command that the node had its whole time-out for: nil when it was
// answered. A command that was cut short, by its caller or by a lock's shorter time-out, is not
// told: it says nothing of the node.
func (h *health) answered(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.silent.end()
		return
	}
	h.silent.lengthen(time.Now())
}

// idle reports whether the node should not be asked: it did not answer lately.
func (h *health) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.silent.left(time.Now()) > 0
}

// voted is told of each answer to a vote.
func (h *health) voted(err error) {
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

// refusing is how long no vote should be asked for again, and why.
func (h *health) refusing() (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refuses.left(time.Now()), h.refusal
}
