package relock

import (
	"context"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

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
	if l, entered, err := lk.reenter(ctx, ctx, seen, false); entered {
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
	if owner == "" && lk.joins() {
		b, atGate = lk.k.gates.TryEnter(lk.names.Gate())
		for b.open {
			if l, err := lk.join(ctx, ctx, b); l != nil || err != nil {
				return l, err
			}
			b, atGate = lk.k.gates.TryEnter(lk.names.Gate())
		}
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
		return nil, lk.k.presence.Named(err)
	}
	return lk.startFirst(ctx, c, g, atGate, HowFree)
}
