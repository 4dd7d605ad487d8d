package relock

import (
	"context"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/tenure"
	"github.com/relock-go/relock/internal/wire"
)

// exclusively is the manner of a hold whose leases follow one another, each with a token of its own. The
// holder stays at the lock's gate, and passes the hold on there. Re-entries of the same owner share the
// hold meanwhile.
type exclusively struct{}

func (exclusively) usesGate(*config) bool              { return true }
func (exclusively) keepsGate() bool                    { return true }
func (exclusively) lingers(c *config) bool             { return c.lingers() }
func (exclusively) carried() bool                      { return true }
func (exclusively) asks(c *config) int                 { return c.block() }
func (exclusively) begun(*hold)                        {}
func (exclusively) atHand(*known, int) *hold           { return nil }
func (exclusively) spare(*known) []*hold               { return nil }
func (exclusively) joinable(*hold, clock.Stamp) bool   { return false }
func (exclusively) reserved(_ *config, tokens int) int { return tokens }
func (exclusively) nextToken(h *hold) int64            { return h.block.Take() }

// counts is at least one: a hold that is being passed on has no share.
func (exclusively) counts(h *hold) int { return max(1, len(h.shares.all)) }

func (exclusively) admit(ctx context.Context, h *hold, b bearer, outer *share) error {
	return h.recount(ctx, b, outer)
}

func (exclusively) observed(h *hold, number uint64) (before uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, h.last = h.last, number
	return before
}

// drop takes ops first, so that no re-entry is under way. If another call keeps ops for a whole command
// timeout, Redis does not answer. Then renewals write the lower count, and the last share leaves the
// lock to the sweeper.
func (exclusively) drop(ctx context.Context, h *hold, b bearer) error {
	busy := !h.ops.TryLock()
	if busy {
		if h.gaveBack(b.shared()) {
			return ErrNotHeld // at once: ops may be busy for another owner by now
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, h.entry.Timeout, wire.ErrNoAnswer) // for the wait and what follows
		defer cancel()
		busy = h.ops.Lock(ctx) != nil
	}
	// One reading of the clock decides whether the share is still good, and whether the hold passes on.
	// With two readings, a lease could end in between, and its Unlock would succeed.
	now := clock.Now()
	h.expire(now)
	count, outlasts, err := h.takeBack(b, now, ErrNotHeld)
	switch {
	case (count > 0 || outlasts) && !busy:
		defer h.ops.Unlock()
		return h.lowerCount(ctx, count)
	case outlasts:
		return &wire.NodeError{Op: driver.Recount, Name: h.names.Name, Err: wire.ErrNoAnswer}
	case count > 0:
		h.mu.Lock()
		defer h.mu.Unlock()
		h.countMissed(now)
	case !busy:
		h.ops.Unlock() // the next holder needs ops
		if err == nil {
			return h.finish(ctx, now, toNext)
		}
	case err == nil:
		if err = h.finish(ctx, now, toSweeper); err == nil {
			err = &wire.NodeError{Op: driver.Release, Name: h.names.Name, Err: wire.ErrNoAnswer}
		}
	}
	return err
}

// passOn gives the hold to the next local waiter. If no goroutine waits, it lays down a hold that may
// linger. It does so under h.mu, so that a loss finds the gate with the goroutine that then has the
// hold. It does so last, since that goroutine locks h.mu at once.
func (x exclusively) passOn(h *hold, now clock.Stamp) bool {
	if !h.atGate {
		return false
	}
	lingers := x.mayRest(h, now) // if so, WithLocalHandoff does not bound the hold
	if !lingers {
		if x.spent(h, now) {
			h.block.Continue()
		}
		if !x.mayPass(h, now) {
			return false
		}
		x.refill(h, now)
	}
	key, soon := h.gate, !h.cfg.strict && now.Since(h.term.Began()) <= gate.Soon
	switch {
	case lingers && h.mayLinger():
		if h.k.gates.LayDown(key, h, idle{h}, soon, now.Mono()) {
			h.layDown()
			if h.lookAt.IsZero() { // the waiters had left before the grant, so start was never called
				due := h.next(now)
				h.lookAt = due.At
				h.k.watchdog.Schedule(h, due, now)
			}
		}
		return true
	case soon:
		return h.k.gates.Offer(key, h, now.Mono())
	}
	return h.k.gates.Pass(key, h)
}

// mayPass reports whether a hold that may not linger may be passed on, within the bounds that keep other
// processes from starving. If it could linger until another process came to want it, it goes to that
// process. The caller holds h.mu.
func (x exclusively) mayPass(h *hold, now clock.Stamp) bool {
	return !h.rest.Overtaken() && !x.spent(h, now) && h.term.Left(now) >= h.entry.Lease/10 && !h.term.Lengthened(now)
}

// spent reports whether the hold was passed on as often, or for as long, as WithLocalHandoff says. The
// caller holds h.mu.
func (exclusively) spent(h *hold, now clock.Stamp) bool {
	return h.block.Spent(h.cfg.passes, h.cfg.passTime, now)
}

// refill asks for the next block of tokens if this one runs low. The caller holds h.mu.
func (exclusively) refill(h *hold, now clock.Stamp) {
	if !h.block.RunsLow(h.entry.Block, h.cfg.passes, now) || !h.k.gates.Waiting(h.gate) {
		return
	}
	h.block.Ask()
	h.claim.Refill(func(g node.Grant) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.block.Answered(tenure.More{Token: g.Token, Count: g.Passes, Sent: g.Sent}) // in vain if the hold is over by now
	})
}

// Cached leases. A hold whose last lease was unlocked may linger (WithLinger): Redis keeps it for this
// process, it lies at its lock's gate, and the next Lock takes it from there without a command, with the
// next token of its block.

// mayRest reports whether the hold may be kept for another lease of this process. Its rest must allow
// that, and more than a third of the lease must be left: so a process that was stopped finds the hold
// over, even before its timers have run. internal/model explores these rules, and what happens without
// each of them. The caller holds h.mu.
func (exclusively) mayRest(h *hold, now clock.Stamp) bool {
	return h.rest.May(h.cfg.lingersFor(), now) && h.fate.live() && h.block.Left() > 0 &&
		h.term.Left(now) > h.entry.Lease/3 && !h.term.Lengthened(now) && !h.count.Unsure() && !h.k.isClosed()
}

// withdraw takes an idle hold away from the gate. If a goroutine has just taken it up there, withdraw
// does nothing: that goroutine will find the hold over.
func (exclusively) withdraw(h *hold) {
	if h.rest.Idle {
		h.k.gates.Withdraw(h.gate, idle{h})
	}
}
