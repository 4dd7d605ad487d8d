package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/sim"
)

// Several locks at once: All takes all of some locks, Any one of them. The scenes `all` and `any` have callers of both beside callers
// of one lock, under any faults. A seed draws a kind: mutexes on any topology, both sides of read-write locks, or permits. A lock of
// another kind among them is a guest: it is known by its name, and the judge looks only at which caller has it at a time.

func init() {
	Scenes = append(Scenes, Scene{"all", shapeSeveral, nil}, Scene{"any", shapeSeveral, nil})
}

// shapeSeveral has any faults. In a third of the seeds leases are long and commands slow, so that what is left behind shows.
func shapeSeveral(p *Plan, r *rand.Rand) {
	k := several{any: p.Scene == "any"}
	switch r.IntN(4) {
	case 0:
		shapeReaders(p, r)
		k.Kind = Readers{}
	case 1:
		shapePermits(p, r)
		k.Kind = Permits{}
	default:
		scene := p.Scene
		*p = *Draw(p.Seed, pick(r, Classes), pick(r, usedTopology).Name)
		p.Scene, p.JVMs, p.Threads = scene, 0, 0
		p.Events = drawEvents(r, p)
		k.Kind = Mutexes{}
	}
	p.Kind = k
	p.Throng, p.Handoff, p.Actors, p.Rounds = 0, handoff{}, min(p.Actors, 4), p.Rounds/2+1
	p.Names = p.Names[:min(len(p.Names), 5)]
	for len(p.Names) < 3 {
		p.Names = append(p.Names, "stock-"+strconv.Itoa(len(p.Names)))
	}
	if r.IntN(3) == 0 && p.Class != "none" && !p.Topology.Quorum && !p.Topology.Guarded {
		p.lasts(30 * time.Second)
		p.Rates.Slow, p.Rates.LoseReply = .1, .03
		p.Dog = 0
	}
}

// several is the workload of a kind beside callers of All and Any.
type several struct {
	Kind
	any bool // most of them are Any's
}

// Round is one call of All or Any, or what the kind does.
func (k several) Round(a *Actor, r *rand.Rand) {
	n := r.IntN(10)
	if n < 3 {
		k.Kind.Round(a, r)
		return
	}
	a.Sleep(time.Duration(r.Int64N(int64(20*a.w.plan.Rates.Delay) + 1)))
	c := k.draw(a, r)
	if c == nil {
		return
	}
	ctx, cancel := Mutexes{}.context(a, r)
	defer cancel()
	ctx, end := context.WithTimeout(ctx, longestWait*a.w.plan.Longest())
	defer end()
	if (n < 8) == k.any {
		c.oneOf(ctx, r)
	} else {
		c.allOf(ctx, r)
	}
}

// longestWait is how many leases are longer than locks are waited for that no caller has for ever.
const longestWait = 150

// round is a call of All or Any. The world's mutex guards took.
type round struct {
	*Actor
	k     several
	p     *process
	once  bool
	tries []Try // in the order in which the locks are given
	locks []relock.Locker
	all   bool
	took  map[string]time.Time // when a lock was last taken
	began time.Time
	ended func() time.Duration
}

type roundKey struct{}

// draw is what is asked for: two to four locks, each in one of the ways there are.
func (k several) draw(a *Actor, r *rand.Rand) *round {
	w := a.w
	c := &round{Actor: a, k: k, p: w.process(a.place), once: r.IntN(5) == 0, took: map[string]time.Time{}}
	names := slices.Clone(w.plan.Names)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	owner := ""
	if !w.form.Shared() && r.IntN(12) == 0 {
		owner = "owner-" + strconv.Itoa(r.IntN(2))
	}
	for _, name := range names[:2+r.IntN(min(len(names)-1, 3))] {
		t := Mutexes{}.draw(a, r)
		t.Name, t.Owner, t.Amount, t.Once = name, owner, 1, c.once
		c.ways(&t)
		if k.Form().RW && r.IntN(3) == 0 {
			t.Amount = allOf
		} else if k.Form().Permits {
			t.Amount = pick(r, []int{1, 1, 2, 3})
		}
		if !w.plays(name) {
			continue
		}
		c.tries = append(c.tries, t)
		c.locks = append(c.locks, lockerOf(k.Of(c.p.client, name, t.Amount, t.Opts...)))
	}
	if r.IntN(4) == 0 {
		c.invite(r)
	}
	if len(c.tries) == 0 {
		return nil
	}
	return c
}

