package relock

import (
	"context"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/wire"
)

// use makes a lease of a baton, or a claim with which the caller is to ask Redis. It returns neither,
// and no error, if the caller is to enter the gate again: the hold that it was to join is over.
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
		lk.k.gates.Report(lk.names.Gate(), gate.ErrUnreported) // the hold is over: Redis is to be asked
		c = lk.newClaim("")
	case claim.Claim:
		if c = b; lk.names.Kind.Shared() && b.Of().Block != lk.parts() {
			b.Abandon() // the place of a caller that wanted another amount
			c = lk.newClaim("")
		}
	default:
		c = lk.newClaim("")
	}
	return l, c, err
}

// accept starts a lease of a hold from the gate, or passes that on if the caller has given up.
func (lk *lock) accept(ctx, wctx context.Context, h *hold, how How, now clock.Stamp) (*Lease, error) {
	if wctx.Err() != nil {
		lk.finishBehind(ctx, h, now)
		return nil, lk.gaveUpHere(wctx)
	}
	return lk.start(ctx, h, new(Lease), how, now)
}

// join makes a lease of a joint hold, unless the caller has given up. invited says that the hold waits
// for the caller. It returns neither a lease nor an error if the hold may be joined no more, or may rely
// on its lease for longer than the caller's options allow: then the gate is shut.
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
			h.cfg = lk.cfg // whether it lingers is the option of the latest, as where a lock is passed on
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
	if invited { // the hold waits for it no more
		lk.finishBehind(ctx, h, now)
	}
	if gaveUp {
		return nil, lk.gaveUpHere(wctx)
	}
	return nil, nil
}

// finishBehind passes a hold on, or ends it, for a caller that has given it up. The sweeper mends what
// fails.
func (lk *lock) finishBehind(ctx context.Context, h *hold, now clock.Stamp) {
	lk.tally.Go(func() { _ = h.finish(context.WithoutCancel(ctx), now, toNext) })
}

// gaveUpHere is the error of a caller that gave up while this process had the lock.
func (lk *lock) gaveUpHere(wctx context.Context) error {
	return &wire.HeldError{Name: lk.names.Name, Local: true, Cause: context.Cause(wctx)}
}
