package relock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// A MultiLock is several locks that a caller holds together: see All. It has no state of its own,
// and its methods may be called from any goroutine.
type MultiLock struct {
	parts []part // in the order of their names in Redis
	err   error  // what is wrong with them
}

// All returns a lock that is all of locks at once: mutexes, sides of read-write locks, and permits
// (Semaphore.Permits), on one Redis, on any slots of a Cluster, or on a quorum. Each keeps its
// options. So WithWait bounds the wait for that lock alone.
//
// All takes the locks in the order of their names in Redis, whatever order it was given. So callers
// of All never wait for one another in a circle. A caller keeps no such order if it holds one of
// the locks before, or takes locks one by one: give its wait an end.
//
// The methods of the MultiLock fail with the error of a lock that cannot work, and with ErrMisuse
//
//   - if there is no lock;
//   - if a name comes twice: a reader and the writer beside it have one name;
//   - for locks of several Clients: those may be on different Redises, and have no common order.
//
// Redisson: RMultiLock, which takes its locks in the order in which it was given them.
func All(locks ...Locker) *MultiLock {
	parts, err := partsOf("All", locks)
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.base.names.Lock, b.base.names.Lock) })
	for i := 1; i < len(parts); i++ {
		switch a, b := parts[i-1].base, parts[i].base; {
		case a.k != b.k:
			err = fmt.Errorf("%w: All of locks of several Clients, as of %q and %q", ErrMisuse, a.names.Name, b.names.Name)
		case a.names.Lock == b.names.Lock:
			err = fmt.Errorf("%w: All of %q twice", ErrMisuse, a.names.Name)
		}
	}
	return &MultiLock{parts, err}
}

// Lock takes all locks. If all are free, of one kind, at most 64, on one Redis, and in a Cluster in
// one slot, one command takes them. Otherwise Lock takes one after the other, and waits for each as
// its own Lock does: the first ones lie idle while it waits for the next. If one of those is lost
// meanwhile, it gives all back and begins again, until ctx ends or WithWait's time is used up; the
// waits for one lock can total twice that time. On failure it gives back what it has: behind
// the caller once its wait is over. Errors are those of the lock that failed.
func (m *MultiLock) Lock(ctx context.Context) (*MultiLease, error) { return m.acquire(ctx, waiting) }

// TryLock takes all locks if all are free, as the TryLock of each does. Errors are those of the
// lock that failed.
func (m *MultiLock) TryLock(ctx context.Context) (*MultiLease, error) { return m.acquire(ctx, trying) }

// acquire is Lock or TryLock.
func (m *MultiLock) acquire(ctx context.Context, as mode) (*MultiLease, error) {
	if err := m.valid(ctx); err != nil {
		return nil, err
	}
	waited, live := make([]time.Duration, len(m.parts)), ctx.Err() == nil
	for pause := (clock.Backoff{Least: time.Millisecond, Most: 250 * time.Millisecond}); ; clock.Sleep(ctx, pause.Next()) {
		lost := false
		leases, err := gather(ctx, m.parts, false, as)
		if heard := err; err == errOneByOne || err != nil && as == waiting {
			leases, lost, err = m.each(ctx, as, waited)
			err = orHeard(ctx, err, heard)
		}
		if err == nil {
			lost, err = given(ctx, leases)
		}
		if lost {
			continue
		} else if err != nil {
			return nil, notUnasked(ctx, m.parts, live, err)
		}
		return &MultiLease{leases}, nil
	}
}

// Do runs fn while it holds all locks, as Mutex.Do runs it under one.
func (m *MultiLock) Do(ctx context.Context, fn func(context.Context) error) error {
	return do(ctx, func(ctx context.Context) (done, error) {
		l, err := m.Lock(ctx)
		return done{l}, err
	}, fn)
}

// done is a MultiLease of Do, whose error tells of losses alone.
type done struct{ *MultiLease }

func (d done) Unlock(ctx context.Context) error {
	return errors.Join(slices.DeleteFunc(unlockAll(ctx, d.leases), func(err error) bool {
		return !errors.Is(err, ErrLost) && !errors.Is(err, ErrClosed)
	})...)
}

func (m *MultiLock) valid(ctx context.Context) error {
	switch {
	case m == nil, m.parts == nil && m.err == nil:
		return errNoLocks
	case m.err != nil:
		return m.err
	case ctx == nil:
		return errNilContext
	}
	return nil
}

