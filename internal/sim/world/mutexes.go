package world

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/relock-go/relock"
)

// Mutexes is the workload of Mutex.
type Mutexes struct{}

// Together are leases of one hold, and of one owner of WithOwner.
func (Mutexes) Together(a, b *Held) bool {
	return a.Token == b.Token && a.proc == b.proc || a.owner != "" && a.owner == b.owner
}

// Round takes a lock in one of the ways there are, does something under it, and gives it back.
func (m Mutexes) Round(a *Actor, r *rand.Rand) {
	a.Sleep(time.Duration(r.Int64N(int64(20*a.w.plan.Rates.Delay) + 1)))
	t := m.draw(a, r)
	ctx, cancel := m.context(a, r)
	defer cancel()
	switch {
	case r.IntN(12) == 0:
		m.do(a, r, ctx, t)
		return
	case a.w.plan.Throng > 0 && a.place == 0 && r.IntN(3) == 0:
		m.burst(a, r, ctx, t)
		return
	}
	if h := a.Acquire(ctx, t); h != nil {
		m.use(a, r, h, 0)
		if !a.w.mayMove || r.IntN(3) > 0 || !m.move(a, r, h) {
			m.giveBack(a, r, h)
		}
	}
}

// burst takes a lock a few times without a pause: where many do that, they overtake each other at its gate.
func (m Mutexes) burst(a *Actor, r *rand.Rand, ctx context.Context, t Try) {
	for range 2 + r.IntN(7) {
		h := a.Acquire(ctx, t)
		if h == nil {
			return
		}
		if r.IntN(2) == 0 {
			a.Sleep(a.w.hold(r) / 4)
		}
		m.giveBack(a, r, h)
	}
}

// draw is what is asked for.
func (Mutexes) draw(a *Actor, r *rand.Rand) Try {
	t := Try{Name: a.w.plan.name(a.place, r), Lease: pick(r, a.w.plan.Leases), Once: r.IntN(6) == 0}
	t.Opts = append(t.Opts, relock.WithLease(t.Lease))
	t.passes = handoff{most: usualPasses, time: usualTime}
	if own := a.w.plan.Handoff; own.most > 0 {
		t.handsOff(own.most, own.time)
		if r.IntN(2) == 0 {
			return t // what lingers, or is fixed, asks for no block
		}
	}
	switch r.IntN(12) {
	case 0:
		t.fixes(a.w.plan.fixable(t.Lease))
		if r.IntN(2) == 0 {
			t.caps(t.Lease + time.Duration(r.Int64N(int64(t.Lease))))
		}
	case 1:
		t.caps(t.Lease + pick(r, []time.Duration{0, t.Lease / 2, t.Lease}))
	case 2:
		t.wait = time.Duration(1 + r.Int64N(int64(t.Lease)))
		t.Opts = append(t.Opts, relock.WithWait(t.wait))
	case 3:
		t.handsOff(1, 0)
	case 4:
		t.handsOff(1+r.IntN(4), time.Second)
	case 5, 6:
		t.lingers(t.Lease / 2)
	case 7:
		t.lingers(3 * t.Lease)
	case 8:
		t.lingers(40 * a.w.plan.Rates.Delay)
	}
	if r.IntN(10) == 0 {
		t.Owner = "owner-" + strconv.Itoa(r.IntN(2))
	}
	return t
}

// context is one that ends at some time, or not.
func (Mutexes) context(a *Actor, r *rand.Rand) (context.Context, context.CancelFunc) {
	switch r.IntN(6) {
	case 2: // at the instant of the call, or of an answer that comes as fast as one may
		return context.WithTimeout(a.w.ctx, pick(r, []time.Duration{0, 1, a.w.plan.Rates.Delay}))
	case 0:
		return context.WithTimeout(a.w.ctx, time.Duration(1+r.Int64N(int64(2*a.w.plan.Lease))))
	case 1:
		return context.WithTimeout(a.w.ctx, time.Duration(1+r.Int64N(int64(40*a.w.plan.Rates.Delay))))
	}
	return context.WithCancel(a.w.ctx)
}

// hold is how long something is done under a lock.
func (w *World) hold(r *rand.Rand) time.Duration {
	switch n := r.IntN(100); {
	case n < 20:
		return 0
	case n < 45:
		return time.Duration(r.Int64N(int64(4*w.plan.Rates.Delay) + 1))
	case n < 85:
		return time.Duration(r.Int64N(int64(40*w.plan.Rates.Delay) + 1))
	case n < 97:
		return time.Duration(r.Int64N(int64(w.plan.Lease)))
	}
	return time.Duration(r.Int64N(int64(3 * w.plan.Lease)))
}

// use does things under a lease.
func (m Mutexes) use(a *Actor, r *rand.Rand, h *Held, depth int) {
	for range r.IntN(3) {
		a.Sleep(a.w.hold(r) / 2)
		switch r.IntN(8) {
		case 0, 1:
			m.reenter(a, r, h, depth)
		case 2:
			m.extend(a, r, h)
		case 3:
			m.look(a, h)
		case 4:
			m.other(a, r, h)
		case 5:
			m.detached(a, r, h)
		case 6:
			m.force(a, r, h)
		}
	}
	a.Sleep(a.w.hold(r))
}

