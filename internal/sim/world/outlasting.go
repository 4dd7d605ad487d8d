package world

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/relock-go/relock"
)

// Outlasting: locks that WithMinHold keeps are unlocked sooner. Nobody gets them before their time is over, also if the command
// that sets the lease is lost, late or doubled. Where nothing is lost, processes are closed behind their Unlock.

func init() {
	Scenes = append(Scenes, Scene{"outlasting", shapeOutlasting, func() Kind { return &outlasters{} }})
}

func shapeOutlasting(p *Plan, r *rand.Rand) {
	p.Topology = pick(r, []topology{alone, quorumOf3})
	p.Names, p.Procs, p.Actors, p.Rounds = p.Names[:1], 3, 2, 6
	p.lasts(pick(r, []time.Duration{500 * time.Millisecond, 3 * time.Second}))
	p.Rates = rates{Delay: p.Rates.Delay}
	if r.IntN(2) == 0 {
		p.Rates.LoseCall, p.Rates.LoseReply, p.Rates.Twice, p.Rates.Late = .03, .03, .1, .05
	}
}

type outlasters struct {
	Mutexes
	mu    sync.Mutex
	token int64 // of the last lease that was unlocked
	until time.Time
}

func (k *outlasters) Round(a *Actor, r *rand.Rand) {
	w, plan := a.w, a.w.plan
	most := 3 * plan.Lease
	if plan.Topology.Quorum { // whose guard allows no longer lease: a process that is closed renews none
		most = plan.Lease
	}
	d := time.Duration(1 + r.Int64N(int64(most)))
	t := Try{Name: plan.Names[0], Lease: plan.Lease, Once: r.IntN(4) == 0}
	t.Opts = append(t.Opts, relock.WithLease(plan.Lease))
	t.keeps(d)
	t.passes = handoff{most: usualPasses, time: usualTime}
	w.judge.excuse(most)
	h := a.Acquire(w.ctx, t)
	if h == nil {
		a.Sleep(time.Duration(r.Int64N(int64(plan.Lease / 4))))
		return
	}
	end := time.Now().Add(d)
	k.mu.Lock()
	if early := time.Until(k.until); early > 0 && h.Token > k.token {
		w.fail(t.Name, "p%d is given token %d, %v before WithMinHold of token %d is over", h.proc.index, h.Token, early, k.token)
	}
	k.mu.Unlock()
	a.Sleep(time.Duration(r.Int64N(int64(3*d/2) + 1)))
	w.judge.excuse(most)
	if h.live() {
		k.mu.Lock()
		k.token, k.until = h.Token, end
		k.mu.Unlock()
	}
	a.Release(w.ctx, h, false)
	if plan.Rates.LoseCall == 0 && r.IntN(3) == 0 {
		(*closers)(nil).close(w, h.proc)
	}
}
