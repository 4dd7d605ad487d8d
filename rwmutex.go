package relock

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// An RWMutex is a named lock that any number of readers, or one writer, hold, among all processes
// that use the same Redis. It is Redisson's RReadWriteLock of the same name. It holds no state of
// its own: any number of values may be made for one name, and all methods may be called from any
// goroutine.
//
// The order is phase-fair, as of sync.RWMutex:
//
//   - A writer that waits keeps new readers out.
//   - The end of a write lets in all readers that wait then, and after them the next writer. The end of
//     readers lets in the next writer.
//   - Writers come in order of arrival.
//
// Redisson's readers and writers exclude relock's and are excluded by them, but know no order: its
// readers may pass a writer of relock's that waits.
//
// On a Cluster with plain channels, as before Redis 7, the order is the same. But a waiter whose process
// died keeps out the waiters behind it for up to half of its lease; elsewhere it keeps out none.
//
// The readers of one process share one hold in Redis, so that a further reader costs no command. A
// reader may join the hold for the longer of the times of WithLocalHandoff (10 ms by default) and
// WithLinger, counted from when the process asked for it, and until another process wants the lock.
// With WithLinger the lock also stays for the process while no goroutine reads.
//
// An RWMutex works on one Redis. Over NewRedlock, and under WithRestartGuard, its methods fail with
// errors.ErrUnsupported.
type RWMutex struct{ write, read lock }

// RWMutex returns the read-write lock named name, with the client's options changed by opts. A name
// or an option that cannot work is reported by the first method called on it, with ErrInvalidName
// or ErrInvalidOption.
func (c *Client) RWMutex(name string, opts ...Option) *RWMutex {
	side := func(kind *wire.Kind) lock { return newLock(c.coreOrNil(), kind, "an RWMutex", name, opts) }
	rw := &RWMutex{write: side(wire.Write), read: side(wire.Read)}
	if r := &rw.read; r.err == nil {
		r.cfg, r.err = r.cfg.ofReaders()
	}
	return rw
}

// ofReaders returns the config for readers. The watchdog of Redisson's readers may shorten the lock to
// its own lease, whatever others were granted. So readers here rely on no longer lease than that.
func (c *config) ofReaders() (*config, error) {
	dog := c.javaDog
	if dog == 0 {
		return c, nil
	}
	if c.fixed > dog {
		return c, fmt.Errorf("%w: a fixed lease of %v is longer than the %v that a reader may rely on beside Redisson; "+
			"see WithRedissonWatchdog", ErrInvalidOption, c.fixed, dog)
	}
	own := *c
	own.trust, own.lease = dog, min(c.lease, dog)
	own.derive()
	return &own, nil
}

// WithRedissonWatchdog says which lockWatchdogTimeout the Redisson clients have that read under the
// same read-write locks. With each renewal they shorten a lock to that, whatever lease others have.
// So a reader of relock's relies on its lease for d at most, and WithFixedLease and Extend take no
// longer one. It joins no readers of its process that may rely on a longer lease; a re-entry relies on
// its outer lease. With 0 nothing is shortened. Other types of locks refuse the option,
// and ignore it if it was given to New.
//
// Defaults to 30 seconds, Redisson's default.
func WithRedissonWatchdog(d time.Duration) Option {
	return lockOption{&option{"WithRedissonWatchdog", leaseInRange(cmp.Or(d, minLease)), func(c *config) { c.javaDog = d }}}
}

// Name returns the lock's name.
func (rw *RWMutex) Name() string { return rw.base(wire.Write).name() }

// Lock takes the lock for writing, and waits as Mutex.Lock does, until no other reader or writer
// has it. Under the context of a write lease it re-enters. Errors, beside those of Mutex.Lock:
//
//   - ErrMisuse (ErrUpgrade), at once, under the context of a read lease of this lock.
//   - ErrRefused (ErrWrongKind), if a mutex or something else has the name.
//   - errors.ErrUnsupported over a quorum, and under a context of WithOwner.
func (rw *RWMutex) Lock(ctx context.Context) (*Lease, error) {
	return rw.acquire(ctx, wire.Write, waiting)
}

// TryLock takes the lock for writing if no other owner holds it or waits for it, in one round trip.
// Errors are those of Mutex.TryLock, and of Lock.
func (rw *RWMutex) TryLock(ctx context.Context) (*Lease, error) {
	return rw.acquire(ctx, wire.Write, trying)
}

