//go:build simoverlay

package world

import (
	"math/rand/v2"

	"github.com/relock-go/relock"
)

// The toy kind that two may hold is in the library only where the overlay puts it there.
func init() { Scenes = append(Scenes, Scene{"pairs", shapePairs, func() Kind { return Pairs{} }}) }

// shapePairs has any faults on one Redis, alone or with a replica: a quorum refuses what several may hold.
func shapePairs(p *Plan, r *rand.Rand) { p.onOneRedis(r) }

// Pairs is the workload of the kind that two may hold.
type Pairs struct{ Mutexes }

// Together are leases of one hold.
func (Pairs) Together(a, b *Held) bool { return a.id == b.id }

// Of is a Pair.
func (Pairs) Of(c *relock.Client, name string, amount int, opts ...relock.Option) Lock {
	return c.Pair(name, amount, opts...)
}

// Form is a Pair's.
func (Pairs) Form() Form { return Form{Kind: relock.Pairs, Leases: relock.Pairs.Further[0]} }

// Round is a Mutex's, but for what a kind that several may hold has not: owners, and Do. One in four takes all of the lock.
func (k Pairs) Round(a *Actor, r *rand.Rand) {
	a.Sleep(a.w.hold(r) / 4)
	t := k.draw(a, r)
	t.Owner, t.Amount = "", 1
	if r.IntN(4) == 0 {
		t.Amount = a.w.form.Holders
	}
	ctx, cancel := k.context(a, r)
	defer cancel()
	if h := a.Acquire(ctx, t); h != nil {
		k.use(a, r, h, 0)
		k.giveBack(a, r, h)
	}
}
