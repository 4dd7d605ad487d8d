package relock

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
)

// An AnyLock is any one of several locks: see Any. It has no state of its own, and its methods may
// be called from any goroutine.
type AnyLock struct {
	parts []part
	err   error // what is wrong with them
}

// Any returns a lock that is any one of locks, whichever is free first: of numbers for workers,
// shards, ports, licences. Lease.Name says which it is. The locks may be of any kinds, as those of
// All, and of several Clients. Each keeps its options.
//
// Any is for holds that are long against a round trip: a waiter stands in the lines of all locks, and
// of locks that come free together it gives back all but one. Where it does not matter which one it
// is, a Semaphore costs less.
//
// Under the context of a lease of one of them, Lock re-enters that one; permits are never re-entered. The
// methods fail with the error of a lock that cannot work, and with ErrMisuse if there is no lock, or one is
// nil, an AnyLock, or a Locker of the program's own.
func Any(locks ...Locker) *AnyLock {
	parts, err := partsOf("Any", "give all locks to one Any", locks)
	return &AnyLock{parts, err}
}

// Name returns the names of the locks, with a | between them.
func (a *AnyLock) Name() string {
	if a == nil {
		return ""
	}
	names := make([]string, len(a.parts))
	for i, p := range a.parts {
		names[i] = p.Name()
	}
	return strings.Join(names, "|")
}

// Lock takes a random one of the locks that are free. One command asks for those of one kind on one
// Redis and, in a Cluster, in one slot. If none is free, or a Redis does not answer, Lock waits for
// all of them, for each as its own Lock does, and gives up the others once it has one. If two are
// granted at one time, it gives one back at once. A lock that fails does not keep it from the
// others. If it gets none, it returns one lock's error, as of Mutex.Lock, preferring a failure over
// "busy".
func (a *AnyLock) Lock(ctx context.Context) (*Lease, error) { return a.acquire(ctx, waiting) }

// TryLock takes a random one of the locks that are free, as Mutex.TryLock does. Its error is chosen
// as Lock's.
func (a *AnyLock) TryLock(ctx context.Context) (*Lease, error) { return a.acquire(ctx, trying) }

// acquire is Lock or TryLock.
func (a *AnyLock) acquire(ctx context.Context, m mode) (*Lease, error) {
	in, err := a.entered(ctx, false)
	switch {
	case err != nil:
		return nil, err
	case in != nil && m == waiting:
		return in.Lock(ctx)
	case in != nil:
		return in.TryLock(ctx)
	}
	live := ctx.Err() == nil
	l, err := a.try(ctx, m)
	if heard := err; l == nil && m == waiting {
		l, err = a.race(ctx)
		err = orHeard(ctx, err, heard)
	}
	return shown(l), notUnasked(ctx, a.parts, live, err)
}

// shown has FromContext find a lease of Any, of permits too: else the caller's function could not tell
// which lock it has, and would find the lease of a lock further out.
func shown(l *Lease) *Lease {
	if l != nil && !l.lock.manner.nests() {
		l.shown = true
	}
	return l
}

// Do runs fn while it holds one of the locks, as Mutex.Do does. FromContext and Held find its lease. Of
// permits, whose lease has no token, Token is 0 under it, whatever lock is held further out.
func (a *AnyLock) Do(ctx context.Context, fn func(context.Context) error) error {
	return do(ctx, a.Lock, fn)
}

// Held returns the lease of one of the locks that ctx carries, as Mutex.Held does.
func (a *AnyLock) Held(ctx context.Context) (*Lease, error) {
	in, err := a.entered(ctx, true)
	if in == nil {
		return nil, cmp.Or(err, ErrNotHeld)
	}
	return in.Held(ctx)
}

