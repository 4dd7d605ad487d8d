package world

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/sim"
)

// event is a fault that does not belong to one command. It comes so long after so many rounds were
// begun.
type event struct {
	Name  string
	Round int64
	After time.Duration
	Last  time.Duration // how long it lasts, where it does
	Proc  int
	Node  int
	Step  time.Duration
	Rate  float64
	N     int
	What  func(w *World, e event)
}

// deed is what an event may be, and how often it is drawn.
type deed struct {
	name   string
	weight int
	what   func(w *World, e event)
}

var deeds = map[string][]deed{
	"none": {},
	"net": {
		{"cut", 3, cutLine}, {"deafen", 2, deafen}, {"part", 4, part}, {"pause", 3, pause}, {"kill", 1, kill},
		{"close", 1, closeClient},
	},
	"refusals": {
		{"full", 3, full}, {"loading", 3, loading}, {"flush scripts", 2, flushScripts}, {"forbid", 6, forbid},
		{"demote", 4, demote},
	},
	"counter":  {{"lose counter", 3, loseCounter}, {"lose queue", 2, loseQueue}},
	"restart":  {{"restart", 5, restart}, {"crash", 2, crash}, {"save", 3, save}, {"kill", 1, kill}},
	"failover": {{"failover", 5, failover}, {"cut", 1, cutLine}},
	"clock":    {{"step", 3, step}, {"drift", 3, drift}},
	"operator": {{"delete", 2, deleteLock}, {"cut", 1, cutLine}, {"close", 1, closeClient}, {"kill", 1, kill}},
}

func drawEvents(r *rand.Rand, p *Plan) []event {
	var from []deed
	for _, class := range Classes {
		if class == p.Class || p.Class == "mixed" && (class != "failover" || p.Topology.Replica) {
			from = append(from, deeds[class]...)
		}
	}
	total := 0
	for _, d := range from {
		total += d.weight
	}
	if total == 0 {
		return nil
	}
	rounds := p.allRounds()
	var list []event
	for i := range 1 + r.IntN(10) {
		pick, at := r.IntN(total), 0
		for pick >= from[at].weight {
			pick -= from[at].weight
			at++
		}
		list = append(list, event{
			Name: fmt.Sprintf("event %d %s", i, from[at].name), Round: int64(r.IntN(rounds)), What: from[at].what,
			After: time.Duration(r.Int64N(int64(p.Timeout()))), Last: time.Duration(r.Int64N(int64(2 * p.Longest()))),
			Proc: r.IntN(p.Procs + p.JVMs), Node: r.IntN(p.Topology.Nodes),
			Step: time.Duration(r.Int64N(int64(4*p.Longest()))) - 2*p.Longest(),
			Rate: .95 + .059*r.Float64(), N: r.IntN(60),
		})
	}
	return list
}

// begun is called when an actor begins a round: what is due by that comes a little later.
func (w *World) begun() {
	n := w.rounds.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events[n] {
		w.after(e.After, func() { w.happen(e) })
	}
}

// String is an event with what matters of its kind.
func (e event) String() string {
	_, what, _ := strings.Cut(e.Name[len("event "):], " ")
	where, long := fmt.Sprintf("n%d", e.Node), fmt.Sprintf(" for %v", e.Last)
	switch what {
	case "kill", "close":
		return fmt.Sprintf("%s: p%d", e.Name, e.Proc)
	case "cut":
		return fmt.Sprintf("%s: p%d's connections to %s break", e.Name, e.Proc, where)
	case "part":
		return fmt.Sprintf("%s: nothing passes between p%d and %s%s", e.Name, e.Proc, where, long)
	case "deafen":
		return fmt.Sprintf("%s: p%d hears nothing from %s%s", e.Name, e.Proc, where, long)
	case "pause", "full", "loading", "forbid", "demote", "crash":
		return e.Name + ": " + where + long
	case "step":
		return fmt.Sprintf("%s: the clock of %s is moved by %v", e.Name, where, e.Step)
	case "drift":
		return fmt.Sprintf("%s: the clock of %s runs at %.3f of its speed", e.Name, where, e.Rate)
	}
	return e.Name + ": " + where
}