func (m Mutexes) reenter(a *Actor, r *rand.Rand, h *Held, depth int) {
	if depth >= 3 {
		return
	}
	ctx, cancel := context.WithTimeout(h.ctx, a.w.plan.Lease)
	defer cancel()
	t := Try{Name: h.Name, Lease: h.lease, Once: r.IntN(3) == 0, Opts: []relock.Option{relock.WithLease(h.lease)}}
	if r.IntN(2) == 0 { // what the hold in force does not go by
		t.caps(h.lease * time.Duration(1+r.IntN(3)))
	}
	t.Amount = h.amount
	in := a.Acquire(ctx, t)
	if in == nil {
		return
	}
	m.use(a, r, in, depth+1)
	if r.IntN(4) == 0 { // the outer one ends first
		m.giveBack(a, r, h)
		a.Sleep(a.w.hold(r))
	}
	m.giveBack(a, r, in)
}

func (Mutexes) extend(a *Actor, r *rand.Rand, h *Held) {
	began := time.Now()
	a.w.judge.extended(h)
	d := h.lease/2 + time.Duration(r.Int64N(int64(h.lease/2)))
	err := h.Lease.Extend(a.w.ctx, d)
	a.w.note(h.proc.index, h.Name, "extends", h.Token, err)
	if err == nil {
		a.w.judge.lengthened(h, d)
	}
	a.w.judge.trusts(h)
	if took := time.Since(began); took > 8*a.w.plan.Timeout()+time.Second {
		a.w.fail(h.Name, "Extend took %v", took)
	}
}

// look asks what is known of the lock; what Held says must agree with the lease.
func (Mutexes) look(a *Actor, h *Held) {
	lock := a.w.kind.Of(h.proc.client, h.Lease.Name(), h.amount)
	if m, ok := lock.(*relock.Mutex); ok {
		if got, err := m.Held(h.ctx); err == nil && got != h.Lease && got.Token() != h.Token {
			a.w.fail(h.Name, "Held found token %d under %d", got.Token(), h.Token)
		}
	}
	a.asksState(h.proc, h.Lease.Name(), max(h.amount, 1))
}

// other takes another lock under the context of this one. Actors may so wait for each other: they
// give up.
func (m Mutexes) other(a *Actor, r *rand.Rand, h *Held) {
	t := m.draw(a, r)
	if t.Name == h.Name {
		return
	}
	ctx, cancel := context.WithTimeout(h.ctx, time.Duration(1+r.Int64N(int64(a.w.plan.Lease))))
	defer cancel()
	if in := a.Acquire(ctx, t); in != nil {
		a.Sleep(a.w.hold(r))
		m.giveBack(a, r, in)
	}
}

// detached asks for the lock that it holds, without its ownership: that is a stranger's call.
func (m Mutexes) detached(a *Actor, r *rand.Rand, h *Held) {
	ctx, cancel := context.WithTimeout(h.ctx, time.Duration(1+r.Int64N(int64(a.w.plan.Lease/2))))
	defer cancel()
	t := Try{Name: h.Name, Lease: h.lease, Once: r.IntN(2) == 0, Apart: true, Opts: []relock.Option{relock.WithLease(h.lease)}}
	if in := a.Acquire(ctx, t); in != nil {
		m.giveBack(a, r, in)
	}
}

// force frees the lock whoever holds it, where an operator does such things.
func (Mutexes) force(a *Actor, r *rand.Rand, h *Held) {
	if a.w.plan.Class != "operator" && a.w.plan.Class != "mixed" || r.IntN(6) > 0 {
		return
	}
	_, err := a.w.kind.Of(a.w.process(a.place).client, pick(r, a.w.plan.Names), 1).ForceUnlock(a.w.ctx)
	a.w.note(h.proc.index, h.Name, "forces a lock", 0, err)
}

// giveBack unlocks: here or elsewhere, once or twice, now and then not at all.
func (Mutexes) giveBack(a *Actor, r *rand.Rand, h *Held) {
	again := r.IntN(8) == 0
	a.waitsForEnd(h)
	switch {
	case r.IntN(8) == 0:
		a.Go(func() { a.Release(a.w.ctx, h, again) })
	default:
		a.Release(a.w.ctx, h, again)
	}
}

// do is Do, whose lease the judge is not shown: it must be told of a loss.
func (m Mutexes) do(a *Actor, r *rand.Rand, ctx context.Context, t Try) {
	if !a.w.plays(t.Name) {
		return
	}
	p := a.w.process(a.place)
	if t.Owner != "" {
		ctx = withOwner(ctx, t.Owner)
	}
	var had *Held
	mutex, began, under := p.client.Mutex(t.Name, t.Opts...), time.Now(), ctx
	a.w.note(p.index, t.Name, "calls Do", 0, nil)
	done := sync.OnceFunc(a.w.judge.waits(&call{name: t.Name, proc: p, lease: t.Lease, began: began, lines: t.Owner == ""}))
	err := mutex.Do(ctx, func(ctx context.Context) error {
		done()
		l, err := mutex.Held(ctx)
		if err != nil {
			return err
		}
		h := &Held{Lease: l, Name: t.Name, Token: l.Token(), proc: p, owner: t.Owner, fixed: t.Fixed, lease: t.Lease, under: under,
			at: time.Since(a.w.trace.start), asked: began, began: began, bound: t.bound(began), linger: t.linger, passes: t.passes}
		a.w.note(p.index, t.Name, "DOES", h.Token, nil)
		had = h
		a.entered(h, nil)
		a.Sleep(a.w.hold(r))
		h.over.Store(true)
		a.w.judge.lets(h)
		defer a.w.judge.over(h, h.at)
		return nil
	})
	done()
	if had != nil {
		a.w.hasLeft(had)
	}
	a.w.judge.asked(t.Name, false, time.Since(began))
	a.w.note(p.index, t.Name, "did", 0, err)
}
