package world

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
)

// What a fault may cost is told apart: a lease can be lost where commands of its process or a
// node's answers were touched; a call may fail there too, and where a node refuses what is new.
// Messages that are lost cost neither.

// disturb notes that until then, and not for longer, commands of a process may come to nothing.
func (p *process) disturb(until time.Time) {
	p.disturbed = later(p.disturbed, until)
	p.faults.add(until)
}

// disturb notes likewise that commands over a line may come to nothing: those to the other nodes do not.
func (l *line) disturb(until time.Time) {
	l.proc.disturbed = later(l.proc.disturbed, until)
	l.spoilt.add(until)
}

// disturb notes that until then a node may not confirm what it granted.
func (n *node) disturb(d time.Duration) {
	n.disturbed = later(n.disturbed, time.Now().Add(d))
	n.faults.add(time.Now().Add(d))
}

// refuses notes that until then a node may refuse what is new.
func (n *node) refuses(d time.Duration) { n.refusing = later(n.refusing, time.Now().Add(d)) }

// begunAnew notes that a node may have forgotten: with a guard it confirms nothing, and grants nothing, for a while.
func (n *node) begunAnew() {
	n.lapses()
	n.anew = time.Now()
	n.w.bringsPermitsBack()
	n.disturb(2*n.w.plan.Longest() + n.w.plan.Timeout())
	if n.w.plan.Topology.Guarded {
		n.refuses(2*n.w.plan.Longest() + n.w.plan.Timeout())
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// disturbedSince reports whether a fault touched a process or a node after a moment; asking says
// that those count that only refuse what is new.
func (w *World) disturbedSince(p *process, since time.Time, asking bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.dead || w.procs[p.index] != p || p.disturbed.After(since) {
		return true
	}
	for _, n := range w.nodes {
		if n.disturbed.After(since) || asking && n.refusing.After(since) || n.off && w.plan.Topology.Guarded {
			return true
		}
	}
	return false
}

// watches is told when a lease is over, of every other one: the others' contexts are made by
// nobody, as in most programs.
func (j *judge) watches(h *Held) {
	if h.watched() {
		context.AfterFunc(h.Lease.Context(), func() {
			j.over(h, j.w.now())
			if h.under.Err() == nil && // else it tells perhaps what became of another lock
				j.lost(h, h.lease, context.Cause(h.Lease.Context())) {
				j.w.renewable(h) // which looks at the time before now: so it is not asked again by Unlock
			}
		})
	}
}

func (h *Held) watched() bool { return h.Token%2 == 0 }

// lost demands that a fault excuses the loss of a lease for a cause, which was noticed now or before
// that: a fault since its last renewal, or since so long. The hold may have begun with a longer lease than
// this one's, and is renewed by that until it was renewed. It returns false where there is no loss to excuse.
func (j *judge) lost(h *Held, long time.Duration, cause error) bool {
	w := j.w
	if h.Lease.Count() > 0 {
		return false // the context that it was asked for under ended, perhaps with another lock's lease
	}
	var of *relock.LostError
	if errors.As(cause, &of) && of.Name != h.Name {
		return false // All has it together with the one that was lost
	}
	if errors.Is(cause, relock.ErrMaxHold) {
		j.endedByMaxHold(h)
		return false
	}
	if h.fixed || w.ctx.Err() != nil || !errors.Is(cause, relock.ErrLost) {
		return false
	}
	if w.wasRobbed(h.id) {
		return false
	}
	since := time.Now().Add(-max(w.plan.Longest(), long) - 4*w.plan.Timeout())
	j.mu.Lock()
	struck := j.of(h.Name).struck.After(since)
	j.mu.Unlock()
	if !struck && !w.disturbedSince(h.proc, since, false) {
		w.fail(h.Name, "token %d of p%d was lost, and nothing happened that would excuse it", h.Token, h.proc.index)
	}
	return !struck
}

// failed demands that a fault excuses the failure of a call that began then.
func (a *Actor) failed(t Try, p *process, began time.Time, err error) {
	w := a.w
	expected := errors.Is(err, relock.ErrNotAcquired) || errors.Is(err, relock.ErrClosed) || errors.Is(err, relock.ErrLost)
	if w.plan.Class != "none" && w.plan.Topology.Guarded {
		return // what a quorum says of its nodes has more causes than are told apart here
	}
	if errors.Is(err, relock.ErrTooMany) && w.leastSize(t.Name, began) < t.Amount {
		return
	}
	if !expected && t.wait == 0 && w.ctx.Err() == nil && !w.disturbedSince(p, began.Add(-4*w.plan.Timeout()), true) {
		w.fail(t.Name, "a call of p%d failed, and nothing happened that would excuse it: %v", p.index, err)
	}
}
