package relock

import (
	"context"

	"github.com/relock-go/relock/internal/clock"
)

// tryOnce takes the lock if it lies here, or else asks for it.
func (lk *lock) tryOnce(ctx context.Context, seen *call) (*Lease, error) {
	owner, err := ownerOf(ctx)
	if err != nil {
		return nil, err
	}
	var b baton
	key, atGate := lk.names.Gate(), false
	if owner == "" && lk.joins() {
		b, atGate = lk.k.gates.TryEnter(key)
		for b.open {
			if l, err := lk.join(ctx, ctx, b); l != nil || err != nil {
				return l, err
			}
			b, atGate = lk.k.gates.TryEnter(key)
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
			lk.k.gates.Leave(key)
		}
		return nil, lk.k.presence.Named(err)
	}
	return lk.startFirst(ctx, c, g, atGate, HowFree)
}