// RLock takes the lock for reading, beside other readers. It waits, as Mutex.Lock does, while a
// writer has the lock or waits for it. Under the context of a read lease of this lock it re-enters,
// also past a writer that waits. Under the context of a write lease it re-enters the write lease:
// the lock stays exclusive until all are unlocked; see Lease.Downgrade. Errors are those of Lock,
// except ErrUpgrade.
//
// A reader's lease differs from a writer's:
//
//   - The readers of this process share a hold, with the lease that the first of them asked for, and
//     one deadline: Until, Extend and a loss affect them all.
//   - Count is 1, or that of the write lease that was re-entered.
//   - Token is the same for all that share the hold. It is above the tokens of all writers before,
//     and below those of all writers after.
//   - A reader with WithFixedLease, WithMaxHold or WithLocalHandoff(1, 0) has a hold of its own.
func (rw *RWMutex) RLock(ctx context.Context) (*Lease, error) {
	return rw.acquire(ctx, wire.Read, waiting)
}

// TryRLock takes the lock for reading if no writer holds it or waits for it, in one round trip, or
// none beside a reader of this process. Errors are those of TryLock, except ErrUpgrade.
func (rw *RWMutex) TryRLock(ctx context.Context) (*Lease, error) {
	return rw.acquire(ctx, wire.Read, trying)
}

// Do runs fn under the lock for writing, as Mutex.Do does.
func (rw *RWMutex) Do(ctx context.Context, fn func(context.Context) error) error {
	return do(ctx, rw.Lock, fn)
}

// RDo runs fn under the lock for reading, as Mutex.Do does.
func (rw *RWMutex) RDo(ctx context.Context, fn func(context.Context) error) error {
	return do(ctx, rw.RLock, fn)
}

// Reader returns the readers' side, for code that takes any lock with Lock, TryLock and Do.
func (rw *RWMutex) Reader() *Reader { return &Reader{rw} }

// A Reader is the readers' side of an RWMutex, as sync.RWMutex has an RLocker.
type Reader struct{ rw *RWMutex }

// Name returns the lock's name.
func (r *Reader) Name() string { return r.side().Name() }

// Lock is RWMutex.RLock.
func (r *Reader) Lock(ctx context.Context) (*Lease, error) { return r.side().RLock(ctx) }

// TryLock is RWMutex.TryRLock.
func (r *Reader) TryLock(ctx context.Context) (*Lease, error) { return r.side().TryRLock(ctx) }

// Do is RWMutex.RDo.
func (r *Reader) Do(ctx context.Context, fn func(context.Context) error) error {
	return r.side().RDo(ctx, fn)
}

// Held is RWMutex.Held.
func (r *Reader) Held(ctx context.Context) (*Lease, error) { return r.side().Held(ctx) }

// side returns the whole lock, nil for a nil Reader.
func (r *Reader) side() *RWMutex {
	if r == nil {
		return nil
	}
	return r.rw
}

// Held returns the lease of this lock that ctx carries, for reading or writing, as Mutex.Held does.
func (rw *RWMutex) Held(ctx context.Context) (*Lease, error) {
	if l, err := rw.base(wire.Write).held(ctx); err != ErrNotHeld {
		return l, err
	}
	return rw.read.held(ctx)
}

// State returns what Redis knows of the lock at this instant, as Mutex.State does. Its Readers
// counts a process of relock's once, however many readers share its hold.
func (rw *RWMutex) State(ctx context.Context) (State, error) { return rw.base(wire.Write).inspect(ctx) }

// ForceUnlock frees the lock, whether a writer has it or readers, and hands it on, as
// Mutex.ForceUnlock does. Redisson: forceUnlock of both sides.
func (rw *RWMutex) ForceUnlock(ctx context.Context) (bool, error) {
	return rw.base(wire.Write).force(ctx)
}

// base returns a side of the lock.
func (rw *RWMutex) base(kind *wire.Kind) *lock {
	switch {
	case rw == nil || rw.write.zero():
		return unmade("RWMutex")
	case kind == wire.Read:
		return &rw.read
	}
	return &rw.write
}

// acquire takes the lock for reading or for writing. Under a write lease of the lock both re-enter
// that lease. A context of WithOwner is refused: Redisson's read-write locks know no shared owners.
func (rw *RWMutex) acquire(ctx context.Context, kind *wire.Kind, m mode) (*Lease, error) {
	lk := rw.base(kind)
	if lk.valid(ctx) == nil {
		if owner, err := ownerOf(ctx); owner != "" || err != nil {
			return lk.refuses(ctx, cmp.Or(err, errOwned))
		}
		if rw.write.enclosing(ctx) != nil {
			lk = &rw.write
		} else if kind == wire.Write && rw.read.enclosingLost(ctx) {
			return lk.refuses(ctx, rw.read.enclosing(ctx).h.why())
		} else if kind == wire.Write && rw.read.enclosing(ctx) != nil {
			return lk.refuses(ctx, ErrUpgrade)
		}
	}
	return lk.acquire(ctx, m)
}

