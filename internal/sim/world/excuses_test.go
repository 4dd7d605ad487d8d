package world

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// losers lose a lease to a cut, and unlock it long after the cut has healed.
type losers struct {
	Mutexes
	lost *bool
}

func (k losers) Round(a *Actor, _ *rand.Rand) {
	w, lease := a.w, a.w.plan.Lease
	t := Try{Name: w.plan.Names[0], Lease: lease, Opts: []relock.Option{relock.WithLease(lease)}}
	h := a.Acquire(w.ctx, t)
	for ; h != nil && !h.watched(); h = a.Acquire(w.ctx, t) {
		a.Release(w.ctx, h, false)
	}
	if h == nil {
		return
	}
	w.mu.Lock()
	part(w, event{Proc: a.place, Last: 3 * lease / 2})
	w.mu.Unlock()
	a.Sleep(4 * lease)
	*k.lost = h.Lease.Count() == 0
	a.Release(w.ctx, h, false)
}

// A loss is judged by the time before it: the quiet time between it and a late Unlock could renew nothing.
func TestLossIsJudgedByTheTimeBeforeIt(t *testing.T) {
	plan, lost := Draw(1, "none", alone.Name), false
	plan.lasts(30 * time.Second)
	plan.Procs, plan.Actors, plan.Rounds, plan.JVMs, plan.Names = 1, 1, 1, 0, plan.Names[:1]
	res := perform(t, plan, Options{Kind: losers{lost: &lost}})
	require.Empty(t, res.Violation, res.Trace)
	require.True(t, lost)
}
