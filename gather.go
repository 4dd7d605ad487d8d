package relock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// maxTogether is how many locks are asked for in one command at most: so many keep other commands
// waiting for half a millisecond.
const maxTogether = 64

// gathering is several locks that are asked for in one command: all of them or, if one is set, the
// first that is free.
type gathering struct {
	ctx    context.Context // of the caller
	soon   context.Context // bounds the command
	inner  context.Context // of the latest lease: the next one's derives from it
	one    bool
	enough int           // leases
	began  time.Duration // a reading of clock.Mono
	leases []*Lease
	wanted []wanted // of Redis
	claims []claim.Claim
}

// wanted is a lock that Redis is asked for. The caller is at its gate if atGate is set.
type wanted struct {
	base   *lock
	atGate bool
}

// together reports whether the locks can be asked for in one command by a caller with ctx. Those of
// a caller that has a lease or an owner may re-enter.
func together(ctx context.Context, parts []part) bool {
	first := parts[0].base
	arb, can := first.k.arbiter.(claim.Gatherer)
	if _, has := FromContext(ctx); has || !can || len(parts) > maxTogether {
		return false
	}
	if owner, err := ownerOf(ctx); owner != "" || err != nil {
		return false
	}
	cluster := arb.Nodes()[0].Redis().Cluster()
	for _, p := range parts {
		if p.base.k != first.k || p.base.names.Kind != first.names.Kind ||
			cluster && driver.Slot(p.base.names.Lock) != driver.Slot(first.names.Lock) {
			return false
		}
	}
	return true
}

// errOneByOne says that locks were not asked for together: they do not go together; another goroutine of
// this process is at the gate of one, where all are wanted, or of each; Redis keeps no number of a
// semaphore's permits; this process has idle permits of another amount, which the TryLock of each gives
// back; or a lock was lost between its grant and gather's end.
var errOneByOne = errors.New("relock: to be asked for one by one")

// gather takes several free locks in one command: all of them or, if one is set, the first that is
// free. It fails with errOneByOne, or as the lock that keeps the caller out. If the caller tries, it does not
// go on to wait: observers hear of a refusal, and WithWait does not bound the command.
func gather(ctx context.Context, parts []part, one bool, m mode) ([]*Lease, error) {
	spare := func(p part) bool { return p.base.pool.HasOther(p.base.amount) } // which p's own TryLock gives back
	if ctx.Err() != nil || !together(ctx, parts) || m == trying && slices.ContainsFunc(parts, spare) {
		return nil, errOneByOne
	}
	g := &gathering{ctx: ctx, soon: ctx, inner: ctx, one: one, enough: len(parts), began: clock.Mono()}
	if wait := leastWait(parts); wait > 0 && m == waiting {
		var cancel context.CancelFunc
		g.soon, cancel = context.WithTimeoutCause(ctx, wait, wire.ErrWaited)
		defer cancel()
	}
	if one {
		g.enough = 1
	}
	var (
		busy bool
		err  error
	)
	for _, p := range parts {
		if err = p.base.begin(ctx, driver.Acquire); err == nil {
			defer p.base.tally.End()
			busy, err = g.visit(p.base)
		}
		if busy || err != nil || len(g.leases) == g.enough {
			break
		}
	}
	if !busy && err == nil && len(g.leases) < g.enough && len(g.claims) > 0 {
		err = g.ask()
	}
	g.leaveGates()
	switch {
	case err == nil && len(g.leases) == g.enough:
		return g.leases, nil
	case err == nil || wire.HasNoSize(err) || isLost(err):
		giveBack(ctx, g.leases, true)
		return nil, errOneByOne
	}
	giveBack(ctx, g.leases, g.soon.Err() == nil)
	return nil, g.refused(parts, err, m)
}

// orHeard returns err, with which a caller's wait ended. If that says that Redis was not asked, since ctx
// had ended, it returns what gather heard before, if anything: Redis was asked then.
func orHeard(ctx context.Context, err, heard error) error {
	if heard == nil || heard == errOneByOne || !errors.Is(err, ErrNotAsked) {
		return err
	}
	if busy, is := heard.(*HeldError); is {
		busy.Cause, busy.nodes = context.Cause(ctx), false
	}
	return heard
}

// notUnasked returns err, with which a call ended. If the call was live, since its ctx had not ended before
// it, it may have asked Redis for other locks before it came to one for which Redis was not asked any more.
func notUnasked(ctx context.Context, parts []part, live bool, err error) error {
	if !live || err == nil {
		return err
	}
	return parts[0].base.unheard(ctx, err)
}

// leastWait is the shortest of the times that locks are waited for, 0 if none is bounded.
func leastWait(parts []part) (least time.Duration) {
	for _, p := range parts {
		if wait := p.base.cfg.wait; wait > 0 && (least == 0 || wait < least) {
			least = wait
		}
	}
	return least
}

