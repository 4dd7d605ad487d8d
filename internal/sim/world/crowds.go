package world

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock"
)

// crowd is how many locks are taken in one batch.
const crowd = 400

// crowds take hundreds of locks at once, most of them of their own.
type crowds struct{ Mutexes }

// shapeCrowds has a few batches of each process, on any topology.
func shapeCrowds(p *Plan, r *rand.Rand) {
	p.Topology = pick(r, []topology{alone, alone, guarded, quorumOf3})
	p.Procs, p.Actors, p.Rounds = 2, 1, 2
	p.lasts(max(p.Lease, time.Second))
}

// Round takes a batch, holds it so long that it is renewed, and gives it back.
func (crowds) Round(a *Actor, r *rand.Rand) {
	w, plan := a.w, a.w.plan
	batch := strconv.Itoa(r.IntN(1e6))
	for i := range crowd {
		name, long := batch+"-"+strconv.Itoa(i), time.Duration(r.Int64N(int64(plan.Lease)))
		if i%20 == 0 {
			name = "shared-" + strconv.Itoa(i)
		}
		a.Go(func() {
			ctx, cancel := context.WithTimeout(w.ctx, 20*plan.Lease)
			defer cancel()
			h := a.Acquire(ctx, Try{Name: name, Lease: plan.Lease, Opts: []relock.Option{relock.WithLease(plan.Lease)}})
			if h == nil {
				if w.ctx.Err() == nil {
					w.fail(name, "the lock was not had in twenty leases")
				}
				return
			}
			a.Sleep(long)
			a.Release(w.ctx, h, false)
		})
	}
}

// quiet demands that clients that have used nothing for a while hear of no lock, and after Close of
// nothing.
func (w *World) quiet(closed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		v, _ := n.ask("PUBSUB", "CHANNELS", "*")
		for _, channel := range v.texts() {
			if closed || !strings.HasPrefix(channel, "relock_inbox:") {
				w.failed(lockOf(channel, ""), "%s is still subscribed at node %d", channel, n.index)
			}
		}
		if closed && len(n.ears) > 0 {
			w.failed("", "%d connections for messages are left at node %d", len(n.ears), n.index)
		}
	}
}
