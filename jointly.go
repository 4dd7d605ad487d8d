package relock

import (
	"context"

	"github.com/relock-go/relock/internal/clock"
)

// Holds that are shared. When a reader is granted a read-write lock, it opens the readers' gate. The
// other readers of this process come in there, and have leases of the same hold. Redis counts one
// reader, and hears nothing of the others. Overlapping readers here must not keep out writers elsewhere
// for ever. So a hold may be joined only
//
//   - by the readers that waited at the gate when it was granted;
//   - by readers that come later, if the answer to its first question granted the lock: then no process
//     waited. They may join until a message says that another process wants the lock, and for the longer
//     of the times of WithLocalHandoff and WithLinger after that question was sent. No later command
//     moves that end.
//
// Then the gate is shut. The next reader asks Redis anew, and the hold ends with its last lease.

// jointly is the manner of a hold whose leases stand side by side, all with its one token.
type jointly struct{}

// usesGate is false for leases with an end of their own, and where locks are not passed on in memory.
func (jointly) usesGate(c *config) bool { return c.fixed == 0 && c.maxHold == 0 && c.passes > 1 }

func (jointly) keepsGate() bool                        { return true }
func (jointly) lingers(*config) bool                   { return true }
func (jointly) nests() bool                            { return true }
func (jointly) asks(*config) int                       { return 1 } // its hold is not passed on in memory
func (jointly) reserved(_ *config, tokens int) int     { return tokens }
func (jointly) atHand(*known, int) *hold               { return nil }
func (jointly) spare(*known) []*hold                   { return nil }
func (jointly) nextToken(h *hold) int64                { return h.block.Next() }
func (jointly) counts(*hold) int                       { return 1 }
func (jointly) observed(*hold, uint64) (before uint64) { return 0 } // leases overlap: none comes before another

// begun lets in the goroutines that wait behind the hold's first lease and, if the hold may be joined,
// those that come later.
func (j jointly) begun(h *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.atGate {
		return // the reader did not use the gate, or the hold was lost and left it
	}
	h.atGate, h.sharing.stays = false, true // joinable needs stays
	h.sharing.stays = j.joinable(h, clock.Now())
	h.sharing.awaited = h.k.gates.Open(h.gate, invited{h}, joint{h}, h.sharing.stays)
}

// withdraw closes the gate to readers that come later.
func (jointly) withdraw(h *hold) {
	if h.sharing.stays {
		h.sharing.stays = false
		h.k.gates.Withdraw(h.gate, joint{h})
	}
}

// joinable reports whether a reader that comes now may share the hold. The caller holds h.mu.
func (jointly) joinable(h *hold, now clock.Stamp) bool {
	return h.sharing.stays && h.fate.live() && h.rest.May(h.cfg.sharesFor(), now) &&
		h.term.Left(now) > h.entry.Lease/3 && !h.term.Doubted() && !h.k.isClosed()
}

func (j jointly) mayRest(h *hold, now clock.Stamp) bool {
	return j.joinable(h, now) && h.rest.May(h.cfg.linger, now) && !h.term.Lengthened(now)
}

// admit gives b a share of the hold inside outer. No command is needed. A writer that waits is no
// obstacle, since the hold keeps it out already.
func (jointly) admit(_ context.Context, h *hold, b bearer, outer *share) error {
	h.expire(clock.Now())
	h.mu.Lock()
	defer h.mu.Unlock()
	if outer.over || !h.fate.live() {
		return h.fate.whyGone(outer)
	}
	h.shares.add(b, outer.token, clock.Now())
	return nil
}

// drop ends the hold with its last share, or leaves it idle.
func (jointly) drop(ctx context.Context, h *hold, b bearer) error {
	now := clock.Now()
	h.expire(now)
	if count, _, err := h.takeBack(b, now, ErrNotHeld); count > 0 || err != nil {
		return err
	}
	return h.finish(ctx, now, toNext)
}

// passOn lays the hold down at the open gate, if it may rest. A hold is still in use, and stays, while
// it has a lease, or a goroutine was invited and has not come yet.
func (j jointly) passOn(h *hold, now clock.Stamp) bool {
	if h.rest.Idle || len(h.shares.all) > 0 || h.sharing.awaited > 0 {
		return true
	}
	rests := j.mayRest(h, now) && h.mayLinger()
	if rests {
		h.layDown()
		h.schedule(now)
	}
	return rests
}