// visit goes through a lock's gate, without waiting. busy says that all are wanted, and another
// goroutine of this process is at the gate.
func (g *gathering) visit(lk *lock) (busy bool, err error) {
	a := attempt{lock: lk, ctx: g.parent(), wctx: g.ctx, mode: trying}
	l, c, atGate, err := a.enter()
	switch {
	case err != nil:
		return false, err
	case l != nil:
		return false, g.took(lk, l)
	case !atGate && lk.manner.usesGate(lk.cfg):
		return !g.one, nil
	}
	g.wanted, g.claims = append(g.wanted, wanted{lk, atGate}), append(g.claims, c)
	return false, nil
}

// ask asks Redis for the locks that this process did not have to give.
func (g *gathering) ask() error {
	k := g.wanted[0].base.k
	grants, err := k.arbiter.(claim.Gatherer).Gather(g.soon, g.claims, g.one)
	if err != nil {
		return k.presence.Named(g.ctx, err)
	}
	wanted := g.wanted
	g.wanted = nil // from here on ask leaves the gates, not leaveGates
	for i, w := range wanted {
		c, granted := g.claims[i], grants[i].Token > 0
		if granted && err == nil {
			var l *Lease
			if l, err = w.base.startFirst(g.parent(), c, grants[i], w.atGate, HowFree); err == nil {
				err = g.took(w.base, l)
			}
			continue
		}
		if granted { // but a lock before it was lost meanwhile
			c.Abandon()
		}
		if w.atGate {
			w.base.k.gates.Leave(w.base.gate())
		}
	}
	return err
}

// parent is what the next lease's context derives from.
func (g *gathering) parent() context.Context {
	if g.one {
		return g.ctx
	}
	return owing{g.inner}
}

// took adds a lease, and tells observers of it.
func (g *gathering) took(lk *lock, l *Lease) error {
	if lk.cfg.fixed > 0 {
		if err := lk.fill(g.soon, l, trying); err != nil {
			return err
		}
	}
	g.leases, g.inner = append(g.leases, l), l.Context()
	if lk.watched() {
		e := lk.event(EventAcquired)
		if e.Context = g.ctx; l.how != HowCached {
			e.Wait = clock.Mono() - g.began
		}
		l.introduce(&e)
	}
	return nil
}

// leaveGates leaves the gates of the locks that were not granted.
func (g *gathering) leaveGates() {
	for _, w := range g.wanted {
		if w.atGate {
			w.base.k.gates.Leave(w.base.gate())
		}
	}
}

// refused returns an error as the caller of that lock sees it which the error names.
func (g *gathering) refused(parts []part, err error, m mode) error {
	of := parts[0].base
	if held, is := err.(*wire.HeldError); is {
		for _, p := range parts {
			if p.base.names.Name == held.Name {
				of = p.base
			}
		}
	}
	err = of.withRetryAfter(err)
	if m == trying && of.watched() {
		e := of.event(EventAbandoned)
		e.Context, e.Cause = g.ctx, err
		of.k.cfg.tell(e)
	}
	return err
}

// part is a lock among several.
type part struct {
	Locker
	base *lock // what it embeds
}

// partsOf returns the locks that a function of that name was given, or what is wrong with them: noAny is why it
// takes no AnyLock.
func partsOf(function, noAny string, locks []Locker) ([]part, error) {
	parts := make([]part, len(locks))
	for i, l := range locks {
		var of *lock
		switch l := l.(type) {
		case *Mutex:
			of = l.base()
		case *RWMutex:
			of = l.base(wire.Write)
		case *Reader:
			of = l.side().base(wire.Read)
		case permits:
			of = l.base
		case nil:
			return nil, fmt.Errorf("%w: %s of a nil Locker", ErrMisuse, function)
		case *AnyLock:
			return nil, fmt.Errorf("%w: %s of an AnyLock is not possible: %s", ErrMisuse, function, noAny)
		default:
			return nil, fmt.Errorf("%w: %s of a %T is not possible: it is a Locker of the program's own, and only locks "+
				"that a Client made can be asked for together", ErrMisuse, function, l)
		}
		if err := of.valid(context.Background()); err != nil {
			return nil, err
		}
		parts[i] = part{l, of}
	}
	if len(locks) == 0 {
		return nil, fmt.Errorf("%w: %s of no locks", ErrMisuse, function)
	}
	return parts, nil
}

// giveBack gives back what no caller of All or Any was given: WithMinHold does not keep that. Errors are
// not told: the caller is told why it does not get the locks. With waits, giveBack returns when Redis has
// answered, or ctx has ended; otherwise at once. What is left goes on behind the caller.
func giveBack(ctx context.Context, leases []*Lease, waits bool) {
	if len(leases) == 0 {
		return
	}
	_ = keptFor(false, leases)
	leases[0].h.behind(ctx, waits, func() { unlockAll(ctx, leases) })
}

// keptFor is Lease.keptFor, for several.
func keptFor(caller bool, leases []*Lease) (err error) {
	for _, l := range leases {
		err = cmp.Or(err, l.keptFor(caller))
	}
	return err
}

// unlockAll unlocks leases side by side, and returns the error of each.
func unlockAll(ctx context.Context, leases []*Lease) []error {
	if ctx == nil {
		ctx = context.Background()
	}
	errs := make([]error, len(leases))
	sideBySide(ctx, len(leases), func(part context.Context, i int) { errs[i] = leases[i].Unlock(part) })
	return errs
}
