package world

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/wire"
)

// Semaphores: their workload. What is demanded of them is in permitrules.go. They are in scenes of their own, which have any faults
// on one Redis.

func init() {
	Scenes = append(Scenes, Scene{"semaphores", shapePermits, func() Kind { return Permits{} }},
		Scene{"heirs", shapeHeirs, func() Kind { return heirs{} }})
}

// firstSize is how many permits the clients give a semaphore at least that has no number of them.
const firstSize = 4

// shapePermits has any faults on one Redis, alone or with a replica: a quorum has no semaphores. Where counters are lost, how many
// permits are free is lost too.
func shapePermits(p *Plan, r *rand.Rand) {
	p.onOneRedis(r)
	p.Names = p.Names[:min(len(p.Names), 3)]
	for i, name := range p.Names {
		if name == tagged { // which no semaphore is called
			p.Names = append(p.Names[:i], p.Names[i+1:]...)
		}
	}
	p.Instants = r.IntN(2) == 0
	if p.Class == "counter" || p.Class == "operator" || p.Class == "mixed" {
		p.with(r, 1+r.IntN(4), "lose size", loseSize)
	}
}

// sizeOf is how many permits a client gives a semaphore that has no number of them: clients differ.
func sizeOf(c *relock.Client) int { return firstSize + int(c.ID()[0])%2 }

// Permits is the workload of a semaphore.
type Permits struct{ Mutexes }

// permits is a semaphore of which each call takes so many.
type permits struct {
	*relock.Semaphore
	amount int
}

func (s permits) Lock(ctx context.Context) (*relock.Lease, error) { return s.Acquire(ctx, s.amount) }
func (s permits) TryLock(ctx context.Context) (*relock.Lease, error) {
	return s.TryAcquire(ctx, s.amount)
}

// Together are leases of one hold.
func (Permits) Together(a, b *Held) bool { return a.id == b.id }

// Of is a Semaphore.
func (Permits) Of(c *relock.Client, name string, amount int, opts ...relock.Option) Lock {
	return permits{c.Semaphore(name, max(sizeOf(c), amount), opts...), amount}
}

// Form is a Semaphore's.
func (Permits) Form() Form { return Form{Kind: wire.Semaphore, Leases: wire.Semaphore.Further[0]} }

// Round takes one to three permits, does something with them, and gives them back. Now and then it changes how many there are.
func (k Permits) Round(a *Actor, r *rand.Rand) {
	a.Sleep(a.w.hold(r) / 4)
	t := k.draw(a, r)
	switch r.IntN(24) {
	case 0:
		k.resize(a, r, t.Name)
	case 1, 2:
		k.do(a, r, t)
		return
	}
	ctx, cancel := k.context(a, r)
	defer cancel()
	if h := a.Acquire(ctx, t); h != nil {
		k.use(a, r, h)
		k.giveBack(a, r, h)
	}
}

func (k Permits) draw(a *Actor, r *rand.Rand) Try {
	t := k.Mutexes.draw(a, r)
	t.Owner, t.Amount = "", pick(r, []int{1, 1, 1, 2, 2, 3})
	return t
}

// use does things with permits.
func (k Permits) use(a *Actor, r *rand.Rand, h *Held) {
	for range r.IntN(3) {
		a.Sleep(a.w.hold(r) / 2)
		switch r.IntN(6) {
		case 0, 1:
			k.extend(a, r, h)
		case 2:
			k.look(a, h)
		case 3:
			k.more(a, r, h)
		case 4:
			k.force(a, r, h)
		}
	}
	a.Sleep(a.w.hold(r))
}

// more takes further permits under the context of those that it has: none of them is taken twice. Actors may so wait for each
// other: they give up.
func (k Permits) more(a *Actor, r *rand.Rand, h *Held) {
	t := k.draw(a, r)
	ctx, cancel := context.WithTimeout(h.ctx, time.Duration(1+r.Int64N(int64(a.w.plan.Lease))))
	defer cancel()
	in := a.Acquire(ctx, t)
	if in == nil {
		return
	}
	if in.id == h.id {
		a.w.fail(h.Name, "an Acquire under permits %s of p%d took no others", h.id, h.proc.index)
	}
	a.Sleep(a.w.hold(r))
	k.giveBack(a, r, in)
}

// resize changes how many permits there are, mostly to a number of which each call may have what it wants.
func (Permits) resize(a *Actor, r *rand.Rand, name string) {
	if !a.w.plays(name) {
		return
	}
	n, began, p := pick(r, []int{2, 3, 4, 4, 5, 6}), a.w.nextNumber(), a.w.process(a.place)
	err := a.w.setsPermits(a.w.ctx, p, name, n)
	a.w.note(p.index, name, "sets its permits to "+small(n), 0, err)
	if err == nil && !a.w.hadSize(name, n, began) {
		a.w.fail(name, "SetPermits(%d) of p%d returned nil, and Redis was not told", n, p.index)
	}
}

