package relock

import (
	"context"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/wire"
)

// baton is what one goroutine hands to the next at a lock's gate: an entry that has the lock, or waits
// for it. It is one of these:
//
//	nil          nothing: the goroutine is to ask Redis
//	held         the lock
//	idle         a hold that lay at the gate, and may be over
//	joint        a hold that all may join that come, and may be over; the goroutine is not at the gate
//	invited      a hold that waits for the goroutine to join, which is not at the gate
//	claim.Claim  a place in Redis's queue
type baton interface {
	// Of is the entry.
	Of() *wire.Entry
}

type (
	held    struct{ *hold }
	idle    struct{ *hold }
	joint   struct{ *hold }
	invited struct{ *hold }
)

// Of is the entry that has the lock.
func (h *hold) Of() *wire.Entry { return h.entry }

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

// finishBehind passes a hold on, or ends it, for a caller that has given it up. The sweeper mends what
// fails.
func (lk *lock) finishBehind(ctx context.Context, h *hold, now clock.Stamp) {
	lk.tally.Go(func() { _ = h.finish(context.WithoutCancel(ctx), now, toNext) })
}

// gaveUpHere is the error of a caller that gave up while this process had the lock.
func (lk *lock) gaveUpHere(wctx context.Context) error {
	return &wire.HeldError{Name: lk.names.Name, Local: true, Cause: context.Cause(wctx)}
}
