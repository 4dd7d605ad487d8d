package relock

import (
	"context"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/wire"
)

// use turns a baton into a lease, or into a claim with which the caller asks Redis. It returns neither,
// and no error, if the hold to join may be joined no more: then the caller enters the gate again.
func (lk *lock) use(ctx, wctx context.Context, b baton) (l *Lease, c claim.Claim, err error) {
	switch b := b.(type) {
	case held:
		l, err = lk.accept(ctx, wctx, b.hold, HowLocal, clock.Now())
	case joint:
		l, err = lk.join(ctx, wctx, b.hold, false)
	case invited:
		l, err = lk.join(ctx, wctx, b.hold, true)
	case idle:
		if now := clock.Now(); (exclusively{}).resume(b.hold, now) {
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
	case trusted && h.fate.live() && (invited || jointly{}.joinable(h, now)) && !h.term.Deadline(now).Reached(now):
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

// gaveUpHere returns the error of a caller that gave up while this process had the lock.
func (lk *lock) gaveUpHere(wctx context.Context) error {
	return &wire.HeldError{Name: lk.names.Name, Local: true, Cause: context.Cause(wctx)}
}
