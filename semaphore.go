package relock

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// A Semaphore is a named number of permits, of which callers hold some each, among all processes that
// use the same Redis: at most n workers at once, over the fleet. It is Redisson's
// RPermitExpirableSemaphore of the same name. It holds no state of its own: any number of values may be
// made for one name, and all methods may be called from any goroutine.
//
// Permits are held as a lock is, by a Lease: the watchdog extends it, its context ends when the permits are
// lost, and Unlock gives them back. The permits of a process that died are free again once its lease is over.
//
//   - Waiters come in order of arrival, as of golang.org/x/sync/semaphore: one that wants many permits
//     keeps out those behind it. The goroutines of one process that want as many as one another have
//     one place in Redis's line, and pass permits on in memory within the bounds of WithLocalHandoff.
//     Redisson's waiters know no order.
//   - A semaphore is a limit, not exclusion. Its permits have no fencing tokens, since their holders
//     have no order. So a store cannot refuse the late write of a holder that lost its permit. The limit
//     is exceeded while such a holder works on after its context has ended; after a failover that lost
//     permits, until the holders' next renewals; and by a JVM whose clock runs ahead: it may free
//     a permit early, by that difference, and its holder hears of it with its next renewal.
//   - An Acquire never re-enters: it takes more permits, also under the context of a lease of permits.
//     FromContext and Token look past such a lease, unless Any took it.
//
// A Semaphore works on one Redis. Over NewRedlock and under WithRestartGuard its methods fail with
// errors.ErrUnsupported, and under WithOwner those that take permits.
type Semaphore struct{ lock }

// maxPermits is the most permits that one Acquire takes.
const maxPermits = 128

// Semaphore returns the semaphore named name, with the client's options changed by opts. It has n
// permits, 1 to 1,000,000, unless Redis keeps another number for the name: Redis is told n once, by the
// first client that finds no number there, and forgets it once the semaphore was not used for the time of
// WithTokenRetention. SetPermits changes the number, and so do Redisson's setPermits and addPermits. What
// SetPermits set stays. If Redis keeps another number than n, a client with WithLogger warns of it once for
// the name. A name, a number or an option that cannot work is reported by the first method called on the
// Semaphore, with ErrInvalidName or ErrInvalidOption.
func (c *Client) Semaphore(name string, n int, opts ...Option) *Semaphore {
	s := &Semaphore{newLock(c.coreOrNil(), wire.Semaphore, "a Semaphore", name, opts)}
	if s.size, s.amount = n, 1; s.err == nil {
		s.err = sizeInRange(n)
	}
	return s
}

// Name returns the semaphore's name.
func (s *Semaphore) Name() string { return s.base().name() }

// Acquire takes k permits, 1 to 128, all at once. It waits until they are granted, ctx ends,
// WithWait's time is up, or the Client is closed, as Mutex.Lock does. On failure the caller holds no
// permit. A caller that holds permits of the semaphore and waits for more may wait for itself: give such
// a wait an end. Errors are those of Mutex.Lock, with these in addition, at once:
//
//   - ErrTooMany if k is more than the semaphore has, as this value or Redis says. A waiter is told so
//     too, once the number is made smaller.
//   - ErrInvalidOption for a k that is out of range.
func (s *Semaphore) Acquire(ctx context.Context, k int) (*Lease, error) {
	return s.taking(k).Lock(ctx)
}

// TryAcquire takes k permits if they are free and no process waits, in one round trip, as Mutex.TryLock
// does. It takes three for a name of which Redis keeps no number, and where idle permits of this Client
// (WithLinger), of Acquires of another k, are in the way: they are given back before it is refused. Errors
// are those of Acquire and TryLock.
func (s *Semaphore) TryAcquire(ctx context.Context, k int) (*Lease, error) {
	return s.taking(k).TryLock(ctx)
}

// Do runs fn while it holds one permit, as Mutex.Do runs it under a lock.
func (s *Semaphore) Do(ctx context.Context, fn func(context.Context) error) error {
	return s.taking(1).Do(ctx, fn)
}

