// Package lasting learns how long holds of a lock last, so that a refused caller can be told when
// to try again.
package lasting

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

const (
	firstRetry = time.Second      // when to try again, if this client has seen no hold of the lock end
	leastHold  = time.Millisecond // shorter holds count as this long: such a mean stays as it is
	usualLease = 30 * time.Second // counts as left of a lease if its owner's is not known
)

// Holds knows how long holds of a lock last, as far as this client has seen. It learns from leases
// of this client when they are unlocked, and from refusals: which owner was in the way, and whether
// it still was at the next refusal. Locks of all kinds with one name share one Holds. Its methods
// may be called from any goroutine. The zero Holds has seen no hold.
type Holds struct {
	usual    atomic.Int64 // running mean, ns: the latest hold weighs a fourth; 0 for unknown
	watching atomic.Bool  // holder is set

	mu          sync.Mutex    // guards what follows
	holder      string        // the owner that the last refusal named, "" for none
	first, last time.Duration // when that owner was first and last named, by clock.Mono
}

// Lasted notes that a hold is over.
func (h *Holds) Lasted(d time.Duration) {
	usual := time.Duration(h.usual.Load())
	next := max(d, leastHold)
	if usual > 0 {
		next = usual + (next-usual)/4
	}
	if next != usual { // most often they are equal, and nothing is written
		h.usual.Store(int64(next))
	}
}

// Free notes that the lock was free, or passed on: the owner that was in the way no longer has it.
func (h *Holds) Free() {
	if !h.watching.Load() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone(clock.Mono())
}

// gone counts the hold of the owner that was in the way, which ended between the last refusal that
// named the owner and now. If the owner was named only once, or long ago, that says too little, and
// nothing is counted. The caller holds h.mu.
func (h *Holds) gone(now time.Duration) {
	seen, unseen := h.last-h.first, now-h.last
	if h.holder != "" && seen > 0 && unseen <= max(seen, firstRetry) {
		h.Lasted(seen + unseen/2)
	}
	h.holder = ""
	h.watching.Store(false)
}

// Refused notes that an owner was in the way, "" for an unknown one. It returns after how long to
// try again. ttl is what was left of the owner's lease, 0 or less if that is not known.
func (h *Holds) Refused(holder string, ttl time.Duration) time.Duration {
	age := time.Duration(0)
	if holder != "" {
		h.mu.Lock()
		now := clock.Mono()
		if holder != h.holder {
			h.gone(now)
			h.holder, h.first = holder, now
			h.watching.Store(true)
		}
		h.last = now
		age = now - h.first
		h.mu.Unlock()
	}
	if ttl <= 0 {
		ttl = usualLease
	}
	usual := time.Duration(h.usual.Load())
	if usual == 0 {
		usual = firstRetry
	}
	return max(usual, min(age, ttl))
}
