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
// of this client when they are unlocked, and from answers that say which owner is in the way, and whether
// it still was at the next answer. Locks of all kinds with one name share one Holds. Its methods
// may be called from any goroutine. The zero Holds has seen no hold.
type Holds struct {
	usual    atomic.Int64 // running mean, ns: the latest hold weighs a fourth; 0 for unknown
	watching atomic.Bool  // holder is set

	mu          sync.Mutex    // guards what follows
	holder      string        // the owner that was last in the way, "" for none
	first, last time.Duration // when that owner was first and last named, by clock.Mono
	ttl         time.Duration // what was left of its lease at last
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

// Met notes that an owner is in the way, "" for an unknown one, with what is left of its lease, 0 if that
// is not known. It returns for how long that owner has been in the way so far.
func (h *Holds) Met(holder string, ttl time.Duration) (age time.Duration) {
	if holder == "" {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := clock.Mono()
	if holder != h.holder {
		h.gone(now)
		h.holder, h.first = holder, now
		h.watching.Store(true)
	}
	h.last, h.ttl = now, ttl
	return now - h.first
}

// InWay returns the owner that was last in the way, "" for none, for how long it has been so, and what is
// left of its lease: 0 if that is not known, negative if it never ends.
func (h *Holds) InWay() (holder string, age, ttl time.Duration) {
	if !h.watching.Load() {
		return "", 0, 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := clock.Mono()
	if ttl = h.ttl; ttl > 0 {
		ttl = max(0, ttl-(now-h.last))
	}
	return h.holder, now - h.first, ttl
}

// Retry returns after how long to try again, if an owner has been in the way for age. ttl is what is left
// of its lease, 0 or less if that is not known.
func (h *Holds) Retry(age, ttl time.Duration) time.Duration {
	if ttl <= 0 {
		ttl = usualLease
	}
	usual := time.Duration(h.usual.Load())
	if usual == 0 {
		usual = firstRetry
	}
	return max(usual, min(age, ttl))
}
