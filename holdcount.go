package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// The hold count. This process goes by the number of shares here. Redis keeps a count too, for other
// clients of a shared owner and for Redisson: for them the lock is held as long as the count says. So
//
//   - Redis never counts fewer shares than there are: a re-entry is written before its share is given
//     out, and an Unlock takes its share back before the lower count is written.
//   - Only the goroutine that has ops writes a count. It writes the number itself, and never adds to
//     what is there: a command that runs twice changes nothing.
//   - If a command is not answered, its count may still be written, up to a lease later. Until then
//     renewals write the right count. The last Unlock deletes the lock, whatever Redis counts.

// reenter gives b a share of the hold inside outer, once Redis counts it. It fails with ErrNotHeld if
// outer was given back before. If the caller waits, transient failures are repeated. If not, reenter
// takes one command timeout at most, earlier commands of the hold included.
func (h *hold) reenter(ctx context.Context, b bearer, outer *share, waits bool) error {
	if !waits {
		soon, cancel := context.WithTimeoutCause(ctx, h.entry.Timeout, wire.ErrNoAnswer)
		defer cancel()
		return h.manner.admit(soon, h, b, outer)
	}
	pause := clock.Backoff{Least: 5 * time.Millisecond, Most: 100 * time.Millisecond}
	for {
		err := h.manner.admit(ctx, h, b, outer)
		if !wire.FromRedis(err) || !wire.Transient(err) {
			return err
		}
		if !clock.Sleep(ctx, pause.Next()) {
			return h.notReentered(err, wire.CauseOf(ctx))
		}
	}
}

// recount tries once. It checks outer only once it has ops: until then an Unlock could pass the
// hold on, and b would enter another owner's hold. Redis is told before the share is given out, so that
// it never counts fewer shares than there are.
func (h *hold) recount(ctx context.Context, b bearer, outer *share) error {
	if err := h.ops.Lock(ctx); err != nil {
		// The owner itself has the lock. Redis is at fault: an earlier command has no answer yet.
		return h.notReentered(wire.ErrNoAnswer, err)
	}
	defer h.ops.Unlock()
	h.mu.Lock()
	if outer.over || !h.fate.live() {
		defer h.mu.Unlock()
		return h.fate.whyGone(outer)
	}
	count, lease := len(h.shares.all)+1, h.term.RenewFor(clock.Now())
	h.mu.Unlock()

	if err := h.setCount(ctx, count, lease); err != nil {
		return err // ErrNotHeld if outer was given back meanwhile, by an Unlock that did not wait for ops
	}
	began := clock.Now()
	h.mu.Lock()
	if !h.fate.live() {
		defer h.mu.Unlock()
		return h.fate.whyGone(outer)
	}
	h.shares.add(b, outer.token, began)
	if len(h.shares.all) != count { // an Unlock did not wait for ops: the written count is too high
		h.countMissed(clock.Now())
	}
	h.mu.Unlock()
	return nil
}

// notReentered is the error of a caller that gave up, by cause, before Redis had counted its re-entry.
func (h *hold) notReentered(err, cause error) error {
	if why := h.why(); why != ErrNotHeld {
		return why
	}
	if cause == wire.ErrNoAnswer {
		cause = nil // the command timeout was up, the caller's time was not
	}
	return wire.GivenUp(driver.Recount, h.names.Name, err, cause)
}

// setCount writes the hold count to Redis. The same command lengthens the lease, which saves a renewal
// after a re-entry. The caller holds h.ops.
func (h *hold) setCount(ctx context.Context, count int, lease time.Duration) error {
	h.mu.Lock()
	h.term.Asks(lease, clock.Now())
	h.claim.Asks(lease)
	h.mu.Unlock()
	sent, err := h.claim.SetCount(ctx, count, lease)
	if wire.IsLost(err) {
		return h.gone()
	}
	// If the hold was lost while the command was out, the answer revives nothing, even if Redis has
	// lengthened the lease: another process may have been told meanwhile that the lock is free.
	if h.expire(clock.Now()) {
		return h.why()
	}
	now := clock.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		if count == 0 && !h.fate.live() {
			return h.fate.why() // its time is over: what the command was for is done
		}
		h.countMissed(now)
		return err
	}
	h.count.Written(now, h.term.Asking())
	h.term.Extended(sent, lease, now)
	return nil
}

// countMissed notes that the count in Redis may be wrong, now or later, and has a renewal write it soon.
// The caller holds h.mu.
func (h *hold) countMissed(now clock.Stamp) {
	if h.fate.live() {
		h.count.Missed(now, h.entry.Lease)
		h.term.AskSoon(now)
		h.schedule(now)
	}
}

// lowerCount writes the lower count of an Unlock after which the hold goes on, for a command timeout at most.
// The count here decides, so a Redis that does not answer is no failure of an inner Unlock: renewals
// repair its count, and the last Unlock deletes the lock whatever the count is.
//
// A count of 0 is that of a hold that outlasts its last share. It sets the lease to what is left, even if
// that is less than before. If Redis does not answer, this is a failure, since nothing but the watchdog
// of this process then ends the lock in time. The command may still run later, while the hold lives: no
// caller gets the hold again, so none relies on a lease that it cuts. Other callers of a shared owner may
// rely on the lease. So the count is then 1, which shortens nothing.
func (h *hold) lowerCount(ctx context.Context, count int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, h.entry.Timeout, wire.ErrNoAnswer)
	defer cancel()
	last := count == 0
	if last && h.entry.Owner != "" {
		count = 1
	}
	pause := clock.Backoff{Least: 5 * time.Millisecond, Most: 100 * time.Millisecond}
	for {
		h.mu.Lock()
		lease := h.term.RenewFor(clock.Now())
		h.mu.Unlock()
		err := h.setCount(ctx, count, lease)
		switch {
		case err == nil || isLost(err):
			return err
		case err == ErrNotHeld: // the outer lease was unlocked meanwhile, and the lock given back; or its time is over
			return nil
		case wire.Transient(err) && clock.Sleep(ctx, pause.Next()):
		case last:
			return err
		default:
			return nil
		}
	}
}
