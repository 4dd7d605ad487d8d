package relock

import "context"

// Permits is a number of a Semaphore's permits as a lock: for All, Any and code that takes any lock.
type Permits struct {
	s *Semaphore
	k int
}

// Permits returns k of the semaphore's permits as a lock. Its methods fail as Acquire of k does.
func (s *Semaphore) Permits(k int) *Permits { return &Permits{s, k} }

// Name returns the semaphore's name.
func (p *Permits) Name() string { return p.semaphore().Name() }

// Lock is Semaphore.Acquire. Its lease has no token, and is not found by FromContext, unless Any took it.
func (p *Permits) Lock(ctx context.Context) (*Lease, error) { return p.lease(ctx, waiting) }

// TryLock is Semaphore.TryAcquire.
func (p *Permits) TryLock(ctx context.Context) (*Lease, error) { return p.lease(ctx, trying) }

// Do runs fn while it holds the permits, as Mutex.Do runs it under a lock.
func (p *Permits) Do(ctx context.Context, fn func(context.Context) error) error {
	return do(ctx, p.Lock, fn)
}

// Held returns the lease of permits of the semaphore that ctx carries, if Any took it, as Mutex.Held does.
// Else it fails with ErrNotHeld: a context shows no other permits.
func (p *Permits) Held(ctx context.Context) (*Lease, error) {
	of := p.semaphore().base()
	if err := of.valid(ctx); err != nil {
		return nil, err
	}
	l, _ := ctx.Value(permitsKey{of.known}).(*Lease)
	return l.stillHeld()
}

func (p *Permits) semaphore() *Semaphore {
	if p == nil {
		return nil
	}
	return p.s
}

func (p *Permits) lease(ctx context.Context, m mode) (*Lease, error) {
	if p == nil {
		return nil, unmade("Semaphore").err
	}
	return p.s.lease(ctx, p.k, m)
}

// base returns the lock of which k parts are taken, or one with an error.
func (p *Permits) base() *lock {
	if p == nil {
		return unmade("Semaphore")
	}
	lk, err := p.s.taking(p.k)
	if err != nil {
		return &lock{err: err}
	}
	return lk
}
