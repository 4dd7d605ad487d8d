package world

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock"
)

// shapeApart has one caller in each of a few processes, and no other faults.
func shapeApart(p *Plan, r *rand.Rand) {
	p.Topology = pick(r, []topology{quorumOf3, quorumOf5})
	p.Names, p.Actors = p.Names[:1], 1
	p.lasts(p.Lease)
}

// aparts reach one node of a quorum after the other, a third of a lease apart. Once they have the lock they are cut from
// all nodes for a lease: then the lock is theirs for as long as the vote allows that they needed last, and no longer.
type aparts struct{ Mutexes }

func (aparts) Round(a *Actor, r *rand.Rand) {
	w, plan := a.w, a.w.plan
	w.excuse(6 * plan.Lease)
	w.mu.Lock()
	w.procs[a.place].disturb(time.Now().Add(6 * plan.Lease))
	w.mu.Unlock()
	w.far(a.place, plan.Lease/3)
	ctx, cancel := context.WithTimeout(w.ctx, 3*plan.Lease)
	defer cancel()
	h := a.Acquire(ctx, Try{Name: plan.Names[0], Lease: plan.Lease, Opts: []relock.Option{relock.WithLease(plan.Lease)}})
	if h == nil {
		a.Sleep(2 * plan.Lease) // until all nodes are reached again
		return
	}
	w.mu.Lock()
	for i := range w.nodes {
		w.part(a.place, i)
		w.after(plan.Lease, func() { w.heal(a.place, i) })
	}
	w.mu.Unlock()
	a.Sleep(plan.Lease + time.Duration(r.Int64N(int64(plan.Lease/4))))
	a.Release(w.ctx, h, false)
}
