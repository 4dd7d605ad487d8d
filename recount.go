package relock

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// reenter adds a lease inside outer to the hold, after Redis counts it. It repeats while the failure may pass.
func (h *hold) reenter(ctx, wctx context.Context, m *Mutex, outer *Lease) (*Lease, error) {
	pause := backoff{least: 5 * time.Millisecond, most: 100 * time.Millisecond}
	for {
		l, err := h.reenterOnce(ctx, wctx, m, outer)
		if !fromRedis(err) || !transient(err) {
			return l, err
		}
		if !sleep(wctx, pause.next()) {
			return nil, h.notReentered(err, causeOf(wctx))
		}
	}
}

// reenterOnce asks whether outer still holds only once it has ops: until then an Unlock could pass the hold on, and what
// was entered would be a stranger's.
func (h *hold) reenterOnce(ctx, wctx context.Context, m *Mutex, outer *Lease) (*Lease, error) {
	if err := h.lock(wctx); err != nil {
		// Nobody else can have what is re-entered: Redis has not answered what was asked before.
		return nil, h.notReentered(errNoAnswer, err)
	}
	defer h.unlock()
	h.mu.Lock()
	if outer.over || h.state != live {
		defer h.mu.Unlock()
		return nil, h.whyNoEntry(outer)
	}
	count, lease := len(h.leases)+1, h.renewLease(clock.Now())
	h.mu.Unlock()

	if err := h.recount(wctx, count, lease); err != nil {
		return nil, err
	}
	l := newLease(ctx, m, h)
	h.mu.Lock()
	if h.state != live {
		defer l.cancel(ErrLost)
		defer h.mu.Unlock()
		return nil, h.whyNoEntry(outer)
	}
	h.leases, l.token = append(h.leases, l), outer.token
	if len(h.leases) != count { // an Unlock did not wait
		now := clock.Now()
		h.countMissed(now)
		h.c.dog.schedule(h, h.next(now))
	}
	h.mu.Unlock()
	return l, nil
}

// notReentered is the error of a caller that gave up, by cause, before Redis had counted it.
func (h *hold) notReentered(err, cause error) error {
	if why := h.why(); why != ErrNotHeld {
		return why
	}
	return notHeard("recount", h.a.names.name, err, cause)
}

// whyNoEntry is the error for a re-entry that came too late. The caller holds h.mu.
func (h *hold) whyNoEntry(outer *Lease) error {
	if outer.over {
		return errUnlocked
	}
	return h.cause
}

// recount tells Redis a hold count. The caller holds h.ops.
func (h *hold) recount(ctx context.Context, count int, lease time.Duration) error {
	h.mu.Lock()
	h.asksFor(lease, clock.Now())
	h.mu.Unlock()
	sent, err := h.c.arb.recount(ctx, h.a, count, lease)
	if isLost(err) {
		h.lose(ErrLost)
		return ErrLost
	}
	if h.expire() {
		return h.why()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		now := clock.Now()
		h.countMissed(now)
		h.c.dog.schedule(h, h.next(now))
		return err
	}
	// An older count may still come, from a renewal under way or a command that went unanswered.
	h.countUnsure = h.countUnsure && (h.asking || !h.countUnsureUntil.Reached(clock.Now()))
	h.extended(sent, lease)
	return nil
}

// countMissed notes that a count may or may not be written, now or later. The caller holds h.mu.
func (h *hold) countMissed(now clock.Stamp) {
	h.countUnsure, h.countUnsureUntil = true, now.Add(h.a.lease)
	h.renewAt = clock.Sooner(h.renewAt, now.Add(h.soon()), now)
}

// asksFor notes that Redis is about to be asked for lease. The caller holds h.mu.
func (h *hold) asksFor(lease time.Duration, now clock.Stamp) {
	h.kept = clock.Later(h.kept, now.Add(lease), now)
	if lease > h.a.lease {
		h.a.stretched.Store(max(h.a.stretched.Load(), int64(lease)))
	}
}

// soon is when to ask again what was not answered.
func (h *hold) soon() time.Duration {
	return min(max(h.a.lease/30, 10*time.Millisecond), time.Second)
}

// renewLease is what to lengthen the lease to: nothing for a fixed one, and for a capped one no further than that it can
// be trusted up to the cap. The caller holds h.mu.
func (h *hold) renewLease(now clock.Stamp) time.Duration {
	if h.cfg.fixed > 0 {
		return time.Millisecond
	}
	return max(time.Millisecond, min(h.cfg.lease, h.cap.Until(now)+2*margin(h.cfg.lease)))
}

// extended notes a confirmed lengthening. Trust never shrinks: no command shortens a lease. The caller holds h.mu.
func (h *hold) extended(sent clock.Stamp, lease time.Duration) {
	now := clock.Now()
	h.until = clock.Later(h.until, sent.Add(lease-margin(lease)), now)
	if !h.askSoon { // else what raised the suspicion may be younger than this answer
		h.renewAt = clock.Later(h.renewAt, sent.Add(lease/3), now)
	}
}

// leave writes the lower count of an inner unlock. The count kept here is what decides, so a Redis that does not answer
// is no failure: renewals repair its number and the last unlock deletes the lock whatever it says.
func (h *hold) leave(ctx context.Context, count int, lease time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, unlockTimeout(h.a))
	defer cancel()
	pause := backoff{least: 5 * time.Millisecond, most: 100 * time.Millisecond}
	for {
		err := h.recount(ctx, count, lease)
		if err == nil || isLost(err) {
			return err
		}
		if !transient(err) || !sleep(ctx, pause.next()) {
			return nil
		}
	}
}

// extend lengthens the lease to d from now, and moves a fixed lease's end.
func (h *hold) extend(ctx context.Context, l *Lease, d time.Duration) error {
	if c := &h.c.cfg; c.guard != GuardOff && d > c.longest {
		return fmt.Errorf("%w: Extend: %v is longer than the %v that the restart guard waits", ErrInvalidOption, d, c.longest)
	}
	if l.unlocked() {
		return ErrNotHeld
	}
	if !h.tryLock() {
		wait, cancel := context.WithTimeoutCause(ctx, h.a.timeout, errNoAnswer)
		err := h.lock(wait)
		cancel()
		if err != nil {
			return &NodeError{Op: "extend", Name: h.a.names.name, Err: errNoAnswer, Cause: context.Cause(ctx)}
		}
	}
	defer h.unlock()
	h.expire()
	h.mu.Lock()
	if l.over || h.state != live {
		defer h.mu.Unlock()
		return h.whyGone(l)
	}
	count := len(h.leases)
	h.mu.Unlock()
	asked := clock.Now()
	if err := h.recount(ctx, count, d); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.over || h.state != live {
		return h.whyGone(l)
	}
	if h.cfg.fixed > 0 {
		h.cap = clock.Later(h.cap, asked.Add(d), asked)
		if h.cfg.maxHold > 0 {
			h.cap = clock.Sooner(h.cap, h.began.Add(h.cfg.maxHold), asked)
		}
	}
	return nil
}
