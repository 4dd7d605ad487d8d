package relock

import (
	"context"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/tenure"
	"github.com/relock-go/relock/internal/wire"
)

// exclusively is the manner of a hold whose leases follow one another, each with a token of its own. Its
// holder keeps the lock's gate, and passes the hold on there. Re-entries share it meanwhile: they are
// the same owner's.
type exclusively struct{}

// severally is the manner of a lock that more than one owner may hold, each by a hold of its own: the
// next goroutine here may hold the lock beside this one.
type severally struct{ exclusively }

func (severally) keepsGate() bool { return false }

func (exclusively) joins(*config) bool      { return true }
func (exclusively) keepsGate() bool         { return true }
func (exclusively) lingers(c *config) bool  { return c.lingers() }
func (exclusively) begun(*hold)             {}
func (exclusively) nextToken(h *hold) int64 { return h.block.Take() }

// counts is one at least: a hold that is passed on has no share.
func (exclusively) counts(h *hold) int { return max(1, len(h.shares.all)) }

func (exclusively) enter(ctx context.Context, h *hold, b bearer, outer *share) error {
	return h.reenterOnce(ctx, b, outer)
}

func (exclusively) observed(h *hold, number uint64) (before uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before, h.last = h.last, number
	return before
}

// drop takes ops first, so that no re-entry is under way. Where another call has had ops for a whole
// command timeout, Redis does not answer: then renewals mend the count, and the last share leaves the
// lock to the sweeper.
func (exclusively) drop(ctx context.Context, h *hold, b bearer) error {
	busy := !h.ops.TryLock()
	if busy {
		if h.gaveBack(b.shared()) {
			return ErrNotHeld // at once: ops may be busy for a stranger
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, h.entry.Timeout, wire.ErrNoAnswer) // for the wait and what follows
		defer cancel()
		busy = h.ops.Lock(ctx) != nil
	}
	// One reading of the clock decides both whether the share was still good, and what is passed on.
	// With two, a lease could end between them and its Unlock succeed.
	now := clock.Now()
	h.expire(now)
	count, lease, err := h.take(b, now)
	switch {
	case count > 0 && !busy:
		defer h.ops.Unlock()
		return h.leave(ctx, count, lease)
	case count > 0:
		h.mu.Lock()
		defer h.mu.Unlock()
		h.countMissed(now)
	case !busy:
		h.ops.Unlock() // the next holder needs them
		if err == nil {
			return h.finish(ctx, now, toNext)
		}
	case err == nil:
		if err = h.finish(ctx, now, toSweeper); err == nil {
			err = &wire.NodeError{Op: "release", Name: h.names.Name, Err: wire.ErrNoAnswer}
		}
	}
	return err
}

// passOn gives the hold to the next local waiter. One that may linger is laid down where no goroutine
// waits. Passed, or laid down, under h.mu: a loss that comes now finds the gate with the goroutine that
// has the hold by then. And last of all, since that goroutine asks for h.mu at once.
func (x exclusively) passOn(h *hold, now clock.Stamp) bool {
	if !h.atGate {
		return false
	}
	lingers := x.mayRest(h, now) // it has tokens for longer, and is bound by nothing more
	if !lingers {
		if h.spent(now) {
			h.block.Continue()
		}
		if !x.mayPass(h, now) {
			return false
		}
		x.refill(h, now)
	}
	key, soon := h.names.Gate(), !h.cfg.strict && now.Since(h.term.Began()) <= gate.Soon
	switch {
	case lingers && h.mayLinger():
		if h.k.gates.LayDown(key, held{h}, idle{h}, soon, now.Mono()) {
			h.layDown()
			if h.lookAt.IsZero() { // granted for a waiter that had left, so it never began
				due := h.next(now)
				h.lookAt = due.At
				h.k.watchdog.Schedule(h, due, now)
			}
		}
		return true
	case soon:
		return h.k.gates.Offer(key, held{h}, now.Mono())
	}
	return h.k.gates.Pass(key, held{h})
}

// mayPass reports whether a hold that may not linger may be passed on, within the bounds that keep other
// processes from starving. One that might have lingered until another process wanted it goes to that
// process. The caller holds h.mu.
func (exclusively) mayPass(h *hold, now clock.Stamp) bool {
	return !h.rest.Overtaken() && !h.spent(now) && h.term.Left(now) >= h.entry.Lease/10 && !h.term.Lengthened(now)
}

// spent reports whether the hold was passed on as often, or for as long, as WithLocalHandoff says. The
// caller holds h.mu.
func (h *hold) spent(now clock.Stamp) bool { return h.block.Spent(h.cfg.passes, h.cfg.passTime, now) }

// refill asks for the next block of tokens where this one runs out. The caller holds h.mu.
func (exclusively) refill(h *hold, now clock.Stamp) {
	if !h.block.RunsLow(h.entry.Block, h.cfg.passes, now) || !h.k.gates.Waiting(h.names.Gate()) {
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

// mayRest reports whether the hold may be kept for another lease of this process: by its rest, and
// while Redis confirmed more than a third of the lease, so that a process which was stopped finds it
// over whatever its timers have seen. It ends as any hold that is over: once, and released until
// Redis has answered. internal/model explores that, with each of these rules taken away. The caller
// holds h.mu.
func (exclusively) mayRest(h *hold, now clock.Stamp) bool {
	return h.rest.May(h.cfg.lingersFor(), now) && h.fate.live() && h.block.Left() > 0 &&
		h.term.Left(now) > h.entry.Lease/3 && !h.term.Lengthened(now) && !h.count.Unsure() && !h.k.isClosed()
}

// withdraw leaves a hold with the goroutine that has just taken it up at the gate, which will find it
// over.
func (exclusively) withdraw(h *hold) {
	if h.rest.Idle {
		h.k.gates.Withdraw(h.names.Gate(), idle{h})
	}
}

// resume takes up a hold that lay at the gate, for a caller that is at the gate now. It returns false
// where the lock has to be asked for: then the hold is over.
func (x exclusively) resume(h *hold, now clock.Stamp) bool {
	h.mu.Lock()
	switch {
	case !h.rest.Idle:
		h.mu.Unlock()
		return false
	case x.mayRest(h, now) && !h.term.Doubted():
		h.pickUp()
		h.atGate = true
		h.mu.Unlock()
		return true
	}
	_ = h.end(context.Background(), nil, toSweeper)
	return false
}