// ways adds options that its kind seldom or never draws: in an eighth of the calls each lock is waited for no longer than a while, and
// some mutexes are kept for half a lease.
func (c *round) ways(t *Try) {
	d := throw(c.w.plan.Seed, "ways", strconv.Itoa(c.place), strconv.Itoa(c.index), strconv.FormatInt(c.calls.Load(), 10))
	if d.of(8) == 0 && t.wait == 0 {
		t.wait = d.upTo(t.Lease)
		t.Opts = append(t.Opts, relock.WithWait(t.wait))
	}
	if d.of(4) == 0 && !c.w.form.Shared() && t.Owner == "" && t.fix == 0 && t.maxHold == 0 && t.linger == 0 && c.w.plan.Class != "none" {
		t.keeps(t.Lease / 2)
	}
	if d.of(8) == 0 {
		t.Opts = append(t.Opts, relock.WithStrictOrder())
	}
}

// inTime demands that a call which fails does not outlast WithWait, if each of its locks has that: Any waits for all of them at a time,
// and All for one after the other, of which those that it had lost it waits for once more. Both have asked for all together before.
func (c *round) inTime(what string, took time.Duration, err error) {
	var least, most, sum time.Duration
	for _, t := range c.tries {
		if t.wait == 0 {
			return
		}
		if least == 0 || t.wait < least {
			least = t.wait
		}
		most, sum = max(most, t.wait), sum+t.wait
	}
	bound := least + most
	if c.all {
		bound = least + 2*sum
	}
	invited := len(c.locks) > len(c.tries)
	if bound += c.w.plan.Timeout() / 2; err != nil && took > bound && !invited && !c.w.disturbedSince(c.p, c.began.Add(-c.w.plan.Timeout()), true) {
		c.w.fail(c.tries[0].Name, "%s was to wait %v at most, and took %v", what, bound, took)
	}
}

// lockerOf is a lock as All takes it.
func lockerOf(l Lock) relock.Locker {
	switch l := l.(type) {
	case side:
		if l.reads {
			return l.Reader()
		}
		return l.RWMutex
	case permits:
		return l.Locker(l.amount)
	default:
		return l.(relock.Locker)
	}
}

// call begins the call, whose name is what. The returned function is called when it has returned.
func (c *round) call(ctx context.Context, what string) (context.Context, func(err error)) {
	w := c.w
	if owner := c.tries[0].Owner; owner != "" {
		ctx = withOwner(ctx, owner)
	}
	ctx, short := c.cutShort(ctx, c.tries[0], c.p)
	ctx = context.WithValue(ctx, roundKey{}, c)
	c.ended, c.began = ending(ctx), time.Now()
	for _, t := range c.tries {
		w.note(c.p.index, t.Name, "calls "+what+" of "+strconv.Itoa(len(c.tries)), 0, nil)
		w.called(c.p)
		w.calls(c.p, t.Name, 1)
	}
	return ctx, func(err error) {
		short(err != nil)
		for _, t := range c.tries {
			w.answered(c.p)
			w.calls(c.p, t.Name, -1)
			if err != nil {
				w.note(c.p.index, t.Name, "is refused", 0, err)
			}
			w.judge.asked(t.Name, false, time.Since(c.began))
			w.judge.asked(t.Name, false, 0) // each may be asked for together, and then alone
		}
		w.ungrasps(c)
		most := time.Duration(1+len(c.tries))*8*w.plan.Timeout() + time.Second
		if late := c.ended(); late > most {
			w.fail(c.tries[0].Name, "%s returned %v after its context had ended", what, late)
		}
		took := time.Since(c.began)
		c.inTime(what, took, err)
		if c.once && took > most {
			w.fail(c.tries[0].Name, "%s took %v", what, took)
		}
		if took > longestWait*w.plan.Longest() {
			w.fail(c.tries[0].Name, "%s of p%d has waited for %v for %d locks, which nobody has for long", what, c.p.index, took,
				len(c.tries))
		}
		if err != nil && ctx.Err() == nil {
			c.refusedFor(err)
		}
	}
}

// calls counts the calls of All and Any for a lock.
func (w *World) calls(p *process, name string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calling[asking{p, name}] += n
	if n < 0 {
		w.backAt[asking{p, name}] = time.Now()
	}
}

