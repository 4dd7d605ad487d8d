package world

import (
	"strconv"
	"time"
)

// Ends: Unlock of a lease that is over does not return nil, whether or not the library has noticed. The judge goes by true time: by
// the deadline that a fixed lease had, and by what Redis keeps.

// goneOf is why a lease is over that is about to be unlocked, "" if it is not, or nobody can tell. It asks the lease nothing, which
// would end it.
func (w *World) goneOf(h *Held) string {
	if !h.due.IsZero() && !time.Now().Before(h.due) {
		return "its time was over"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.nodes[0]; !w.plan.Topology.Guarded && n.server.Running() && !w.form.held(n, h.Name, h.id) && !w.permits.robbed[h.id] {
		return "Redis did not keep it any more"
	}
	return ""
}

// givenBackFor judges what Unlock has returned of a lease that was over for that reason. What the process has not told Redis to end
// by then, it passes on, or keeps for the next caller: it has not heard that Redis has lost it. Of a command that is sent again it does
// not know whether the first copy has ended the lease.
func (w *World) givenBackFor(h *Held, gone string, err error) {
	if gone == "" || err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	called := w.trace.start.Add(h.gone)
	again := h.proc.dead || h.proc.disturbed.After(called) || w.nodes[0].disturbed.After(called)
	if s := w.stays[h.id]; h.due.IsZero() && (s == nil || !s.ended || again) {
		return
	}
	w.failed(h.Name, "Unlock of token %d of p%d returned nil, and %s when it was called", h.Token, h.proc.index, gone)
}

// waitsForEnd has some leases that nothing renews be unlocked in the instant of their end, in which no timer may have run yet.
func (a *Actor) waitsForEnd(h *Held) {
	d := throw(a.w.plan.Seed, "due", h.Name, strconv.FormatInt(h.Token, 10))
	if h.fix == 0 || h.gone > 0 || d.of(3) > 0 {
		return
	}
	a.Sleep(2 * a.w.plan.Timeout()) // a renewal for the lease before, which it was passed on from, may be under way
	until, before := h.Lease.Until(), a.w.judge.extendsOf(h)
	if until.IsZero() {
		return
	}
	a.Sleep(time.Until(until))
	if a.w.judge.extendsOf(h) == before { // by a caller that has entered it again
		h.due = until
	}
}

// extendsOf counts the calls of Extend for what a lease is part of.
func (j *judge) extendsOf(h *Held) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return h.bound.extends
}
