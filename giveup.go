package relock

import (
	"context"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/wire"
)

// errWaited is the cause when WithWait's time is up.
var errWaited error = waited{}

type waited struct{}

func (waited) Error() string { return "the time to wait is up" }

// Unwrap makes it match what it would be had the caller's own time been up.
func (waited) Unwrap() error { return context.DeadlineExceeded }

// refused is the error for a ctx that had ended before anything was done. Redis was not asked, so it must
// not say that another owner has the lock.
func (lk *lock) refused(ctx context.Context, op string) error {
	if op == "acquire" && lk.enclosingLost(ctx) {
		return ErrLost
	}
	return lk.k.arb.Silence(op, lk.names.Name, context.Cause(ctx))
}

// explain makes the error of a caller that gave up tell what it waited for.
func (lk *lock) explain(ctx context.Context, err error, c claim.Claim) error {
	switch {
	case err == wire.ErrBusy:
		holder, ttl := c.Seen()
		return &wire.HeldError{Name: lk.names.Name, Holder: holder, TTL: ttl, Cause: wire.CauseOf(ctx)}
	case ctx.Err() != nil && wire.FromRedis(err):
		return wire.GivenUp("acquire", lk.names.Name, err, wire.CauseOf(ctx))
	}
	return err
}

// leftTheLine is the error of a caller that gave up behind others of this process. Where the one at
// the gate does not reach Redis, or has heard nothing for as long as the caller waited, Redis is
// not there; else the lock is busy.
func (lk *lock) leftTheLine(err error) error {
	left, ok := err.(*gate.Left)
	switch {
	case !ok:
		return ErrClosed
	case left.Report == gate.ErrUnreported && left.Stood >= min(left.Waited, lk.cfg.commandTimeout):
		return lk.k.arb.Silence("acquire", lk.names.Name, left.Cause)
	case left.Report != nil && left.Report != gate.ErrUnreported:
		return wire.GivenUp("acquire", lk.names.Name, left.Report, left.Cause)
	}
	return &wire.HeldError{Name: lk.names.Name, Local: true, Cause: left.Cause}
}

// short reports whether a fixed lease is trusted for noticeably less than it promises.
func (l *Lease) short() bool {
	now := clock.Now()
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	return l.h.term.Short(now)
}

// fill extends a fixed lease that was granted for less than it promises, once for a caller that tries.
func (lk *lock) fill(ctx context.Context, l *Lease, once bool) error {
	pause := clock.Backoff{Least: lk.cfg.firstLease / 100, Most: lk.cfg.firstLease / 10}
	for l.short() {
		err := l.h.extend(ctx, &l.share, lk.cfg.fixed, false)
		if err == nil || wire.IsLost(err) {
			return err
		}
		if once || !wire.Transient(err) || !clock.Sleep(ctx, pause.Next()) {
			// The caller is told why it does not get the lock, not how it was given back.
			lk.k.behind(lk.tally, func() {
				if l.h.drop(ctx, &l.share) == ErrClosed {
					l.h.claim.Abandon() // Close took it for a lock that a caller has
				}
			})
			return lk.explain(ctx, err, nil)
		}
	}
	return nil
}

// behind does what a caller that gave up must not wait for. Close waits for it, as for a call.
func (k *keeper) behind(t *tally, do func()) {
	t.calls.Add(1)
	go func() {
		defer k.end(t)
		do()
	}()
}

// try is Mutex.TryLock, for every kind.
func (lk *lock) try(ctx context.Context) (*Lease, error) {
	if lk.watched() {
		return lk.observed(ctx, (*lock).tryAs)
	}
	return lk.tryAs(ctx, nil)
}

func (lk *lock) tryAs(ctx context.Context, seen *call) (*Lease, error) {
	if err := lk.begin(ctx, "acquire"); err != nil {
		return nil, err
	}
	defer lk.k.end(lk.tally)
	if l, entered, err := lk.reenter(ctx, ctx, seen, (*hold).tryReenter); entered {
		return l, err
	}
	for {
		l, err := lk.tryOnce(ctx, seen)
		if err == nil && lk.cfg.fixed > 0 {
			err = lk.fill(ctx, l, true)
		}
		// Lost between its grant and here: the caller never had it.
		if err == nil || !wire.IsLost(err) || lk.enclosingLost(ctx) {
			return l, err
		}
	}
}

// tryOnce takes the lock if it lies here, or else asks for it.
func (lk *lock) tryOnce(ctx context.Context, seen *call) (*Lease, error) {
	owner, err := ownerOf(ctx)
	if err != nil {
		return nil, err
	}
	var b baton
	atGate := false
	if owner == "" {
		b, atGate = lk.k.gates.TryEnter(lk.names.Gate())
	}
	if b.idle {
		if now := clock.Now(); b.hold.resume(now) {
			return lk.start(ctx, b.hold, new(Lease), HowCached, now)
		}
	}
	seen.begins()
	c := lk.newClaim(owner)
	g, err := c.Try(ctx)
	if err != nil {
		if atGate {
			lk.k.gates.Leave(lk.names.Gate())
		}
		return nil, lk.k.plate.named(err)
	}
	return lk.startFirst(ctx, c, g, atGate, HowFree)
}
