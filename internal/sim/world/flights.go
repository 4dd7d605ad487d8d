package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
)

// Flights: functions that run once, and their results, beside callers that take the lock of that name. Commands are lost, late and
// doubled, lines to the node break and processes are killed, so that leases are lost under runs. One run is trusted at a time, as
// the judge demands of every lock. A caller gets no result of a run that another was begun behind before it came, and none of
// before a Forget that it came after. Where nothing is forgotten, none runs beside a result that stands.

func init() {
	Scenes = append(Scenes, Scene{"flight", shapeFlight, func() Kind { return &flights{of: map[string]*run{}} }})
}

func shapeFlight(p *Plan, r *rand.Rand) {
	p.Topology = alone
	p.Names, p.Procs, p.Actors = p.Names[:1], 3, 3
	p.lasts(pick(r, []time.Duration{500 * time.Millisecond, 3 * time.Second}))
	p.Rates = rates{Delay: p.Rates.Delay}
	if r.IntN(4) > 0 {
		p.Rates.Slow, p.Rates.LoseCall, p.Rates.LoseReply, p.Rates.Twice, p.Rates.Late = .03, .05, .05, .1, .15
	}
	if r.IntN(2) == 0 {
		p.with(r, 4, "part", part)
	}
	if r.IntN(3) == 0 {
		p.with(r, 3, "kill", kill)
	}
}

// flights is the workload of a Flight.
type flights struct {
	Mutexes

	mu     sync.Mutex      // guards what follows
	of     map[string]*run // by what they return
	begun  int             // runs that were trusted when they began
	forgot int             // those that had begun when a Forget was called that has returned
	last   *run            // the latest whose result was left
}

// run is one run of a function.
type run struct {
	nr    int // 0 if it was not trusted when it began
	ended time.Time
	id    string    // of its acquisition
	left  time.Time // when Do had returned, which had left the result; zero for never
}

// forgets reports whether the plan has Forget come, and how long results stay.
func (*flights) forgets(p *Plan) (forgets bool, ttl time.Duration) {
	r := throw(p.Seed, "results").stream()
	return r.IntN(2) == 0, max(100*time.Millisecond, pick(r, []time.Duration{p.Lease / 2, 3 * p.Lease}))
}

func (k *flights) Round(a *Actor, r *rand.Rand) {
	w, name := a.w, a.w.plan.Names[0]
	a.Sleep(w.hold(r))
	if !w.plays(name) {
		return
	}
	forgets, ttl := k.forgets(w.plan)
	t := Try{Name: name, Lease: w.plan.Lease, Opts: []relock.Option{relock.WithLease(w.plan.Lease)}}
	p := w.process(a.place)
	switch flight := p.client.Flight(name, ttl, t.Opts...); {
	case forgets && r.IntN(6) == 0:
		k.forget(a, p, flight)
	case r.IntN(8) == 0:
		t.passes = handoff{most: usualPasses, time: usualTime}
		t.lingers(3 * t.Lease)
		if h := a.Acquire(w.ctx, t); h != nil {
			a.Sleep(w.hold(r))
			a.Release(w.ctx, h, false)
		}
	default:
		k.do(a, r, p, t, flight)
	}
}

// forget forgets what the runs so far have left.
func (k *flights) forget(a *Actor, p *process, flight *relock.Flight[[]byte]) {
	k.mu.Lock()
	begun := k.begun
	k.mu.Unlock()
	a.w.called(p)
	err := flight.Forget(a.w.ctx)
	a.w.answered(p)
	a.w.note(p.index, flight.Name(), "forgets", 0, err)
	if err == nil {
		k.mu.Lock()
		k.forgot = max(k.forgot, begun)
		k.mu.Unlock()
	}
}

var errFails = errors.New("the function fails")

