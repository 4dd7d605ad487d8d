package world

import (
	"math/rand/v2"
	"time"
)

// Fallen: a throng passes a lock on, and asks for one block of tokens after the other, while Redis loses how far it had counted
// and its clock is set back. What it counts from then on is lower. The tokens of an acquisition rise all the same.

func init() {
	Scenes = append(Scenes, Scene{"fallen", shapeFallen, func() Kind { return Mutexes{} }})
}

func shapeFallen(p *Plan, r *rand.Rand) {
	p.Topology = alone
	p.Procs, p.Actors, p.Throng, p.Rounds = 2, 2, 8+r.IntN(8), 8
	p.Names = []string{"orders-0", "orders-1"}
	p.Handoff = handoff{most: 8, time: time.Hour}
	p.lasts(10 * time.Second)
	p.Rates = rates{Delay: p.Rates.Delay}
	p.with(r, 20, "fall", fall)
}

// fall sets the clock of a node back, and loses a counter there.
func fall(w *World, e event) {
	e.Step = -time.Duration(1+e.N) * 50 * time.Millisecond
	step(w, e)
	loseCounter(w, e)
}
