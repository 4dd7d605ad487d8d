package relock

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

const (
	firstRetry = time.Second      // RetryAfter where this client has seen no hold of the lock end
	leastHold  = time.Millisecond // shorter holds count as this long, so that they change nothing once it is known
)

// lasting is how long holds of a lock last, as this client has seen. It learns of that from leases of
// its own that are unlocked, and from refusals: which owner was in the way, and whether it still was
// the next time. All kinds of locks of one name share one.
type lasting struct {
	usual    atomic.Int64 // running mean, in nanoseconds, of which the latest hold is a fourth; 0 for unknown
	watching atomic.Bool  // holder is set

	mu          sync.Mutex    // guards what follows
	holder      string        // the owner that the last refusal named, "" for none
	first, last time.Duration // when that owner was first and last named, by clock.Mono
}

// lasted notes that a hold is over.
func (l *lasting) lasted(d time.Duration) {
	usual := time.Duration(l.usual.Load())
	next := max(d, leastHold)
	if usual > 0 {
		next = usual + (next-usual)/4
	}
	if next != usual { // most often it is not: nothing is written then
		l.usual.Store(int64(next))
	}
}

// free notes that the lock was free, or passed on: the owner that was in the way has it no more.
func (l *lasting) free() {
	if !l.watching.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone(clock.Mono())
}

// gone counts the hold of the owner that was in the way, which ended after it was last named and
// before now. Of one that was named once, or long ago, that says too little. The caller holds l.mu.
func (l *lasting) gone(now time.Duration) {
	seen, unseen := l.last-l.first, now-l.last
	if l.holder != "" && seen > 0 && unseen <= max(seen, firstRetry) {
		l.lasted(seen + unseen/2)
	}
	l.holder = ""
	l.watching.Store(false)
}

// refused notes that an owner was in the way, "" for one that is not known, and returns
// HeldError.RetryAfter. ttl is what was left of its lease.
func (l *lasting) refused(holder string, ttl time.Duration) time.Duration {
	age := time.Duration(0)
	if holder != "" {
		l.mu.Lock()
		now := clock.Mono()
		if holder != l.holder {
			l.gone(now)
			l.holder, l.first = holder, now
			l.watching.Store(true)
		}
		l.last = now
		age = now - l.first
		l.mu.Unlock()
	}
	if ttl <= 0 {
		ttl = defaultLease
	}
	usual := time.Duration(l.usual.Load())
	if usual == 0 {
		usual = firstRetry
	}
	return max(usual, min(age, ttl))
}
