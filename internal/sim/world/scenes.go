package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/sim"
)

// Scene is a world that is set up for what chance seldom makes, with a judge of its own for that.
// What the judge of every world demands it demands too. scenes.tsv says what each finds: of 48 mutants those that three of its
// seeds find, and that no other scene finds in three.
type Scene struct {
	Name  string
	Shape func(p *Plan, r *rand.Rand)
	Kind  func() Kind
}

// Scenes are all there are.
var Scenes = []Scene{
	{"full", shapeFull, func() Kind { return keepers{} }},
	{"far", shapeFar, func() Kind { return keepers{short: true} }},
	{"lengthened", shapeLengthened, func() Kind { return lengtheners{} }},
	{"ahead", shapeAhead, func() Kind { return keepers{shared: true} }},
	{"graves", shapeGraves, func() Kind { return keepers{shared: true} }},
	{"closers", shapeClosers, func() Kind { return &closers{given: map[*process]int{}} }},
	{"filled", shapeFilled, func() Kind { return fillers{} }},
	{"forced", shapeForced, func() Kind { return forcers{} }},
	{"siblings", shapeSiblings, func() Kind { return siblings{} }},
	{"behind", shapeBehind, func() Kind { return tryers{op: "fence", most: 40} }},
	{"refused", shapeRefused, func() Kind { return tryers{op: "sweep"} }},
	{"crowds", shapeCrowds, func() Kind { return crowds{} }},
	{"orphans", shapeOrphans, func() Kind { return &orphans{busy: map[*process]int{}} }},
	{"rolling", shapeRolling, func() Kind { return rollers{} }},
	{"unheard", shapeUnheard, func() Kind { return keepers{shared: true} }},
	{"idle", shapeIdle, func() Kind { return idlers{} }},
	{"missed", shapeMissed, func() Kind { return keepers{} }},
	{"forgetful", shapeForgetful, func() Kind { return Mutexes{} }},
	{"ties", shapeTies, func() Kind { return tied{} }},
	{"hearing", shapeHearing, func() Kind { return idlers{} }},
	{"guards", shapeGuards, func() Kind { return Mutexes{} }},
}

// Play plays a seed of the scene in a bubble.
func (s Scene) Play(t *testing.T, seed uint64, o Options) *Result {
	plan := Draw(seed, "none", o.Topology)
	plan.Class, plan.Scene, plan.Fresh, plan.Events, plan.JVMs, plan.Throng, plan.Instants = s.Name, s.Name, false, nil, 0, 0, false
	plan.Rounds /= 2 // a scene is made for few
	s.Shape(plan, throw(seed, "scene", s.Name).stream())
	if o.Kind = plan.Kind; o.Kind == nil {
		o.Kind = s.Kind()
	}
	return perform(t, plan, o)
}

// shapeFilled loses some of the commands that fill a lease up.
func shapeFilled(p *Plan, _ *rand.Rand) {
	p.Topology = alone
	p.lasts(p.Lease)
	p.Rates.LoseCall = .2
}

// shapeSiblings has nothing but locks that many wait for in each process.
func shapeSiblings(p *Plan, _ *rand.Rand) {
	p.Names, p.Actors = p.Names[:1], 5
	p.lasts(max(p.Lease, time.Second))
}

// shapeBehind has one node of three out, and memory that runs out of the others in short spells.
func shapeBehind(p *Plan, r *rand.Rand) {
	p.Topology = quorumOf3
	p.lasts(3 * time.Second)
	p.Rates.Delay = p.Lease / 400
	p.with(r, 1, "pause", pause)
	p.Events[0].Round, p.Events[0].Node, p.Events[0].Last = 1, 2, time.Hour
	p.with(r, 30, "full", full)
	for i := range p.Events[1:] {
		e := &p.Events[i+1]
		e.Node, e.Last = r.IntN(2), time.Duration(r.Int64N(int64(p.Lease/2)))
	}
}

// shapeRefused has nodes that refuse every connection.
func shapeRefused(p *Plan, r *rand.Rand) {
	p.Topology = alone
	p.lasts(p.Lease)
	p.Rates.Refused = 1
}

// shapeOrphans lets commands come after their time-out, and be lost.
func shapeOrphans(p *Plan, r *rand.Rand) {
	p.Topology = alone
	p.Names = p.Names[:1]
	p.lasts(30 * time.Second)
	p.Rates.Slow, p.Rates.LoseCall, p.Rates.LoseReply = .1, .03, .03
}

// shapeMissed loses some of the commands that renew long leases, too few in a row to cost a lease.
func shapeMissed(p *Plan, _ *rand.Rand) {
	p.Topology = alone
	p.lasts(30 * time.Second)
	p.Rates = rates{Delay: p.Rates.Delay, LoseCall: .1}
}

