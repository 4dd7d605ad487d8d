package world

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock"
)

// Narrow scenes of read-write locks: one lock, and much of what matters at a place.

func init() {
	Scenes = append(Scenes, Scene{"setback", shapeSetback, func() Kind { return Readers{} }},
		Scene{"letin", shapeLetIn, func() Kind { return Readers{} }}, Scene{"shut", shapeShut, func() Kind { return shutters{} }})
}

// narrow is a plan without faults, of one lock that many want.
func (p *Plan) narrow(r *rand.Rand, actors int) {
	p.Topology = alone
	p.Names, p.Procs, p.Actors = p.Names[:1], 3, actors
	p.lasts(pick(r, []time.Duration{300 * time.Millisecond, time.Second}))
	p.Rates = rates{Delay: p.Rates.Delay}
}

// shapeSetback sets the clock of Redis back, again and again: readers and writers come in the same order all the same.
func shapeSetback(p *Plan, r *rand.Rand) {
	p.narrow(r, 4)
	p.with(r, 12, "step", step)
	for i := range p.Events {
		p.Events[i].Step = -time.Duration(1 + r.Int64N(int64(p.Lease)))
	}
}

// shapeLetIn has contexts that end in the instant of a grant, when others are let in.
func shapeLetIn(p *Plan, r *rand.Rand) {
	p.narrow(r, 6)
	p.Instants = true
}

// shapeShut has a lock that is always read, and that Redisson's threads wait for.
func shapeShut(p *Plan, r *rand.Rand) {
	p.narrow(r, 3)
	p.Rounds = 2
	p.JVMs, p.Threads, p.Dog = 1, 3, p.Lease
}

// shutters are readers. Those of the first process read for long, and by turns.
type shutters struct{ Readers }

func (shutters) Round(a *Actor, r *rand.Rand) {
	w, plan := a.w, a.w.plan
	long := 40 * plan.Rates.Delay
	if a.place == 0 {
		a.Sleep(time.Duration(a.index) * time.Second)
		long = 6 * time.Second
	}
	ctx, cancel := context.WithTimeout(w.ctx, 20*time.Second)
	defer cancel()
	a.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
	opts := []relock.Option{relock.WithLease(plan.Lease), relock.WithLocalHandoff(1, 0)}
	h := a.Acquire(ctx, Try{Name: plan.Names[0], Amount: 1, Lease: plan.Lease, Opts: opts})
	if h == nil {
		return
	}
	a.Sleep(long)
	a.Release(w.ctx, h, false)
}