// Locker returns k of the semaphore's permits as a lock, for All, Any and code that takes any lock. Its
// methods fail as Acquire of k does. Held returns the lease of permits of the semaphore, of whatever number,
// that ctx carries.
func (s *Semaphore) Locker(k int) Locker { return s.taking(k) }

// taking returns the semaphore as a lock of which each lease takes k permits, with what is wrong with k.
func (s *Semaphore) taking(k int) permits {
	base := s.base()
	if k == 1 || base.err != nil {
		return permits{base}
	}
	own := *base
	switch own.amount = k; {
	case k < 1 || k > maxPermits:
		own.err = fmt.Errorf("%w: Acquire of %d permits; 1 to %d are possible", ErrInvalidOption, k, maxPermits)
	case k > s.size:
		own.err = fmt.Errorf("%w: %d of %d", ErrTooMany, k, s.size)
	}
	return permits{&own}
}

// permits are some of a Semaphore's permits, as a lock.
type permits struct{ base *lock }

func (p permits) Name() string                                { return p.base.name() }
func (p permits) Lock(ctx context.Context) (*Lease, error)    { return p.take(ctx, waiting) }
func (p permits) TryLock(ctx context.Context) (*Lease, error) { return p.take(ctx, trying) }
func (p permits) Held(ctx context.Context) (*Lease, error)    { return p.base.held(ctx) }

func (p permits) Do(ctx context.Context, fn func(context.Context) error) error {
	return do(ctx, p.Lock, fn)
}

// take is lock.acquire. It then compares the number of permits, if Redis has answered.
func (p permits) take(ctx context.Context, m mode) (*Lease, error) {
	if err := p.base.valid(ctx); err != nil {
		return nil, err
	}
	if owner, err := ownerOf(ctx); owner != "" || err != nil {
		return nil, cmp.Or(err, errOwnedPermit)
	}
	l, err := p.base.acquire(ctx, m)
	if err == nil || errors.Is(err, ErrNotAcquired) || errors.Is(err, ErrTooMany) {
		p.base.compare()
	}
	return l, err
}

// base returns what every kind of lock embeds.
func (s *Semaphore) base() *lock {
	if s == nil || s.zero() {
		return unmade("Semaphore")
	}
	return &s.lock
}

// State returns what Redis knows of the semaphore at this instant, as Mutex.State does: Permits are how
// many there are, Free how many of them are free, Count how many are held. Holder is the holder whose
// lease ends next, and TTL is what is left of that lease.
func (s *Semaphore) State(ctx context.Context) (State, error) {
	st, err := s.base().inspect(ctx)
	st.Free = st.Permits - st.Count
	return st, err
}

// SetPermits makes n the number of permits, for all processes, and lets in the waiters for which permits
// are free then. If more are held, none is granted until so many were released; no holder loses its
// permits. It fails with ErrInvalidOption for an n that Semaphore would not take, and otherwise as State
// does. A deployment that changes the number calls it once: the n of Semaphore does not change what Redis
// keeps. Redis keeps what SetPermits set until it is set anew. Redisson: RPermitExpirableSemaphore.setPermits.
func (s *Semaphore) SetPermits(ctx context.Context, n int) error {
	if err := sizeInRange(n); err != nil {
		return err
	}
	lk := s.base()
	if err := lk.begin(ctx, driver.Resize); err != nil {
		return outward(err)
	}
	defer lk.tally.End()
	return lk.k.explained(lk.resize(ctx, n, true))
}

// ForceUnlock frees all permits, whichever holders have them, and hands them to the waiters, as
// Mutex.ForceUnlock does: it returns false when none was held. Redisson's holders are not told.
func (s *Semaphore) ForceUnlock(ctx context.Context) (bool, error) { return s.base().force(ctx) }

var errOwnedPermit = fmt.Errorf("%w: a Semaphore under WithOwner", wire.Unsupported)
