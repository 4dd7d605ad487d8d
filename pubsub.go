package relock

import (
	"context"
	"errors"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
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
func WithPlainChannels() Option {
	return Option{name: "WithPlainChannels", clientOnly: true, apply: func(c *config) error {
		c.plain = true
		return nil
	}}
}

// get takes the lock for an owner that does not have it yet: at the gate if this process has the lock
// to give, else from Redis. wctx bounds the waiting, the lease's context derives from ctx.
func (lk *lock) get(ctx, wctx context.Context, m mode, seen *call) (*Lease, error) {
	l, c, atGate, err := lk.enter(ctx, wctx, m, seen)
	switch {
	case c == nil:
		return l, err
	case m == trying:
		return lk.try(ctx, c, atGate, seen)
	}
	return lk.contend(ctx, wctx, c, atGate, seen)
}

// enter goes through the gate. It returns a lease if this process has the lock to give, else a claim with
// which the caller asks Redis, and whether the caller is at the gate. If another goroutine is at the gate,
// TryLock asks Redis itself, and so learns which owner is in the way.
func (lk *lock) enter(ctx, wctx context.Context, m mode, seen *call) (l *Lease, c claim.Claim, atGate bool, err error) {
	owner, err := ownerOf(ctx)
	if err != nil {
		return nil, nil, false, err
	}
	if h := lk.manner.atHand(lk.known, lk.amount); h != nil {
		l, err = lk.accept(ctx, wctx, h, HowCached, clock.Now())
		return l, nil, false, err
	}
	if owner != "" || !lk.manner.usesGate(lk.cfg) {
		return nil, lk.newClaim(owner), false, nil
	}
	for l == nil && c == nil && err == nil {
		var b baton
		if m == trying {
			b, atGate = lk.k.gates.TryEnter(lk.gate())
		} else if b, err = lk.k.gates.Enter(wctx, lk.gate(), seen); err != nil {
			return nil, nil, false, lk.leftTheLine(err)
		} else {
			atGate = true
		}
		l, c, err = lk.use(ctx, wctx, b)
	}
	return l, c, atGate, err
}

// use turns a baton into a lease, or into a claim with which the caller asks Redis. It returns neither,
// and no error, if the hold to join may be joined no more: then the caller enters the gate again.
func (lk *lock) use(ctx, wctx context.Context, b baton) (l *Lease, c claim.Claim, err error) {
	switch b := b.(type) {
	case *hold:
		l, err = lk.accept(ctx, wctx, b, HowLocal, clock.Now())
	case joint:
		l, err = lk.join(ctx, wctx, b.hold, false)
	case invited:
		l, err = lk.join(ctx, wctx, b.hold, true)
	case idle:
		if now := clock.Now(); b.resume(now) {
			l, err = lk.accept(ctx, wctx, b.hold, HowCached, now)
			break
		}
		lk.k.gates.Report(lk.gate(), gate.ErrUnreported) // the hold is over: ask Redis
		c = lk.newClaim("")
	case claim.Claim:
		c = b
	default:
		c = lk.newClaim("")
	}
	return l, c, err
}

// accept starts a lease of a hold from the gate, or passes the hold on if the caller has given up.
func (lk *lock) accept(ctx, wctx context.Context, h *hold, how How, now clock.Stamp) (*Lease, error) {
	if wctx.Err() != nil {
		lk.finishInBackground(ctx, h, now)
		return nil, lk.gaveUpHere(wctx)
	}
	return lk.start(ctx, h, new(Lease), how, now)
}

// join gives the caller a lease of a joint hold, unless the caller has given up. invited says that the
// hold waits for the caller. If the hold may be joined no more, or trusts its lease for longer than the
// caller's options allow, join shuts the gate and returns neither a lease nor an error.
func (lk *lock) join(ctx, wctx context.Context, h *hold, invited bool) (*Lease, error) {
	now, gaveUp := clock.Now(), wctx.Err() != nil
	l := new(Lease)
	l.begin(ctx, lk, h, HowLocal)
	h.mu.Lock()
	if invited {
		h.sharing.awaited--
	}
	switch trusted := lk.cfg.trusts(h.term.LongestTrust(now)); {
	case gaveUp:
	case trusted && h.fate.live() && (invited || h.manner.joinable(h, now)) && !h.term.Deadline(now).Reached(now):
		if h.rest.Idle {
			h.pickUp()
			l.how = HowCached
		}
		if !lk.cfg.looser(h.cfg) {
			h.cfg = lk.cfg // the latest reader decides whether the hold lingers, as the latest holder does
		}
		h.shares.add(l, h.manner.nextToken(h), now)
		h.mu.Unlock()
		return l, nil
	case h.rest.Idle:
		return nil, h.end(ctx, nil, toSweeper)
	default:
		h.manner.withdraw(h)
	}
	h.mu.Unlock()
	if invited { // the hold no longer waits for the caller
		lk.finishInBackground(ctx, h, now)
	}
	if gaveUp {
		return nil, lk.gaveUpHere(wctx)
	}
	return nil, nil
}

// finishInBackground passes a hold on, or ends it, for a caller that has given up. The sweeper repeats
// a release that fails.
func (lk *lock) finishInBackground(ctx context.Context, h *hold, now clock.Stamp) {
	lk.tally.Go(func() { _ = h.finish(context.WithoutCancel(ctx), now, toNext) })
}

// newClaim returns the claim of a new entry, for a shared owner or, with "", for a new owner.
func (lk *lock) newClaim(owner string) claim.Claim {
	e := lk.newEntry(owner, lk.cfg)
	e.Amount = lk.amount
	return lk.k.arbiter.Claim(e)
}

// try asks Redis for the lock once. The idle holds of this process that may keep the caller out are picked
// up before: a refusal has them asked to end, at an instant that nobody could wait for. If Redis refuses,
// they are given back, and it is asked once more.
func (lk *lock) try(ctx context.Context, c claim.Claim, atGate bool, seen *call) (*Lease, error) {
	seen.begins()
	spare := lk.manner.spare(lk.known)
	g, err := c.Try(ctx)
	if _, busy := err.(*wire.HeldError); !busy {
		lk.finishAll(ctx, spare, toNext)
	} else if lk.finishAll(ctx, spare, toRedis) {
		again := lk.newClaim("") // no owner shares what may lie idle beside others
		if granted, refusal := again.Try(ctx); !errors.Is(refusal, ErrNotAsked) {
			c, g, err = again, granted, refusal
		}
	}
	if err == nil {
		return lk.startFirst(ctx, c, g, atGate, HowFree)
	}
	if atGate {
		lk.k.gates.Leave(lk.gate())
	}
	return nil, lk.k.presence.Named(ctx, err)
}

// contend waits for the lock with a claim. At the gate, it reports what it hears of Redis to the
// goroutines behind it. If it fails there, the next goroutine gets its claim, and so its place in
// Redis's queue.
func (lk *lock) contend(ctx, wctx context.Context, c claim.Claim, atGate bool, seen *call) (*Lease, error) {
	report := func(key string, heard error) {
		if heard == nil { // else the claim has seen nothing new
			lk.lasts.Met(c.Seen())
		}
		if atGate {
			lk.k.report(key, heard)
		}
	}
	g, err := c.Wait(wctx, lk.k.presence.Asking(c, seen.noticing(report)))
	if err == nil {
		return lk.startFirst(ctx, c, g, atGate, seen.how())
	}
	err = lk.k.presence.Named(wctx, lk.waitedFor(wctx, err, c))
	if atGate && !errors.Is(err, ErrClosed) && lk.k.gates.Pass(lk.gate(), c) {
		return nil, err
	}
	c.Abandon()
	if atGate {
		lk.k.gates.Leave(lk.gate())
	}
	return nil, err
}

// waitedFor turns the error of a caller that gave up into one that says what it waited for: another owner,
// as claim c has seen, or Redis. Other errors stay.
func (lk *lock) waitedFor(ctx context.Context, err error, c claim.Claim) error {
	switch {
	case err == wire.ErrBusy:
		holder, ttl := c.Seen()
		return &wire.HeldError{Name: lk.names.Name, Holder: holder, TTL: ttl, Cause: wire.CauseOf(ctx)}
	case ctx.Err() != nil && wire.FromRedis(err):
		return wire.GivenUp("acquire", lk.names.Name, err, wire.CauseOf(ctx))
	}
	return err
}

// leftTheLine returns the error of a caller that gave up in the line of this process. It blames Redis if
// the goroutine at the gate has reported a failure, or has heard nothing for the caller's whole wait, or
// for a command timeout. Otherwise the lock is busy.
func (lk *lock) leftTheLine(err error) error {
	left, ok := err.(*gate.Left)
	switch {
	case !ok:
		return ErrClosed
	case left.Report == gate.ErrUnreported && left.Stood >= min(left.Waited, lk.cfg.commandTimeout):
		return lk.k.arbiter.Silence("acquire", lk.names.Name, wire.ErrNoAnswer, left.Cause)
	case left.Report != nil && left.Report != gate.ErrUnreported:
		return wire.GivenUp("acquire", lk.names.Name, left.Report, left.Cause)
	}
	return &wire.HeldError{Name: lk.names.Name, Local: true, Cause: left.Cause}
}

// gaveUpHere returns the error of a caller that gave up while this process had the lock.
func (lk *lock) gaveUpHere(wctx context.Context) error {
	return &wire.HeldError{Name: lk.names.Name, Local: true, Cause: context.Cause(wctx)}
}
