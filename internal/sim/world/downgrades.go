package world

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"
)

// Downgrades: a writer becomes a reader, beside writers of its process, with re-entries that come in between, and under a
// context that may end meanwhile.

// downgrade asks for that, and returns what its caller has then: the read lease, or the write lease if that failed. Readers
// may come in before the call has returned, so the write lease counts as over from the call on.
func (k Readers) downgrade(a *Actor, r *rand.Rand, h *Held) *Held {
	w := a.w
	a.Sleep(w.hold(r) / 2)
	if r.IntN(4) == 0 { // it comes before, beside or behind that
		before := time.Duration(r.Int64N(int64(4 * w.plan.Rates.Delay)))
		a.Go(func() {
			a.Sleep(before)
			k.reenter(a, throw(w.plan.Seed, "beside").stream(), h, 3-1)
		})
		a.Sleep(time.Duration(r.Int64N(int64(6 * w.plan.Rates.Delay))))
	}
	ctx, cancel := context.WithCancel(w.ctx)
	if r.IntN(4) == 0 {
		ctx, cancel = context.WithTimeout(w.ctx, time.Duration(1+r.Int64N(int64(4*w.plan.Rates.Delay))))
	}
	defer cancel()
	w.note(h.proc.index, h.Name, "downgrades", h.Token, nil)
	began := time.Now()
	was := h.over.Swap(true)
	w.called(h.proc)
	defer w.answered(h.proc)
	l, err := h.Lease.Downgrade(ctx)
	if took := time.Since(began); took > 12*w.plan.Timeout()+time.Second {
		w.fail(h.Name, "Downgrade took %v", took)
	}
	if err != nil {
		w.note(h.proc.index, h.Name, "is not downgraded", h.Token, err)
		h.over.Store(was)
		w.judge.goesOn(h)
		return h
	}
	w.judge.lets(h)
	w.hasLeft(h)
	w.judge.over(h, h.at)
	w.note(h.proc.index, h.Name, "READS NOW, HAS", l.Token(), nil)
	in := &Held{
		Lease: l, Name: h.Name, Token: l.Token(), proc: h.proc, at: w.now(), began: began, asked: began, under: h.under, fixed: h.fixed,
		lease: h.lease, bound: w.judge.boundAgain(h), linger: h.linger, passes: h.passes, amount: 1,
	}
	if in.Token <= h.Token && h.Token > w.judge.looseOf(h.Name) { // unless the counter was lost, and the clock set back
		w.fail(h.Name, "Downgrade of token %d gave %d", h.Token, in.Token)
	}
	if h.Lease.Context().Err() == nil || h.Lease.Count() > 0 {
		w.fail(h.Name, "the write lease of token %d goes on beside what it was downgraded to", h.Token)
	}
	in.ctx = within(h.under, in)
	a.entered(in, nil)
	return in
}

// goesOn notes that a lease which was taken for over is not.
func (j *judge) goesOn(h *Held) {
	j.mu.Lock()
	if r := j.of(h.Name); !slices.Contains(r.held, h) {
		r.held = append(r.held, h)
	}
	j.mu.Unlock()
	j.w.mu.Lock()
	defer j.w.mu.Unlock()
	if s := j.w.stays[h.id]; s != nil && !slices.Contains(s.held, h) {
		s.held = append(s.held, h)
	}
}

// boundAgain is the bound of what a lease was downgraded to just now: its times begin anew, or go on.
func (j *judge) boundAgain(h *Held) *bound {
	j.mu.Lock()
	defer j.mu.Unlock()
	if h.bound == nil {
		return nil
	}
	b, now := *h.bound, time.Now()
	if !b.hold.IsZero() {
		b.hold = now.Add(h.maxHold)
	}
	if !b.fixed.IsZero() {
		b.fixed = now.Add(h.fix)
	}
	return &b
}
