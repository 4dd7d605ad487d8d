package relock

import (
	"context"
	"errors"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// A Mutex is a named lock that at most one owner holds, among all processes that use the same
// Redis. It is Redisson's RLock and RFencedLock of the same name. A Mutex holds no state of its
// own: any number of values may be made for one name, and all methods may be called from any
// goroutine.
type Mutex struct{ lock }

// lock is what all kinds of locks are: a name, options, and the way to a lease.
type lock struct {
	*known // nil if there is no client, or the name is invalid
	cfg    *config
	err    error // what is wrong with the name or the options
	size   int   // of a semaphore: how many permits it has, if Redis keeps no number
	amount int   // of a kind that several may hold: how much of the lock a lease takes, 0 for 1
}

// Name returns the lock's name.
func (m *Mutex) Name() string { return m.of().name() }

// Lock takes the lock and returns its lease. Under the context of a lease of the same lock it
// re-enters at once. Otherwise it waits, in order of arrival, until the lock is granted, ctx ends,
// WithWait's time is up, or the Client is closed. It waits out what heals: lost connections, a Redis
// that is loading or failing over.
//
// On failure the caller does not hold the lock: if Redis granted it, it is given back. Errors, by
// class:
//
//   - ErrNotAcquired, in a *HeldError, if the caller gave up and the lock is busy.
//   - ErrUnavailable, in a *NodeError (*QuorumError on a quorum), if the caller gave up and Redis
//     failed or was silent, or was not asked since ctx had ended before the call.
//   - ErrRefused, in the same types and at once, if no retry helps: missing permissions, a key of
//     another type, a Redis out of memory.
//   - ErrLost under a context whose lease was lost, of this lock or of another.
//   - ErrClosed.
//   - ErrMisuse for a mistake in a name, an option, an owner or a context.
//
// The error of a caller that gave up also matches the cause that ended its wait. If the cause has a
// class, as ErrLost has, the error is of that class. A goroutine that waited behind another goroutine of
// this process is told what the other heard of Redis.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	return m.of().acquire(ctx, waiting)
}

// TryLock takes the lock if no other owner holds it or waits for it, in one round trip. It takes a
// second round trip for a WithFixedLease that is longer than the client's lease, and for the name of a
// holder that a client with WithClientName has not asked for yet. Under the context of a lease of the
// same lock it re-enters. Errors are those of Lock, except for these:
//
//   - ErrNotAcquired, at once, if another owner has the lock. The *HeldError names the owner and what
//     is left of its lease.
//   - ErrUnavailable if Redis failed or was silent: after one command timeout for each round trip at
//     most. Whatever ran is undone in the background.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	return m.of().acquire(ctx, once)
}

// Do runs fn under the lock. fn's context carries the ownership and ends, with cause ErrLost, the
// moment the lease can no longer be trusted. Do returns Lock's error, or fn's. If the lock was lost or
// the client closed before fn returned, the error is ErrLost or ErrClosed, and of no other class of
// this package: fn's error is then found by errors.Is and errors.As beside it. A release that Redis did
// not answer is no failure of fn's, and is not returned: it costs one command timeout, as in Unlock.
// A panic of fn unlocks and goes on.
func (m *Mutex) Do(ctx context.Context, fn func(context.Context) error) error {
	return do(ctx, m.Lock, fn)
}

// do is Do, for every kind.
func do[L interface {
	Context() context.Context
	Unlock(ctx context.Context) error
}](ctx context.Context, lock func(context.Context) (L, error), fn func(context.Context) error) error {
	if fn == nil {
		return errNilFunc
	}
	l, err := lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx) // for a panic; after the regular Unlock it finds nothing to do
	err = fn(l.Context())
	uerr := l.Unlock(ctx)
	if lost := errors.Is(uerr, ErrLost) || errors.Is(uerr, ErrClosed); !lost || err == uerr {
		return err // fn may have returned the loss itself, as its context's cause
	} else if err == nil {
		return uerr
	}
	return &wire.Undone{Fn: err, Lost: uerr}
}

// Held returns the lease of this lock that ctx carries: deep in a call it asserts that the caller
// holds the lock. It fails with ErrNotHeld (of the class ErrMisuse) if ctx carries none, or one that
// was unlocked. If the lease was lost, it fails with the cause of the lease's context: ErrLost or
// ErrClosed.
func (m *Mutex) Held(ctx context.Context) (*Lease, error) { return m.of().held(ctx) }

// of returns what every kind of lock embeds, nil for a nil Mutex.
func (m *Mutex) of() *lock {
	if m == nil {
		return nil
	}
	return &m.lock
}

// name is Mutex.Name, for every kind.
func (lk *lock) name() string {
	if lk == nil || lk.known == nil {
		return ""
	}
	return lk.names.Name
}