// do asks for a result.
func (k *flights) do(a *Actor, r *rand.Rand, p *process, t Try, flight *relock.Flight[[]byte]) {
	w := a.w
	ctx, cancel := k.context(a, r)
	defer cancel()
	began, held, fails := time.Now(), w.hold(r), r.IntN(6) == 0
	k.mu.Lock()
	begun, forgot := k.begun, k.forgot
	k.mu.Unlock()
	w.note(p.index, t.Name, "calls Flight", 0, nil)
	w.called(p)
	done := sync.OnceFunc(w.judge.waits(&call{name: t.Name, proc: p, lease: t.Lease, began: began}))
	var had *Held
	var mine *run
	value, ran, err := flight.Do(ctx, func(ctx context.Context) ([]byte, error) {
		done()
		l, _ := relock.FromContext(ctx)
		had = &Held{Lease: l, Name: t.Name, Token: l.Token(), proc: p, lease: t.Lease, under: ctx,
			at: time.Since(w.trace.start), asked: began, began: began, passes: handoff{most: 1}}
		w.note(p.index, t.Name, "RUNS", had.Token, nil)
		a.entered(had, nil)
		value := fmt.Sprint(had.Token)
		mine = k.begins(w, had, value)
		a.Sleep(held)
		k.mu.Lock()
		mine.ended = time.Now()
		k.mu.Unlock()
		had.over.Store(true)
		w.judge.lets(had)
		defer w.judge.over(had, had.at)
		if fails {
			return nil, errFails
		}
		return []byte(value), nil
	})
	done()
	w.answered(p)
	if had != nil {
		w.hasLeft(had)
	}
	w.judge.asked(t.Name, false, time.Since(began))
	w.note(p.index, t.Name, "has the result "+string(value), 0, err)
	switch {
	case w.judge.dead(p):
	case ran != (had != nil):
		w.fail(t.Name, "Do of p%d says ran %v", p.index, ran)
	case ran && err == nil:
		if fails || string(value) != fmt.Sprint(had.Token) {
			w.fail(t.Name, "Do of p%d ran, and returned %q", p.index, value)
		}
		k.mu.Lock()
		k.last, mine.left = mine, time.Now()
		mine.id = had.id
		k.mu.Unlock()
	case err == nil:
		k.given(w, p, t.Name, string(value), begun, forgot, began)
	}
}

// begins notes a run, and demands that no result stands.
func (k *flights) begins(w *World, h *Held, value string) *run {
	forgets, ttl := k.forgets(w.plan)
	k.mu.Lock()
	defer k.mu.Unlock()
	is := new(run)
	k.of[value] = is
	if !h.live() {
		return is
	}
	k.begun++
	is.nr = k.begun
	if stands := k.last; !forgets && stands != nil && time.Since(stands.ended) < ttl {
		w.fail(h.Name, "p%d runs, %v after a run whose result stays for %v", h.proc.index, time.Since(stands.ended), ttl)
	}
	return is
}

// given judges a result of another run that a caller was given, which came at that time, when so many runs had begun, and so many were
// forgotten. A copy of the command that leaves a result may leave it once more behind its time.
func (k *flights) given(w *World, p *process, name, value string, begun, forgot int, came time.Time) {
	_, ttl := k.forgets(w.plan)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch is := k.of[value]; {
	case is == nil:
		w.fail(name, "p%d is given %q, which no run has made", p.index, value)
	case is.nr == 0:
		w.fail(name, "p%d is given %q, of a run that began without its lease", p.index, value)
	case is.nr < begun:
		w.fail(name, "p%d is given %q, of run %d, and came behind the beginning of run %d", p.index, value, is.nr, begun)
	case is.nr <= forgot:
		w.fail(name, "p%d is given %q, of run %d, and came after a Forget of %d runs", p.index, value, is.nr, forgot)
	case !is.left.IsZero() && came.Sub(is.left) > ttl+time.Millisecond && !w.wasCopied(is.id):
		w.fail(name, "p%d is given %q, and came %v after that was left for %v", p.index, value, came.Sub(is.left), ttl)
	}
}

// wasCopied reports whether a copy of a command for an acquisition ran.
func (w *World) wasCopied(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.stays[id]
	return s == nil || s.copied
}

// keepsResult demands of a result that it stays as long as its Flight says, to the millisecond: that of a command that comes again stays
// for what is left. It is called under the world's mutex, before the command runs; the returned function when it has run.
func (w *World) keepsResult(n *node, c *command) (ran func(v driver.Value)) {
	kind, is := w.kind.(*flights)
	if !is || c.op != "keep" || len(keysOf(c.args)) < 2 {
		return func(driver.Value) {}
	}
	key := keysOf(c.args)[1]
	was := n.server.Text(key)
	return func(v driver.Value) {
		if now := n.server.Text(key); v.Err() != nil || now == was {
			return
		}
		_, ttl := kind.forgets(w.plan)
		if left := n.server.Left(key); left != ttl.Milliseconds() {
			w.failed(c.lock, "a result is left that stays for %v, and Redis keeps it for %d ms", ttl, left)
		}
	}
}
