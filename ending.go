package relock

import (
	"context"
	"slices"
	"sync"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// The end of a hold. The goroutine that first finds that a hold must end calls end. It writes the fate
// under the hold's mutex, and takes away the shares, the idleness and the place at the gate. The rest
// is an ending, which is carried out once the mutex is free. The first rule: trust ends before Redis is
// told. This process never frees the lock, for another goroutine here or elsewhere, while a caller
// still believes in it. So an ending goes through this table from left to right:
//
//	what ends it                    fate    told      the claim goes      the gate
//	the last share is given back    ended   before*   to Redis†           to the next, with the answer
//	the same, Redis is silent       ended   before*   to the sweeper      left
//	its deadline, a message         lost    all       to the sweeper      left, or withdrawn from‡
//	Close, a caller has a share     lost    all       to nobody           left, or withdrawn from‡
//	Close, no caller has one        lost    all§      to the sweeper      left, or withdrawn from‡
//	WithMinHold is over             ended   none      to the sweeper      left
//	so, Close or its lease before   ended   none      to nobody           left
//	idle for long, or wanted        ended   none      to the sweeper      withdrawn from‡
//	the last reader's share         ended   before*   to Redis            withdrawn from‡
//	handed over                     ended   before*   to a handle         left
//
//	*  by takeBack. The hold may also be passed on, or laid down; then it does not end.
//	†  with an entry for the waiters at the gate, which gives them a place in Redis's queue.
//	‡  by end, if the hold lay there or had opened it.
//	§  Locks that still wait for their fixed lease to be lengthened, that All or Any has taken and not
//	   returned yet, and under which a Flight runs no function yet.
//
// A hold that Close ends may still guard the work of its callers, which Close cannot stop. Freeing the
// lock would let others in beside them. After any other loss the lock is released, so that no process
// waits for the end of a lease that is not trusted.

// parting is where a hold's claim goes.
type parting int

const (
	toNext    parting = iota // the hold is passed on or laid down, and does not end; if it cannot be, as toRedis
	toRedis                  // released, by a command that the caller waits for
	toSweeper                // released in the background
	toNobody                 // left to its lease
	toHandle                 // left as it is: the caller hands it over
)

// ending is what is left to do for a hold that has just ended.
type ending struct {
	cause  error    // why the hold was lost
	told   []bearer // to be told of the loss
	claim  parting
	atGate bool // the holder was at the lock's gate

	// For the next hold there, if the release also grants the lock to the waiters.
	cfg      *config
	last     uint64
	unwanted bool // no other process wants the lock
}

// end ends a live hold: with a cause it is lost, without one it is given back. The caller holds h.mu.
// end unlocks it and then carries out the ending, so that no caller can forget that, or do it too early.
// The error is that of the command that gives the lock back, if there is one.
func (h *hold) end(ctx context.Context, cause error, claim parting) error {
	e := ending{
		cause: h.named(cause), told: h.shares.all, claim: claim, atGate: h.atGate,
		cfg: h.cfg, last: h.last, unwanted: h.rest.Alone(),
	}
	given := func(b bearer) bool { return b.shared().given() }
	if cause == ErrClosed && (h.term.Outlasts() || slices.ContainsFunc(e.told, given)) {
		e.claim = toNobody
	}
	for _, b := range e.told {
		b.losing()
	}
	h.manner.withdraw(h)
	h.lasts.ours.CompareAndSwap(h, nil)
	if h.rest.Idle {
		h.pickUp()
	}
	h.fate = fate{over: true, cause: e.cause}
	h.shares.all, h.atGate = nil, false
	h.mu.Unlock()
	return h.carryOut(ctx, &e)
}

// finish ends a hold for a caller that no longer uses it. With toNext, the hold goes on if it can be
// passed on or laid down, or is still in use.
func (h *hold) finish(ctx context.Context, now clock.Stamp, to parting) error {
	h.mu.Lock()
	switch {
	case !h.fate.live():
		defer h.mu.Unlock()
		if h.fate.cause == ErrClosed {
			return nil // Close came first, found no share and gives the lock back itself
		}
		return h.fate.cause
	case to == toNext && h.manner.passOn(h, now):
		h.mu.Unlock()
		return nil
	}
	return h.end(ctx, nil, to)
}

// finishAll finishes holds side by side. It waits until Redis was told, one command timeout at most, or
// until ctx ends. It reports whether there were any, and ctx has not ended.
func (n *known) finishAll(ctx context.Context, holds []*hold, to parting) bool {
	if len(holds) == 0 {
		return false
	}
	n.behind(ctx, true, func() {
		sideBySide(ctx, len(holds), func(part context.Context, i int) {
			_ = holds[i].finish(part, clock.Now(), to) // if Redis is silent, the sweeper goes on
		})
	})
	return ctx.Err() == nil
}

// behind calls run in the background. With waits it returns when that has returned, or ctx has ended.
func (n *known) behind(ctx context.Context, waits bool, run func()) {
	done := make(chan struct{})
	n.tally.Go(func() {
		defer close(done)
		run()
	})
	if waits {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}

// sideBySide calls end for each of n holds, whatever becomes of ctx, and waits for all. What Redis is told
// goes in one command, as far as it can: of one kind, on one Redis, and in a Cluster in one slot.
func sideBySide(ctx context.Context, n int, end func(part context.Context, i int)) {
	var all sync.WaitGroup
	union := link.NewUnion(n)
	for i := range n {
		all.Go(func() {
			part := union.Part(context.WithoutCancel(ctx))
			defer part.Leave()
			end(part, i)
		})
	}
	all.Wait()
}

// carryOut does what end has left to do.
func (h *hold) carryOut(ctx context.Context, e *ending) (err error) {
	k, key := h.k, h.gate
	for _, b := range e.told {
		b.lost(e.cause)
	}
	k.watchdog.Remove(h)
	var place claim.Claim // of the waiters at the gate
	var next *hold        // theirs, if the release grants them the lock
	switch e.claim {
	case toNext, toRedis:
		place = h.follower(e)
		g, granted, failed := h.claim.Release(ctx, place)
		if err = failed; granted {
			next = h.newHold(&hold{last: e.last}, place, g, e.cfg, true, clock.Now())
		} else if e.atGate {
			k.gates.Report(key, failureOfRedis(err))
		}
	case toSweeper:
		h.claim.Abandon()
	case toNobody:
		h.claim.Forget()
		k.presence.Stays()
	case toHandle:
		k.presence.Stays()
	}
	switch {
	case !e.atGate:
	case next != nil:
		next.mu.Lock() // an earlier loss has left the gate; a later one finds the gate with the hold's goroutine
		passed := !next.fate.live() || k.gates.Pass(key, next) || h.manner.passOn(next, clock.Now())
		next.mu.Unlock()
		if !passed { // all waiters have given up, and the caller has waited for one command already
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

// follower returns a claim for the waiters at the gate. It returns nil if there are none, or if the
// hold is not at the gate: it was acquired past the gate, as for a shared owner, or has opened it.
func (h *hold) follower(e *ending) claim.Claim {
	if !e.atGate || !h.k.gates.Report(h.gate, gate.ErrUnreported) {
		return nil
	}
	entry := h.newEntry("", e.cfg)
	// If another process wants the lock, it passes here only as often as WithLocalHandoff says. More
	// tokens would be wasted. They would carry the counter ahead of the server's clock, until few tokens
	// are left for a grant.
	if !e.unwanted {
		entry.Block = e.cfg.passes
	}
	return h.k.arbiter.Claim(entry)
}

// failureOfRedis returns err if Redis refused, failed or was silent. It returns nil if err tells of the
// lock, as ErrLost does.
func failureOfRedis(err error) error {
	if wire.FromRedis(err) {
		return err
	}
	return nil
}
