package relock

import (
	"context"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/tenure"
	"github.com/relock-go/relock/internal/wire"
)

// baton is what one goroutine hands to the next at a lock's gate: the lock itself, or its place in
// Redis's queue.
type baton struct {
	hold *hold
	next claim.Claim
	idle bool // the hold lay at the gate, and may be over
	open bool // the hold is shared, and may be over: the goroutine that gets this is not at the gate
	let  bool // the hold is shared, and waits for the goroutine that gets this
}

// finish passes the hold to the next goroutine of this process. Where none waits it leaves the hold
// at the gate for the next that comes, if it may linger. Else it gives the lock back.
func (h *hold) finish(ctx context.Context, now clock.Stamp) error {
	if h.passOn(now) {
		return nil
	}
	return h.conclude(ctx)
}

// conclude gives the lock back. A hold at the gate gives its turn there to the next goroutine, too. One
// that was asked for past the gate, as for a shared owner, only tells Redis.
func (h *hold) conclude(ctx context.Context) error {
	h.mu.Lock()
	if !h.fate.live() {
		defer h.mu.Unlock()
		if h.fate.cause == ErrClosed {
			return nil // Close came first, found no lease and gives the lock back itself
		}
		return h.fate.why()
	}
	h.fate.state = holdEnded
	atGate := h.atGate
	h.mu.Unlock()
	h.k.watchdog.remove(h)
	if !atGate {
		_, _, err := h.claim.Release(ctx, nil)
		return err
	}
	return h.releaseAtGate(ctx)
}

// passOn gives the hold to the next local waiter, within the bounds that keep other processes from
// starving. A hold that may linger is bound by nothing more, and is laid down where no goroutine waits.
// One that might have lingered until another process wanted it goes to that process.
func (h *hold) passOn(now clock.Stamp) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.atGate || !h.fate.live() || h.rest.Overtaken() {
		return false
	}
	cached := h.cacheable(now)
	spent := func() bool { return h.block.Spent(h.cfg.passes, h.cfg.passTime, now) }
	if !cached && spent() {
		h.block.Continue()
	}
	if !cached && (spent() || h.term.Left(now) < h.entry.Lease/10) || h.term.Lengthened(now) {
		return false
	}
	if !cached { // what may linger has tokens for longer, and is bound by no more
		h.refill(now)
	}
	key, soon := h.names.Gate(), !h.cfg.strict && now.Since(h.term.Began()) <= gate.Soon
	// Passed, or laid down, under h.mu: a loss that comes now finds the gate with the goroutine that
	// has the hold by then. And last of all, since that goroutine asks for h.mu at once.
	switch {
	case cached && h.tally.lingering.Load() < maxLingering/tallies:
		if h.k.gates.Rest(key, baton{hold: h}, baton{hold: h, idle: true}, soon, now.Mono()) {
			h.layDown(now)
		}
		return true
	case soon:
		return h.k.gates.Offer(key, baton{hold: h}, now.Mono())
	}
	return h.k.gates.Pass(key, baton{hold: h})
}

