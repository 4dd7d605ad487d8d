package relock

import (
	"context"
	"errors"
	"hash/maphash"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// call is one Lock or TryLock that is observed; nil for one that is not.
type call struct {
	lk     *lock
	ctx    context.Context // of the caller
	began  time.Duration   // 0 while it has done nothing that takes long
	waits  bool            // that was told
	lent   bool            // to what may tell it something later still
	failed time.Duration   // since when Redis does not answer, 0 for it does
	next   time.Duration   // when to tell that again
}

// observed makes a call of the lock's, and tells what became of it.
func (lk *lock) observed(ctx context.Context, enter func(*lock, context.Context, *call) (*Lease, error)) (*Lease, error) {
	lk.tally.calls.Add(1) // until it is told, which Close waits for
	defer lk.k.end(lk.tally)
	c := newCall(lk, ctx)
	if lk.cfg.fixed > 0 {
		c.begins()
	}
	l, err := enter(lk, ctx, c)
	if c.waits {
		pprof.SetGoroutineLabels(ctx)
	}
	e := lk.event(EventAcquired)
	e.Context, e.Waited = ctx, c.waits
	if err != nil {
		e.Kind, e.Cause, e.Wait = EventAbandoned, outward(err), c.until(clock.Mono())
		c.free()
		lk.k.cfg.observer.Observe(e)
		return nil, err
	}
	if e.Wait = c.until(l.share.since); lk.cfg.fixed > 0 { // it may have been lengthened since
		e.Wait = c.until(clock.Mono())
	}
	c.free()
	l.introduce(&e)
	return l, nil
}

// calls are those that ended, for reuse.
var calls sync.Pool

func newCall(lk *lock, ctx context.Context) *call {
	c, _ := calls.Get().(*call)
	if c == nil {
		c = new(call)
	}
	c.lk, c.ctx = lk, ctx
	return c
}

// begins notes when the call began, before it does anything that takes long. A lock that this process
// has to give is got without reading a clock for this.
func (c *call) begins() {
	if c != nil && c.began == 0 {
		c.began = clock.Mono()
	}
}

// until is for how long the call waited.
func (c *call) until(now time.Duration) time.Duration {
	if c.began == 0 {
		return 0
	}
	return now - c.began
}

// free ends the call.
func (c *call) free() {
	if !c.lent {
		*c = call{}
		calls.Put(c)
	}
}

// leases counts those that were observed, in this process. The counter has its cache lines to itself:
// each lease writes it, and what lies beside it is only read.
var leases struct {
	_ [8]uint64
	atomic.Uint64
	_ [8]uint64
}

// introduce tells that the lease was got, and what was held back until then.
func (l *Lease) introduce(e *Event) {
	h := l.h
	l.number = leases.Add(1)
	e.Lease, e.How, e.Token = l.number, l.how, l.share.token
	shared := h.isOpen() // its leases do not follow each other
	if !shared && (e.How == HowLocal || e.How == HowCached) {
		e.From = h.last
	}
	if !shared && e.How != HowReentered {
		h.last = l.number // the lease before returned from here before its Unlock passed the hold on
	}
	h.k.cfg.observer.Observe(*e)
	if !l.told.CompareAndSwap(toldNothing, toldAcquired) {
		l.ended(EventLost, h.why())
	}
}

// What an observer knows of a lease.
const (
	toldNothing  = iota
	toldAcquired // what ends the lease tells
	owedLost     // the lease was lost before: its caller tells
)

// watched reports whether the lock's events are observed.
func (lk *lock) watched() bool {
	return lk != nil && lk.err == nil && lk.known != nil && lk.k.cfg.observer != nil
}

// how says how the call got the lock from Redis.
func (c *call) how() How {
	if c != nil && c.waits {
		return HowRemote
	}
	return HowFree
}

// noticing returns a report that tells the observed call of each poll first, and then calls then.
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

// enter goes to the gate.
func (lk *lock) enter(ctx context.Context, seen *call) (baton, error) {
	if seen == nil {
		return lk.k.gates.Enter(ctx, lk.names.Gate(), nil)
	}
	return lk.k.gates.Enter(ctx, lk.names.Gate(), seen)
}

// Waits is told that the call is in its gate's line.
func (c *call) Waits() { c.queued(nil) }

// event is one of the lock.
func (lk *lock) event(kind EventKind) Event {
	return Event{Kind: kind, Lock: lk.names.Name, Sort: lk.names.Kind.Name}
}

// queued notes that the call was not granted at once, and why Redis does not answer, if it does not.
func (c *call) queued(heard error) {
	now := clock.Mono()
	if c.began == 0 {
		c.began = now
	}
	if heard == nil {
		c.failed = 0
	} else if c.failed == 0 {
		c.failed = now
		if errors.Is(heard, context.DeadlineExceeded) { // it was not answered for so long already
			c.failed = max(c.began, now-c.lk.cfg.commandTimeout)
		}
		if c.next = c.failed + time.Second; wire.MuteFor(heard) > time.Second {
			c.next = now // that nothing is granted meanwhile is sure
		}
	}
	again := heard != nil && now >= c.next
	if c.waits && !again {
		return
	}
	e := c.lk.event(EventWaiting)
	e.Context = c.ctx
	if e.Wait = c.until(now); again {
		e.Cause, c.next = outward(heard), now+time.Minute
	}
	if !c.waits {
		c.waits = true
		pprof.SetGoroutineLabels(labelledAs(c.ctx, c.lk.names.Name))
	}
	c.lk.k.cfg.observer.Observe(e)
}

// labelled is a context with a lock's name for profiles, and nothing else.
type labelled struct {
	name string
	ctx  context.Context
}

// labelCache keeps them. A name that was kept in the same place before is forgotten.
var labelCache [maxKnown]atomic.Pointer[labelled]

// labelledAs has the labels of ctx, and a lock's name.
func labelledAs(ctx context.Context, name string) context.Context {
	others := false
	pprof.ForLabels(ctx, func(string, string) bool { others = true; return false })
	if others {
		return pprof.WithLabels(ctx, pprof.Labels("relock.lock", name))
	}
	place := &labelCache[maphash.String(nameSeed, name)%maxKnown]
	is := place.Load()
	if is == nil || is.name != name {
		is = &labelled{name: name, ctx: pprof.WithLabels(context.Background(), pprof.Labels("relock.lock", name))}
		place.Store(is)
	}
	return is.ctx
}

// ended tells that a lease is over.
func (l *Lease) ended(kind EventKind, cause error) {
	o := l.h.k.cfg.observer
	if o == nil {
		return
	}
	e := l.of.event(kind)
	e.Context, e.Lease = l.parent, l.number
	e.How, e.Token, e.Hold, e.Cause = l.how, l.share.token, l.held(), outward(cause)
	o.Observe(e)
}

// held is how long the lease was, when it is over. Only the goroutine that ended it asks.
func (l *Lease) held() time.Duration {
	if l.share.over {
		return l.share.since
	}
	return clock.Mono() - l.share.since
}

// unlockedWith tells the observer how an Unlock ended. If the lease was over before, the observer
// has been told, and is not told again.
func (l *Lease) unlockedWith(err error) {
	switch {
	case l.h.k.cfg.observer == nil:
	case err == nil:
		l.ended(EventReleased, nil)
	case err == ErrNotHeld, err == ErrClosed: // by identity: a node's error may wrap either
	case !wire.IsLost(err):
		l.ended(EventReleased, err)
	case l.unlocked(): // the goroutine that lost the hold did not find this lease in it any more
		l.ended(EventLost, err)
	}
}

// impaired tells why a Redis works worse than it should, the node of that index.
func (c *config) impaired(index int, cause error) {
	if o := c.observer; o != nil {
		o.Observe(Event{Kind: EventNodeImpaired, Node: index, Cause: cause})
	}
}

// presence tells of a Redis that goes and comes, the node of that index.
func (c *config) presence(index int) func(error) {
	o := c.observer
	if o == nil {
		return nil
	}
	return func(cause error) {
		kind := EventNodeDown
		if cause == nil {
			kind = EventNodeUp
		}
		o.Observe(Event{Kind: kind, Node: index, Cause: cause})
	}
}