// each takes one lock after the other. The context of each lease derives from that of the one
// before. lost says that it failed since it lost one that it had taken, and not one under which it
// was called: the caller may begin anew, unless it has waited for the next one as long as WithWait
// says. waited adds that up for each lock.
func (m *MultiLock) each(ctx context.Context, as mode, waited []time.Duration) (_ []*Lease, lost bool, _ error) {
	leases, inner, lock := make([]*Lease, 0, len(m.parts)), ctx, Locker.Lock
	if as == trying {
		lock = Locker.TryLock
	}
	for i, p := range m.parts {
		began := time.Now()
		l, err := lock(p.Locker, owing{inner})
		if err != nil {
			lost = inner.Err() != nil && ctx.Err() == nil && errors.Is(err, ErrLost)
			giveBack(ctx, leases, !errors.Is(err, wire.ErrWaited))
			if wait := p.base.cfg.wait; lost && wait > 0 && as == waiting {
				if waited[i] += time.Since(began); waited[i] >= wait {
					return nil, false, p.base.withRetryAfter(&wire.HeldError{Name: p.base.names.Name, Cause: wire.ErrWaited})
				}
			}
			return nil, lost, err
		}
		leases, inner = append(leases, l), l.Context()
	}
	return leases, false, nil
}

// given notes that the caller of All is given the leases. Until then they were owed: Close gave their
// locks back. If one was lost before, given gives all back: lost says that the caller may begin anew.
func given(ctx context.Context, leases []*Lease) (lost bool, err error) {
	k := leases[0].h.k
	k.giving.RLock() // Close comes before or after all of them
	if k.isClosed() {
		err = ErrClosed
	} else if err = keptFor(true, leases); err != nil {
		_ = keptFor(false, leases)
	}
	k.giving.RUnlock()
	if err != nil {
		giveBack(ctx, leases, true)
	}
	return isLost(err) && err != ErrClosed && ctx.Err() == nil, err
}

// A MultiLease is what a caller of MultiLock.Lock holds, until Unlock. Its methods may be called
// from any goroutine.
type MultiLease struct{ leases []*Lease } // the context of each derives from that of the one before

// Context returns a context that derives from the one given to Lock. It ends as soon as one of the
// locks can no longer be trusted. Its cause is then a *LostError with the name of that lock. Otherwise it
// ends as Lease.Context does. Under it each lock re-enters, and its Held finds its lease. FromContext and
// the function Token find one of the leases only: ask the MultiLease.
func (m *MultiLease) Context() context.Context {
	if m == nil || len(m.leases) == 0 {
		return neverHeld
	}
	return &multiCtx{m.leases[len(m.leases)-1].ctx(), m.leases}
}

// multiCtx is the context of a MultiLease: that of the last lease, which derives from the others'. It
// asks the clock for each lease, as a leaseCtx does for its own.
type multiCtx struct {
	*leaseCtx
	leases []*Lease
}

func (c *multiCtx) Done() <-chan struct{} {
	done := c.leaseCtx.Done() // before: so those that end now end it
	c.ask()
	return done
}

func (c *multiCtx) Err() error {
	c.ask()
	return c.leaseCtx.Err()
}

func (c *multiCtx) ask() {
	for _, l := range c.leases {
		l.ctx().endIfLost()
	}
}

// Lease returns the lease of the lock of that name, nil if there is none. It can be extended by
// itself. If it is unlocked by itself, the others stay held, and the context of the MultiLease
// ends.
func (m *MultiLease) Lease(name string) *Lease {
	if m != nil {
		for _, l := range m.leases {
			if l.Name() == name {
				return l
			}
		}
	}
	return nil
}

// Token returns the fencing token of the lock of that name, 0 if there is none. Each lock counts
// its own, so a store compares the tokens of one name only: see Lease.Token.
func (m *MultiLease) Token(name string) int64 { return m.Lease(name).Token() }

// Unlock gives all locks back, as Lease.Unlock does. It returns the errors of those that failed,
// joined.
func (m *MultiLease) Unlock(ctx context.Context) error {
	if m == nil || len(m.leases) == 0 {
		return ErrNotHeld
	}
	errs := unlockAll(ctx, m.leases)
	if !slices.ContainsFunc(errs, func(err error) bool { return err != ErrNotHeld }) {
		return ErrNotHeld
	}
	return errors.Join(errs...)
}