// How a lock is acquired.
const (
	waiting = false // as by Lock
	once    = true  // as by TryLock
)

// acquire is Mutex.Lock or, once, Mutex.TryLock, for every kind.
func (lk *lock) acquire(ctx context.Context, once bool) (*Lease, error) {
	return lk.run(ctx, func(seen *call) (*Lease, error) { return lk.take(ctx, once, seen) })
}

// run calls enter, observed if the client has an observer, and returns the error that the caller sees.
func (lk *lock) run(ctx context.Context, enter func(seen *call) (*Lease, error)) (*Lease, error) {
	if lk.watched() {
		return lk.observed(ctx, enter)
	}
	l, err := enter(nil)
	if err != nil {
		return nil, lk.outward(err)
	}
	return l, nil
}

// outward is the error of a call as its caller sees it.
func (lk *lock) outward(err error) error {
	if lk == nil || lk.known == nil {
		return outward(err)
	}
	err = lk.named(lk.k.outward(err))
	if held, is := err.(*HeldError); is {
		held.RetryAfter = max(lk.lasts.Retry(lk.inTheWay(held), held.TTL), min(held.TTL, lk.cfg.minHold))
		held.lingers = lk.cfg.lingers()
	}
	return err
}

// take re-enters the lock if ctx carries a lease of it. Else it takes the lock.
func (lk *lock) take(ctx context.Context, once bool, seen *call) (*Lease, error) {
	if err := lk.begin(ctx, "acquire"); err != nil {
		return nil, err
	}
	defer lk.tally.End()
	wctx := ctx
	if lk.cfg.wait > 0 && !once {
		var cancel context.CancelFunc
		wctx, cancel = context.WithTimeoutCause(ctx, lk.cfg.wait, wire.ErrWaited)
		defer cancel()
	}
	if l, err := lk.reenter(ctx, wctx, once, seen); l != nil || err != nil {
		return l, err
	}
	for found := 0; ; {
		l, err := lk.get(ctx, wctx, once, seen)
		if err != nil && wire.HasNoSize(err) {
			if err = lk.tellSize(wctx, once, found); err == nil {
				found++
				continue
			}
		}
		if err == nil && lk.cfg.fixed > 0 {
			err = lk.fill(wctx, l, once)
		}
		// A lease that was lost between its grant and here, say by a stop of the whole process, was
		// never the caller's: it is as if the lock had not been granted yet.
		if err == nil || !isLost(err) || lk.enclosingLost(ctx) {
			return l, err
		}
	}
}

// get takes the lock for an owner that does not have it yet: at the gate if this process has the lock
// to give, else from Redis. wctx bounds the waiting, the lease's context derives from ctx.
func (lk *lock) get(ctx, wctx context.Context, once bool, seen *call) (*Lease, error) {
	l, c, atGate, err := lk.enter(ctx, wctx, once, seen)
	switch {
	case c == nil:
		return l, err
	case once:
		return lk.try(ctx, c, atGate, seen)
	}
	return lk.contend(ctx, wctx, c, atGate, seen)
}

