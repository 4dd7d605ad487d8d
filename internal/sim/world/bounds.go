package world

import (
	"time"

	"github.com/relock-go/relock"
)

// Bounds: no lease of a hold lasts beyond what WithMaxHold and WithFixedLease say, whatever renews it, lengthens it or
// enters it again. The judge counts from when the call returned: the library has begun before that.

// bound is until when a hold may last. Its leases share it. The judge's mutex guards it.
type bound struct {
	hold  time.Time // by WithMaxHold; zero for no end
	least time.Time // before which WithMaxHold does not end it
	fixed time.Time // by WithFixedLease, and by Extend, which moves that; zero for no end
}

// caps asks for a hold of at most d.
func (t *Try) caps(d time.Duration) {
	t.maxHold = d
	t.Opts = append(t.Opts, relock.WithMaxHold(d))
}

// keeps asks for a hold of at least d.
func (t *Try) keeps(d time.Duration) {
	t.minHold = d
	t.Opts = append(t.Opts, relock.WithMinHold(d))
}

// fixes asks for a lease of d that is not renewed.
func (t *Try) fixes(d time.Duration) {
	t.Fixed, t.fix = true, d
	t.Opts = append(t.Opts, relock.WithFixedLease(d))
}

// bound is that of a lease which a call that began then has just returned.
func (t *Try) bound(began time.Time) *bound {
	var b bound
	if t.maxHold > 0 {
		b.hold, b.least = time.Now().Add(t.maxHold), began.Add(t.maxHold)
	}
	if t.fix > 0 {
		b.fixed = time.Now().Add(t.fix)
	}
	return &b
}

// lengthened is told of an Extend that returned nil.
func (j *judge) lengthened(h *Held, d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if b := h.bound; b != nil && !b.fixed.IsZero() {
		b.fixed = later(b.fixed, time.Now().Add(d))
	}
}

// bounded demands that a lease lasts no longer than its hold may.
func (j *judge) bounded(h *Held, until time.Time) {
	j.mu.Lock()
	var b bound
	if h.bound != nil {
		b = *h.bound
	}
	j.mu.Unlock()
	if dog := j.w.plan.Dog; j.w.form.RW && h.amount < allOf && dog > 0 && until.After(time.Now().Add(dog)) && !h.over.Load() {
		j.w.fail(h.Name, "reader %d of p%d is trusted for %v, and WithRedissonWatchdog allows %v", h.Token, h.proc.index, time.Until(until), dog)
	}
	for option, end := range map[string]time.Time{"WithMaxHold": b.hold, "WithFixedLease": b.fixed} {
		if !end.IsZero() && until.After(end) && !h.over.Load() {
			j.w.fail(h.Name, "token %d of p%d is trusted for %v longer than %s says", h.Token, h.proc.index, until.Sub(end), option)
		}
	}
}

// lingers asks for a lock that is kept for d.
func (t *Try) lingers(d time.Duration) {
	t.linger = d
	t.Opts = append(t.Opts, relock.WithLinger(d))
}

// endedByMaxHold is told, at that time or later, that WithMaxHold has ended a lease. It may, once that is over.
func (j *judge) endedByMaxHold(h *Held) {
	j.mu.Lock()
	var least time.Time
	if h.bound != nil {
		least = h.bound.least
	}
	j.mu.Unlock()
	switch now := time.Now(); {
	case least.IsZero():
		j.w.fail(h.Name, "token %d of p%d is ended by WithMaxHold, which it was not asked for with", h.Token, h.proc.index)
	case now.Before(least):
		j.w.fail(h.Name, "token %d of p%d is ended by WithMaxHold %v before that is over", h.Token, h.proc.index, least.Sub(now))
	}
}
