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

	extends int // calls of Extend
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
func (t *Try) bound(began time.Time) *bound { return t.boundFrom(time.Now(), began) }

// boundFrom is that of a lease which a call that began then had at some time.
func (t *Try) boundFrom(had, began time.Time) *bound {
	var b bound
	if t.maxHold > 0 {
		b.hold, b.least = had.Add(t.maxHold), began.Add(t.maxHold)
	}
	if t.fix > 0 {
		b.fixed = had.Add(t.fix)
	}
	return &b
}

// lasts demands that a lease by WithFixedLease lasts for that time, counted from when it was called for, unless WithMaxHold ends it
// before. The library takes off what clocks may differ by.
func (j *judge) lasts(h, outer *Held) {
	until := h.Lease.Until()
	if h.fix == 0 || outer != nil || until.IsZero() || h.over.Load() {
		return
	}
	d := h.fix
	if h.maxHold > 0 {
		d = min(d, h.maxHold)
	}
	if short := h.began.Add(d - d/25 - 5*time.Millisecond).Sub(until); short > 0 {
		j.w.fail(h.Name, "token %d of p%d ends %v before what WithFixedLease of %v says", h.Token, h.proc.index, short, h.fix)
	}
}

// keeping is a lock that was unlocked, and that WithMinHold keeps. The judge's mutex guards it.
type keeping struct {
	by    *Held
	until time.Time
}

// keeps notes that a lease is about to be unlocked that WithMinHold keeps the lock for.
func (j *judge) keeps(h *Held) {
	until := h.taken()
	if h.took.IsZero() {
		until = h.began
	}
	until = until.Add(h.minHold - time.Millisecond)
	if h.minHold == 0 || !h.live() || !time.Now().Before(until) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.of(h.Name).kept = keeping{h, until}
}

// notKept demands of a lease that WithMinHold of the one before is over. A fault that may have ended that, or that kept its process
// from lengthening it, is an excuse.
func (j *judge) notKept(h, outer *Held) {
	j.mu.Lock()
	r := j.of(h.Name)
	kept := r.kept
	struck := kept.by != nil && kept.by.Token <= r.horizon
	j.mu.Unlock()
	early := time.Until(kept.until)
	if kept.by == nil || early <= 0 || outer != nil || h.Token <= kept.by.Token || struck {
		return
	}
	if p := kept.by.proc; !p.closed && !j.w.disturbedSince(p, kept.by.began.Add(-2*j.w.plan.Timeout()), true) {
		j.w.fail(h.Name, "p%d is given token %d, %v before WithMinHold of token %d is over", h.proc.index, h.Token, early, kept.by.Token)
	}
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
