package relock

import (
	"context"
	"sync"
)

// A Locker is any lock of this package that gives one lease: a Mutex, an RWMutex for writing, its Reader,
// permits of a Semaphore (Semaphore.Locker), or an AnyLock. Code that only locks takes a Locker. It is no
// sync.Locker, which has no context and returns no error: see Mutex.SyncLocker. It gains no method before
// the next major version, so a test may have one of its own; All and Any refuse
// that.
type Locker interface {
	Name() string
	Lock(ctx context.Context) (*Lease, error)
	TryLock(ctx context.Context) (*Lease, error)
	Do(ctx context.Context, fn func(context.Context) error) error
	Held(ctx context.Context) (*Lease, error)
}

var (
	_ Locker = (*Mutex)(nil)
	_ Locker = (*RWMutex)(nil)
	_ Locker = (*Reader)(nil)
	_ Locker = permits{}
	_ Locker = (*AnyLock)(nil)
)

// SyncLocker returns the Mutex as a sync.Locker, for code that takes one. Its Lock waits as Mutex.Lock
// does. A sync.Locker cannot return an error, and going on without the lock would be worse than a
// panic. So Lock panics with the error when ctx ends or Redis refuses, and Unlock panics when the
// lock was lost or is not held. The sync.Locker is not reentrant.
func (m *Mutex) SyncLocker(ctx context.Context) sync.Locker { return &locker{m: m, ctx: ctx} }

// locker is a Mutex as a sync.Locker.
type locker struct {
	m     *Mutex
	ctx   context.Context
	lease *Lease // written and read only by the holder of the lock
}

func (l *locker) Lock() {
	lease, err := l.m.Lock(Detach(l.ctx))
	if err != nil {
		panic(err)
	}
	l.lease = lease
}

// Unlock panics if the caller may have worked without the lock. It does not panic if Redis did not
// answer the release: the release is repeated in the background.
func (l *locker) Unlock() {
	lease := l.lease
	l.lease = nil
	if lease == nil {
		panic(ErrNotHeld)
	}
	if err := lease.Unlock(l.ctx); isLost(err) {
		panic(err)
	}
}
