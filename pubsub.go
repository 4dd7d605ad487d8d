package relock

import (
	"context"
	"errors"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/wire"
)

// WithPlainChannels makes locks on a Redis Cluster use plain Pub/Sub channels though it has sharded
// ones, as Redisson does before 3.22 and with shardedSubscriptionMode OFF. All clients of a Cluster
// must agree on that, Redisson's too: otherwise waiters sleep until they ask again by themselves.
//
// On plain channels of a Cluster no waiter is handed the lock: waiters of a Mutex race for a freed lock,
// and waiters of an RWMutex ask for it, and get it in their order.
//
// By default a Cluster that has sharded channels (Redis 7) is used with them. Elsewhere channels are
// always plain.
func WithPlainChannels() ClientOption {
	return &option{"WithPlainChannels", nil, func(c *config) { c.plain = true }}
}

// attempt is one call that takes a lock: Lock, TryLock or TakeOver.
type attempt struct {
	*lock
	ctx  context.Context // the lease's context derives from it
	wctx context.Context // bounds the waiting
	mode mode
	seen *call // nil if the call is not observed
}

// bound ends the waiting after the time of WithWait. The caller calls what it returns at its end.
func (a *attempt) bound() (cancel context.CancelFunc) {
	if a.cfg.wait == 0 || a.mode == trying {
		return func() {}
	}
	a.wctx, cancel = context.WithTimeoutCause(a.wctx, a.cfg.wait, wire.ErrWaited)
	return cancel
}

// get takes the lock for an owner that does not have it yet: at the gate if this process has the lock
// to give, else from Redis.
func (a *attempt) get() (*Lease, error) {
	l, c, atGate, err := a.enter()
	switch {
	case c == nil:
		return l, err
	case a.mode == trying:
		return a.try(c, atGate)
	}
	return a.contend(c, atGate)
}

// enter goes through the gate. It returns a lease if this process has the lock to give, else a claim with
// which the caller asks Redis, and whether the caller is at the gate. If another goroutine is at the gate,
// TryLock asks Redis itself, and so learns which owner is in the way.
func (a *attempt) enter() (l *Lease, c claim.Claim, atGate bool, err error) {
	owner, err := ownerOf(a.ctx)
	if err != nil {
		return nil, nil, false, err
	}
	if h := a.manner.atHand(a.known, a.amount); h != nil {
		l, err = a.accept(h, HowCached, clock.Now())
		return l, nil, false, err
	}
	if owner != "" || !a.manner.usesGate(a.cfg) {
		return nil, a.newClaim(owner), false, nil
	}
	for l == nil && c == nil && err == nil {
		var b baton
		if a.mode == trying {
			b, atGate = a.k.gates.TryEnter(a.gate())
		} else if b, err = a.k.gates.Enter(a.wctx, a.gate(), a.seen); err != nil {
			return nil, nil, false, a.leftTheLine(err)
		} else {
			atGate = true
		}
		l, c, err = a.use(b)
	}
	return l, c, atGate, err
}

// use turns a baton into a lease, or into a claim with which the caller asks Redis. It returns neither,
// and no error, if the hold can no longer be joined: then the caller enters the gate again.
func (a *attempt) use(b baton) (l *Lease, c claim.Claim, err error) {
	switch b := b.(type) {
	case *hold:
		l, err = a.accept(b, HowLocal, clock.Now())
	case joint:
		l, err = a.join(b.hold, false)
	case invited:
		l, err = a.join(b.hold, true)
	case idle:
		if now := clock.Now(); b.resume(now) {
			l, err = a.accept(b.hold, HowCached, now)
			break
		}
		a.k.gates.Report(a.gate(), gate.ErrUnreported) // the hold is over: ask Redis
		c = a.newClaim("")
	case claim.Claim:
		c = b
	default:
		c = a.newClaim("")
	}
	return l, c, err
}

// accept starts a lease of a hold from the gate, or passes the hold on if the caller has given up.
func (a *attempt) accept(h *hold, how How, now clock.Stamp) (*Lease, error) {
	if a.wctx.Err() != nil {
		a.finishInBackground(h, now)
		return nil, a.gaveUpHere()
	}
	return a.start(a.ctx, h, new(Lease), how, now)
}

// join gives the caller a lease of a joint hold, unless the caller has given up. invited says that the
// hold waits for the caller. If the hold can no longer be joined, or trusts its lease for longer than the
// caller's options allow, join shuts the gate and returns neither a lease nor an error.
func (a *attempt) join(h *hold, invited bool) (*Lease, error) {
	now, gaveUp := clock.Now(), a.wctx.Err() != nil
	l := new(Lease)
	l.begin(a.ctx, a.lock, h, HowLocal)
	h.mu.Lock()
	if invited {
		h.sharing.awaited--
	}
	switch trusted := a.cfg.trusts(h.term.LongestTrust(now)); {
	case gaveUp:
	case trusted && h.fate.live() && (invited || h.manner.joinable(h, now)) && !h.term.Deadline(now).Reached(now):
		if h.rest.Idle {
			h.pickUp()
			l.how = HowCached
		}
		if !a.cfg.looser(h.cfg) {
			h.cfg = a.cfg // the latest reader decides whether the hold lingers, as the latest holder does
		}
		h.shares.add(l, h.manner.nextToken(h), now)
		h.mu.Unlock()
		return l, nil
	case h.rest.Idle:
		return nil, h.end(a.ctx, nil, toSweeper)
	default:
		h.manner.withdraw(h)
	}
	h.mu.Unlock()
	if invited { // the hold no longer waits for the caller
		a.finishInBackground(h, now)
	}
	if gaveUp {
		return nil, a.gaveUpHere()
	}
	return nil, nil
}