// happen lets an event happen, unless it is left out.
func (w *World) happen(e event) {
	if w.fates.fires(e.Name, w.at(e.Name)) {
		w.trace.add(entry{proc: -1, node: -1, what: "EVENT " + e.String()})
		e.What(w, e)
	}
}

// excuse tells the judge that for so long, and a while after, locks may have to be waited for.
func (w *World) excuse(d time.Duration) { w.judge.excuse(d + w.plan.Longest()) }

func cutLine(w *World, e event) {
	n := w.nodes[e.Node]
	for _, l := range n.lines {
		if l.proc.index == e.Proc && !l.proc.dead {
			l.disturb(time.Now())
			l.cut(errBroken)
		}
	}
	for _, ear := range append([]*listener(nil), n.ears...) {
		if ear.proc.index == e.Proc && e.N%6 > 0 {
			ear.drop(errBroken)
		}
	}
}

// deafen makes subscriptions half-open until somebody notices.
func deafen(w *World, e event) {
	for _, ear := range w.nodes[e.Node].ears {
		if ear.proc.index == e.Proc {
			ear.deaf = true
		}
	}
	w.after(e.Last, func() {
		for _, ear := range append([]*listener(nil), w.nodes[e.Node].ears...) {
			if ear.deaf {
				ear.drop(errBroken)
			}
		}
	})
}

func part(w *World, e event) {
	w.excuse(e.Last)
	w.part(e.Proc, e.Node)
	for _, l := range w.nodes[e.Node].lines {
		if l.proc.index == e.Proc {
			l.disturb(time.Now().Add(e.Last))
		}
	}
	w.after(e.Last, func() { w.heal(e.Proc, e.Node) })
}

func pause(w *World, e event) {
	n := w.nodes[e.Node]
	w.excuse(e.Last)
	n.pause()
	n.disturb(e.Last)
	w.after(e.Last, n.resume)
}

func kill(w *World, e event) {
	w.excuse(2 * w.plan.Longest())
	w.replace(e.Proc, true)
}

func closeClient(w *World, e event) {
	w.excuse(w.plan.Longest())
	w.replace(e.Proc, false)
}

func full(w *World, e event) {
	n := w.nodes[e.Node]
	s := n.server // which a failover may replace meanwhile
	w.excuse(e.Last)
	s.SetFull(true)
	n.refuses(e.Last)
	w.after(e.Last, func() { s.SetFull(false) })
}

func loading(w *World, e event) {
	n := w.nodes[e.Node]
	s := n.server // which a failover may replace meanwhile
	w.excuse(e.Last)
	s.SetLoading(true)
	n.disturb(e.Last)
	w.after(e.Last, func() { s.SetLoading(false) })
}

func flushScripts(w *World, e event) { w.nodes[e.Node].server.FlushScripts() }

func loseCounter(w *World, e event) {
	name := w.plan.Names[e.N%len(w.plan.Names)]
	n := w.nodes[e.Node]
	if v, ok := n.ask("GET", w.form.counterOf(name)); ok && !w.form.Permits {
		for _, of := range w.plan.Names {
			if beside("", of) == beside("", name) {
				w.judge.uncounted(of, v.number(), n.server.Clock().Micro())
			}
		}
	}
	n.ask("DEL", w.form.counterOf(name))
}

func loseQueue(w *World, e event) {
	name := w.plan.Names[e.N%len(w.plan.Names)]
	w.nodes[e.Node].ask("DEL", w.form.queueOf(name))
}

func deleteLock(w *World, e event) {
	name := w.plan.Names[e.N%len(w.plan.Names)]
	w.strike(name, "delete")
	for _, n := range w.nodes {
		n.ask("DEL", name)
		if w.form.Leases != "" {
			n.ask("DEL", w.form.leasesOf(name))
		}
	}
}

// forgets reports whether a node may lose its memory now: with a guard a minority may, else any,
// and then the judge is told.
func (w *World) forgets(n *node, marked bool) bool {
	n.begunAnew()
	w.bringsBack()
	w.excuse(2 * w.plan.Longest())
	if !w.plan.Topology.Quorum {
		w.forgetsJava()
		if n.off { // what comes back lasts by another clock, perhaps beyond the quarantine
			w.strike("", "clocks apart")
		}
		// A client that comes to a guarded node without a marker takes it for new.
		if !w.plan.Topology.Guarded || !w.plan.Strict && !marked {
			w.strike("", "memory lost")
		}
		return true
	}
	now, out := time.Now(), 0
	for _, other := range w.nodes {
		if other != n && other.forgot.After(now) {
			out++
		}
	}
	if out+1 > (len(w.nodes)-1)/2 {
		return false
	}
	n.forgot = now.Add(2*w.plan.Longest() + time.Second)
	return true
}