// with adds events of one sort, spread over the rounds.
func (p *Plan) with(r *rand.Rand, n int, name string, what func(*World, event)) {
	for i := range n {
		p.Events = append(p.Events, event{
			Name: fmt.Sprintf("event %d %s", len(p.Events), name), Round: int64(r.IntN(p.allRounds())), What: what,
			After: time.Duration(r.Int64N(int64(p.Timeout()))), Last: p.Longest() + time.Duration(r.Int64N(int64(2*p.Longest()))),
			Proc: r.IntN(p.Procs), Node: r.IntN(p.Topology.Nodes), N: i,
		})
	}
}

func (p *Plan) lasts(lease time.Duration) { p.Lease, p.Leases = lease, []time.Duration{lease, lease} }

// shapeFull lets memory run out for longer than leases last, which must cost no lock.
func shapeFull(p *Plan, r *rand.Rand) {
	p.Topology = pick(r, []topology{alone, guarded, quorumOf3})
	p.lasts(pick(r, []time.Duration{500 * time.Millisecond, 3 * time.Second}))
	p.Procs, p.Actors, p.Rounds = 2, 5, 4
	p.with(r, 3, "full", full)
}

// shapeFar has nodes so far away that locks with a short lease hear nothing of them in time.
func shapeFar(p *Plan, r *rand.Rand) {
	p.Topology = pick(r, []topology{quorumOf3, quorumOf5})
	p.lasts(3 * time.Second)
	p.Procs, p.Actors, p.Rounds = 1, 4, 4
	p.Rates.Delay = time.Duration(20+r.IntN(25)) * time.Millisecond
}

// shapeLengthened loses answers in half of the seeds: then no one knows whether the lease was lengthened.
func shapeLengthened(p *Plan, r *rand.Rand) {
	p.Topology = alone
	p.Names = p.Names[:1]
	p.lasts(p.Lease)
	if r.IntN(2) == 0 {
		p.Rates.LoseReply = .2
	}
}

// shapeAhead restarts a guarded Redis with a clock that is an hour ahead for a while.
func shapeAhead(p *Plan, r *rand.Rand) {
	p.Topology, p.Strict = guarded, true
	p.lasts(p.Lease)
	p.with(r, 1, "ahead", ahead)
}

func shapeGraves(p *Plan, r *rand.Rand) {
	p.Topology = pick(r, []topology{alone, alone, guarded})
	p.Names = p.Names[:1]
	p.lasts(p.Lease)
	p.with(r, 4, "kill", bury)
}

func shapeClosers(p *Plan, r *rand.Rand) {
	p.Topology = pick(r, []topology{alone, guarded, quorumOf3})
	p.Names = p.Names[:1]
	p.Procs, p.Actors = 2, 4+r.IntN(3)
	p.lasts(p.Lease)
}

func shapeForced(p *Plan, r *rand.Rand) {
	p.Topology = pick(r, []topology{quorumOf3, quorumOf5})
	p.Names = p.Names[:1]
	p.lasts(pick(r, []time.Duration{time.Second, 3 * time.Second}))
}

// ahead restarts a node with a clock an hour ahead, which is set right before it grants anything.
func ahead(w *World, e event) {
	n, longest := w.nodes[e.Node], w.plan.Longest()
	w.excuse(4 * longest)
	n.disturb(4 * longest)
	w.strike("", "clock set forward, memory lost")
	n.server.Stop()
	n.server.Clock().Step(time.Hour)
	n.server.Start(sim.Nothing)
	w.after(e.Last%longest/2, func() { n.server.Clock().Step(-time.Hour) })
}

// bury kills a process. Nothing may be handed to it any more.
func bury(w *World, e event) {
	old := w.procs[e.Proc]
	had := map[string]bool{}
	for _, name := range w.plan.Names {
		had[name] = w.has(name, old.client.ID())
	}
	kill(w, e)
	for i := range 60 {
		w.after(time.Duration(i)*w.plan.Longest()/20, func() {
			for _, name := range w.plan.Names {
				if !had[name] && w.has(name, old.client.ID()) {
					w.failed(name, "p%d is handed the lock %v after it was killed", old.index, time.Duration(i)*w.plan.Longest()/20)
				}
			}
		})
	}
}

// has reports whether a node keeps the lock for a client. The caller holds the world's mutex.
func (w *World) has(name, client string) bool {
	for _, n := range w.nodes {
		v, _ := n.ask("HKEYS", name)
		for _, field := range v.texts() {
			if strings.HasPrefix(field, client) {
				return true
			}
		}
	}
	return false
}