// refuses returns err for a call of the lock, and tells the observer.
func (lk *lock) refuses(ctx context.Context, err error) (*Lease, error) {
	return lk.run(ctx, func(*call) (*Lease, error) { return nil, err })
}

// Downgrade makes a write lease of an RWMutex a read lease, with no gap in which another owner could
// write. Readers that wait come in beside it. The write lease ends, and so does its context. The new
// lease's context derives from the context that was given to Lock. The times of WithFixedLease and
// WithMaxHold begin anew, as for a grant. ctx bounds the call.
//
// On failure the write lease is as it was, unless the error says that it is over. Errors:
//
//   - errors.ErrUnsupported for any other lease.
//   - ErrMisuse for a write lease that was entered more than once, or that was unlocked (ErrNotHeld), and
//     for a fixed lease that is longer than WithRedissonWatchdog allows a reader (ErrInvalidOption).
//   - ErrLost when the lock was lost, ErrClosed.
//   - ErrUnavailable, in a *NodeError, if Redis failed or was silent for a command timeout; ErrRefused
//     if no retry helps.
func (l *Lease) Downgrade(ctx context.Context) (*Lease, error) {
	switch {
	case l.zero():
		return nil, ErrNotHeld
	case ctx == nil:
		return nil, errNilContext
	case l.h.entry.Names.Kind != wire.Write:
		return nil, errNoWriter
	}
	lk := *l.lock
	known, err := lk.k.knownAs(wire.Read, lk.names.Name)
	if err != nil {
		return nil, err
	}
	lk.known = known
	if lk.cfg, err = lk.cfg.ofReaders(); err != nil {
		return nil, err
	}
	if err := lk.begin(ctx, driver.Acquire); err != nil {
		return nil, outward(err)
	}
	defer lk.tally.End()
	return lk.run(ctx, func(*call) (*Lease, error) { return lk.downgrade(ctx, l) })
}

// downgrade is a method of the readers' side. It enters the lock for reading beside the write lease
// l, and then gives l back. The writer's hold is not passed on to a writer of this process, which
// would then write beside a reader.
func (lk *lock) downgrade(ctx context.Context, l *Lease) (*Lease, error) {
	h := l.h
	soon, cancel := context.WithTimeoutCause(ctx, h.entry.Timeout, wire.ErrNoAnswer) // for the wait and the command
	defer cancel()
	if h.ops.Lock(soon) != nil {
		return nil, &wire.NodeError{Op: driver.Acquire, Name: lk.names.Name, Err: wire.ErrNoAnswer, Cause: context.Cause(ctx)}
	}
	// ops is kept until the write lease is over. A re-entry that came in between would go on writing
	// beside the reader.
	reader, err := lk.enterBeside(soon, l)
	lost := false
	if err == nil {
		_, _, err = h.takeBack(l, clock.Now(), ErrNotHeld)
		lost = err != nil
	}
	h.ops.Unlock()
	switch {
	case lost:
		lk.tally.Go(func() { _ = reader.h.drop(ctx, reader) }) // no observer has heard of the reader
		return nil, err
	case err != nil:
		return nil, err
	}
	_ = h.finish(soon, clock.Now(), toRedis) // a release without an answer is repeated in the background
	l.unlockedWith(nil)
	return reader, nil
}

// enterBeside asks Redis to let a reader in beside the write lease l, whose ops the caller has.
func (lk *lock) enterBeside(ctx context.Context, l *Lease) (*Lease, error) {
	switch _, count, err := l.h.trusted(&l.share); {
	case err != nil:
		return nil, err
	case count > 1:
		return nil, errEnteredTwice
	}
	c := lk.k.arbiter.Claim(lk.newEntry(l.h.entry.ID, lk.cfg))
	g, err := c.Try(ctx)
	if _, held := err.(*wire.HeldError); held { // the writer's field is gone, perhaps since its maximum ended the hold
		return nil, l.h.gone()
	} else if err != nil {
		return nil, err
	}
	reader, err := lk.startFirst(l.std.Parent, c, g, false, HowReentered)
	if err == nil && lk.cfg.fixed > 0 {
		if err = lk.fill(ctx, reader, trying); isLost(err) {
			l.h.Doubt() // the writer may have lost the lock too
		}
	}
	return reader, err
}

var (
	errOwned        = fmt.Errorf("%w: an RWMutex under WithOwner", wire.Unsupported)
	errNoWriter     = fmt.Errorf("%w: Downgrade of a lease that is no write lease of an RWMutex", wire.Unsupported)
	errEnteredTwice = fmt.Errorf("%w: Downgrade of a write lease that was entered more than once: unlock the inner leases first",
		ErrMisuse)
)
