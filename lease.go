package relock

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/lazyctx"
	"github.com/relock-go/relock/internal/node"
)

// A Lease is a lock of any kind that the caller holds, or permits of a Semaphore, from a successful Lock,
// Acquire or Do until Unlock. Its methods may be called from any goroutine. They work for all kinds, unless
// they say for which.
type Lease struct {
	lock   *lock
	h      *hold
	share  share         // of h
	std    lazyctx.Ctx   // derives from the context that was given to Lock
	told   atomic.Uint32 // what an observer knows of it
	how    How
	shown  bool   // though it is of permits, FromContext finds it
	number uint64 // for observers
}

// start makes l a lease of h, with the hold's next token and a context that derives from ctx. It fails
// if the hold was lost before.
func (lk *lock) start(ctx context.Context, h *hold, l *Lease, how How, now clock.Stamp) (*Lease, error) {
	l.begin(ctx, lk, h, how)
	if err := h.start(l, lk.cfg, now); err != nil {
		l.end(ErrLost)
		return nil, err
	}
	return l, nil
}

// startFirst makes the hold that begins with a grant, and starts its first lease. The caller is at
// the lock's gate if atGate is set.
func (lk *lock) startFirst(ctx context.Context, c claim.Claim, g node.Grant, atGate bool, how How) (*Lease, error) {
	first, now := new(struct { // in one piece of memory
		hold  hold
		lease Lease
	}), clock.Now()
	if atGate && !lk.manner.keepsGate() {
		lk.k.gates.Leave(lk.gate())
		atGate = false
	}
	lk.lasts.Free()
	h := lk.newHold(&first.hold, c, g, lk.cfg, atGate, now)
	l, err := lk.start(ctx, h, &first.lease, how, now)
	if err == nil {
		lk.manner.begun(h)
	}
	return l, err
}

// begin makes l a lease of h, with a context that derives from ctx. It has no share of h yet.
func (l *Lease) begin(ctx context.Context, of *lock, h *hold, how How) {
	l.lock, l.h, l.how, l.std.Parent = of, h, how, ctx
	if _, owes := ctx.(owing); owes {
		l.share.owed = how != HowReentered // in whatever it re-enters, a caller has a share
	}
}

// owing is the parent of the context of a lease that no caller has until keptFor says so. Close gives its
// lock back until then.
type owing struct{ context.Context }

// A lease is the bearer of its share. When the share ends, so does the lease's context, and an observer
// is told.

func (l *Lease) shared() *share { return &l.share }

// end ends the context, unless it has ended. The caller does not hold the hold's mutex: contexts of
// one hold may derive from one another, and they ask the hold.
func (l *Lease) end(cause error) {
	if cause == ErrNotHeld {
		l.std.End(byUnlock)
		return
	}
	l.std.End(lazyctx.By(cause))
}

// byUnlock is the end of most leases.
var byUnlock = lazyctx.By(ErrNotHeld)

// keptFor notes whether the lease is its caller's: if not, it is owed, and is given back or given to the
// caller later. It returns why the lease is over, if it is.
func (l *Lease) keptFor(caller bool) error {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	l.share.owed = !caller
	if l.share.over || !l.h.fate.live() {
		return l.h.fate.whyGone(&l.share)
	}
	return nil
}

func (l *Lease) losing() { l.told.CompareAndSwap(toldNothing, owedLost) }

func (l *Lease) lost(cause error) {
	l.end(cause)
	if l.told.Load() != owedLost {
		l.ended(EventLost, cause)
	}
}

// leaseCtx is the context of a lease. It carries the ownership, and it asks the clock: in a process
// that was stopped past the lease, Err tells the truth before the watchdog's timer has fired.
type leaseCtx Lease

func (l *Lease) ctx() *leaseCtx { return (*leaseCtx)(l) }

func (c *leaseCtx) lease() *Lease { return (*Lease)(c) }

// Deadline returns the deadline of the caller's context. A lease adds none, since it may be renewed.
func (c *leaseCtx) Deadline() (time.Time, bool) { return c.std.Parent.Deadline() }

// Value returns the lease for the key of its lock and for leaseKey. If the lease was unlocked, Value
// returns a lease of the same lock further out, if there is one, but never another lock's. For leaseKey it
// looks past permits, which have no token, unless Any took them. Other keys may be the standard library's
// own, which look for a cause or a parent: its context answers them.
func (c *leaseCtx) Value(key any) any {
	switch key := key.(type) {
	case *known:
		if key.same(c.lock.known) && !c.lease().unlocked() {
			return c.lease()
		}
	case leaseKey:
		if c.shown || c.lock.manner.nests() {
			return c.Value(c.lock.known)
		}
	case ownerKey:
	default:
		return c.std.Context().Value(key)
	}
	return c.std.Parent.Value(key)
}

// endIfLost ends the context if the hold was lost. The goroutine that loses a hold first marks it as
// over and then ends its contexts. endIfLost does it if that one is stopped.
func (c *leaseCtx) endIfLost() {
	c.h.expire(clock.Now())
	if cause := c.h.why(); cause != ErrNotHeld { // else it is live, or was given back
		c.lease().end(cause)
	}
}

func (c *leaseCtx) Done() <-chan struct{} {
	done := c.std.Context().Done()
	_ = c.Err() // it ends this context, or one further out, whose time is over: done is closed then
	return done
}

func (c *leaseCtx) Err() error {
	c.endIfLost()
	return c.std.Err()
}