// refusedFor demands that there was a reason.
func (c *round) refusedFor(err error) {
	for _, t := range c.tries {
		if t.wait > 0 {
			return
		}
	}
	if c.all && !c.once && errors.Is(err, relock.ErrLost) && !errors.Is(err, relock.ErrClosed) {
		c.w.fail(c.tries[0].Name, "All gave up since it lost a lock while it waited: %v", err)
		return
	}
	if !c.once && errors.Is(err, relock.ErrNotAcquired) {
		c.w.fail(c.tries[0].Name, "it gave up by itself: %v", err)
		return
	}
	for _, t := range c.tries { // one of which it is
		if errors.Is(err, relock.ErrTooMany) && c.w.leastSize(t.Name, c.began) < t.Amount {
			return
		}
	}
	c.failed(c.tries[0], c.p, c.began, err)
}

// takes is told of a lock that a call has taken, before it returns.
func (w *World) takes(p *process, e relock.Event) {
	c, _ := e.Context.Value(roundKey{}).(*round)
	if c == nil || isGuest(e.Lock) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, again := c.took[e.Lock]; !again && c.all {
		w.grasps[asking{p, e.Lock}]++
	}
	c.took[e.Lock] = time.Now()
	t := c.tries[slices.IndexFunc(c.tries, func(t Try) bool { return t.Name == e.Lock })]
	for _, s := range w.stays { // if the call gives it back again, it lingers, and readers may share it, as that call asked
		if s.proc == p && s.lock == "" && !s.ended && w.stillKept(&stay{lock: e.Lock, id: s.id}) {
			s.lock, s.ears = e.Lock, w.hearing(p)
		}
		if s.proc == p && s.lock == e.Lock && !s.ended {
			s.linger, s.past.shared = max(s.linger, t.linger), max(s.past.shared, t.linger, t.passes.time, usualTime)
		}
	}
}

// ungrasps notes that a call of All has returned.
func (w *World) ungrasps(c *round) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.all {
		for name := range c.took {
			w.grasps[asking{c.p, name}]--
			w.letGo[asking{c.p, name}] = time.Now()
		}
	}
}

// graspedSince reports whether a call of All in a process may have had the lock at a moment, or later. The caller holds the world's
// mutex.
func (w *World) graspedSince(p *process, name string, moment time.Time) bool {
	at := asking{p, name}
	return w.grasps[at] > 0 || !w.letGo[at].Before(moment)
}

// grasped reports whether a call of All may have a lock that the judge was not told of.
func (w *World) grasped(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.procs, func(p *process) bool { return w.grasps[asking{p, name}] > 0 })
}

// allOf calls All, does something with what it has, and gives it back.
func (c *round) allOf(ctx context.Context, r *rand.Rand) {
	m := relock.All(c.locks...)
	lock, what := m.Lock, "All.Lock"
	if c.once {
		lock, what = m.TryLock, "All.TryLock"
	}
	c.all = true
	ctx, done := c.call(ctx, what)
	l, err := lock(ctx)
	if err != nil {
		done(err)
		return
	}
	held := c.has(ctx, l)
	done(nil)
	c.visits(func(name string) bool { return l.Lease(name).Context().Err() == nil })
	c.uses(ctx, r, l, held)
	c.unlocks(r, l, held)
}

// has has the judge look at what All returned.
func (c *round) has(ctx context.Context, l *relock.MultiLease) (held []*Held) {
	w := c.w
	for _, t := range c.tries {
		one := l.Lease(t.Name)
		if one == nil || one.Name() != t.Name || l.Token(t.Name) != one.Token() {
			w.fail(t.Name, "All returned without a lease of the lock")
			continue
		}
		h := c.given(ctx, t, c.p, one, c.began)
		w.mu.Lock()
		h.took = c.took[t.Name]
		h.bound = t.boundFrom(h.taken(), c.began)
		w.mu.Unlock()
		h.passes.most = 0 // it was taken before
		h.ctx = within(ctx, h)
		w.note(c.p.index, t.Name, "HAS, of All,", h.Token, nil)
		c.entered(h, nil)
		w.bounds(h, t.passes)
		held = append(held, h)
	}
	for _, h := range held {
		c.endsWith(l, h)
		context.AfterFunc(h.Lease.Context(), func() { c.endsWith(l, h) })
	}
	return held
}

