package relock

import (
	"context"
	"slices"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/wire"
)

// The end of a hold. Whichever goroutine finds first that a hold has to end, it ends here: end writes
// the fate under the hold's mutex, and takes shares, idleness and place at the gate away. What is left
// to do is an ending, which is carried out once the mutex is free. The first rule: trust ends before
// Redis is told. No other goroutine, here or elsewhere, is granted the lock by our doing while a caller
// still believes in it. So an ending goes through this table from left to right:
//
//	what ends it                    fate    told      the claim goes      the gate
//	the last share is given back    ended   before*   to Redis†           to the next, with what Redis said
//	so, Redis does not answer       ended   before*   to the sweeper      left
//	its deadline, a message         lost    all       to the sweeper      left, or withdrawn from‡
//	Close, a caller has a share     lost    all       to nobody           left, or withdrawn from‡
//	Close, no caller has one        lost    all§      to the sweeper      left, or withdrawn from‡
//	idle for long, or wanted        ended   none      to the sweeper      withdrawn from‡
//	the last reader's share         ended   before*   to Redis            withdrawn from‡
//
//	*  by take: the hold may also be passed on, or laid down.
//	†  with an entry for the waiters at the gate: so they have a place in Redis's queue.
//	‡  by end: the hold lay there, or had opened it.
//	§  that wait until their fixed lease is lengthened.
//
// A hold that Close ends may still guard the work of its callers, which Close cannot stop. To free the
// lock would let others in beside them. Any other loss is released, so that no process waits for the
// end of a lease that is not trusted.

// parting is where a hold's claim goes.
type parting int

const (
	toNext    parting = iota // to the next goroutine here, which ends nothing; to Redis where none may have it
	toRedis                  // released, by a command that the caller waits for
	toSweeper                // released in the background
	toNobody                 // left to its lease
)

// ending is what is left to do for a hold that has just ended.
type ending struct {
	cause  error    // why it was lost
	told   []bearer // of that
	claim  parting
	atGate bool // its holder was at the lock's gate

	// For the hold that may follow it there.
	cfg   *config
	last  uint64
	alone bool // no other process wants the lock
}

// end ends a live hold: with a cause it is lost, with none given back. The caller holds h.mu, which end
// frees: so no caller can forget to carry out what is left to do, or do it too early. The error is that
// of the command that gives the lock back, where there is one.
func (h *hold) end(ctx context.Context, cause error, claim parting) error {
	e := ending{
		cause: cause, told: h.shares.all, claim: claim, atGate: h.atGate,
		cfg: h.cfg, last: h.last, alone: h.rest.Alone(),
	}
	given := func(b bearer) bool { return !b.shared().owed }
	if cause == ErrClosed && slices.ContainsFunc(e.told, given) {
		e.claim = toNobody
	}
	for _, b := range e.told {
		b.losing()
	}
	h.manner.withdraw(h)
	if h.rest.Idle {
		h.pickUp()
	}
	h.fate = fate{over: true, cause: cause}
	h.shares.all, h.atGate = nil, false
	h.mu.Unlock()
	return h.carryOut(ctx, &e)
}

// finish ends a hold without a share, unless it is toNext and may be passed on or laid down.
func (h *hold) finish(ctx context.Context, now clock.Stamp, to parting) error {
	h.mu.Lock()
	switch {
	case !h.fate.live():
		defer h.mu.Unlock()
		if h.fate.cause == ErrClosed {
			return nil // Close came first, found no lease and gives the lock back itself
		}
		return h.fate.cause
	case to == toNext && h.manner.passOn(h, now):
		h.mu.Unlock()
		return nil
	}
	return h.end(ctx, nil, to)
}

// carryOut does what an end has left to do.
func (h *hold) carryOut(ctx context.Context, e *ending) (err error) {
	k, key := h.k, h.names.Gate()
	for _, b := range e.told {
		b.lost(e.cause)
	}
	k.watchdog.Remove(h)
	var place claim.Claim // of the waiters at the gate
	var next *hold        // of theirs, by the same command
	switch e.claim {
	case toNext, toRedis:
		place = h.follower(e)
		g, granted, failed := h.claim.Release(ctx, place)
		if err = failed; granted {
			next = h.newHold(&hold{last: e.last}, place, g, e.cfg, true, clock.Now())
		} else if e.atGate {
			k.gates.Report(key, heardBack(err))
		}
	case toSweeper:
		h.claim.Abandon()
	case toNobody:
		h.claim.Forget()
		k.presence.Stays()
	}
	switch {
	case !e.atGate:
	case next != nil:
		next.mu.Lock() // a loss before has left the gate; one from here on finds it with the goroutine that has the hold
		passed := !next.fate.live() || k.gates.Pass(key, held{next}) || h.manner.passOn(next, clock.Now())
		next.mu.Unlock()
		if !passed { // all have given up, and the caller has waited for one command
			next.tally.Go(func() { _ = next.finish(context.WithoutCancel(ctx), clock.Now(), toRedis) })
		}
	case place != nil && k.gates.Pass(key, place):
	default:
		if place != nil {
			place.Abandon()
		}
		k.gates.Leave(key)
	}
	return err
}

// follower is a claim for the waiters at the gate, nil where there are none, or where the hold is not
// at its gate: it was asked for past it, as for a shared owner, or has opened it.
func (h *hold) follower(e *ending) claim.Claim {
	if !e.atGate || !h.k.gates.Report(h.names.Gate(), gate.ErrUnreported) {
		return nil
	}
	entry := h.newEntry("", e.cfg)
	// Where another process wants the lock, it is passed on here no more than WithLocalHandoff says. A
	// larger block of tokens would be wasted. It would carry the counter ahead of the server's clock,
	// until few tokens are left for a grant.
	if !e.alone {
		entry.Block = e.cfg.passes
	}
	return h.k.arbiter.Claim(entry)
}

// heardBack is err unless it is what Redis answered.
func heardBack(err error) error {
	if wire.FromRedis(err) {
		return err
	}
	return nil
}
