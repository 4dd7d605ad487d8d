package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock"
)

// Mortals: processes die while they read, more of them than Redis looks at by chance, and one that lives reads on. It keeps
// writers out.

func init() {
	Scenes = append(Scenes, Scene{"mortals", shapeMortals, func() Kind { return mortals{} }})
}

func shapeMortals(p *Plan, r *rand.Rand) {
	p.Topology = alone
	p.Procs, p.Actors, p.Rounds = 3, 1, 2
	p.lasts(pick(r, []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second}))
	p.Rates = rates{Delay: p.Rates.Delay}
}

type mortals struct{ Readers }

// Round is that of the first process. The others are those that die.
func (k mortals) Round(a *Actor, r *rand.Rand) {
	if a.place > 0 {
		return
	}
	w, plan := a.w, a.w.plan
	ctx, cancel := context.WithTimeout(w.ctx, 20*plan.Lease)
	defer cancel()
	t := Try{Name: fmt.Sprintf("own-%d", r.IntN(1e9)), Amount: 1, Lease: plan.Lease, Opts: []relock.Option{relock.WithLease(plan.Lease)}}
	h := a.Acquire(ctx, t)
	if h == nil {
		return
	}
	for i := range 9 + r.IntN(40) {
		b := &Actor{w: w, place: 1 + i%(plan.Procs-1), index: 100 + i}
		if b.Acquire(ctx, t) != nil {
			w.mu.Lock()
			w.replace(b.place, true)
			w.mu.Unlock()
		}
	}
	a.Sleep(plan.Lease + time.Duration(r.Int64N(int64(plan.Lease))))
	t.Amount, t.Once = allOf, r.IntN(2) == 0
	soon, cancel := context.WithTimeout(ctx, plan.Lease)
	defer cancel()
	b := &Actor{w: w, place: 1, index: 99}
	if in := b.Acquire(soon, t); in != nil {
		w.fail(t.Name, "token %d was given to a writer beside a reader that lives", in.Token)
	}
	a.Release(w.ctx, h, false)
	t.Once = false
	if in := b.Acquire(ctx, t); in != nil { // once it has left, the dead keep no one out
		b.Release(w.ctx, in, false)
	} else if w.ctx.Err() == nil {
		w.fail(t.Name, "a writer was not given the lock, of which only dead readers are left")
	}
}