// refill asks for the next block of tokens where this one runs out. The caller holds h.mu.
func (h *hold) refill(now clock.Stamp) {
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

// cacheable reports whether the hold may be kept for another lease of this process: by its rest, and
// while Redis confirmed more than a third of the lease, so that a process which was stopped finds it
// over whatever its timers have seen. It ends as any hold that is over: once, and released until
// Redis has answered. internal/model explores that, with each of these rules taken away. The caller
// holds h.mu.
func (h *hold) cacheable(now clock.Stamp) bool {
	return h.rest.May(h.cfg.rests(), now) && h.fate.live() && h.block.Left() > 0 &&
		h.term.Left(now) > h.entry.Lease/3 && !h.term.Lengthened(now) && !h.count.Unsure() && !h.k.isClosed()
}

// mayRest reports whether the hold may go on lying idle. The caller holds h.mu.
func (h *hold) mayRest(now clock.Stamp) bool {
	if h.names.Kind.Open {
		return h.joinable(now) && h.rest.May(h.cfg.rests(), now) && !h.term.Lengthened(now)
	}
	return h.cacheable(now)
}

// layDown notes that the hold lies at the gate without a lease, and that the caller has left the gate.
// From here on, whatever ends the hold looks for it there, or with the goroutine that has taken it up.
// The caller holds h.mu.
func (h *hold) layDown(now clock.Stamp) {
	h.tally.lingering.Add(1)
	h.rest.Idle, h.atGate = true, false
	h.term.Vacate()
	if h.lookAt.IsZero() { // granted for a waiter that had left, so it never began
		due := h.next(now)
		h.lookAt = due.at
		h.k.watchdog.schedule(h, due, now)
	}
}

// resume takes up a hold that lay at the gate, for a caller that is at the gate now. It returns false
// where the lock has to be asked for: then the hold is over.
func (h *hold) resume(now clock.Stamp) bool {
	h.mu.Lock()
	if h.rest.Idle && h.cacheable(now) && !h.term.Doubted() {
		h.pickUp()
		h.atGate = true
		h.mu.Unlock()
		return true
	}
	h.mu.Unlock()
	h.giveBack()
	return false
}

// pickUp ends the idleness of a hold. The caller holds h.mu.
func (h *hold) pickUp() {
	h.rest.Idle = false
	h.tally.lingering.Add(-1)
}

// giveBack ends a hold that lies idle. It acts once, however often it is called.
func (h *hold) giveBack() {
	h.mu.Lock()
	if !h.rest.Idle {
		h.mu.Unlock()
		return
	}
	h.withdraw()
	h.fate.state = holdEnded
	h.mu.Unlock()
	h.k.watchdog.remove(h)
	h.claim.Abandon()
}

// withdraw takes an idle hold away from the gate, unless a caller has just taken it up there, which
// will find it over. The caller holds h.mu, and ends the hold.
func (h *hold) withdraw() {
	h.pickUp()
	if h.names.Kind.Open {
		h.shut()
		return
	}
	h.k.gates.Withdraw(h.names.Gate(), baton{hold: h, idle: true})
}

// releaseAtGate gives the lock back. If others wait at the gate, the next place in Redis's queue is
// taken for them in the same command.
func (h *hold) releaseAtGate(ctx context.Context) error {
	k, key := h.k, h.names.Gate()
	var next claim.Claim
	if k.gates.Report(key, gate.ErrUnreported) {
		e := h.newEntry("", h.cfg)
		h.mu.Lock()
		alone := h.rest.Alone()
		h.mu.Unlock()
		// Where another process wants the lock, it is passed on here no more than WithLocalHandoff says.
		// A larger block of tokens would be wasted. It would carry the counter ahead of the server's
		// clock, until few tokens are left for a grant.
		if !alone {
			e.Block = h.cfg.passes
		}
		next = k.arbiter.Claim(e)
	}
	g, granted, err := h.claim.Release(ctx, next)
	if !granted {
		k.gates.Report(key, heardBack(err))
	}
	switch {
	case granted:
		nh := h.newHold(new(hold), next, g, h.cfg, true)
		nh.last = h.last
		// If all that waited have given up, a second command may be due: the caller has waited for one.
		if !k.gates.Pass(key, baton{hold: nh}) && !nh.passOn(clock.Now()) {
			k.behind(nh.tally, func() { _ = nh.conclude(context.WithoutCancel(ctx)) })
		}
	case next != nil && k.gates.Pass(key, baton{next: next}):
	default:
		if next != nil {
			next.Abandon()
		}
		k.gates.Leave(key)
	}
	return err
}

// heardBack is err unless it is what Redis answered.
func heardBack(err error) error {
	if wire.FromRedis(err) {
		return err
	}
	return nil
}