// keepers hold locks for long, each its own unless they are shared. Nothing happens to their nodes
// by which a lease could be lost.
type keepers struct {
	Mutexes
	shared, short bool
}

// Round is one long hold with re-entries that are given up early, so that Redis's hold count is not
// sure; of the first actor of short ones, tries with a lease too short for where the nodes are.
func (k keepers) Round(a *Actor, r *rand.Rand) {
	plan := a.w.plan
	ctx, cancel := context.WithTimeout(a.w.ctx, 4*plan.Longest())
	defer cancel()
	t := Try{Name: fmt.Sprintf("own-%d-%d", a.place, a.index), Lease: plan.Lease, Opts: []relock.Option{relock.WithLease(plan.Lease)}}
	if k.shared {
		t.Name = pick(r, plan.Names)
	}
	if k.short && a.index == 0 {
		k.tries(a, ctx, t)
		return
	}
	h := a.Acquire(ctx, t)
	if h == nil {
		a.Sleep(plan.Lease / 4)
		return
	}
	long := plan.Lease
	if k.shared {
		long = plan.Lease / 8
	}
	for range 3 {
		k.enterBriefly(a, r, h)
		a.Sleep(time.Duration(r.Int64N(int64(long))))
	}
	if err := context.Cause(h.Lease.Context()); errors.Is(err, relock.ErrLost) && !k.shared {
		a.w.fail(h.Name, "token %d was lost, and nothing happened to its nodes: %v", h.Token, err)
	}
	a.Release(a.w.ctx, h, false)
}

func (keepers) enterBriefly(a *Actor, r *rand.Rand, h *Held) {
	ctx, cancel := context.WithTimeout(h.ctx, time.Duration(1+r.Int64N(int64(2*a.w.plan.Rates.Delay))))
	defer cancel()
	if in := a.Acquire(ctx, Try{Name: h.Name, Lease: h.lease, Opts: []relock.Option{relock.WithLease(h.lease)}}); in != nil {
		a.Release(a.w.ctx, in, false)
	}
}

func (keepers) tries(a *Actor, ctx context.Context, t Try) {
	t.Once, t.Lease = true, 100*time.Millisecond
	t.Opts = []relock.Option{relock.WithLease(t.Lease)}
	for range 400 {
		if h := a.Acquire(ctx, t); h != nil {
			a.Release(a.w.ctx, h, false)
		}
		a.Sleep(a.w.plan.Lease / 500)
	}
}

// lengtheners extend far beyond the lease. The next holder's lock stands for a lease all the same.
type lengtheners struct{ Mutexes }

func (lengtheners) Round(a *Actor, r *rand.Rand) {
	plan := a.w.plan
	t := Try{Name: plan.Names[0], Lease: plan.Lease, Opts: []relock.Option{relock.WithLease(plan.Lease)}}
	if r.IntN(2) == 0 {
		t.lingers(4 * plan.Lease)
	}
	h := a.Acquire(a.w.ctx, t)
	if h == nil {
		return
	}
	a.w.stands(h)
	a.Sleep(time.Duration(r.Int64N(int64(20 * plan.Rates.Delay))))
	if r.IntN(3) == 0 {
		_ = h.Lease.Extend(a.w.ctx, time.Duration(3+r.IntN(8))*plan.Lease)
	}
	a.Release(a.w.ctx, h, false)
}

// stands demands that a lock that was just given ends with its lease.
func (w *World) stands(h *Held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v, _ := w.nodes[0].ask("PTTL", h.Name)
	if left := time.Duration(v.number()) * time.Millisecond; left > h.lease+time.Millisecond {
		w.failed(h.Name, "token %d was just given with a lease of %v, and the lock stands for %v", h.Token, h.lease, left)
	}
}

// closers close clients at the instant of an Unlock.
type closers struct {
	Mutexes
	mu    sync.Mutex
	given map[*process]int // leases
}

