package world

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

// dawdlers give up a lock whose question is on its way. It runs as many leases later.
type dawdlers struct {
	Mutexes
	leases float64
	never  bool // it never runs: something else puts the acquisition there
	longer bool // Redis keeps what it left for five leases
	left   *bool
}

func (k dawdlers) Round(a *Actor, _ *rand.Rand) {
	w, n, lease := a.w, a.w.nodes[0], a.w.plan.Lease
	t := Try{Name: w.plan.Names[0], Lease: lease, Opts: []relock.Option{relock.WithLease(lease)}}
	a.Release(w.ctx, a.Acquire(w.ctx, t), false) // a Redis that does not know the script would ask for its text
	w.mu.Lock()
	n.pause()
	w.procs[a.place].disturb(time.Now().Add(w.plan.Timeout()))
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Millisecond)
	defer cancel()
	if a.Acquire(ctx, t) != nil {
		w.fail(t.Name, "a node that is paused granted the lock")
	}
	w.mu.Lock()
	kept := n.held
	n.held = nil
	n.resume()
	w.mu.Unlock()
	a.Sleep(time.Duration(k.leases * float64(lease)))
	w.mu.Lock()
	for _, run := range kept {
		if !k.never {
			run()
		}
	}
	for id, s := range w.stays {
		if k.never && !s.given {
			n.ask("HSET", t.Name, id, "1")
		}
	}
	if k.longer {
		n.ask("PEXPIRE", t.Name, strconv.Itoa(int(5*lease/time.Millisecond)))
	}
	w.mu.Unlock()
	a.Sleep(9 * lease / 10)
	w.mu.Lock()
	*k.left = n.server.Stands(t.Name)
	w.mu.Unlock()
	a.Sleep(2 * lease)
}

// A question that runs within a lease after its process has ended the acquisition leaves nothing: the process comes back to it.
// One that runs later may cost one lease, and no more. What stands without a question that ran late is never excused.
func TestLateCommandCostsALease(t *testing.T) {
	const stood = "without a lease"
	for name, c := range map[string]struct {
		dawdlers
		left     bool
		violated string
	}{
		"soon":        {dawdlers{leases: .5}, false, ""},
		"late":        {dawdlers{leases: 1.5}, true, ""},
		"kept longer": {dawdlers{leases: 1.5, longer: true}, true, stood},
		"not by it":   {dawdlers{leases: 1.5, longer: true, never: true}, true, stood},
	} {
		t.Run(name, func(t *testing.T) {
			plan, left := Draw(1, "none", alone.Name), false
			plan.lasts(30 * time.Second)
			plan.Class, plan.Procs, plan.Actors, plan.Rounds, plan.JVMs, plan.Throng, plan.Names = "mixed", 1, 1, 1, 0, 0, plan.Names[:1]
			c.dawdlers.left = &left
			res := perform(t, plan, Options{Kind: c.dawdlers, Trace: true})
			if c.violated != "" {
				require.Contains(t, res.Violation, c.violated)
				return
			}
			require.Empty(t, res.Violation, res.Trace)
			require.Equal(t, c.left, left, res.Trace)
		})
	}
}

// sharers are two processes that ask for one lock as one owner. The first is cut off for longer than its lease as its question
// runs, and has given up when the answer comes. The second keeps the lock for longer than that.
type sharers struct {
	Mutexes
	free *bool
}

func (k sharers) Round(a *Actor, _ *rand.Rand) {
	w, n, p := a.w, a.w.nodes[0], a.w.process(a.place)
	t := Try{Name: w.plan.Names[0], Lease: w.plan.Lease, Owner: "job", Opts: []relock.Option{relock.WithLease(w.plan.Lease)}}
	if a.place == 1 {
		h := a.Acquire(w.ctx, t)
		a.Sleep(20 * time.Second)
		a.Release(w.ctx, h, false)
		w.mu.Lock()
		*k.free = !n.server.Stands(t.Name)
		w.mu.Unlock()
		return
	}
	a.Sleep(time.Second)
	t.Lease, t.Opts = 3*time.Second, []relock.Option{relock.WithLease(3 * time.Second)}
	ctx, cancel := context.WithTimeout(w.ctx, 10*time.Millisecond)
	defer cancel()
	a.Go(func() {
		for cut := false; !cut; a.Sleep(time.Microsecond) {
			w.mu.Lock()
			n.server.Fields(t.Name, func(id string) { cut = cut || strings.HasPrefix(id, p.client.ID()) })
			if cut {
				part(w, event{Proc: a.place, Last: 4 * t.Lease})
			}
			w.mu.Unlock()
		}
	})
	if a.Acquire(ctx, t) != nil {
		w.fail(t.Name, "the answer came in time")
	}
}

// What a caller left that gave up keeps no lock once the others of its owner have left, however long it could not be ended.
func TestSharersLeaveNothing(t *testing.T) {
	plan, free := Draw(1, "none", alone.Name), false
	plan.lasts(30 * time.Second)
	plan.Class, plan.Procs, plan.Actors, plan.Rounds, plan.JVMs, plan.Throng, plan.Names = "mixed", 2, 1, 1, 0, 0, plan.Names[:1]
	res := perform(t, plan, Options{Kind: sharers{free: &free}})
	require.Empty(t, res.Violation, res.Trace)
	require.True(t, free)
}
