package relock

import (
	"context"
	"errors"
	"sync"

	"github.com/relock-go/relock/internal/gate"
)

// A Mutex is a named lock that at most one owner holds, among all processes that use the same Redis. It is Redisson's
// RLock and RFencedLock of the same name. A Mutex holds no state of its own: any number of values may be made for one
// name, and all methods may be called from any goroutine.
type Mutex struct {
	c     *Client
	names names
	cfg   config
	err   error // what was wrong with the name or the options
}

// Name returns the lock's name.
func (m *Mutex) Name() string { return m.names.name }

func (m *Mutex) key() leaseKey { return leaseKey{client: m.c, name: m.names.lock} }

// Lock takes the lock, waiting for it in order of arrival: until it is granted, ctx ends, WithWait's time is up, or the
// Client is closed. Under the context of a lease of the same lock it re-enters at once.
//
// It rides out what heals: lost connections, a Redis that is loading or failing over. It returns at once a *NodeError
// for what does not: missing permissions, a key of another type, a Redis out of memory. When the caller gives up it does
// not hold the lock, not even if Redis granted it: it is given back. The error matches the cause, and tells busy from
// down: a *HeldError, which matches ErrNotAcquired, if somebody else has the lock; a *NodeError (*QuorumError on a
// quorum), which does not, if Redis failed or did not answer, neither the caller nor the goroutine of this process that
// it waited behind. Under a context whose lease of this lock was lost it returns ErrLost.
func (m *Mutex) Lock(ctx context.Context) (*Lease, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.c.end()
	wctx := ctx
	if m.cfg.wait > 0 {
		var cancel context.CancelFunc
		wctx, cancel = context.WithTimeoutCause(ctx, m.cfg.wait, errWaited)
		defer cancel()
	}
	if l, entered, err := m.reenter(ctx, wctx, (*hold).reenter); entered {
		return l, err
	}
	for {
		l, err := m.wait(ctx, wctx)
		if err == nil && m.cfg.fixed > 0 {
			err = m.fill(wctx, l)
		}
		// Lost between its grant and here, say by a stop of the whole process: the wait goes on.
		if !isLost(err) || m.enclosingLost(ctx) {
			return l, err
		}
	}
}

// errWaited is the cause when WithWait's time is up.
var errWaited = errors.New("the time to wait is up")

// TryLock takes the lock if nobody holds it or waits for it, in one round trip. Otherwise it fails at once with a
// *HeldError that names the holder and what is left of its lease, and matches ErrNotAcquired. Under the context of a
// lease of the same lock it re-enters. A failure to reach Redis is returned as *NodeError; whatever ran is undone in the
// background.
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.c.end()
	if l, entered, err := m.reenter(ctx, ctx, (*hold).reenterOnce); entered {
		return l, err
	}
	owner, err := ownerOf(ctx)
	if err != nil {
		return nil, err
	}
	atGate := owner == "" && m.c.gates.TryEnter(m.names.lock)
	a := m.c.newAcquisition(m.names, owner, &m.cfg)
	g, err := m.c.arb.try(ctx, a)
	if err != nil {
		if atGate {
			m.c.gates.Leave(m.names.lock)
		}
		return nil, err
	}
	l, err := m.c.newHold(a, g, &m.cfg, atGate).start(ctx, m)
	if err == nil && m.cfg.fixed > 0 {
		err = m.fill(ctx, l)
	}
	return l, err
}

// Do runs fn under the lock. fn's context carries the ownership and ends, with cause ErrLost, the moment the lease can
// no longer be trusted. Do returns fn's error, joined with ErrLost if the lock was lost before fn returned. That
// releasing the lock took more than one try is no failure of fn's and is not returned. A panic of fn unlocks and goes on.
func (m *Mutex) Do(ctx context.Context, fn func(context.Context) error) error {
	if fn == nil {
		return errNilFunc
	}
	l, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Unlock(ctx) // for a panic; after the regular Unlock it finds nothing to do
	err = fn(l.Context())
	uerr := l.Unlock(ctx)
	if (errors.Is(uerr, ErrLost) || errors.Is(uerr, ErrClosed)) && !errors.Is(err, uerr) {
		return errors.Join(err, uerr)
	}
	return err // which tells of the loss already, if fn returned its context's cause
}