func (c *closers) Round(a *Actor, r *rand.Rand) {
	plan := a.w.plan
	a.Sleep(time.Duration(r.Int64N(int64(4 * plan.Rates.Delay))))
	t := Try{Name: plan.Names[0], Lease: plan.Lease, Opts: []relock.Option{relock.WithLease(plan.Lease)}}
	if plan.Topology == alone && r.IntN(3) == 0 { // what is longer than the client's lease is asked for after the grant
		t.Fixed, t.Opts = true, append(t.Opts, relock.WithFixedLease(3*plan.Lease))
	}
	if r.IntN(10) == 0 {
		p, before := a.w.process(a.place), time.Duration(r.Int64N(int64(4*plan.Rates.Delay)))
		a.Go(func() {
			a.Sleep(before)
			c.close(a.w, p)
		})
	}
	h := a.Acquire(a.w.ctx, t)
	if h == nil {
		return
	}
	c.mu.Lock()
	c.given[h.proc]++
	c.mu.Unlock()
	a.Sleep(time.Duration(r.Int64N(int64(10 * plan.Rates.Delay))))
	if r.IntN(8) > 0 {
		a.Release(a.w.ctx, h, false)
		return
	}
	given := c.leases(h.proc)
	var closed sync.WaitGroup
	closed.Go(func() { c.close(a.w, h.proc) })
	a.w.judge.lets(h)
	err := h.Lease.Unlock(a.w.ctx)
	a.w.hasLeft(h)
	a.w.judge.over(h, h.at)
	if err == nil {
		h.over.Store(true)
		closed.Wait()
		c.closed(a, h, given)
	}
	h.over.Store(true)
	closed.Wait()
}

// close closes a client, and opens another in its place.
func (c *closers) close(w *World, p *process) {
	w.mu.Lock()
	mine := w.procs[p.index] == p
	if mine {
		w.replace(p.index, false)
	}
	w.mu.Unlock()
	p.closing.Wait()
}

// closed demands that a client that was closed gave back what no caller had, and sends nothing
// more.
func (c *closers) closed(a *Actor, h *Held, given int) {
	w := a.w
	sent := w.commands(h.proc)
	a.Sleep(w.plan.Lease / 10)
	if more := w.commands(h.proc); more > sent && w.plan.Topology.Quorum {
		w.fail(h.Name, "p%d has sent %d commands after Close had returned", h.proc.index, more-sent)
	}
	if c.leases(h.proc) > given { // a lease that is lost at once was given all the same, and is left to run out
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.has(h.Name, h.proc.client.ID()) {
		w.failed(h.Name, "p%d is closed and unlocked all of %d leases, and the lock stands for it", h.proc.index, given)
	}
}

// leases counts those that a process was given.
func (c *closers) leases(p *process) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.given[p]
}

// commands counts what a process has sent.
func (w *World) commands(p *process) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return p.commands
}

// forcers hold locks for long, and let another process force them. Its commands reach one node after
// the other.
type forcers struct{ Mutexes }

func (forcers) Round(a *Actor, r *rand.Rand) {
	w, plan := a.w, a.w.plan
	ctx, cancel := context.WithTimeout(w.ctx, plan.Lease)
	defer cancel()
	h := a.Acquire(ctx, Try{Name: plan.Names[0], Lease: plan.Lease, Opts: []relock.Option{relock.WithLease(plan.Lease)}})
	if h == nil {
		return
	}
	a.Sleep(time.Duration(r.Int64N(int64(plan.Lease))))
	lost := h.Lease.Context().Err() != nil
	other := (a.place + 1) % plan.Procs
	w.far(other, plan.Timeout()/12)
	began := time.Now()
	forced, err := w.process(other).client.Mutex(h.Name).ForceUnlock(w.ctx)
	if err == nil && forced && !lost && time.Since(began) < plan.Timeout()/2 {
		select {
		case <-h.Lease.Context().Done():
		case <-time.After(plan.Lease/3 + 4*plan.Timeout()):
			w.fail(h.Name, "token %d was forced open, and p%d still has it", h.Token, h.proc.index)
		}
	}
	a.Release(w.ctx, h, false)
}

// siblings enter a lock again, beside its Unlock, under a context that outlives it.
type siblings struct{ Mutexes }

func (siblings) Round(a *Actor, r *rand.Rand) {
	plan := a.w.plan
	some := func(most int64) time.Duration { return time.Duration(r.Int64N(most * int64(plan.Rates.Delay))) }
	t := Try{Name: plan.Names[0], Lease: plan.Lease, Opts: []relock.Option{relock.WithLease(plan.Lease)}}
	h := a.Acquire(a.w.ctx, t)
	if h == nil {
		return
	}
	for range 1 + r.IntN(3) {
		before, long, once := some(6), some(6), r.IntN(4) == 0
		a.Go(func() {
			a.Sleep(before)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), plan.Lease)
			defer cancel()
			in := a.Acquire(ctx, Try{Name: t.Name, Lease: t.Lease, Opts: t.Opts, Once: once})
			if in == nil {
				return
			}
			a.Sleep(long)
			a.Release(a.w.ctx, in, false)
		})
	}
	a.Sleep(some(8))
	a.Release(a.w.ctx, h, false)
}

