package world

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// Instants: contexts that end in the instant in which the process hears of a grant, when its callers are about to be let in.

// cut is a context that ends with the nth grant from now.
type cut struct {
	end context.CancelFunc
	nth int
}

// asking is a lock that a process asks for.
type asking struct {
	proc *process
	lock string
}

// cutShort has a sixth of the calls end like that, where the plan says so. The returned function ends that.
func (a *Actor) cutShort(ctx context.Context, t Try, p *process) (context.Context, func(failed bool)) {
	n := a.calls.Add(1)
	d := throw(a.w.plan.Seed, "instant", strconv.Itoa(a.place), strconv.Itoa(a.index), strconv.FormatInt(n, 10))
	if !a.w.plan.Instants || t.Once || d.of(6) > 0 {
		return ctx, func(bool) {}
	}
	ctx, end := context.WithCancel(ctx)
	one, at := &cut{end, d.of(2)}, asking{p, t.Name}
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.w.cuts[at] = append(a.w.cuts[at], one)
	return ctx, func(failed bool) {
		a.w.mu.Lock()
		defer a.w.mu.Unlock()
		a.w.cuts[at] = slices.DeleteFunc(a.w.cuts[at], func(other *cut) bool { return other == one })
		if failed {
			end() // else what was taken under it goes on
		}
	}
}

// cutsShort is called, under the world's mutex, when a process hears that it is granted a lock.
func (w *World) cutsShort(p *process, lock string) {
	if q := p.asks[lock]; q != nil {
		q.given = time.Now()
	}
	for _, one := range w.cuts[asking{p, lock}] {
		if one.nth--; one.nth < 0 {
			go one.end() // not here: leases may derive from it
		}
	}
}
