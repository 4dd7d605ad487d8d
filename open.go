package relock

import (
	"context"

	"github.com/relock-go/relock/internal/clock"
)

// Holds that are shared. A reader of a read-write lock that is granted the lock opens the readers'
// gate: the other readers of this process come in through it and have leases of the same hold. Redis
// counts one reader, and hears nothing of the others. So that writers elsewhere are not kept out by
// readers that overlap here, a hold may be joined
//
//   - by those that waited at the gate when it was granted, in any case;
//   - by all that come, where the answer to its first question granted it, so that no one waited then:
//     until a message says that another process wants the lock, and for the longer of the times of
//     WithLocalHandoff and WithLinger after that question was sent. No later command moves that.
//
// Then the gate is shut. The next reader asks Redis anew, while the hold ends with its last lease.

// sharing is how a hold is shared. The hold's mutex guards it.
type sharing struct {
	stays   bool // the gate is open: all that come may join
	awaited int  // goroutines that were let in and have not come yet: the hold waits for them
}

// openGate lets in the goroutines that wait behind the hold's first lease, and where the hold may be
// shared those that come.
func (h *hold) openGate() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.atGate {
		return // it asked past the gate, or was lost and left it
	}
	h.atGate, h.open.stays = false, true // as joinable asks for
	h.open.stays = h.joinable(clock.Now())
	waited, came := baton{hold: h, open: true, let: true}, baton{hold: h, open: true}
	h.open.awaited = h.k.gates.Open(h.names.Gate(), waited, came, h.open.stays)
}

// shut closes the gate to those that come. The caller holds h.mu.
func (h *hold) shut() {
	if h.open.stays {
		h.open.stays = false
		h.k.gates.Withdraw(h.names.Gate(), baton{hold: h, open: true})
	}
}

// joinable reports whether a reader that comes now may share the hold. The caller holds h.mu.
func (h *hold) joinable(now clock.Stamp) bool {
	return h.open.stays && h.fate.live() && h.rest.May(h.cfg.shares(), now) &&
		h.term.Left(now) > h.entry.Lease/3 && !h.term.Doubted() && !h.k.isClosed()
}

// joinInside gives b a share of the hold inside outer. No command is needed, and a writer that waits
// is no obstacle: what is held already keeps it out.
func (h *hold) joinInside(b bearer, outer *share) error {
	h.expire(clock.Now())
	h.mu.Lock()
	defer h.mu.Unlock()
	if outer.over || !h.fate.live() {
		return h.fate.whyNoEntry(outer)
	}
	h.shares.add(b, outer.token, clock.Now())
	return nil
}

// part takes b's share back. The last one ends the hold, or leaves it idle.
func (h *hold) part(ctx context.Context, b bearer) error {
	now := clock.Now()
	h.expire(now)
	if _, _, err := h.take(b, now); err != nil {
		return err
	}
	b.end(ErrNotHeld)
	return h.endShared(ctx, now)
}

// decline notes that a goroutine which was let in has given up.
func (h *hold) decline(ctx context.Context) {
	h.mu.Lock()
	h.open.awaited--
	h.mu.Unlock()
	_ = h.endShared(ctx, clock.Now()) // the sweeper mends what fails
}

// endShared gives the lock back, or lays the hold down at the gate, if no lease and no goroutine that
// was let in is left. Several may call it at once: the first one acts.
func (h *hold) endShared(ctx context.Context, now clock.Stamp) error {
	h.mu.Lock()
	switch {
	case !h.fate.live() || h.rest.Idle || len(h.shares.all) > 0 || h.open.awaited > 0:
		h.mu.Unlock()
		return nil
	case h.mayRest(now) && h.tally.lingering.Load() < maxLingering/tallies:
		h.tally.lingering.Add(1)
		h.rest.Idle = true
		due := h.next(now)
		h.k.watchdog.schedule(h, due, now)
		h.mu.Unlock()
		return nil
	}
	h.shut()
	h.fate.state = holdEnded
	h.mu.Unlock()
	h.k.watchdog.remove(h)
	_, _, err := h.claim.Release(ctx, nil)
	return err
}
