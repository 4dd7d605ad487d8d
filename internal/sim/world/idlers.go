package world

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock"
)

// shapeIdle has locks of the actors' own on one Redis, which no other process asks for: all of them linger.
func shapeIdle(p *Plan, _ *rand.Rand) {
	p.Topology = alone
	p.lasts(max(p.Lease, 500*time.Millisecond))
	p.Rates = rates{Delay: p.Rates.Delay}
}

// idlers take a lock that lingers again and again. What may not be taken from the cache happens to it in between: it is
// lengthened, another process forces it, or its client is closed, or loses its subscriptions, while it lies idle.
type idlers struct{ Mutexes }

func (idlers) Round(a *Actor, r *rand.Rand) {
	w, plan := a.w, a.w.plan
	some := func(most int64) time.Duration { return time.Duration(r.Int64N(most * int64(plan.Rates.Delay))) }
	t := Try{Name: fmt.Sprintf("own-%d-%d", a.place, a.index), Lease: plan.Lease, Opts: []relock.Option{relock.WithLease(plan.Lease)}}
	t.lingers(2 * plan.Lease)
	for range 4 {
		h := a.Acquire(w.ctx, t)
		if h == nil {
			return // its client was closed meanwhile
		}
		a.Sleep(some(4))
		if r.IntN(3) == 0 {
			_ = h.Lease.Extend(w.ctx, time.Duration(2+r.IntN(3))*plan.Lease)
		}
		a.Release(w.ctx, h, false)
		switch r.IntN(8) {
		case 0, 1, 2:
			other := w.process((a.place + 1) % plan.Procs)
			a.Go(func() { _, _ = other.client.Mutex(t.Name).ForceUnlock(w.ctx) })
		case 3:
			(*closers)(nil).close(w, h.proc)
		case 4:
			h.proc.losesSubscriptions()
		}
		a.Sleep(some(6))
	}
}

// losesSubscriptions breaks the connections over which a process hears messages. Its commands meet no fault.
func (p *process) losesSubscriptions() {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for _, n := range p.w.nodes {
		for _, ear := range append([]*listener(nil), n.ears...) {
			if ear.proc == p {
				ear.drop(errBroken)
			}
		}
	}
}
