package world

import (
	"context"
	"errors"
	"time"

	"github.com/relock-go/relock"
)

// Told in time: whoever only listens to a lease's context, and asks nothing, hears of its end when that comes. Asking a
// lease ends it, where its time is over; so half of all leases are asked nothing from just before their end until just
// after it. A timer of the judge's looks then whether their holders have been told.

// tellTime is how late a holder may be told. Simulated time stands still while the library's goroutines work.
const tellTime = time.Microsecond

// listens follows a lease of which nothing but Done is asked about its end.
func (j *judge) listens(h *Held) {
	if until := h.Lease.Until(); h.watched() && !until.IsZero() {
		done := h.Lease.Context().Done()
		time.AfterFunc(time.Until(until)+tellTime, func() { j.toldBy(h, done) })
	}
}

// toldBy is called just after a lease ended, unless that was lengthened meanwhile.
func (j *judge) toldBy(h *Held, done <-chan struct{}) {
	select {
	case <-done:
		return // or what it was asked for under has ended
	default:
	}
	if h.over.Load() || j.w.ctx.Err() != nil {
		return
	}
	if until := h.Lease.Until(); !until.IsZero() {
		time.AfterFunc(time.Until(until)+tellTime, func() { j.toldBy(h, done) })
		return
	}
	if errors.Is(context.Cause(h.Lease.Context()), relock.ErrLost) && !h.over.Load() {
		j.w.fail(h.Name, "the holder of token %d of p%d was not told by Done that the lease had ended", h.Token, h.proc.index)
	}
}