// Context returns the lease's context, derived from the one given to Lock. A Lock of the same lock
// under it re-enters; an Acquire takes more permits. It is done as soon as the lease can no longer be
// trusted. Its cause is
//
//   - ErrLost when the lock was lost (ErrMaxHold, which matches it, when WithMaxHold ended it),
//   - ErrClosed when the Client was closed,
//   - ErrNotHeld after Unlock, ErrHandedOver after HandOver.
func (l *Lease) Context() context.Context {
	if l.zero() {
		return neverHeld
	}
	return l.ctx()
}

// FromContext returns the lease that ctx carries. ctx carries one if it is a lease's context, is the
// context that Do gave to its function, or derives from either. Of nested locks FromContext returns the
// innermost lease, of whichever lock; Mutex.Held finds the lease of one lock. Without a lease ok is
// false.
//
//   - A lease that was lost is returned: ctx is done, Until is zero, and the store that is handed
//     its Token can refuse it. Mutex.Held fails instead.
//   - A lease that was unlocked is not returned. If it was a re-entry, the next lease outward of the
//     same lock is returned, but never another lock's: its tokens say nothing of this lock.
//   - Permits are looked past, unless Any took them.
//   - Detach and WithOwner hide the leases above them.
func FromContext(ctx context.Context) (lease *Lease, ok bool) {
	if ctx == nil {
		return nil, false
	}
	lease, ok = ctx.Value(leaseKey{}).(*Lease)
	return lease, ok
}

// Token returns the fencing token of the lease that FromContext finds, lost or not. If ctx carries
// no lease, or one of permits that Any took, it returns 0, which is below every token: a store is to
// refuse it.
func Token(ctx context.Context) int64 {
	lease, _ := FromContext(ctx)
	return lease.Token()
}

// neverHeld is the context of a lease that no Lock returned.
var neverHeld = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrNotHeld)
	return ctx
}()

// zero reports whether no Lock returned the lease: then its methods say that it holds nothing.
func (l *Lease) zero() bool { return l == nil || l.h == nil }

// Token returns the fencing token of a lease of a Mutex or an RWMutex, which its re-entries share, and 0 for
// permits, which have none. Every later grant of the lock has a greater token, whichever process gets it,
// Java's RFencedLock included. A store that remembers the greatest token it has seen, and refuses lower
// ones, is safe from a holder that acts late. docs/safety.md says what resets the count.
func (l *Lease) Token() int64 {
	if l.zero() {
		return 0
	}
	return l.share.token
}

// Until returns when the lease ends unless it is renewed: what Redis confirmed so far, less a
// margin for the drift of clocks. It returns the zero Time once the lease has ended.
func (l *Lease) Until() time.Time {
	if l.zero() {
		return time.Time{}
	}
	until, _, err := l.h.trusted(&l.share)
	if err != nil {
		return time.Time{}
	}
	return until.Wall()
}

// Count returns the hold count: how many Locks under this lease's grant are not unlocked yet; 1 for permits, however
// many they are. It is 0 once the lease is over.
func (l *Lease) Count() int {
	if l.zero() {
		return 0
	}
	_, count, _ := l.h.trusted(&l.share)
	return count
}

// Unlock ends this lease. The hold count falls by one; at 0 the lock goes to the next waiter, with
// WithMinHold not before its time. All permits of a lease are given back.
// Unlock goes on if ctx is cancelled. It waits for Redis for one command timeout at most; the rest goes
// on in the background. Errors:
//
//   - ErrMisuse (ErrNotHeld) when this lease was unlocked before.
//   - ErrLost when the lock was lost before: another owner may have held it meanwhile.
//   - ErrClosed when the Client was closed before.
//   - ErrUnavailable if Redis did not answer in time, ErrRefused if it refuses, each in a *NodeError
//     (on a quorum also a *QuorumError). Even then the caller no longer holds the lock. The release is
//     repeated until Redis answers.
func (l *Lease) Unlock(ctx context.Context) error {
	if l.zero() {
		return ErrNotHeld
	}
	if ctx == nil {
		ctx = context.Background() // a lock is given back whatever else is wrong
	}
	l.h.tally.Enter()
	defer l.h.tally.End()
	err := l.h.drop(ctx, l)
	if err == nil && l.how != HowReentered {
		l.h.lasts.Lasted(max(l.share.since, l.lock.cfg.minHold))
	}
	err = l.h.named(l.h.k.explained(err))
	l.unlockedWith(err)
	return err
}

// Wanted returns a channel that is closed once another process of relock's waits for the lock, or
// has tried to take it: a leader or a long batch may then give way, by Unlock. It is a hint that
// comes as a message. A lost message is repeated with the waiter's polls: after a twelfth and a
// sixth of the waiter's lease, then every third. Once closed, it stays closed for all leases to which
// the same grant is passed on. It is not closed
//
//   - for goroutines of this process, except for permits, by a Flight, and at the other side of an RWMutex,
//   - for Redisson's waiters,
//   - for leases under WithOwner.
//
// Of a semaphore, the first process in line has 128 holders told at a time, and asks again until all were.
func (l *Lease) Wanted() <-chan struct{} {
	if l.zero() {
		return nil
	}
	return l.h.wish().Done()
}

func (l *Lease) unlocked() bool { return l.h.gaveBack(&l.share) }

// Name returns the lock's name.
func (l *Lease) Name() string {
	if l.zero() {
		return ""
	}
	return l.lock.names.Name
}

// stillHeld returns l, or why it is not held; nil is no lease.
func (l *Lease) stillHeld() (*Lease, error) {
	if l == nil {
		return nil, ErrNotHeld
	}
	if _, _, err := l.h.trusted(&l.share); err != nil {
		return nil, err
	}
	return l, nil
}
