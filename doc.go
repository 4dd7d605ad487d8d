// Package relock implements reentrant distributed locks on Redis for services full of goroutines:
// waiters sleep on Pub/Sub, a watchdog keeps leases alive, and a holder that loses its lock is told
// through its context.
//
//	locks, err := relock.New(rdb) // any rueidis.Client
//	defer locks.Close()
//	err = locks.Mutex("orders:42").Do(ctx, func(ctx context.Context) error {
//		return save(ctx, order, relock.Token(ctx)) // ctx ends when the lock can no longer be trusted
//	})
//
// # Owners
//
// A lock belongs to the context that [Mutex.Lock] made: a Lock of the same name under it re-enters,
// and the hold count in Redis goes up. Every other context is another owner and waits. [Detach]
// drops the ownership for a goroutine that must not share it; [WithOwner] gives several processes
// the same one. Deep in a call, [FromContext] finds the lease that the code runs under, and
// [Mutex.Held] that of one lock.
//
// # Waiting
//
// The goroutines of a process that want the same lock stand in line in memory, first come first
// served. Only the first of them talks to Redis: it queues there once, and sleeps until a message
// wakes it. An unlock hands the lock to the next in line, here or in another process. Within a
// process it passes without a command, for a bounded number of times and a bounded time (see
// [WithLocalHandoff]). With [WithLinger] a process keeps a lock that it has unlocked, and takes it
// again without a command, until another process wants it. [Lease.Wanted] tells a holder of that.
//
// # Readers and writers
//
// An [RWMutex] lets readers in beside each other, and a writer alone, in the order of sync.RWMutex.
// The readers of a process share one hold, so a further one costs no command. [Lease.Downgrade]
// makes a writer a reader with no gap.
//
// # Semaphores
//
// A [Semaphore] lets at most n permits be held at once, over all processes: for workers, or for calls of
// a supplier. Waiters come in order of arrival, also those that want several permits. The permits of a
// process that died are free once its lease is over.
//
// # Several locks
//
// [All] takes several locks together, or none, and never waits in a circle with other callers of All.
// [Any] takes one of several, whichever is free first.
//
// # Results and elections
//
// A [Flight] runs a function once over all processes, and gives all of them its result, which Redis keeps
// for a time. Package election has one process lead at a time.
//
// # Leases
//
// A lock lives in Redis for as long as its lease, and a watchdog renews it every third of that. If
// the holder's process dies, others get the lock when the lease has run out. If Redis does not
// answer the renewals, or the lock is forced open, the context of the [Lease] ends with cause
// [ErrLost], before a Redis that works can grant the lock to another owner. [WithFixedLease] and
// [WithMaxHold] bound a hold.
//
// # Fencing
//
// No lock with a lease can stop a process that was paused from acting late. Each grant of a Mutex or an RWMutex therefore
// has a token, greater than all before it: hand [Token] or [Lease.Token] to the store, and let the
// store refuse what is lower than the greatest it has seen. docs/safety.md in the repository says
// what holds, and under which faults.
//
// # Errors
//
// Transient failures (a lost connection, a failover, a Redis that is loading) are retried until the
// context ends; permanent ones (missing permissions, a key of another type) are returned at once.
// Each error is of one class, which errors.Is finds: [ErrNotAcquired], [ErrUnavailable],
// [ErrRefused], [ErrLost], [ErrMisuse], [ErrClosed] or [errors.ErrUnsupported].
//
// # Testing
//
// The module github.com/relock-go/relock/contrib/relocktest has a Redis in memory for unit tests of
// code that uses locks, and the faults that such code is to be tested under.
//
// # Redisson
//
// Locks, hold counts, the unlock channel and fencing tokens are those of Redisson's RLock,
// RFencedLock, RReadWriteLock and RPermitExpirableSemaphore, so services in Java and Go share them.
package relock
