package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/watchdog"
	"github.com/relock-go/relock/internal/wire"
)

// What a hold answers the watchdog, and tells it.
//
// A renewal is sent by the watchdog, for many holds together, and settled by the goroutine that
// hears its answer. In between everything may happen to the hold: so Settle looks at its fate and at
// the clock again, and the watchdog is told anew when to look.

// Settle notes what became of a renewal. An unanswered one never moves the deadline and is repeated
// until then. err is why it was not answered.
func (h *hold) Settle(r claim.Renewal, got wire.Result, sent clock.Stamp, err error) {
	if got == wire.Lost {
		_ = h.gone()
		return
	}
	// An answer that is looked at too late revives nothing: on a quorum another owner may have held
	// the lock since.
	if h.expire(clock.Now()) {
		return
	}
	var news EventKind // none
	now := clock.Now()
	h.mu.Lock()
	if !h.fate.live() {
		h.mu.Unlock()
		return
	}
	if got != wire.Renewed {
		// The count that it carried may be written yet, and overwrite one that is written in between.
		if r.Count > 0 {
			h.count.Missed(now, h.entry.Lease)
		}
		if h.term.Unanswered(now) {
			news = EventRenewalFailed
		}
	} else {
		if h.term.Renewed(sent, r.Lease, now) {
			news = EventRecovered
		}
		// A count is confirmed only if it is still true, and no other is on its way.
		if r.Count > 0 && !h.ops.Taken() && r.Count == h.manner.counts(h) {
			h.count.Confirmed(sent)
		}
		if h.count.Unsure() {
			h.term.AskAgain(now)
		}
	}
	h.k.watchdog.Schedule(h, h.next(now), now)
	h.mu.Unlock()
	h.k.tell(h.entry, news, err)
}

// Doubt asks Redis at once whether the lock is still held: a message said it may not be.
func (h *hold) Doubt() {
	now := clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fate.live() {
		h.term.Doubt(now)
		h.k.watchdog.Schedule(h, h.next(now), now)
	}
}

// Wanted notes that another process wants the lock or, when not sure, that word of that may have been
// missed. An idle hold is ended by the watchdog: the caller may hold the hub's mutex, when not sure.
func (h *hold) Wanted(sure bool) {
	now := clock.Now()
	h.mu.Lock()
	news := h.rest.Wanted(sure)
	if news && h.notice != nil {
		close(h.notice)
	}
	if h.rest.Idle {
		h.k.watchdog.Schedule(h, watchdog.Look{At: now}, now)
	}
	h.mu.Unlock()
	if news {
		h.k.tell(h.entry, EventWanted, nil)
	}
}

// next is when the watchdog has to look again. The caller holds h.mu.
func (h *hold) next(now clock.Stamp) watchdog.Look {
	end := clock.Sooner(h.term.Deadline(now), h.rest.LookAt(h.cfg.lingersFor(), now), now)
	renewal := h.term.RenewalAt(now, h.count.Unsure())
	return watchdog.Look{At: clock.Sooner(renewal, end, now), Renews: renewal.Until(now) <= end.Until(now)}
}

// Tick is the watchdog's look at one hold. It returns a renewal to send, if one is near.
func (h *hold) Tick(now clock.Stamp) (r claim.Renewal, renew bool) {
	if h.expire(clock.Now()) {
		return r, false
	}
	h.mu.Lock()
	if h.rest.Idle && !h.manner.mayRest(h, now) {
		_ = h.end(context.Background(), nil, toSweeper)
		return r, false
	}
	defer h.mu.Unlock()
	if !h.fate.live() {
		return r, false
	}
	window := min(watchdog.Window, h.term.Shortest()/20)
	renew = h.term.RenewalAt(now, h.count.Unsure()).Until(now) <= window
	if renew {
		r = claim.Renewal{
			Claim: h.claim, Lease: h.term.RenewFor(now), Timeout: min(h.entry.Timeout, h.cfg.commandTimeout, 2*time.Second),
		}
		// A renewal does not compete with the goroutine that has ops, whose count is newer.
		if h.count.Unsure() && !h.ops.Taken() {
			r.Count = h.manner.counts(h)
		}
		h.term.Asks(r.Lease, now)
		h.claim.Asks(r.Lease)
		h.term.Renewing()
	}
	next := h.next(now)
	h.lookAt = next.At
	h.k.watchdog.Schedule(h, next, now)
	return r, renew
}
