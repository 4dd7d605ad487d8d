package relock

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// Extend extends the lease in Redis to at least d from now; the caller may rely on d minus the margin
// of Until. If more than d is left, nothing changes: no call shortens a lease. With WithFixedLease, Extend
// moves the lease's end. Errors:
//
//   - ErrMisuse: ErrInvalidOption for a d that is no possible lease, or is longer than WithRestartGuard
//     waits, WithRedissonWatchdog allows or WithMaxHold leaves, and nothing changes; ErrNotHeld after
//     Unlock.
//   - ErrLost when the lock was lost, ErrClosed.
//   - ErrUnavailable, in a *NodeError (on a quorum also a *QuorumError), if Redis did not answer within
//     one command timeout. Extend may spend that time waiting for an Unlock or a re-entry of the same
//     hold. The lease then ends when it would have ended. The error is ErrNotAsked if ctx had ended
//     before.
//   - ErrRefused, in the same types, if no retry helps.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	if l.zero() {
		return ErrNotHeld
	}
	if ctx == nil {
		return errNilContext
	}
	if err := leaseInRange(d); err != nil {
		return fmt.Errorf("%w: Extend: %w", ErrInvalidOption, err)
	}
	if ctx.Err() != nil {
		if _, _, err := l.h.trusted(&l.share); err != nil {
			return err
		}
		return l.h.k.explained(l.lock.refused(ctx, driver.Recount))
	}
	l.h.tally.Enter()
	defer l.h.tally.End()
	return l.h.k.explained(l.h.extend(ctx, &l.share, d, true))
}

// extend lengthens the lease to d from now, and moves a fixed lease's end. It waits for ops for one
// command timeout at most, even if ctx allows more: the lease runs out meanwhile. If WithMaxHold leaves
// less than d, extend fails if all is set, and otherwise lengthens the lease up to that maximum.
func (h *hold) extend(ctx context.Context, s *share, d time.Duration, all bool) error {
	h.mu.Lock()
	err, over := h.tooLong(d), s.over // at once: ops may be busy
	h.mu.Unlock()
	switch {
	case err != nil:
		return err
	case over:
		return ErrNotHeld
	}
	if !h.ops.TryLock() {
		soon, cancel := context.WithTimeoutCause(ctx, h.entry.Timeout, wire.ErrNoAnswer) // for the wait and what follows
		defer cancel()
		if h.ops.Lock(soon) != nil {
			return &wire.NodeError{Op: driver.Recount, Name: h.names.Name, Err: wire.ErrNoAnswer, Cause: context.Cause(ctx)}
		}
		ctx = soon
	}
	defer h.ops.Unlock()
	h.expire(clock.Now())
	asked := clock.Now()
	count, d, err := h.extendsTo(s, d, all, asked)
	if err != nil {
		return err
	}
	if err := h.setCount(ctx, count, d); err != nil && !isLost(err) {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.over || !h.fate.live() {
		return h.fate.whyGone(s) // a reader's Unlock, which does not wait for ops, is no loss
	}
	h.term.Move(asked, d)
	s.short = false
	return nil
}

// extendsTo returns the lease that an Extend to d asks for now, and the hold count to send with it. From
// here on, no reader joins whose options forbid to rely on that lease.
func (h *hold) extendsTo(s *share, d time.Duration, all bool, now clock.Stamp) (count int, lease time.Duration, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.over || !h.fate.live() {
		return 0, 0, h.fate.whyGone(s)
	}
	if err := h.tooLong(d); err != nil { // a reader may have joined
		return 0, 0, err
	}
	if left := h.term.MayLast(now, maxLease); d-clock.Margin(d) > left {
		if all {
			return 0, 0, fmt.Errorf("%w: Extend: %v is longer than the %v that WithMaxHold leaves", ErrInvalidOption, d, left)
		}
		d = max(time.Millisecond, left+clock.Margin(left))
	}
	h.term.Asks(d, now)
	return h.manner.counts(h), d, nil
}

// tooLong is the error of an Extend to a d that is longer than the restart guard waits, or than the
// readers that share the hold may rely on. The caller holds h.mu.
func (h *hold) tooLong(d time.Duration) error {
	switch c := &h.k.cfg; {
	case c.longest > 0 && d > c.longest:
		return fmt.Errorf("%w: Extend: %v is longer than the %v that the restart guard waits", ErrInvalidOption, d, c.longest)
	case !h.cfg.trusts(d):
		return fmt.Errorf("%w: Extend: %v is longer than the %v that WithRedissonWatchdog lets a reader rely on",
			ErrInvalidOption, d, h.cfg.trust)
	}
	return nil
}

// fill lengthens a fixed lease that was granted for less than WithFixedLease says. It tries until that
// succeeds or ctx ends; only once if m is trying. If it fails, the lock is given back.
func (lk *lock) fill(ctx context.Context, l *Lease, m mode) error {
	pause := clock.Backoff{Least: lk.cfg.firstLease / 100, Most: lk.cfg.firstLease / 10}
	for l.share.short {
		err := l.h.extend(ctx, &l.share, lk.cfg.fixed, false)
		if err == nil || isLost(err) {
			return err
		}
		if m == trying || !wire.Transient(err) || !clock.Sleep(ctx, pause.Next()) {
			// The caller is told why it does not get the lock, not how it was given back.
			lk.tally.Go(func() { _ = l.h.drop(ctx, l) })
			return lk.waitedFor(ctx, err, nil)
		}
	}
	return nil
}
