package relock

import (
	"context"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// baton is what one goroutine hands to the next at a lock's gate: an entry that has the lock, or waits
// for it. It is one of these:
//
//	nil          nothing: the goroutine has to ask Redis
//	*hold        the lock; of a kind that several may hold, passed on past the goroutine at the gate
//	idle         a hold that lay at the gate; it may be over
//	joint        a hold that every goroutine may join; it may be over, and no joiner is at the gate
//	invited      a hold that waits for this goroutine to join; the goroutine is not at the gate
//	claim.Claim  a place in Redis's queue
type baton interface {
	// Of is the entry.
	Of() *wire.Entry
}

type (
	idle    struct{ *hold }
	joint   struct{ *hold }
	invited struct{ *hold }
)

// Of is the entry that has the lock.
func (h *hold) Of() *wire.Entry { return h.entry }

// layDown notes that the hold lies at the gate without a lease, and that the caller has left the gate.
// Whatever ends the hold from here on takes it away from the gate, unless a goroutine has taken it up.
// The caller holds h.mu.
func (h *hold) layDown() {
	h.tally.Lingering.Add(1)
	h.rest.Idle, h.atGate = true, false
}

// pickUp notes that the hold is no longer idle. The caller holds h.mu.
func (h *hold) pickUp() {
	h.rest.Idle = false
	h.tally.Lingering.Add(-1)
}

// resume takes up a hold that lay at the gate, for a caller that is at the gate now. It returns false
// if the hold is over, or may not be used any longer and ends here: then the caller has to ask Redis.
func (h *hold) resume(now clock.Stamp) bool {
	h.mu.Lock()
	switch {
	case !h.rest.Idle: // over
		h.mu.Unlock()
		return false
	case h.manner.mayRest(h, now) && !h.term.Doubted():
		h.pickUp()
		h.atGate = h.manner.keepsGate()
		h.mu.Unlock()
		return true
	}
	_ = h.end(context.Background(), nil, toSweeper)
	return false
}
