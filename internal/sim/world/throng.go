package world

import (
	"math/rand/v2"
	"time"
)

// A throng is many actors of one process that want few locks. What a client does for its own goroutines meets there: it
// hands a lock on at the gate and in memory, asks for the next block of tokens meanwhile, takes the next
// place in Redis with its release, and is closed under them all.

// throng has a quarter of the plans be like that, for about as many rounds in all.
func (p *Plan) throng() {
	r := throw(p.Seed, "throng").stream()
	if r.IntN(4) > 0 {
		return
	}
	all := p.allRounds()
	p.Throng, p.Instants = 8+r.IntN(23), true
	p.Rounds = max(3, all/((p.Procs-1)*p.Actors+p.Throng))
	p.Names = []string{"orders-0", "orders-1"}
	p.Handoff = handoff{most: pick(r, []int{4, 8, 8, 16}), time: pick(r, []time.Duration{usualTime, p.Lease, time.Hour, time.Hour})}
}

// closeThrong has the client of half of them closed under them, where other faults are too.
func (p *Plan) closeThrong() {
	if r := throw(p.Seed, "close throng").stream(); p.Throng > 0 && p.Class != "none" && r.IntN(2) == 0 {
		p.with(r, 1, "close", closeClient)
		p.Events[len(p.Events)-1].Proc = 0
	}
}

// name is the lock that an actor asks for. The first one is left to the throng seven times of eight: a block of tokens is
// asked for only while no other process waits.
func (p *Plan) name(place int, r *rand.Rand) string {
	if p.Throng > 0 && place > 0 && r.IntN(8) > 0 {
		return pick(r, p.Names[1:])
	}
	return pick(r, p.Names)
}

// actorsOf is how many actors a process has.
func (p *Plan) actorsOf(place int) int {
	if place == 0 && p.Throng > 0 {
		return p.Throng
	}
	return p.Actors
}

// allRounds is how many rounds all actors have.
func (p *Plan) allRounds() int {
	actors := 0
	for place := range p.Procs {
		actors += p.actorsOf(place)
	}
	return actors * p.Rounds
}