// endsWith demands that the context of all leases has ended if that of one has, and says which was lost.
func (c *round) endsWith(l *relock.MultiLease, h *Held) {
	if h.over.Load() || h.Lease.Context().Err() == nil && h.Lease.Count() > 0 {
		return
	}
	if l.Context().Err() == nil && !h.over.Load() {
		c.w.fail(h.Name, "the lease of token %d of p%d has ended, and the context of all that All returned has not", h.Token, c.p.index)
	}
	cause := context.Cause(l.Context())
	why, outer := (*relock.LostError)(nil), errors.Is(context.Cause(h.under), relock.ErrLost)
	if errors.Is(cause, relock.ErrLost) && !outer && (!errors.As(cause, &why) || l.Lease(why.Name) == nil) {
		c.w.fail(h.Name, "the context of all that All returned does not say which lock was lost: %v", cause)
	}
}

// uses does things with several leases: it enters them again together, or one alone, lengthens one, unlocks one.
func (c *round) uses(ctx context.Context, r *rand.Rand, l *relock.MultiLease, held []*Held) {
	if len(held) == 0 {
		return
	}
	c.Sleep(c.w.hold(r) / 4)
	h := pick(r, held)
	switch r.IntN(8) {
	case 0:
		Mutexes{}.extend(c.Actor, r, h)
	case 1:
		c.reenters(l, h)
	case 2:
		if !c.w.form.Permits {
			mine := slices.DeleteFunc(slices.Clone(c.locks), func(l relock.Locker) bool { return isGuest(l.Name()) })
			again, err := relock.All(mine...).TryLock(l.Context())
			for _, h := range held {
				c.w.judge.asked(h.Name, true, 0)
			}
			if err == nil {
				err = again.Unlock(c.w.ctx)
			}
			if lost := l.Context().Err() != nil; err != nil && !lost && c.w.plan.Class == "none" && c.w.ctx.Err() == nil {
				c.w.fail(h.Name, "All under what it returned: %v", err)
			}
		}
	case 3:
		c.Release(c.w.ctx, h, false)
		if l.Context().Err() == nil {
			c.w.fail(h.Name, "token %d of p%d was unlocked by itself, and the context of all has not ended", h.Token, c.p.index)
		}
	}
	c.Sleep(c.w.hold(r) / 2)
}

// reenters enters one lock again, under the context of all.
func (c *round) reenters(l *relock.MultiLease, h *Held) {
	if c.w.form.Permits {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithValue(l.Context(), scopeKey{}, &scope{held: h, owner: h.owner}), c.w.plan.Lease)
	defer cancel()
	if in := c.Acquire(ctx, Try{Name: h.Name, Amount: h.amount, Lease: h.lease, Opts: []relock.Option{relock.WithLease(h.lease)}}); in != nil {
		c.Sleep(20 * c.w.plan.Rates.Delay)
		c.Release(c.w.ctx, in, false)
	}
}

// unlocks gives all back.
func (c *round) unlocks(r *rand.Rand, l *relock.MultiLease, held []*Held) {
	w := c.w
	c.waitsForEnd(pick(r, held))
	lost, gone, left := make([]bool, len(held)), make([]bool, len(held)), make([]string, len(held))
	for i, h := range held {
		if gone[i] = h.over.Load(); !gone[i] {
			w.note(c.p.index, h.Name, "unlocks", h.Token, nil)
			left[i] = w.goneOf(h)
			lost[i] = w.judge.unlocking(h)
		}
		w.called(c.p)
		defer w.answered(c.p)
	}
	began := time.Now()
	err := l.Unlock(w.ctx)
	took := time.Since(began)
	for i, h := range held {
		if gone[i] {
			continue
		}
		w.hasLeft(h)
		w.note(c.p.index, h.Name, "unlocked", h.Token, err)
		w.judge.over(h, h.at)
		got := errorOf(err, h.Name)
		w.judge.unlocked(h, lost[i], got, false)
		if !errors.Is(err, relock.ErrLost) && !errors.Is(err, relock.ErrClosed) || got != nil { // else only of losses is told
			w.givenBackFor(h, left[i], got)
		}
	}
	if took > w.plan.Timeout()+unlockSlack {
		w.fail(c.tries[0].Name, "Unlock of all took %v", took)
	}
	if err := l.Unlock(w.ctx); !errors.Is(err, relock.ErrNotHeld) && !errors.Is(err, relock.ErrLost) && !errors.Is(err, relock.ErrClosed) {
		w.fail(c.tries[0].Name, "a second Unlock of all returned %v", err)
	}
}

