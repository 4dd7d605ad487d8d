package relock

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// HandOver ends a lease of a Mutex on one Redis, and leaves the lock standing for a handle, a text with which
// Mutex.TakeOver goes on, in this process or another. The lock is not free in between. If no process takes it over
// within the time stays, the lock ends like one whose holder died, and its next waiter gets it. A handle
// is used once. It is a secret: a caller that has it can take the lock. Redis has only a digest of it, and
// so have State, HeldError, logs and errors, from which no handle can be made.
//
// The lease's context ends, with cause ErrHandedOver, before Redis is told. The lease is then over as
// after Unlock, whatever HandOver returns, unless nothing changes, as the list says. HandOver goes on if
// ctx is cancelled, for two command timeouts at most. Errors, with which there is no handle:
//
//   - ErrMisuse, and nothing changes: ErrInvalidOption for a time that is no possible lease; a lock that
//     was entered more often than unlocked; a lease under WithOwner; ErrNotHeld after Unlock or HandOver.
//   - ErrLost when the lock was lost before, ErrClosed.
//   - ErrUnavailable, in a *NodeError, if Redis did not answer. The lock is then freed in the background.
//     If the command did run, that takes as long as stays says. ErrRefused if no retry helps.
//   - errors.ErrUnsupported for a lease of another kind, over a quorum and under WithRestartGuard; nothing
//     changes.
func (l *Lease) HandOver(ctx context.Context, stays time.Duration) (handle string, err error) {
	if l.zero() {
		return "", ErrNotHeld
	}
	if ctx == nil {
		ctx = context.Background()
	}
	if err := leaseInRange(stays); err != nil {
		return "", fmt.Errorf("%w: HandOver: %w", ErrInvalidOption, err)
	}
	h := l.h
	moved, movable := h.claim.(claim.Movable)
	switch {
	case !h.names.Kind.Moves:
		return "", fmt.Errorf("%w: HandOver of a %s lease", wire.Unsupported, h.names.Kind.Name)
	case !movable:
		return "", errStays
	case h.entry.Owner != "":
		return "", errOwnersStay
	}
	h.tally.Enter()
	defer h.tally.End()
	ctx = context.WithoutCancel(ctx)
	if err = h.handOver(ctx, l); err == errReentered {
		return "", err
	}
	if err == nil {
		h.lasts.Lasted(l.share.since)
		handle = wire.NewHandle(h.k.id, h.names.Lock)
		if err = moved.HandOver(ctx, wire.HandleField(handle), stays); err != nil {
			handle = ""
		}
	}
	err = h.named(h.k.explained(err))
	l.unlockedWith(err)
	return handle, err
}

// handOver ends the hold of b, for which its claim is to be handed over, if b has its only share.
func (h *hold) handOver(ctx context.Context, b bearer) error {
	soon, cancel := context.WithTimeoutCause(ctx, h.entry.Timeout, wire.ErrNoAnswer)
	defer cancel()
	if h.ops.Lock(soon) != nil { // a re-entry, say, is under way, and Redis does not answer
		return cmp.Or(h.drop(ctx, b), error(&wire.NodeError{Op: driver.Move, Name: h.names.Name, Err: wire.ErrNoAnswer}))
	}
	defer h.ops.Unlock()
	now := clock.Now()
	h.expire(now)
	h.mu.Lock()
	several := h.fate.live() && len(h.shares.all) > 1
	h.mu.Unlock()
	if several {
		return errReentered
	}
	if _, _, err := h.takeBack(b, now, ErrHandedOver); err != nil {
		return err
	}
	return h.finish(ctx, now, toHandle)
}

// TakeOver takes over the lock that Lease.HandOver left standing for a handle, by the Mutex of the same
// name, and returns its lease. That has a fencing token above all that were granted before, and this
// Mutex's options. TakeOver repeats its command until Redis answers, ctx ends, or WithWait's time is up.
// It waits for no other holder. A lease of ctx does not matter. Errors are those of TryLock, except for
// these:
//
//   - ErrLost if the lock does not stand for the handle: its time is over, it was used, the lock was
//     forced open, or it is the handle of another lock. So also for the id of a holder, as State.Holder
//     shows it. The holder keeps the lock. The error names the lock, and why as far as Redis knows that.
//   - ErrUnavailable if the caller gave up before Redis had answered. The handle may be used up; if so the
//     lock is freed in the background.
//   - ErrMisuse for a text that is no handle, and under WithOwner.
//   - errors.ErrUnsupported over a quorum and under WithRestartGuard.
func (m *Mutex) TakeOver(ctx context.Context, handle string) (*Lease, error) {
	lk := m.base()
	return lk.run(ctx, func(seen *call) (*Lease, error) {
		a := attempt{lock: lk, ctx: ctx, wctx: ctx, seen: seen}
		return a.takeOver(handle)
	})
}

func (a *attempt) takeOver(handle string) (*Lease, error) {
	if err := a.begin(a.ctx, driver.Move); err != nil {
		return nil, err
	}
	defer a.tally.End()
	defer a.bound()()
	owner, err := ownerOf(a.ctx)
	switch {
	case err != nil:
		return nil, err
	case owner != "":
		return nil, errOwnersStay
	}
	c, movable := a.newClaim("").(claim.Movable)
	if !movable {
		return nil, errStays
	}
	if err := wire.ValidHandle(handle, a.names); err != nil {
		return nil, err
	}
	a.seen.begins()
	g, err := c.TakeOver(a.wctx, wire.HandleField(handle))
	if err != nil {
		return nil, err
	}
	l, err := a.startFirst(a.ctx, c, g, false, HowRemote)
	if err == nil && a.cfg.fixed > 0 {
		err = a.fill(a.wctx, l, a.mode)
	}
	return l, err
}

var (
	errReentered  = fmt.Errorf("%w: HandOver of a lease whose lock was entered more than once: unlock the re-entries first", ErrMisuse)
	errOwnersStay = fmt.Errorf("%w: a handle under WithOwner; the owner's id serves as one", ErrMisuse)
	errStays      = fmt.Errorf("%w: a hand-over on a quorum of nodes, or under WithRestartGuard", wire.Unsupported)
)
