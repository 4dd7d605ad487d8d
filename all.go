package relock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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
// (Semaphore.Locker), on one Redis, on any slots of a Cluster, or on a quorum. Each keeps its
// options. So WithWait bounds the wait for that lock only.
//
// All takes the locks in the order of their names in Redis, whatever order it was given. So callers
// of All never wait for one another in a circle. A caller keeps no such order if it holds one of
// the locks before, or takes locks one by one: give its wait an end.
//
// The methods of the MultiLock fail with the error of a lock that cannot work, and with ErrMisuse
//
//   - if there is no lock, or one is nil;
//   - if a name comes twice: a reader and the writer beside it have one name;
//   - for locks of several Clients: those may be on different Redises, and have no common order;
//   - for an AnyLock, which has no place in that order, and a Locker of the program's own.
//
// Redisson: RMultiLock, which takes its locks in the order in which it was given them.
func All(locks ...Locker) *MultiLock {
	parts, err := partsOf("All", "All takes its locks in one order, and Any has none", locks)
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
// waits for one lock can total twice that time. On failure it gives back what it has, in
// the background once the caller's wait is over. Errors are those of the lock that failed.
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
		return &MultiLease{leases: leases}, nil
	}
}

// Do runs fn while it holds all locks, as Mutex.Do runs it under one.
func (m *MultiLock) Do(ctx context.Context, fn func(context.Context) error) error {
	return do(ctx, m.Lock, fn)
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
// was called: the caller may begin again, unless it has waited for the next one as long as WithWait
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
// locks back. If one was lost before, given gives all back: lost says that the caller may begin again.
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
type MultiLease struct {
	leases []*Lease // the context of each derives from that of the one before

	mu     sync.Mutex
	notice *notice       // of another process that wants one of the locks; nil until a caller asks for it
	stops  []func() bool // listening to the notices of the leases' holds, which may outlive the leases
}

// Context returns a context that derives from the one given to Lock. It ends as soon as one of the
// locks can no longer be trusted. Its cause is then a *LostError with the name of that lock. Otherwise it
// ends as Lease.Context does. Under it each lock re-enters, but for permits, which take more; the Held of
// each finds its lease. FromContext and the function Token find one of the leases at most, and none of
// permits: ask the MultiLease.
func (m *MultiLease) Context() context.Context {
	if len(m.all()) == 0 {
		return neverHeld
	}
	return m.leases[len(m.leases)-1].Context()
}

// Lease returns the lease of the lock of that name, nil if there is none. It can be extended by
// itself. If it is unlocked by itself, the others stay held, and the context of the MultiLease
// ends.
func (m *MultiLease) Lease(name string) *Lease {
	for _, l := range m.all() {
		if l.Name() == name {
			return l
		}
	}
	return nil
}

// Token returns the fencing token of the lock of that name, 0 if there is none. Each lock counts
// its own, so a store compares the tokens of one name only: see Lease.Token.
func (m *MultiLease) Token(name string) int64 { return m.Lease(name).Token() }

// Until returns when the first of the leases ends unless it is renewed, as Lease.Until does: the zero Time once
// one of them has ended.
func (m *MultiLease) Until() (first time.Time) {
	for i, l := range m.all() {
		if until := l.Until(); i == 0 || until.Before(first) {
			first = until
		}
	}
	return first
}

// Extend makes the lease of each lock last at least d from now, as Lease.Extend does, all at once. Its errors are
// those of the leases that were lost or, if none was, of all that failed: joined, each with the name of its
// lock. A lease that was not extended ends when it would have ended; the others are extended.
func (m *MultiLease) Extend(ctx context.Context, d time.Duration) error {
	var all sync.WaitGroup
	errs := make([]error, len(m.all()))
	for i, l := range m.all() {
		all.Go(func() { errs[i] = l.Extend(ctx, d) })
	}
	all.Wait()
	return m.joined(errs)
}

// Wanted returns a channel that is closed once another process of relock's wants one of the locks, as that of
// Lease.Wanted is. It is not closed for a lock that was unlocked by itself.
func (m *MultiLease) Wanted() <-chan struct{} {
	if len(m.all()) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.notice == nil {
		m.notice = newNotice()
		for _, l := range m.leases {
			m.listen(l)
		}
	}
	return m.notice.Done()
}

// listen ends the notice with that of l's hold. Unlock stops it, since the hold may outlive the lease. The
// caller holds m.mu.
func (m *MultiLease) listen(l *Lease) {
	tell := func() {
		if !l.unlocked() {
			m.notice.end()
		}
	}
	wish := l.h.wish()
	if wish.Err() != nil {
		tell() // at once
	} else if !l.unlocked() { // else Unlock may have stopped what it found
		m.stops = append(m.stops, context.AfterFunc(wish, tell))
	}
}

// Unlock gives all locks back, as Lease.Unlock does. Its errors are chosen as those of Extend.
func (m *MultiLease) Unlock(ctx context.Context) error {
	err := m.joined(unlockAll(ctx, m.all()))
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, stop := range m.stops {
			stop()
		}
	}
	return err
}

// all returns the leases, none for a MultiLease that no Lock returned.
func (m *MultiLease) all() []*Lease {
	if m == nil {
		return nil
	}
	return m.leases
}

// joined returns one error for those of the leases: the error of all, if it is the same; else those of the leases
// that were lost, so that it is of one class; else those of all, with the names of their locks.
func (m *MultiLease) joined(errs []error) error {
	over := slices.DeleteFunc(slices.Clone(errs), func(err error) bool {
		return !errors.Is(err, ErrLost) && !errors.Is(err, ErrClosed)
	})
	switch {
	case len(errs) == 0:
		return ErrNotHeld
	case !slices.ContainsFunc(errs, func(err error) bool { return err != errs[0] }):
		return errs[0]
	case len(over) > 0:
		return errors.Join(over...)
	}
	for i, err := range errs {
		if errors.Is(err, ErrMisuse) { // which names no lock
			errs[i] = fmt.Errorf("lock %q: %w", m.leases[i].Name(), err)
		}
	}
	return errors.Join(errs...)
}
