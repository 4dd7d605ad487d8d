package world

import (
	"math/rand/v2"
	"time"
)

// Narrow scenes of read-write locks: one lock, and much of what matters at a place.

func init() {
	Scenes = append(Scenes, Scene{"setback", shapeSetback, func() Kind { return Readers{} }},
		Scene{"letin", shapeLetIn, func() Kind { return Readers{} }})
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