// finishInBackground passes a hold on, or ends it, for a caller that has given up. The sweeper repeats
// a release that fails.
func (a *attempt) finishInBackground(h *hold, now clock.Stamp) {
	ctx := context.WithoutCancel(a.ctx)
	a.tally.Go(func() { _ = h.finish(ctx, now, toNext) })
}

// newClaim returns the claim of a new entry, for a shared owner or, with "", for a new owner.
func (lk *lock) newClaim(owner string) claim.Claim {
	e := lk.newEntry(owner, lk.cfg)
	e.Amount = lk.amount
	return lk.k.arbiter.Claim(e)
}

// try asks Redis for the lock once. The idle holds of this process that may keep the caller out are picked
// up before: a refusal has them asked to end, at an instant that no caller could wait for. If Redis refuses,
// they are given back, and it is asked once more.
func (a *attempt) try(c claim.Claim, atGate bool) (*Lease, error) {
	a.seen.begins()
	spare := a.manner.spare(a.known)
	g, err := c.Try(a.ctx)
	if _, busy := err.(*wire.HeldError); !busy {
		a.finishAll(a.ctx, spare, toNext)
	} else if a.finishAll(a.ctx, spare, toRedis) {
		again := a.newClaim("") // no owner shares what may lie idle beside others
		if granted, refusal := again.Try(a.ctx); !errors.Is(refusal, ErrNotAsked) {
			c, g, err = again, granted, refusal
		}
	}
	if err == nil {
		return a.startFirst(a.ctx, c, g, atGate, HowFree)
	}
	if atGate {
		a.k.gates.Leave(a.gate())
	}
	return nil, a.k.presence.Named(a.ctx, err)
}

// contend waits for the lock with a claim. At the gate, it reports what it hears of Redis to the
// goroutines behind it. If it fails there, the next goroutine gets its claim, and so its place in
// Redis's queue.
func (a *attempt) contend(c claim.Claim, atGate bool) (*Lease, error) {
	n := a.known // the report may outlive the attempt
	report := func(key string, heard error) {
		if heard == nil { // else the claim has seen nothing new
			n.lasts.Met(c.Seen())
		}
		if atGate {
			n.k.report(key, heard)
		}
	}
	g, err := c.Wait(a.wctx, a.k.presence.Asking(c, a.seen.noticing(report)))
	if err == nil {
		return a.startFirst(a.ctx, c, g, atGate, a.seen.how())
	}
	err = a.k.presence.Named(a.wctx, a.waitedFor(a.wctx, err, c))
	if atGate && !errors.Is(err, ErrClosed) && a.k.gates.Pass(a.gate(), c) {
		return nil, err
	}
	c.Abandon()
	if atGate {
		a.k.gates.Leave(a.gate())
	}
	return nil, err
}

// waitedFor turns the error of a caller that gave up into one that says what it waited for: another owner,
// as claim c has seen, or Redis. Other errors stay.
func (n *known) waitedFor(ctx context.Context, err error, c claim.Claim) error {
	switch {
	case err == wire.ErrBusy:
		holder, ttl := c.Seen()
		return &wire.HeldError{Name: n.names.Name, Holder: holder, TTL: ttl, Cause: wire.CauseOf(ctx)}
	case ctx.Err() != nil && wire.FromRedis(err):
		return wire.GivenUp(driver.Acquire, n.names.Name, err, wire.CauseOf(ctx))
	}
	return err
}

// leftTheLine returns the error of a caller that gave up in the line of this process. It blames Redis if
// the goroutine at the gate has reported a failure, or has heard nothing for the caller's whole wait, or
// for a command timeout. Otherwise the lock is busy.
func (a *attempt) leftTheLine(err error) error {
	left, ok := err.(*gate.Left)
	switch {
	case !ok:
		return ErrClosed
	case left.Report == gate.ErrUnreported && left.Stood >= min(left.Waited, a.cfg.commandTimeout):
		return a.k.arbiter.Silence(driver.Acquire, a.names.Name, wire.ErrNoAnswer, left.Cause)
	case left.Report != nil && left.Report != gate.ErrUnreported:
		return wire.GivenUp(driver.Acquire, a.names.Name, left.Report, left.Cause)
	}
	return &wire.HeldError{Name: a.names.Name, Local: true, Cause: left.Cause}
}

// gaveUpHere returns the error of a caller that gave up while this process had the lock.
func (a *attempt) gaveUpHere() error {
	return &wire.HeldError{Name: a.names.Name, Local: true, Cause: context.Cause(a.wctx)}
}