// do is Do, which takes one permit.
func (k Permits) do(a *Actor, r *rand.Rand, t Try) {
	if !a.w.plays(t.Name) {
		return
	}
	p := a.w.process(a.place)
	ctx, cancel := k.context(a, r)
	defer cancel()
	a.w.called(p)
	defer a.w.answered(p)
	var had *Held
	began, under := time.Now(), ctx
	a.w.note(p.index, t.Name, "calls Do", 0, nil)
	done := sync.OnceFunc(a.w.judge.waits(&call{name: t.Name, proc: p, lease: t.Lease, amount: 1, began: began, lines: true}))
	lock := p.client.Semaphore(t.Name, sizeOf(p.client), t.Opts...).Locker(1)
	err := lock.Do(ctx, func(ctx context.Context) error {
		done()
		l, err := lock.Held(ctx)
		if err != nil {
			return err // it was lost since
		}
		id, _ := idOf(l)
		had = &Held{Lease: l, Name: t.Name, Token: a.w.numberOf(id), proc: p, fixed: t.Fixed, lease: t.Lease, under: under, amount: 1,
			at: time.Since(a.w.trace.start), asked: began, began: began, bound: t.bound(began), linger: t.linger, passes: t.passes}
		a.w.note(p.index, t.Name, "DOES", had.Token, nil)
		a.entered(had, nil)
		a.Sleep(a.w.hold(r))
		had.over.Store(true)
		a.w.judge.lets(had)
		defer a.w.judge.over(had, had.at)
		return nil
	})
	done()
	if had != nil {
		a.w.hasLeft(had)
	}
	a.w.judge.asked(t.Name, false, time.Since(began))
	a.w.note(p.index, t.Name, "did", 0, err)
}

// loseSize deletes how many permits are free: a client that asks next says how many there are.
func loseSize(w *World, e event) {
	name := w.plan.Names[e.N%len(w.plan.Names)]
	w.excuse(0)
	w.nodes[e.Node].ask("DEL", name)
}

// servePermits has a process take all permits that there are, once everything is well: none is lost, and none is there twice.
func (w *World) servePermits(p *process, name string) {
	ctx, cancel := context.WithTimeout(w.ctx, 3*w.plan.Longest())
	defer cancel()
	if w.plan.JVMs > 0 && w.sizeNow(name) < 1 { // Redisson took some for good
		_ = w.setsPermits(ctx, p, name, firstSize)
	}
	one, err := w.kind.Of(p.client, name, 1).Lock(ctx) // of a name that was not used yet, Redis keeps the number now
	if err == nil {
		err = one.Unlock(w.ctx)
	}
	if err != nil {
		w.servedNot(p, name, err)
		return
	}
	size := w.sizeNow(name)
	all := w.kind.Of(p.client, name, size)
	l, err := all.Lock(ctx)
	if err != nil {
		w.servedNot(p, name, err)
		return
	}
	if st, err := all.State(w.ctx); err == nil && (st.Permits != size || st.Free != 0 || st.Count != size) && w.ctx.Err() == nil {
		w.fail(name, "p%d has all of %d permits, and State tells %+v", p.index, size, st)
	}
	if err := l.Unlock(w.ctx); err != nil {
		w.fail(name, "Unlock in calm: %v", err)
	}
}

func (w *World) servedNot(p *process, name string, err error) {
	if w.ctx.Err() == nil {
		w.fail(name, "p%d is not given the permits after all faults have ended: %v", p.index, err)
	}
}

// shapeHeirs kills processes that hold permits others wait for, and deletes how many are free. Nothing else goes wrong, and none of it
// is an excuse.
func shapeHeirs(p *Plan, r *rand.Rand) {
	p.Topology = alone
	p.Names = p.Names[:1]
	p.Procs, p.Actors = 3, 3
	p.lasts(pick(r, []time.Duration{time.Second, 3 * time.Second}))
	p.Rates = rates{Delay: p.Rates.Delay}
	p.with(r, 6, "kill", func(w *World, e event) { w.replace(e.Proc, true) })
	p.with(r, 6, "lose size", func(w *World, e event) { w.nodes[0].ask("DEL", w.plan.Names[0]) })
}

// heirsWait is how long a permit of the dead may be waited for behind its lease.
const heirsWait = 100 * time.Millisecond

// heirs take permits for up to a lease.
type heirs struct{ Permits }

func (k heirs) Round(a *Actor, r *rand.Rand) {
	plan := a.w.plan
	a.Sleep(time.Duration(r.Int64N(int64(plan.Lease / 4))))
	if r.IntN(8) == 0 {
		k.resize(a, r, plan.Names[0])
	}
	t := Try{Name: plan.Names[0], Amount: 1 + r.IntN(3), Lease: plan.Lease, Opts: []relock.Option{relock.WithLease(plan.Lease)}}
	ctx, cancel := context.WithCancel(a.w.ctx)
	defer cancel()
	if r.IntN(3) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Int64N(int64(plan.Lease))))
		defer cancel()
	}
	if h := a.Acquire(ctx, t); h != nil {
		a.Sleep(time.Duration(r.Int64N(int64(plan.Lease))))
		a.Release(a.w.ctx, h, false)
	}
}

// entryOf is the acquisition of a member of the set of permits that are held, "" where it is Redisson's.
func entryOf(member string) string {
	if len(member) <= 16 {
		return ""
	}
	return member[:strings.LastIndexByte(member, ':')]
}

// entries calls do, for each acquisition that a node keeps a lock for, with the name of its field; of a semaphore, with their ids, with those that last by the
// node's clock.
func (f Form) entries(n *node, name string, do func(id string)) {
	if !f.Permits {
		n.server.Fields(name, do)
		return
	}
	now, last := float64(n.server.Clock().Micro())/1000, ""
	for _, permit := range n.server.Line(f.leasesOf(name), nil) { // an entry's stand one behind the other
		if id := entryOf(permit.Member); id != "" && id != last && permit.Ticket > now {
			last = id
			do(id)
		}
	}
}