// enter goes through the gate. It returns a lease if this process has the lock to give, else a claim with
// which the caller asks Redis, and whether the caller is at the gate. If another goroutine is at the gate,
// TryLock asks Redis itself, and so learns which owner is in the way.
func (lk *lock) enter(ctx, wctx context.Context, once bool, seen *call) (l *Lease, c claim.Claim, atGate bool, err error) {
	owner, err := ownerOf(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	if h := lk.manner.atHand(lk.known, lk.parts()); h != nil {
		l, err = lk.accept(ctx, wctx, h, HowCached, clock.Now())
		return l, nil, false, err
	}
	if owner != "" || !lk.manner.usesGate(lk.cfg) {
		return nil, lk.newClaim(owner), false, nil
	}
	for l == nil && c == nil && err == nil {
		var b baton
		if once {
			b, atGate = lk.k.gates.TryEnter(lk.gate())
		} else if b, err = lk.k.gates.Enter(wctx, lk.gate(), seen); err != nil {
			return nil, nil, false, lk.leftTheLine(err)
		} else {
			atGate = true
		}
		l, c, err = lk.use(ctx, wctx, b)
	}
	return l, c, atGate, err
}

// begin counts a call of the lock that is under way. It fails, and counts nothing, if the lock
// cannot be used at all, or if ctx has ended: then Redis is not asked.
func (lk *lock) begin(ctx context.Context, op string) error {
	if err := lk.valid(ctx); err != nil {
		return err
	}
	if !lk.tally.Begin() {
		return ErrClosed
	}
	if ctx.Err() != nil {
		lk.tally.End()
		return lk.refused(ctx, op)
	}
	return nil
}

// valid returns what is wrong with the lock or ctx, nil if nothing is.
func (lk *lock) valid(ctx context.Context) error {
	switch {
	case lk == nil, lk.known == nil && lk.err == nil:
		return errNoClient
	case lk.err != nil:
		return lk.err
	case ctx == nil:
		return errNilContext
	}
	return nil
}

// enclosing returns the innermost lease of this lock that ctx carries and that is not unlocked.
func (lk *lock) enclosing(ctx context.Context) *Lease {
	l, _ := ctx.Value(lk.known).(*Lease)
	return l
}

// enclosingLost reports whether ctx carries a lease of this lock that was lost.
func (lk *lock) enclosingLost(ctx context.Context) bool {
	l := lk.enclosing(ctx)
	return l != nil && isLost(l.h.why())
}

// reenter adds a lease to the hold of the innermost lease of this lock that ctx carries. If that lease
// is unlocked meanwhile, reenter tries the next lease outward. If none is left, it returns neither a
// lease nor an error: the caller has to take the lock as others do. wctx bounds the waiting, the lease's
// context derives from ctx.
func (lk *lock) reenter(ctx, wctx context.Context, once bool, seen *call) (*Lease, error) {
	for outer := lk.enclosing(ctx); outer != nil; outer = lk.enclosing(ctx) {
		if lk.names.Kind.Shared() && lk.parts() > outer.h.entry.Block {
			return nil, errEntersMore
		}
		seen.begins()
		l := new(Lease)
		l.begin(ctx, lk, outer.h, HowReentered)
		switch err := outer.h.reenter(wctx, l, &outer.share, !once); err {
		case nil:
			return l, nil
		case ErrNotHeld: // outer was unlocked meanwhile
		default:
			return nil, err
		}
	}
	return nil, nil
}

// ownerOf returns the owner id that WithOwner put into ctx, "" when there is none.
func ownerOf(ctx context.Context) (string, error) {
	c, _ := ctx.Value(ownerKey{}).(*ownerCtx)
	if c == nil {
		return "", nil
	}
	return c.owner, c.err
}

// newClaim returns the claim of a new entry, for a shared owner or, with "", for a new owner.
func (lk *lock) newClaim(owner string) claim.Claim {
	e := lk.newEntry(owner, lk.cfg)
	if lk.names.Kind.Shared() { // its hold is not passed on in memory, and takes a token for each part of the lock
		e.Block = lk.parts()
	}
	return lk.k.arbiter.Claim(e)
}

// gate is the name of the gate in this process for leases that take as much.
func (lk *lock) gate() string { return lk.names.Gate(lk.parts()) }

// parts returns how much of the lock a lease takes; of a mutex that is 1, all of it.
func (lk *lock) parts() int { return max(1, lk.amount) }

// try asks Redis for the lock once. The idle holds of this process that may keep the caller out are picked
// up before: a refusal has them asked to end, at an instant that nobody could wait for. If Redis refuses,
// they are given back, and it is asked once more.
func (lk *lock) try(ctx context.Context, c claim.Claim, atGate bool, seen *call) (*Lease, error) {
	seen.begins()
	spare := lk.manner.spare(lk.known)
	g, err := c.Try(ctx)
	if _, busy := err.(*wire.HeldError); !busy {
		lk.finishAll(ctx, spare, toNext)
	} else if lk.finishAll(ctx, spare, toRedis) {
		again := lk.newClaim("") // no owner shares what may lie idle beside others
		if granted, refusal := again.Try(ctx); !errors.Is(refusal, ErrNotAsked) {
			c, g, err = again, granted, refusal
		}
	}
	if err == nil {
		return lk.startFirst(ctx, c, g, atGate, HowFree)
	}
	if atGate {
		lk.k.gates.Leave(lk.gate())
	}
	return nil, lk.k.presence.Named(ctx, err)
}

// contend waits for the lock with a claim. At the gate, it reports what it hears of Redis to the
// goroutines behind it. If it fails there, the next goroutine gets its claim, and so its place in
// Redis's queue.
func (lk *lock) contend(ctx, wctx context.Context, c claim.Claim, atGate bool, seen *call) (*Lease, error) {
	report := func(key string, heard error) {
		if heard == nil { // else the claim has seen nothing new
			lk.lasts.Met(c.Seen())
		}
		if atGate {
			lk.k.report(key, heard)
		}
	}
	g, err := c.Wait(wctx, lk.k.presence.Asking(c, seen.noticing(report)))
	if err == nil {
		return lk.startFirst(ctx, c, g, atGate, seen.how())
	}
	err = lk.k.presence.Named(wctx, lk.explain(wctx, err, c))
	if atGate && !errors.Is(err, ErrClosed) && lk.k.gates.Pass(lk.gate(), c) {
		return nil, err
	}
	c.Abandon()
	if atGate {
		lk.k.gates.Leave(lk.gate())
	}
	return nil, err
}
