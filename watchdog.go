package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/watchdog"
	"github.com/relock-go/relock/internal/wire"
)

// The methods by which a hold and the watchdog talk.
//
// The watchdog sends the renewals of many holds together. The goroutine that gets the answer settles
// each of them. Anything may have happened to the hold by then. So Settle looks at its fate and at the
// clock again, and tells the watchdog anew when to look.

// Settle applies the result of a renewal that was sent at sent. A renewal that was not answered, as err
// says, leaves the deadline as it is, and is repeated until then.
func (h *hold) Settle(r claim.Renewal, got wire.Result, sent clock.Stamp, err error) {
	if got == wire.Lost {
		_ = h.gone()
		return
	}
	// An answer that comes after the deadline revives nothing: on a quorum another owner may have held
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
		// The count in it may still be written later, and overwrite a newer one.
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
	h.schedule(now)
	h.mu.Unlock()
	h.tell(news, err)
}

// Doubt asks Redis at once whether the lock is still held: a message said it may not be.
func (h *hold) Doubt() {
	now := clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fate.live() {
		h.term.Doubt(now)
		h.schedule(now)
	}
}

// Wanted notes that another process wants the lock or, if not sure, that a message about one may have
// been missed. Wanted leaves it to the watchdog to end an idle hold, since a caller that is not sure may
// hold the hub's mutex.
func (h *hold) Wanted(sure bool) {
	now := clock.Now()
	h.mu.Lock()
	news := h.rest.Wanted(sure)
	if news && h.notice != nil {
		h.notice.end()
	}
	if h.rest.Idle {
		h.k.watchdog.Schedule(h, watchdog.Look{At: now}, now)
	}
	h.mu.Unlock()
	if news {
		h.tell(EventWanted, nil)
	}
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
		// A goroutine that has ops is writing a newer count: the renewal leaves that alone.
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