// restart kills a node and starts it again, with what N says of its memory.
func restart(w *World, e event) { w.bounce(e, 0) }

// save writes the file that a node may be restarted from.
func save(w *World, e event) {
	n := w.nodes[e.Node]
	v, up := n.ask("EXISTS", "relock_incarnation")
	n.saved = up && v.number() == 1
	n.server.Snapshot()
}

// crash is a restart that takes a while.
func crash(w *World, e event) { w.bounce(e, e.Last) }

func (w *World) bounce(e event, down time.Duration) {
	n := w.nodes[e.Node]
	if !n.server.Running() {
		return
	}
	keep := []sim.Kept{sim.Nothing, sim.Nothing, sim.Snapshot, sim.Snapshot, sim.All, sim.All}[e.N%6]
	w.excuse(down)
	n.disturb(down)
	n.begunAnew()
	if keep != sim.All && !w.forgets(n, keep == sim.Snapshot && n.saved) {
		keep = sim.All
	}
	if keep == sim.All && w.plan.Topology.Guarded {
		w.excuse(2 * w.plan.Longest())
		if w.plan.Topology.Quorum && !w.forgets(n, true) {
			return // it would wait as one that forgot
		}
	}
	n.server.Stop()
	w.after(down, func() {
		n.server.Start(keep)
		if n.setBackDown {
			n.setBackDown = false
			n.setBack()
		}
		if w.plan.Topology.Guarded { // a quarantine begins no sooner than it runs again
			n.disturb(2*w.plan.Longest() + w.plan.Timeout())
			n.refuses(2*w.plan.Longest() + w.plan.Timeout())
		}
		if n.spare != nil {
			n.spare.CatchUp(-1)
		}
	})
}

func failover(w *World, e event) {
	n := w.nodes[e.Node]
	if n.spare == nil || !n.server.Running() {
		return
	}
	w.excuse(w.plan.Longest())
	n.begunAnew()
	if e.N%6 > 0 || n.off { // clocks that differ end leases early
		w.forgets(n, !w.plan.Fresh)
	}
	n.failover(e.N % 6)
	w.excuse(2 * w.plan.Longest())
}

// step sets a node's clock. Forward it ends leases early; back it makes them longer.
func step(w *World, e event) {
	w.excuse(e.Step.Abs() + 2*w.plan.Longest())
	w.nodes[e.Node].disturb(e.Step.Abs() + 2*w.plan.Longest())
	if !w.mayBeOff(w.nodes[e.Node]) {
		return
	}
	if e.Step > 0 {
		w.nodes[e.Node].lapses()
		w.strike("", "clock set forward")
	}
	if n := w.nodes[e.Node]; e.Step < 0 && n.server.Running() {
		n.setBack()
	} else if e.Step < 0 {
		n.setBackDown = true // how far its locks are counted is known when it runs again
	}
	w.nodes[e.Node].server.Clock().Step(e.Step)
}

// setBack tells the judge how far a node whose clock is set back has counted.
func (n *node) setBack() {
	for _, name := range n.w.plan.Names {
		counter, _ := strconv.ParseInt(n.server.Text(n.w.form.counterOf(name)), 10, 64)
		n.w.judge.unbounded(name, counter)
	}
}

// drift lets a node's clock run up to nine thousandths fast, which is promised to do no harm, or
// slower.
func drift(w *World, e event) {
	if n := w.nodes[e.Node]; w.mayBeOff(n) {
		n.server.Clock().Drift(e.Rate)
	}
}

// mayBeOff reports whether a node's clock may be wrong: of a quorum a minority's, since nobody
// counts on such a node.
func (w *World) mayBeOff(n *node) bool {
	off := 0
	for _, other := range w.nodes {
		if other.off && other != n {
			off++
		}
	}
	if w.plan.Topology.Quorum && off+1 > (len(w.nodes)-1)/2 {
		return false
	}
	n.off = true
	return true
}