// errorOf is what a joined error says of a lock.
func errorOf(err error, name string) error {
	list, is := err.(interface{ Unwrap() []error })
	if !is {
		return err
	}
	for _, one := range list.Unwrap() {
		var lost *relock.LostError
		var node *relock.NodeError
		switch misused := strings.HasPrefix(one.Error(), fmt.Sprintf("lock %q: ", name)); {
		case misused:
			return errors.Unwrap(one)
		case errors.As(one, &lost) && lost.Name == name, errors.As(one, &node) && node.Name == name, errors.Is(one, relock.ErrClosed):
			return one
		}
	}
	return nil
}

// oneOf calls Any, does something with what it has, and gives it back.
func (c *round) oneOf(ctx context.Context, r *rand.Rand) {
	w, m := c.w, relock.Any(c.locks...)
	lock, what := m.Lock, "Any.Lock"
	if c.once {
		lock, what = m.TryLock, "Any.TryLock"
	}
	ctx, done := c.call(ctx, what)
	left := c.waits()
	l, err := lock(ctx)
	left()
	if err != nil {
		done(err)
		return
	}
	at := slices.IndexFunc(c.tries, func(t Try) bool { return t.Name == l.Name() })
	if at < 0 {
		done(nil)
		if !isGuest(l.Name()) {
			w.fail(l.Name(), "Any returned a lock that it was not given")
		}
		c.visits(func(string) bool { return l.Context().Err() == nil })
		c.Sleep(w.hold(r) / 4)
		_ = l.Unlock(w.ctx)
		return
	}
	h := c.given(ctx, c.tries[at], c.p, l, c.began)
	h.passes.most = 0
	h.ctx = within(ctx, h)
	w.note(c.p.index, h.Name, "HAS, of Any,", h.Token, nil)
	c.entered(h, nil)
	w.bounds(h, c.tries[at].passes)
	done(nil)
	if r.IntN(4) == 0 && !w.form.Permits {
		in, err := relock.Any(c.locks...).TryLock(l.Context())
		w.judge.asked(h.Name, true, 0)
		if err == nil && in.Name() != h.Name && h.live() {
			w.fail(h.Name, "Any under a lease of the lock took %s", in.Name())
		}
		if err == nil {
			_ = in.Unlock(w.ctx)
		}
	}
	c.Sleep(w.hold(r) / 2)
	c.Release(w.ctx, h, r.IntN(8) == 0)
}

// waits notes that Any waits for each of its locks, but for those of which it may give up alone: after WithWait, for want of
// permits, or since Redis refuses.
func (c *round) waits() (left func()) {
	var all []func()
	if class := c.w.plan.Class; !c.once && class != "refusals" && class != "mixed" {
		for _, t := range c.tries {
			if t.wait > 0 || c.w.form.Permits && t.Amount > 2 {
				continue
			}
			all = append(all, c.w.judge.waits(&call{name: t.Name, proc: c.p, lease: t.Lease, amount: max(t.Amount, 1), began: c.began}))
		}
	}
	return func() {
		for _, done := range all {
			done()
		}
	}
}

// linesLeft demands that a process stands in no line in which no call of it waits: Any has left those of the locks that it was not
// granted. On a quorum one that has the lock may stand in the line of a minority. It is called with each tick of the watch.
func (w *World) linesLeft(now time.Time) {
	if w.plan.Scene != "all" && w.plan.Scene != "any" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	clients, seen := w.alive(), map[stray]time.Time{}
	for _, n := range w.nodes {
		for _, name := range w.plan.Names {
			lines := n.server.Line(w.form.queueOf(name), nil)
			if w.form.RW {
				lines = append(lines, n.server.Line(readersOf(name), nil)...)
			}
			for _, waits := range lines {
				w.lineLeft(n, name, clients, waits, seen, now)
			}
		}
	}
	w.queued = seen
}