// entered returns the lock of which ctx carries a lease, nil if it carries none: one that is held,
// rather than one that was lost. Permits, which cannot be re-entered, are looked for if permits is set. It
// fails if the locks or ctx cannot be used.
func (a *AnyLock) entered(ctx context.Context, permits bool) (in Locker, err error) {
	switch {
	case a == nil || a.parts == nil && a.err == nil:
		return nil, errNoLocks
	case a.err != nil:
		return nil, a.err
	case ctx == nil:
		return nil, errNilContext
	}
	for _, p := range a.parts {
		if !p.base.manner.nests() && !permits {
			continue
		}
		switch _, err := p.Held(ctx); err {
		case nil:
			return p, nil
		case ErrNotHeld:
		default:
			in = p
		}
	}
	return in, nil
}

// try asks for the locks without waiting: as TryLock, or before Lock waits. Then it may return
// neither a lease nor an error: goroutines of this process have the locks, or Redis keeps no number
// of some permits. And then it stops where Redis does not answer, which must not keep Lock from the
// locks of others.
func (a *AnyLock) try(ctx context.Context, m mode) (*Lease, error) {
	rest, failure := slices.Clone(a.parts), error(nil)
	rand.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	for len(rest) > 0 {
		var group, others []part
		for _, p := range rest {
			if together(ctx, []part{rest[0], p}) && len(group) < maxTogether {
				group = append(group, p)
			} else {
				others = append(others, p)
			}
		}
		if group == nil {
			group, others = rest[:1], rest[1:]
		}
		leases, err := gather(ctx, group, true, m)
		if err == nil {
			return leases[0], nil
		}
		if err == errOneByOne {
			if err = nil; m == waiting && together(ctx, group) {
				group = nil
			}
			for _, p := range group {
				l, failed := p.TryLock(ctx)
				if failed == nil {
					return l, nil
				}
				err = worse(err, failed)
			}
		}
		failure, rest = worse(failure, err), others
		if m == waiting && errors.Is(err, ErrUnavailable) {
			break
		}
	}
	return nil, failure
}

// worse returns the error that says more: of a lock that failed, rather than of one that is busy, and of
// either, rather than of one for which Redis was not asked any more.
func worse(a, b error) error {
	switch {
	case a == nil, b != nil && errors.Is(a, ErrNotAsked):
		return b
	case b == nil, errors.Is(b, ErrNotAsked), !errors.Is(a, ErrNotAcquired):
		return a
	}
	return b
}

// errOther ends the waits of the others once one lock is granted.
var errOther = errors.New("relock: another lock of Any was granted")

// race waits for all locks, and returns the first that is granted. The goroutines of the others
// outlive it. They end at once, except for one that was granted its lock too, and unlocks that
// first.
func (a *AnyLock) race(ctx context.Context) (*Lease, error) {
	type end struct {
		i   int
		l   *Lease
		err error
	}
	ends, stops := make(chan end, len(a.parts)), make([]context.CancelCauseFunc, len(a.parts))
	waits := make([]context.Context, len(a.parts)) // one each: the lease's context derives from it
	for i := range a.parts {
		waits[i], stops[i] = context.WithCancelCause(ctx)
	}
	var won atomic.Bool
	for i, p := range a.parts {
		go func() {
			l, err := p.Lock(owing{waits[i]})
			switch {
			case err != nil:
			case !won.CompareAndSwap(false, true):
				giveBack(ctx, []*Lease{l}, true)
				l, err = nil, errOther
			case l.keptFor(true) == ErrClosed: // Close has given it back
				l, err = nil, ErrClosed
			}
			ends <- end{i, l, err}
		}()
	}
	var failure error
	for range a.parts {
		e := <-ends
		if e.l == nil {
			stops[e.i](nil)
			failure = worse(failure, e.err)
			continue
		}
		for i, stop := range stops {
			if i != e.i {
				stop(errOther)
			}
		}
		context.AfterFunc(e.l.Context(), func() { stops[e.i](nil) })
		return e.l, nil
	}
	return nil, failure
}
