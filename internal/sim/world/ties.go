package world

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/relock-go/relock"
)

// Contenders with one ticket: the goroutines of a process ask in the same instant, and each by an owner of its own, past the
// gate. One node's clock is so far off that its grants do not count, and some commands are lost. So two contenders may each
// have a node that the other needs.

// shapeTies has three nodes, of which two count.
func shapeTies(p *Plan, r *rand.Rand) {
	p.Topology, p.Strict = quorumOf3, false
	p.Names, p.Procs, p.Actors = p.Names[:1], 2, 3
	p.lasts(pick(r, []time.Duration{3 * time.Second, 10 * time.Second}))
	p.Rates = rates{Delay: p.Rates.Delay, LoseCall: .05, LoseReply: .05}
	p.with(r, 1, "step", step)
	p.Events[0].Round, p.Events[0].Step = 1, p.Lease
}

// tied is the workload of such contenders.
type tied struct{ Mutexes }

// Round waits for the next of the instants at which all ask, and takes the lock for a moment.
func (tied) Round(a *Actor, r *rand.Rand) {
	every := 100 * a.w.plan.Rates.Delay
	a.Sleep(every - a.w.now()%every)
	ctx, cancel := context.WithTimeout(a.w.ctx, 20*a.w.plan.Lease)
	defer cancel()
	t := Try{Name: a.w.plan.Names[0], Owner: "owner-" + strconv.Itoa(a.index), Lease: a.w.plan.Lease}
	t.Opts = []relock.Option{relock.WithLease(t.Lease)}
	if a.index == 0 {
		t.Owner = "" // of another block, so of another place among equal tickets
	}
	if h := a.Acquire(ctx, t); h != nil {
		a.Sleep(time.Duration(r.Int64N(int64(4*a.w.plan.Rates.Delay) + 1)))
		a.Release(a.w.ctx, h, false)
	}
}
