package world

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock"
)

// limit is how long a run may last, in simulated time.
const limit = 2 * time.Hour

// unused is longer than a client stays subscribed to the channels of a lock that nobody here waits
// for.
const unused = 2 * time.Minute

// askedAgain is longer than a client leaves a channel alone that it was not allowed to subscribe.
const askedAgain = 31 * time.Second

// play runs the actors, lets calm return, and looks at what is left.
func (w *World) play() {
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { w.judge.watch(over) })
	var actors sync.WaitGroup
	for place := range w.plan.Procs {
		for i := range w.plan.actorsOf(place) {
			a := &Actor{w: w, place: place, index: i}
			actors.Go(a.run)
		}
	}
	for place := range w.plan.JVMs {
		for i := range w.plan.Threads {
			actors.Go((&thread{w: w, place: place, index: i}).run)
		}
	}
	w.waitFor(&actors, "the actors are not done")
	w.dear()
	w.calm()
	w.serve()
	w.countsStill()
	close(over)
	watching.Wait()
	w.end()
}

// waitFor waits in simulated time, which must not be for ever.
func (w *World) waitFor(group *sync.WaitGroup, what string) {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(limit):
		w.fail("", "%s after %v\n%s", what, limit, bubbleStacks())
		<-done
	}
}

// calm ends all faults.
func (w *World) calm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fates.calm = true
	w.trace.add(entry{proc: -1, node: -1, what: "CALM"})
	for p := range w.plan.Procs + w.plan.JVMs {
		for n := range w.nodes {
			w.heal(p, n)
		}
	}
	for _, n := range w.nodes {
		n.resume()
		n.server.SetFull(false)
		n.server.SetLoading(false)
		n.promote()
		permit(n.server)
		if w.plan.Topology.Quorum { // nobody counts on a node whose clock is off
			n.lapses()
			n.server.Clock().Drift(1)
			off := time.Until(n.server.Clock().Now())
			n.server.Clock().Step(-off)
			n.mute = n.mute.Add(min(off, 0)) // a clock set forward makes a quarantine shorter by as much
		}
	}
	w.judge.pardon()
	w.judge.excuse(w.settling())
}

// settling is how long after all faults a lock may still have to be waited for.
func (w *World) settling() time.Duration {
	if w.forbade {
		return max(5*w.plan.Longest(), askedAgain)
	}
	return 5 * w.plan.Longest()
}

// serve demands that each process is given each lock, once everything is well, and that hold counts
// are exact.
func (w *World) serve() {
	time.Sleep(w.settling())
	w.mu.Lock()
	w.serving = true
	w.mu.Unlock()
	for _, name := range w.plan.Names[:min(len(w.plan.Names), 4)] {
		for _, p := range w.procs {
			if w.ctx.Err() != nil {
				return
			}
			if w.form.Permits {
				w.servePermits(p, name)
				continue
			}
			w.serveOne(p, name)
		}
	}
}

func (w *World) serveOne(p *process, name string) {
	ctx, cancel := context.WithTimeout(w.ctx, 3*w.plan.Longest())
	defer cancel()
	before := w.costs(name)
	m := w.kind.Of(p.client, name, w.form.Holders)
	outer, err := m.Lock(ctx)
	if err != nil {
		if w.ctx.Err() == nil {
			w.fail(name, "p%d is not given the lock after all faults have ended: %v", p.index, err)
		}
		return
	}
	defer func() {
		if err := outer.Unlock(w.ctx); err != nil {
			w.fail(name, "Unlock in calm: %v", err)
		}
		if cost := w.costs(name) - before; w.plan.Class == "none" && cost > w.plan.twice() {
			w.fail(name, "an uncontended lock that was entered twice cost %d commands", cost)
		}
	}()
	in, err := m.Lock(outer.Context())
	if err != nil {
		w.fail(name, "re-entry in calm: %v", err)
		return
	}
	w.counts(p, name, "2")
	if err := in.Unlock(w.ctx); err != nil {
		w.fail(name, "inner Unlock in calm: %v", err)
	}
	w.counts(p, name, "1")
}

// counts demands that a majority of nodes keep that hold count of the process.
func (w *World) counts(p *process, name, want string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	right := 0
	var told []string
	for _, n := range w.nodes {
		v, _ := n.ask("HGETALL", name)
		fields := v.texts()
		told = append(told, strings.Join(fields, " "))
		for i := 0; i+1 < len(fields); i += 2 {
			if value, _, _ := strings.Cut(fields[i+1], ":"); strings.HasPrefix(fields[i], p.client.ID()) && value == want {
				right++
			}
		}
	}
	if right <= len(w.nodes)/2 {
		w.failed(name, "the hold count in calm is not %s but: %s", want, strings.Join(told, " | "))
	}
}

// end closes everything, and demands that nothing is left.
func (w *World) end() {
	w.endJVMs()
	time.Sleep(unused)
	w.quiet(false)
	var closing sync.WaitGroup
	for _, p := range w.procs {
		closing.Go(func() { w.close(p) })
		closing.Go(p.closing.Wait)
	}
	w.waitFor(&closing, "Close has not returned")
	for _, p := range w.procs {
		if _, err := w.kind.Of(p.client, "x", 1).Lock(context.Background()); !errors.Is(err, relock.ErrClosed) {
			w.fail("", "Lock of a closed client returned %v", err)
		}
	}
	time.Sleep(9 * w.plan.Longest())
	for _, p := range w.opened {
		p.ledger.balance()
	}
	w.quiet(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		v, _ := n.ask("KEYS", "*")
		for _, key := range v.texts() {
			torn := slices.ContainsFunc(w.plan.Names, func(name string) bool { return w.torn[name] && key == w.form.queueOf(name) })
			if !w.form.stays(key) && !torn && !staysOfGuests(key) && !(w.form.Permits && slices.Contains(w.plan.Names, key)) {
				w.failed(strings.Trim(key, "{}"), "%s is left on node %d", key, n.index)
			}
		}
	}
	w.stop()
}

// stays reports whether a key is one that outlives its lock.
func (f Form) stays(key string) bool {
	return strings.HasPrefix(key, f.Counter) || f.RW && strings.HasPrefix(key, "relock_phase:") || strings.HasPrefix(key, "relock_seed:") || key == "relock_incarnation"
}
