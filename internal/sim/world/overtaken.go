package world

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock"
)

// Overtaken: a renewal's answer is slow, as slow as it may be, and tells of a lock that was forced open meanwhile. The message
// that says so came first.

func init() {
	Scenes = append(Scenes, Scene{"overtaken", shapeOvertaken, func() Kind { return overtaken{} }})
}

// shapeOvertaken has leases so much longer than a command may take that a holder which asks at once is told apart from one that
// asks with its next renewal.
func shapeOvertaken(p *Plan, r *rand.Rand) {
	p.Topology = pick(r, []topology{alone, guarded, quorumOf3})
	p.Names, p.Procs = p.Names[:1], 2
	p.lasts(30 * time.Second)
	p.Rates = rates{Delay: p.Rates.Delay, Lag: .8}
}

type overtaken struct{ Mutexes }

// Round has a lock for a few renewals, and another process force it open about when one is answered.
func (overtaken) Round(a *Actor, r *rand.Rand) {
	w, plan := a.w, a.w.plan
	ctx, cancel := context.WithTimeout(w.ctx, plan.Lease-time.Duration(r.Int64N(int64(time.Second))))
	defer cancel()
	h := a.Acquire(ctx, Try{Name: plan.Names[0], Lease: plan.Lease, Opts: []relock.Option{relock.WithLease(plan.Lease)}})
	if h == nil {
		return
	}
	a.Sleep(time.Duration(1+r.IntN(3))*plan.Lease/3 + time.Duration(r.Int64N(int64(plan.Timeout()))))
	other := w.process((a.place + 1) % plan.Procs)
	_, err := other.client.Mutex(h.Name).ForceUnlock(w.ctx)
	w.note(other.index, h.Name, "forces a lock", h.Token, err)
	a.Sleep(5 * plan.Timeout()) // the judge looks before
	a.Release(w.ctx, h, false)
}
