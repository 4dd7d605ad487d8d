package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/sim"
)

// rollTwice is how often each node is restarted.
const rollTwice = 2

// shapeRolling restarts all nodes of a quorum one after another, with a pause of a quarantine and a lease between, and
// once more. They keep what they know.
func shapeRolling(p *Plan, r *rand.Rand) {
	p.Topology = pick(r, []topology{quorumOf3, quorumOf5})
	p.lasts(pick(r, []time.Duration{500 * time.Millisecond, 3 * time.Second}))
	p.Procs, p.Actors, p.Rounds = 2, 4, 1
	p.Names = p.Names[:1]
	p.Rates.Delay = min(p.Rates.Delay, p.Lease/200)
	for i := range rollTwice * p.Topology.Nodes {
		p.Events = append(p.Events, event{
			Name: fmt.Sprintf("event %d roll", i), Round: 1, What: roll, Node: i % p.Topology.Nodes,
			After: p.Lease/2 + time.Duration(i)*rollPause(p), Last: time.Duration(r.Int64N(int64(p.Lease / 20))),
		})
	}
}

// rollPause is the time from one restart to the next.
func rollPause(p *Plan) time.Duration { return 2*p.Longest() + p.Lease/10 }

// roll restarts a node. No lock may be lost by that, nor a call fail for long: it excuses nothing.
func roll(w *World, e event) {
	n := w.nodes[e.Node]
	n.server.Stop()
	w.after(e.Last, func() { n.server.Start(sim.All) })
}

// rollers are four sorts of actors: they keep a lock that nobody contends for, do jobs that only try, under ever new names
// or seldom under the same, and wait for one lock.
type rollers struct{ Mutexes }

func (k rollers) Round(a *Actor, r *rand.Rand) {
	w, plan := a.w, a.w.plan
	until := time.Now().Add(plan.Lease + time.Duration(rollTwice*plan.Topology.Nodes)*rollPause(plan))
	t := Try{Name: fmt.Sprintf("own-%d-%d", a.place, a.index), Lease: plan.Lease, Opts: []relock.Option{relock.WithLease(plan.Lease)}}
	switch a.index {
	case 0:
		h := a.Acquire(w.ctx, t)
		if h == nil {
			return
		}
		a.Sleep(time.Until(until))
		if err := context.Cause(h.Lease.Context()); errors.Is(err, relock.ErrLost) {
			w.fail(h.Name, "token %d, for which nobody contended, was lost by restarts of single nodes", h.Token)
		}
		a.Release(w.ctx, h, false)
	case 1:
		k.jobs(a, until, plan.Lease/20, func(n int) Try {
			t.Name, t.Once = fmt.Sprintf("own-%d-%d-%d", a.place, a.index, n), true
			return t
		})
	case 2:
		k.jobs(a, until, plan.Lease/3, func(int) Try {
			t.Once = true
			return t
		})
	default:
		k.jobs(a, until, plan.Lease/30+time.Duration(r.Int64N(int64(plan.Lease/10))), func(int) Try {
			t.Name = plan.Names[0]
			return t
		})
	}
}

// jobs are done one after the other, and none may have to be tried for longer than a lease.
func (rollers) jobs(a *Actor, until time.Time, pause time.Duration, next func(n int) Try) {
	w := a.w
	for n, last := 0, time.Now(); time.Now().Before(until) && w.ctx.Err() == nil; n++ {
		t := next(n)
		h := a.Acquire(w.ctx, t)
		if h != nil {
			last = time.Now()
			a.Sleep(pause / 20)
			a.Release(w.ctx, h, false)
		} else if stuck := time.Since(last); stuck > w.plan.Lease {
			w.fail(t.Name, "p%d has not had any lock that it tried for, for %v", a.place, stuck)
			return
		}
		a.Sleep(pause)
	}
}