// tryers take locks of their own, and count one sort of command that this makes their process send.
type tryers struct {
	Mutexes
	op   string
	most int // of these commands in one call
}

func (k tryers) Round(a *Actor, r *rand.Rand) {
	w, plan := a.w, a.w.plan
	ctx, cancel := context.WithTimeout(w.ctx, plan.Lease)
	defer cancel()
	t := Try{
		Name: fmt.Sprintf("own-%d-%d", a.place, a.index), Lease: plan.Lease, Opts: []relock.Option{relock.WithLease(plan.Lease)},
		Once: k.most == 0 || r.IntN(2) == 0,
	}
	if k.most == 0 {
		t.Name = fmt.Sprintf("own-%d-%d-%d", a.place, a.index, r.IntN(1000))
	}
	a.Sleep(time.Duration(r.Int64N(int64(plan.Timeout()))))
	before := w.sentOf(a.place, k.op, t.Name)
	h := a.Acquire(ctx, t)
	if k.most == 0 {
		a.Sleep(time.Duration(r.Int64N(int64(plan.Lease / 2))))
	}
	if n := w.sentOf(a.place, k.op, t.Name) - before; n > k.most {
		w.fail(t.Name, "p%d sent %d times %s in one call", a.place, n, k.op)
	}
	if h != nil {
		a.Release(w.ctx, h, false)
	}
}

// sentOf counts a process's commands of one sort about a lock.
func (w *World) sentOf(proc int, op, lock string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, one := range w.nodes {
		n += w.fates.met[meeting{proc: proc, node: one.index, op: op, lock: lock}]
	}
	return n
}

// orphans give up early and unlock. What a process neither has nor asks for may not stand for it.
type orphans struct {
	Mutexes
	mu   sync.Mutex
	busy map[*process]int // calls and leases
}

func (o *orphans) Round(a *Actor, r *rand.Rand) {
	w, plan := a.w, a.w.plan
	p := w.process(a.place)
	a.Sleep(time.Duration(r.Int64N(int64(plan.Lease))))
	o.count(p, 1)
	ctx, cancel := context.WithTimeout(w.ctx, time.Duration(1+r.Int64N(int64(8*plan.Rates.Delay))))
	defer cancel()
	t := Try{Name: plan.Names[0], Lease: plan.Lease, Opts: []relock.Option{relock.WithLease(plan.Lease)}, Once: r.IntN(4) == 0}
	if h := a.Acquire(ctx, t); h != nil {
		a.Sleep(time.Duration(r.Int64N(int64(8 * plan.Rates.Delay))))
		a.Release(w.ctx, h, false)
	}
	if o.count(p, -1) > 0 {
		return
	}
	var from time.Duration
	for step := time.Second; from < 5*plan.Lease/6 && o.count(p, 0) == 0 && o.stands(w, p); from += step {
		a.Sleep(step)
	}
	if from >= 5*plan.Lease/6 {
		w.fail(t.Name, "p%d neither has the lock nor asks for it, and it has stood for it for %v", p.index, from)
	}
}

func (o *orphans) count(p *process, n int) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy[p] += n
	return o.busy[p]
}

func (o *orphans) stands(w *World, p *process) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.has(w.plan.Names[0], p.client.ID())
}

// far lets what a process sends now reach one node after the other.
func (w *World) far(proc int, step time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.nodes[1:] {
		w.part(proc, i+1)
		w.after(time.Duration(i+1)*step, func() { w.heal(proc, i+1) })
	}
}

// fillers take fixed leases that are longer than their client's, each of its own, and close the
// client meanwhile.
type fillers struct{ Mutexes }

func (fillers) Round(a *Actor, r *rand.Rand) {
	w, plan := a.w, a.w.plan
	p, before := w.process(a.place), time.Duration(r.Int64N(int64(plan.Timeout())))
	if r.IntN(4) == 0 {
		a.Go(func() {
			a.Sleep(before)
			(*closers)(nil).close(w, p)
		})
	}
	ctx, cancel := context.WithTimeout(w.ctx, 20*plan.Longest())
	defer cancel()
	opts := []relock.Option{relock.WithLease(plan.Lease), relock.WithFixedLease(3 * plan.Lease)}
	began := time.Now()
	h := a.Acquire(ctx, Try{Name: fmt.Sprintf("own-%d-%d-%d", a.place, a.index, r.IntN(1e9)), Lease: plan.Lease, Fixed: true, Opts: opts})
	if took := time.Since(began); took > 14*plan.Timeout()+time.Second {
		w.fail("", "Lock of a name of its own took %v", took)
	}
	if h != nil {
		a.Release(w.ctx, h, false)
	}
}