// Held returns the lease of this lock that ctx carries. It fails with ErrNotHeld when ctx carries none, or one that was
// unlocked, and with ErrLost when it was lost: deep in a call it asserts that the caller holds the lock.
func (m *Mutex) Held(ctx context.Context) (*Lease, error) {
	if err := m.valid(ctx); err != nil {
		return nil, err
	}
	l := m.enclosing(ctx)
	if l == nil {
		return nil, ErrNotHeld
	}
	l.h.expire()
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	if l.over || l.h.state != live {
		return nil, l.h.whyGone(l)
	}
	return l, nil
}

// ForceUnlock frees the lock whoever holds it and hands it to the next waiter. A relock holder is told at once, or with
// its next renewal if it cannot be reached; until then it believes that it holds the lock, so exclusion rests on the
// fencing token. It returns false when nobody held the lock. Redisson: RLock.forceUnlock.
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) {
	if err := m.begin(ctx); err != nil {
		return false, err
	}
	defer m.c.end()
	return m.c.arb.force(ctx, &m.names)
}

// State returns what Redis knows of the lock at this instant. It may have changed when State returns.
func (m *Mutex) State(ctx context.Context) (State, error) {
	if err := m.begin(ctx); err != nil {
		return State{}, err
	}
	defer m.c.end()
	return m.c.arb.inspect(ctx, &m.names)
}

// Locker returns the Mutex as a sync.Locker for code that takes one. Its Lock waits as Mutex.Lock does. Since a
// sync.Locker cannot fail, Lock panics with the error when ctx ends or Redis refuses, and Unlock panics when the lock
// was lost or is not held: going on without the lock would be worse. A Locker is not reentrant.
func (m *Mutex) Locker(ctx context.Context) sync.Locker { return &locker{m: m, ctx: ctx} }

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

// begin counts a call of the Mutex that is under way. It fails, and counts nothing, if the Mutex cannot be used at all.
func (m *Mutex) begin(ctx context.Context) error {
	if err := m.valid(ctx); err != nil {
		return err
	}
	if err := m.c.begin(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		m.c.end()
		return m.refused(ctx)
	}
	return nil
}

// valid returns what is wrong with the Mutex or ctx.
func (m *Mutex) valid(ctx context.Context) error {
	switch {
	case m == nil, m.c == nil && m.err == nil:
		return errNoClient
	case m.err != nil:
		return m.err
	case ctx == nil:
		return errNilContext
	}
	return nil
}

// refused is the error for a ctx that had ended before anything was done.
func (m *Mutex) refused(ctx context.Context) error {
	if m.enclosingLost(ctx) {
		return ErrLost
	}
	return gaveUp(m.names.name, blocker{}, context.Cause(ctx))
}

// enclosing returns the innermost lease of this lock that ctx carries and that has not been unlocked.
func (m *Mutex) enclosing(ctx context.Context) *Lease {
	l, _ := ctx.Value(m.key()).(*Lease)
	return l
}

// reenter enters, by enter, what an enclosing lease holds. A lease that is unlocked meanwhile counts no more: the next one
// outward is tried, and without any the caller is a contender like others.
func (m *Mutex) reenter(ctx, wctx context.Context, enter enterFunc) (l *Lease, entered bool, err error) {
	for outer := m.enclosing(ctx); outer != nil; outer = m.enclosing(ctx) {
		if l, err = enter(outer.h, ctx, wctx, m, outer); !errors.Is(err, errUnlocked) {
			return l, true, err
		}
	}
	return nil, false, nil
}

// enterFunc is a way to enter the hold of an enclosing lease. wctx bounds the waiting, ctx becomes the new lease's.
type enterFunc func(h *hold, ctx, wctx context.Context, m *Mutex, outer *Lease) (*Lease, error)

// errUnlocked says that the enclosing lease was unlocked before it could be re-entered.
var errUnlocked = errors.New("the enclosing lease was unlocked")

func (m *Mutex) enclosingLost(ctx context.Context) bool {
	l := m.enclosing(ctx)
	return l != nil && isLost(l.h.why())
}

