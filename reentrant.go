package relock

import (
	"context"
	"errors"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// A Mutex is a named lock that at most one owner holds, among all processes that use the same
// Redis. It is Redisson's RLock and RFencedLock of the same name. A Mutex holds no state of its
// own: any number of values may be made for one name, and all methods may be called from any
// goroutine.
type Mutex struct{ lock }

// Name returns the lock's name.
func (m *Mutex) Name() string { return m.base().name() }

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
	return m.base().acquire(ctx, waiting)
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
	return m.base().acquire(ctx, trying)
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
func (m *Mutex) Held(ctx context.Context) (*Lease, error) { return m.base().held(ctx) }

// base returns what every kind of lock embeds.
func (m *Mutex) base() *lock {
	if m == nil || m.zero() {
		return unmade("Mutex")
	}
	return &m.lock
}

// acquire is Mutex.Lock or Mutex.TryLock, for every kind.
func (lk *lock) acquire(ctx context.Context, m mode) (*Lease, error) {
	return lk.run(ctx, func(seen *call) (*Lease, error) {
		a := attempt{lock: lk, ctx: ctx, wctx: ctx, mode: m, seen: seen}
		return a.take()
	})
}

// run calls get, observed if the client has an observer, and returns the error that the caller sees.
func (lk *lock) run(ctx context.Context, get func(seen *call) (*Lease, error)) (*Lease, error) {
	if lk.watched() {
		return lk.observed(ctx, get)
	}
	l, err := get(nil)
	if err != nil {
		return nil, lk.withRetryAfter(err)
	}
	return l, nil
}

// take re-enters the lock if ctx carries a lease of it. Else it takes the lock.
func (a *attempt) take() (*Lease, error) {
	if err := a.begin(a.ctx, driver.Acquire); err != nil {
		return nil, err
	}
	defer a.tally.End()
	defer a.bound()()
	if l, err := a.reenter(); l != nil || err != nil {
		return l, err
	}
	for found := 0; ; {
		l, err := a.get()
		if err != nil && wire.HasNoSize(err) {
			if err = a.tellSize(a.wctx, a.mode, found); err == nil {
				found++
				continue
			}
		}
		if err == nil && a.cfg.fixed > 0 {
			err = a.fill(a.wctx, l, a.mode)
		}
		// A lease that was lost between its grant and here, say by a stop of the whole process, was
		// never the caller's: it is as if the lock had not been granted yet.
		if err == nil || !isLost(err) || a.enclosingLost(a.ctx) {
			return l, err
		}
	}
}

// reenter adds a lease to the hold of the innermost lease of this lock that ctx carries. If that lease
// is unlocked meanwhile, reenter tries the next lease outward. If none is left, it returns neither a
// lease nor an error: the caller has to take the lock as others do.
func (a *attempt) reenter() (*Lease, error) {
	for outer := a.enclosing(a.ctx); outer != nil; outer = a.enclosing(a.ctx) {
		a.seen.begins()
		l := new(Lease)
		l.begin(a.ctx, a.lock, outer.h, HowReentered)
		switch err := outer.h.reenter(a.wctx, l, &outer.share, a.mode == waiting); err {
		case nil:
			return l, nil
		case ErrNotHeld: // outer was unlocked meanwhile
		default:
			return nil, err
		}
	}
	return nil, nil
}
