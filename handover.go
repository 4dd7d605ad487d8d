package relock

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// keeper is what the locks and holds of a client have in common: who decides, who waits here, and
// what is kept.
type keeper struct {
	id     string // uuid: fields and inbox of the client
	cfg    config
	arb    claim.Arbiter
	gates  *gate.Gates[baton]
	remark claim.Remark // at a gate
	dog    *watchdog
	plate  *plate        // nil where the client has no name
	idle   chan struct{} // one slot: a last call of a tally ended on a closed client
	closed atomic.Bool   // every call reads it: nothing that calls write lies beside it
	known  [maxKnown]atomic.Pointer[known]
	tally  [tallies]tally
	count  atomic.Uint64 // of entries
}

// baton is what one goroutine hands to the next at a lock's gate: the lock itself, or its place in
// Redis's queue.
type baton struct {
	hold *hold
	next claim.Claim
	idle bool // the hold lay at the gate, and may be over
}

// settle waits for the calls under way. They may hold what they have to give back, and leave within
// a command timeout where Redis answers.
func (k *keeper) settle() {
	t := time.NewTimer(2 * k.cfg.commandTimeout)
	defer t.Stop()
	for k.underWay() > 0 {
		select {
		case <-k.idle:
		case <-t.C:
			return
		}
	}
}

// finish passes the hold to the next goroutine of this process, lays it down at the gate, or gives
// the lock back.
func (h *hold) finish(ctx context.Context, now clock.Stamp) error {
	if h.passOn(now) {
		return nil
	}
	h.mu.Lock()
	if h.state != holdLive {
		defer h.mu.Unlock()
		if h.cause == ErrClosed {
			return nil // Close found no lease and gives the lock back
		}
		return h.causeLocked()
	}
	h.state = holdEnded
	atGate := h.atGate
	h.mu.Unlock()
	h.k.dog.remove(h)
	if !atGate {
		_, _, err := h.claim.Release(ctx, nil)
		return err
	}
	return h.k.releaseAtGate(ctx, h)
}

// passOn gives the hold to the next local waiter, within the bounds that keep other processes from
// starving. A hold that may linger is bound by nothing more, and is laid down where nobody waits; one
// that might until somebody else wanted it goes to that one.
func (h *hold) passOn(now clock.Stamp) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.atGate || h.state != holdLive || h.fresh && h.stale {
		return false
	}
	cached := h.cacheable(now)
	if !cached && h.spent(now) {
		h.nextBlock()
	}
	if !cached && (h.spent(now) || h.until.Until(now) < h.entry.Lease/10) {
		return false
	}
	if h.kept.Until(now) > h.entry.Lease {
		return false // were this process to die, the next holder's lock would stand for as long as it was lengthened
	}
	if !cached { // what may linger has tokens for longer, and is bound by no more
		h.refill(now)
	}
	key, soon := h.entry.Names.Lock, !h.cfg.strict && now.Since(h.began) <= gate.Soon
	// Passed, or laid down, under h.mu: a loss that comes now finds the gate with the one who has the
	// hold by then. And last of all, since that one asks for h.mu at once.
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

// refill is a block of tokens that is asked for while the last ones of the one before are used, so
// that a lock which nobody else wants is not given back between them. It is guarded by the hold's
// mutex.
type refill struct {
	asked bool
	used  int        // of the hold's leases when it was asked
	grant node.Grant // zero while it was not answered
}

// refillPart of a block are left when the next one is asked for.
const refillPart = 4

// refill asks for the next block where the last part of this one begins, and will be there as long as
// the answer takes: the lock went through the other parts in as many round trips, or more. Else the
// block would come too late, and its tokens would be lost, while those who follow each other that
// fast need as many as the clock makes. The caller holds h.mu.
func (h *hold) refill(now clock.Stamp) {
	passes := min(h.entry.Block, h.cfg.passes)
	if min(h.left, h.cfg.passes-h.used) != passes/refillPart || h.more.asked ||
		now.Since(h.since) < (refillPart-1)*h.trip || !h.k.gates.Waiting(h.entry.Names.Lock) {
		return
	}
	h.more = refill{asked: true, used: h.used}
	h.claim.Refill(func(g node.Grant) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.more.grant = g // a hold that is over by now is not asked any more
	})
}

// spent reports whether others than this process's are to be given a chance, or no token is left.
// The caller holds h.mu.
func (h *hold) spent(now clock.Stamp) bool {
	return h.left == 0 || h.used >= h.cfg.passes || now.Since(h.since) >= h.cfg.passTime
}

// nextBlock goes on with the block that was asked for, if there is one. Nobody waited for the lock
// when that was answered: so the bounds count from when it was asked, as with a grant. A Redis that
// forgot how far it counted, and whose clock was set back, may count lower. The caller holds h.mu.
func (h *hold) nextBlock() {
	if next := h.more.grant; next.Token >= h.token {
		h.token, h.left, h.since = next.Token, next.Passes, next.Sent
		h.used -= h.more.used
		h.more = refill{}
	}
}

// releaseAtGate gives h's lock back. If others wait at the gate, the next place in Redis's queue is
// taken for them in the same command.
func (k *keeper) releaseAtGate(ctx context.Context, h *hold) error {
	key := h.entry.Names.Lock
	var next claim.Claim
	if k.gates.Remark(key, gate.ErrNothingYet) {
		e := k.entry(h.entry.Kind, h.entry.Names, "", h.cfg)
		if !h.alone() {
			e.Block = h.cfg.passes
		}
		next = k.arb.Claim(e)
	}
	g, granted, err := h.claim.Release(ctx, next)
	if !granted {
		k.gates.Remark(key, heardBack(err))
	}
	switch {
	case granted:
		nh := k.newHold(new(hold), next, g, h.cfg, true)
		nh.last = h.last
		if !k.gates.Pass(key, baton{hold: nh}) {
			_ = nh.finish(ctx, clock.Now()) // everyone who waited has given up
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

// unlockTimeout bounds an Unlock, whose caller's cancellation does not.
func unlockTimeout(e *wire.Entry) time.Duration { return 5 * e.Timeout }