// wait goes the way of a lock: through the gate, then to the arbiter. wctx bounds the waiting, ctx becomes the lease's.
func (m *Mutex) wait(ctx, wctx context.Context) (*Lease, error) {
	owner, err := ownerOf(ctx)
	if err != nil {
		return nil, err
	}
	if owner != "" {
		// Sharers of an owner are contenders of their own: whoever comes may enter what the other holds.
		return m.contend(ctx, wctx, m.c.newAcquisition(m.names, owner, &m.cfg), false)
	}
	b, err := m.c.gates.Enter(wctx, m.names.lock)
	switch {
	case err != nil:
		return nil, m.leftTheLine(err)
	case b.hold != nil:
		return m.accept(ctx, wctx, b.hold)
	case b.next == nil:
		b.next = m.c.newAcquisition(m.names, "", &m.cfg)
	}
	return m.contend(ctx, wctx, b.next, true)
}

// accept starts a lease on a hold that came through the gate, unless the caller has given up.
func (m *Mutex) accept(ctx, wctx context.Context, h *hold) (*Lease, error) {
	if wctx.Err() != nil {
		_ = h.finish(context.WithoutCancel(ctx)) // the sweeper mends what fails
		return nil, &HeldError{Name: m.names.name, Local: true, Cause: context.Cause(wctx)}
	}
	return h.start(ctx, m)
}

func (m *Mutex) contend(ctx, wctx context.Context, a *acquisition, atGate bool) (*Lease, error) {
	if atGate {
		a.gates = m.c.gates
	}
	g, err := m.c.arb.contend(wctx, a)
	if err == nil {
		return m.c.newHold(a, g, &m.cfg, atGate).start(ctx, m)
	}
	err = m.explain(wctx, err, a.blocker)
	// The queued acquisition goes to the next goroutine here, which so inherits its place; else it is abandoned.
	if !atGate {
		m.c.arb.abandon(a)
	} else if !errors.Is(err, ErrClosed) && m.c.gates.Pass(m.names.lock, baton{next: a}) {
		return nil, err
	} else {
		m.c.arb.abandon(a)
		m.c.gates.Leave(m.names.lock)
	}
	return nil, err
}

// leftTheLine is the error of a caller that gave up behind others of this process. Where the one at the gate does not
// reach Redis, or has heard nothing for as long as the caller waited, Redis is not there; else the lock is busy.
func (m *Mutex) leftTheLine(err error) error {
	var left *gate.Left
	switch {
	case !errors.As(err, &left):
		return ErrClosed
	case errors.Is(left.Remark, gate.ErrNothingYet) && left.Stood >= min(left.Waited, m.cfg.commandTimeout()):
		return m.c.arb.silence(m.names.name, left.Cause)
	case left.Remark != nil && !errors.Is(left.Remark, gate.ErrNothingYet):
		return notHeard("acquire", m.names.name, left.Remark, left.Cause)
	}
	return &HeldError{Name: m.names.name, Local: true, Cause: left.Cause}
}

// explain makes the error of a caller that gave up tell what it waited for.
func (m *Mutex) explain(ctx context.Context, err error, seen blocker) error {
	switch {
	case err == errBusy:
		return gaveUp(m.names.name, seen, causeOf(ctx))
	case ctx.Err() != nil && fromRedis(err):
		return notHeard("acquire", m.names.name, err, causeOf(ctx))
	}
	return err
}

// fill extends a fixed lease that was granted for less than it promises.
func (m *Mutex) fill(ctx context.Context, l *Lease) error {
	pause := backoff{least: m.cfg.firstLease() / 100, most: m.cfg.firstLease() / 10}
	for l.h.short() {
		err := l.Extend(ctx, m.cfg.fixed)
		if err == nil || isLost(err) {
			return err
		}
		if !transient(err) || !sleep(ctx, pause.next()) {
			// The caller is told why it does not get the lock, not how it was given back.
			if errors.Is(l.Unlock(ctx), ErrClosed) {
				m.c.arb.abandon(l.h.a) // Close took it for a lock that a caller has
			}
			return m.explain(ctx, err, blocker{})
		}
	}
	return nil
}
