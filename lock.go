package relock

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// lock is what all kinds of locks are: a name, options, and the way to a lease.
type lock struct {
	*known // nil if there is no client, or the name is invalid
	cfg    *config
	err    error // what is wrong with the name or the options
	size   int   // of a semaphore: how many permits it has, if Redis keeps no number
	amount int   // of a semaphore: how many permits a lease takes; else 0
}

// mode is how a lock is acquired.
type mode bool

const (
	waiting mode = false // as by Lock
	trying  mode = true  // as by TryLock
)

// newLock returns what a lock of that type and kind embeds.
func newLock(k *core, kind *wire.Kind, what, name string, opts []Option) lock {
	if k == nil {
		return lock{err: errNotNew}
	}
	known, err := k.knownAs(kind, name)
	if err != nil {
		return lock{err: err}
	}
	lk := lock{known: known, cfg: &k.cfg}
	if !kind.Quorum && k.cfg.nodes > 0 {
		return lock{err: fmt.Errorf("%w: %s over a quorum of nodes or under WithRestartGuard", wire.Unsupported, what)}
	}
	if len(opts) > 0 {
		own, err := with(*lk.cfg, opts, what)
		lk.cfg, lk.err = &own, err
	}
	if lk.cfg.minHold > 0 && what != "a Mutex" && lk.err == nil {
		lk.err = fmt.Errorf("%w: WithMinHold: not for %s", ErrInvalidOption, what)
	}
	return lk
}

// knownAs returns what the client keeps of a name. It makes that on first use, and keeps it in a table
// where it may displace another name.
func (k *core) knownAs(kind *wire.Kind, name string) (*known, error) {
	hash := maphash.String(nameSeed, name)
	place := &k.known[(hash+kind.Nr)%maxKnown]
	if was := place.Load(); was != nil && was.names.Name == name && was.names.Kind == kind {
		return was, nil
	}
	names, err := kind.Names(k.cfg.prefix, name)
	if err != nil {
		return nil, err
	}
	is := &known{k: k, names: names, manner: mannerOf(kind), tally: k.calls.Of(maphash.String(nameSeed, names.Lock))}
	is.lasts = &is.own
	for nr := range wire.Kinds() {
		if other := k.known[(hash+nr)%maxKnown].Load(); other != nil && other.names.Lock == names.Lock {
			is.lasts = other.lasts // the other side of a read-write lock, or a lock of another kind
		}
	}
	place.Store(is)
	return is, nil
}

// mannerOf returns the manner of holds of a kind.
func mannerOf(kind *wire.Kind) manner {
	switch {
	case kind.Joint:
		return jointly{}
	case kind.Permits:
		return severally{}
	}
	return exclusively{}
}

// unmade is what a zero lock of that type has.
func unmade(what string) *lock {
	return &lock{err: fmt.Errorf("%w: %s made without a Client; use Client.%[2]s", ErrMisuse, what)}
}

// zero reports whether no client made the lock.
func (lk *lock) zero() bool { return lk.known == nil && lk.err == nil }

// name is Mutex.Name, for every kind.
func (lk *lock) name() string {
	if lk.known == nil {
		return ""
	}
	return lk.names.Name
}

// valid returns what is wrong with the lock or ctx, nil if nothing is.
func (lk *lock) valid(ctx context.Context) error {
	switch {
	case lk.err != nil:
		return lk.err
	case ctx == nil:
		return errNilContext
	}
	return nil
}

// begin counts a call of the lock that is under way. It fails, and counts nothing, if the lock
// cannot be used at all, or if ctx has ended: then Redis is not asked.
func (lk *lock) begin(ctx context.Context, op driver.Op) error {
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

// refused returns the error of a call whose ctx had ended before the call. Redis was not asked, so the
// error does not say that another owner has the lock.
func (lk *lock) refused(ctx context.Context, op driver.Op) error {
	if op == driver.Acquire && lk.enclosingLost(ctx) {
		return lk.enclosing(ctx).h.why()
	}
	return lk.k.arbiter.Silence(op, lk.names.Name, wire.ErrNotAsked, context.Cause(ctx))
}

// carried returns the innermost lease of this lock that ctx carries and that is not unlocked.
func (lk *lock) carried(ctx context.Context) *Lease {
	l, _ := ctx.Value(lk.known).(*Lease)
	return l
}

// enclosing returns the lease that a Lock under ctx re-enters.
func (lk *lock) enclosing(ctx context.Context) *Lease {
	if !lk.manner.nests() {
		return nil
	}
	return lk.carried(ctx)
}

// enclosingLost reports whether ctx carries a lease of this lock that was lost.
func (lk *lock) enclosingLost(ctx context.Context) bool {
	l := lk.enclosing(ctx)
	return l != nil && isLost(l.h.why())
}

// held is Mutex.Held, for every kind.
func (lk *lock) held(ctx context.Context) (*Lease, error) {
	if err := lk.valid(ctx); err != nil {
		return nil, err
	}
	return lk.carried(ctx).stillHeld()
}

// gate is the name of the gate in this process for leases that take as much.
func (lk *lock) gate() string { return lk.names.Gate(lk.amount) }

// withRetryAfter is the error of a call as its caller sees it.
func (lk *lock) withRetryAfter(err error) error {
	if lk.known == nil {
		return outward(err)
	}
	err = lk.named(lk.k.explained(err))
	if held, is := err.(*HeldError); is {
		held.RetryAfter = max(lk.lasts.Retry(lk.inTheWay(held), held.TTL), min(held.TTL, lk.cfg.minHold))
		held.lingers = lk.cfg.linger > 0
	}
	return err
}

// inTheWay returns for how long the owner that e names has been in the way of this client, and fills in that
// owner if the caller was refused without a question to Redis: then it is the hold that this process has
// or, if it has none, the one that the goroutine at the gate has met.
func (lk *lock) inTheWay(e *HeldError) (age time.Duration) {
	ours := lk.lasts.ours.Load()
	switch {
	case ours != nil && (e.Local || e.Holder == ours.entry.ID):
		now := clock.Now()
		ours.mu.Lock()
		defer ours.mu.Unlock()
		if began := ours.term.Began(); !began.IsZero() { // else no lease has begun yet
			e.age = now.Since(began)
		}
		if e.Local {
			e.Holder, e.TTL, e.Client = ours.entry.ID, max(0, ours.term.Left(now)), ClientInfo(lk.k.presence.Known(ours.entry.ID))
		}
		return e.age
	case e.Local:
		e.Holder, age, e.TTL = lk.lasts.InWay()
		e.Client = ClientInfo(lk.k.presence.Known(e.Holder))
		return age
	}
	return lk.lasts.Met(e.Holder, e.TTL)
}

// unheard returns err, with which a call ended that has asked Redis before. If err says that Redis was not
// asked, since ctx had ended by then, the call is told that Redis gave no answer in time.
func (lk *lock) unheard(ctx context.Context, err error) error {
	if !errors.Is(err, ErrNotAsked) {
		return err
	}
	return lk.withRetryAfter(lk.k.arbiter.Silence(driver.Acquire, lk.names.Name, wire.ErrNoAnswer, wire.CauseOf(ctx)))
}
