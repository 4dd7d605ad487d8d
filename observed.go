package relock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/profile"
	"github.com/relock-go/relock/internal/wire"
)

// call is an observed Lock, TryLock or Downgrade. It is nil if the call is not observed. Times are
// readings of clock.Mono.
type call struct {
	lk     *lock
	ctx    context.Context // of the caller
	began  time.Duration   // before its first step that takes long; 0 until then
	waits  bool            // EventWaiting was told
	lent   bool            // a claim may still report to it: it must not be used again
	failed time.Duration   // since when Redis does not answer; 0 if it answers
	next   time.Duration   // when to tell EventWaiting again
}

// observed calls get, and tells the observer the result.
func (lk *lock) observed(ctx context.Context, get func(seen *call) (*Lease, error)) (*Lease, error) {
	lk.tally.Enter() // Close waits until the observer was told
	defer lk.tally.End()
	c := usedCalls.Get().(*call)
	c.lk, c.ctx = lk, ctx
	if lk.cfg.fixed > 0 {
		c.begins() // a fixed lease may need a second command; other calls are timed once they must wait
	}
	l, err := get(c)
	if c.waits {
		profile.Waited(ctx)
	}
	e := lk.event(EventAcquired)
	e.Context, e.Waited = ctx, c.waits
	if err == nil && lk.cfg.fixed == 0 {
		e.Wait = c.waitedAt(l.share.since)
	} else { // the caller waited for the second command of a fixed lease, too
		e.Wait = c.waitedAt(clock.Mono())
	}
	c.free()
	if err == nil {
		l.introduce(&e)
		return l, nil
	}
	err = lk.withRetryAfter(err)
	e.Kind, e.Cause = EventAbandoned, err
	lk.k.cfg.tell(e)
	return nil, err
}

// usedCalls has calls that have ended, for reuse.
var usedCalls = sync.Pool{New: func() any { return new(call) }}

// begins starts the time of the call, before its first step that takes long. So a lock that this
// process has to give is taken without reading the clock.
func (c *call) begins() {
	if c != nil && c.began == 0 {
		c.began = clock.Mono()
	}
}

// waitedAt returns how long the call has waited at now.
func (c *call) waitedAt(now time.Duration) time.Duration {
	if c.began == 0 {
		return 0
	}
	return now - c.began
}

// free ends the call, which may be used again unless it is lent.
func (c *call) free() {
	if !c.lent {
		*c = call{}
		usedCalls.Put(c)
	}
}

// leases counts the observed leases of this process. Each lease writes the counter, so it has cache
// lines of its own: neighbouring variables are only read.
var leases struct {
	_ [8]uint64
	atomic.Uint64
	_ [8]uint64
}

// introduce tells the observer that the lease was acquired and then, if it is lost already, the loss.
func (l *Lease) introduce(e *Event) {
	h := l.h
	l.number = leases.Add(1)
	e.Lease, e.How, e.Token = l.number, l.how, l.share.token
	if e.How != HowReentered {
		e.From = h.manner.observed(h, l.number)
	}
	h.k.cfg.tell(*e)
	if !l.told.CompareAndSwap(toldNothing, toldAcquired) { // owedLost
		l.ended(EventLost, h.why())
	}
}

// What an observer knows of a lease.
const (
	toldNothing  = iota
	toldAcquired // the goroutine that ends the lease tells the end
	owedLost     // the lease was lost before introduce told anything: introduce tells both
)

// watched reports whether the lock's events are observed. Those of an invalid lock are not.
func (lk *lock) watched() bool {
	return lk.err == nil && lk.known != nil && lk.k.cfg.observers != nil
}

// how returns HowRemote if the call had to wait, else HowFree. If the call is not observed, nothing
// reads the result.
func (c *call) how() How {
	if c != nil && c.waits {
		return HowRemote
	}
	return HowFree
}

// noticing returns a report for a claim. It notes each poll at the call, and then calls then.
func (c *call) noticing(then claim.Report) claim.Report {
	if c == nil {
		return then
	}
	c.lent = true
	c.begins()
	return func(key string, heard error) {
		c.queued(heard)
		if then != nil {
			then(key, heard)
		}
	}
}

// Waits is told that the call stands in its gate's line.
func (c *call) Waits() {
	if c != nil {
		c.queued(nil)
	}
}

// queued notes that the call was not granted the lock at once. heard is what Redis failed with, nil
// if it answers. It tells EventWaiting the first time, and again while Redis does not answer: after
// a second, then every minute.
func (c *call) queued(heard error) {
	c.begins()
	now := clock.Mono()
	if heard == nil {
		c.failed = 0
	} else if c.failed == 0 {
		c.failed = now
		if errors.Is(heard, context.DeadlineExceeded) { // the poll has waited for a command timeout already
			c.failed = max(c.began, now-c.lk.cfg.commandTimeout)
		}
		if c.next = c.failed + time.Second; wire.MuteFor(heard) > time.Second {
			c.next = now // Redis says that it grants nothing: there is no need to wait and see
		}
	}
	again := heard != nil && now >= c.next
	if c.waits && !again {
		return
	}
	e := c.lk.event(EventWaiting)
	e.Context = c.ctx
	if e.Wait = c.waitedAt(now); again {
		e.Cause, c.next = c.lk.withRetryAfter(heard), now+time.Minute
	}
	if !c.waits {
		c.waits = true
		profile.Waits(c.ctx, c.lk.names.Name)
	}
	c.lk.k.cfg.tell(e)
}

// ended tells that a lease is over.
func (l *Lease) ended(kind EventKind, cause error) {
	if l.h.k.cfg.observers == nil {
		return
	}
	e := l.lock.event(kind)
	e.Context, e.Lease = l.std.Parent, l.number
	e.How, e.Token, e.Hold, e.Cause = l.how, l.share.token, l.lasted(), l.h.k.explained(cause)
	l.h.k.cfg.tell(e)
}

// lasted returns how long the lease was held: as its share says if it was unlocked, until now if it was
// lost. Only the goroutine that ended the lease calls lasted.
func (l *Lease) lasted() time.Duration {
	if l.share.over {
		return l.share.since
	}
	return clock.Mono() - l.share.since
}

// unlockedWith tells the observer how an Unlock ended. If the lease was over before, its end was told.
func (l *Lease) unlockedWith(err error) {
	switch {
	case l.h.k.cfg.observers == nil:
	case err == nil:
		l.ended(EventReleased, nil)
	case err == ErrNotHeld: // by identity: a node's error may wrap it, and ErrClosed
	case err != ErrClosed && !isLost(err):
		l.ended(EventReleased, err)
	case l.unlocked(): // the goroutine that lost or closed the hold no longer found this lease in it, and told nothing
		l.ended(EventLost, err)
	}
}

// impaired tells why the Redis of that index works worse than it should.
func (c *config) impaired(index int, cause error) {
	c.tell(Event{Kind: EventNodeImpaired, Node: index, Cause: cause})
}

// mended tells that a cause which impaired told is over.
func (c *config) mended(index int, cause error) {
	c.tell(Event{Kind: EventNodeMended, Node: index, Cause: cause})
}

// answers tells that the Redis of that index answers again or, with a cause, why it does not.
func (c *config) answers(index int, cause error) {
	kind := EventNodeUp
	if cause != nil {
		kind = EventNodeDown
	}
	c.tell(Event{Kind: kind, Node: index, Cause: cause})
}