func (w *World) lineLeft(n *node, name string, clients map[string]*process, waits sim.Waiting, seen map[stray]time.Time, now time.Time) {
	id, client := waiterOf(waits.Member)
	p, at := clients[client], stray{n.index, name, id}
	if p == nil || n.off {
		return
	}
	since, known := w.queued[at]
	s := w.stays[id]
	waiting := w.judge.waiters(name)[p] || w.calling[asking{p, name}] > 0 || w.started[p.index] > 0
	// The sweeper gives up when two leases have passed, in which a node may have refused all.
	gaveUp := s != nil && s.ended && later(n.disturbed, n.refusing).Sub(s.over) >= 2*s.lease
	strays := s == nil || gaveUp || s.copied || s.late || s.stale || w.torn[name] || w.stillKept(&stay{lock: name, id: id})
	if !known || waiting || strays || w.serving {
		since = now
	}
	since = later(since, earlier(now, later(later(p.disturbed, n.disturbed), n.refusing)))
	seen[at] = since
	if left := now.Sub(since); left > 2*w.soon()+sweepPause {
		w.failed(name, "%s of p%d has stood in line on node %d for %v, and no call of it waits", id, p.index, n.index, left)
	}
}

// gathers notes what a command that asks for several locks together says, and returns the arguments of its entries. The caller
// holds the world's mutex.
func (w *World) gathers(p *process, c *command, args []string) []string {
	entries, _ := strconv.Atoi(args[0])
	one, args, keys := args[1] == "one", args[2:], keysOf(c.args)
	for i := range entries {
		c.gathered = append(c.gathered, keys[i*len(keys)/entries])
	}
	c.heard = append(c.heard, func(v driver.Value) {
		list, err := v.Values()
		if err != nil || v.Err() != nil || len(list) != entries {
			return
		}
		var got []*stay
		for i, answered := range list {
			parts, err := answered.Values()
			if s := w.stays[args[i*len(args)/entries+2]]; err == nil && len(parts) == 3 && s != nil {
				got = append(got, s)
				w.cutsShort(p, c.gathered[i])
			}
		}
		if one && len(got) > 1 {
			w.failed(c.lock, "one of %d locks was wanted, and %d were granted", entries, len(got))
		}
		if one || len(got) == entries {
			return
		}
		w.after(w.soon(), func() { w.givenBack(p, c, got) })
	})
	return args
}

// givenBack demands that what a gather has taken is ended, since it did not take all, or was not answered.
func (w *World) givenBack(p *process, c *command, got []*stay) {
	for _, s := range got {
		at := slices.Index(c.asks, s)
		if !s.ended && !s.given && !p.dead && !p.closed && w.stillKept(&stay{lock: c.gathered[at], id: s.id}) {
			w.failed(c.lock, "%s of p%d was granted without the others, or unheard, and is not ended", s.id, p.index)
		}
	}
}

// guest begins the names of locks that are of another kind than the world's.
const guest = "guest-"

func isGuest(key string) bool { return strings.HasPrefix(strings.TrimPrefix(key, "{"), guest) }

// staysOfGuests reports whether a key of a guest outlives it: the number of a semaphore's permits, and a counter.
func staysOfGuests(key string) bool {
	_, tag, tagged := strings.Cut(key, "{")
	return isGuest(key) || tagged && isGuest(tag) && !strings.Contains(key, "queue")
}

// invite adds a lock of another kind: a mutex, or all permits of a semaphore.
func (c *round) invite(r *rand.Rand) {
	if c.w.plan.Topology.Quorum || c.w.plan.Topology.Guarded || len(c.tries) == 0 || c.tries[0].Owner != "" {
		return
	}
	name := guest + strconv.Itoa(r.IntN(2))
	lock := relock.Locker(c.p.client.Mutex(name))
	if !c.w.form.Shared() {
		lock = c.p.client.Semaphore(name, 2).Locker(2)
	}
	c.locks = slices.Insert(c.locks, r.IntN(len(c.locks)+1), lock)
}

// visits demands of the guest among the locks that no other caller has it. live asks whether a lease of that name still is. What a fault
// may have ended is not judged.
func (c *round) visits(live func(name string) bool) {
	if class := c.w.plan.Class; class != "none" && class != "net" && class != "refusals" {
		return
	}
	for _, l := range c.locks {
		if !isGuest(l.Name()) {
			continue
		}
		c.w.mu.Lock()
		other := c.w.guests[l.Name()]
		here := func() bool { return !c.p.dead && live(l.Name()) }
		c.w.guests[l.Name()] = here
		c.w.mu.Unlock()
		if other != nil && other() && here() {
			c.w.fail(l.Name(), "two have %s", l.Name())
		}
	}
}
