package relock

import (
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// settle notes what became of a renewal. An unanswered one never moves the deadline and is repeated
// until then.
func (h *hold) settle(r claim.Renewal, got wire.Result, sent clock.Stamp, err error) {
	if news := h.settled(r, got, sent); news == EventRenewalFailed {
		h.tell(news, err)
	} else {
		h.tell(news, nil)
	}
}

// settled returns what there is to tell, 0 for nothing.
func (h *hold) settled(r claim.Renewal, got wire.Result, sent clock.Stamp) (news EventKind) {
	if got == wire.Lost {
		h.lose(ErrLost)
		return 0
	}
	// An answer that is looked at too late revives nothing: on a quorum somebody else may have held
	// the lock since.
	if h.expire() {
		return 0
	}
	now := clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asking = false
	if h.state != holdLive {
		return 0
	}
	switch failing := got != wire.Renewed; {
	case failing == h.failing:
	case failing:
		news, h.failing = EventRenewalFailed, true
	default:
		news, h.failing = EventRecovered, false
	}
	if got == wire.Renewed {
		if h.doubt.Before(sent) {
			h.doubt = clock.Stamp{}
		}
		h.extended(sent, r.Lease)
		if r.Count > 0 && !h.ops.taken && r.Count == max(1, len(h.shares)) {
			h.countUnsure = !h.countUnsureUntil.Reached(sent)
		}
		if h.countUnsure && !h.askSoon {
			h.renewAt = clock.Later(h.renewAt, now.Add(h.shortest()/3), now)
		}
	} else {
		if r.Count > 0 {
			h.countMissed(now)
		}
		h.renewAt = now.Add(h.soon())
		h.askSoon = h.askSoon || h.cfg.fixed > 0 // a fixed lease is asked for only on suspicion
	}
	h.k.dog.schedule(h, h.next(now), now)
	return news
}

// asksFor notes that Redis is about to be asked for lease. The caller holds h.mu.
func (h *hold) asksFor(lease time.Duration, now clock.Stamp) {
	h.kept = clock.Later(h.kept, now.Add(lease), now)
	h.claim.Asks(lease)
}

// shortest is the lease that renewals go by: the one that the lock was granted with, or that of the
// caller to whom it was passed on, which may be shorter. The caller holds h.mu.
func (h *hold) shortest() time.Duration {
	if h.cfg.fixed > 0 {
		return h.entry.Lease
	}
	return min(h.entry.Lease, h.cfg.lease)
}

// soon is when to ask again what was not answered.
func (h *hold) soon() time.Duration {
	return min(max(h.shortest()/30, 10*time.Millisecond), time.Second)
}

// renewLease is what to lengthen the lease to: nothing for a fixed one, and for a capped one no
// further than that it can be trusted up to the cap. The caller holds h.mu.
func (h *hold) renewLease(now clock.Stamp) time.Duration {
	if h.cfg.fixed > 0 {
		return time.Millisecond
	}
	return max(time.Millisecond, min(h.cfg.lease, h.cap.Until(now)+2*clock.Margin(h.cfg.lease)))
}

// extended notes a confirmed lengthening. Trust never shrinks: no command shortens a lease. The
// caller holds h.mu.
func (h *hold) extended(sent clock.Stamp, lease time.Duration) {
	now := clock.Now()
	h.until = clock.Later(h.until, sent.Add(lease-clock.Margin(lease)), now)
	if !h.askSoon { // else what raised the suspicion may be younger than this answer
		h.renewAt = clock.Later(h.renewAt, sent.Add(lease/3), now)
	}
}

// Doubt asks Redis at once whether the lock is still held: a message said it may not be.
func (h *hold) Doubt() {
	now := clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == holdLive {
		h.askSoon, h.renewAt, h.doubt = true, now, now
		h.k.dog.schedule(h, h.next(now), now)
	}
}
