package world

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/relock-go/relock/internal/sim"
	"github.com/relock-go/relock/internal/wire"
)

// Majorities that forget: more nodes of a quorum than a minority lose all they know, one after the other within a lease. One
// node's clock is off, and in half of the plans one that remembers is silent. Exclusion is excused for what was granted
// before, for two leases. All else is not: tokens rise, a node that forgot grants nothing before its quarantine is over, and
// then the lock is given to those who wait for it.

// silence is for how many leases the silent node is so: longer than anything may have to wait for it.
const silence = 9

// shapeForgetful draws which nodes forget. As many as a quorum needs stay that are neither silent nor left out for their
// clock.
func shapeForgetful(p *Plan, r *rand.Rand) {
	p.Topology = pick(r, []topology{quorumOf3, quorumOf3, quorumOf5})
	p.Strict = pick(r, []bool{false, true})
	p.lasts(pick(r, []time.Duration{3 * time.Second, 10 * time.Second}))
	if r.IntN(2) == 0 {
		p.Rates = rates{Delay: p.Rates.Delay, LoseCall: .02, LoseReply: .02}
	}
	nodes, need := p.Topology.Nodes, p.Topology.Nodes/2+1
	order := r.Perm(nodes) // the last ones remember
	silent, wrong := r.IntN(2) == 0, r.IntN(nodes)
	left := (p.Longest() - 500*time.Millisecond) / 2 // off by more than that, a node is left out
	off := time.Duration(r.Int64N(int64(left)*9/10)) - left*9/20
	if nodes == 5 || !silent || wrong == order[nodes-1] {
		off *= 4
	}
	p.with(r, 1, "step", step)
	e := &p.Events[0]
	e.Round, e.After, e.Node, e.Step = 1, 0, wrong, off
	at := int64(p.allRounds()/6 + r.IntN(p.allRounds()/3))
	for i := range need {
		p.Events = append(p.Events, event{
			Name: fmt.Sprintf("event %d forget", len(p.Events)), Round: at, What: forget, Node: order[i], N: r.IntN(2),
			After: time.Duration(r.Int64N(int64(p.Lease))),
		})
	}
	if silent {
		p.Events = append(p.Events, event{
			Name: fmt.Sprintf("event %d silence", len(p.Events)), Round: at, What: fallSilent, Node: order[nodes-1],
			Last: silence * p.Longest(),
		})
	}
}

// forget takes a node's memory: it is restarted without, or emptied.
func forget(w *World, e event) {
	n, longest := w.nodes[e.Node], w.plan.Longest()
	for _, name := range w.plan.Names {
		w.judge.forgot(name)
	}
	n.begunAnew()
	n.mute, n.unseen = time.Now().Add(longest), true
	w.judge.excuse(longest/3 + 4*w.plan.Timeout()) // until a holder or a waiter asks the node
	if e.N == 0 {
		n.ask("FLUSHALL")
		return
	}
	n.server.Stop()
	n.server.Start(sim.Nothing)
}

// forgot notes that what was granted so far may be granted to another. Tokens rise for all that: the quarantine is longer
// than clocks are apart that count.
func (j *judge) forgot(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.of(name)
	r.horizon = max(r.horizon, r.highest, r.reserved)
	r.struck = time.Now()
}

// fallSilent has a node answer nothing, and hear nothing that was sent meanwhile. That is no reason to wait for a lock.
func fallSilent(w *World, e event) {
	n := w.nodes[e.Node]
	n.pause()
	n.disturb(e.Last)
	for at := time.Duration(0); at < e.Last; at += w.plan.Timeout() {
		w.after(at, func() { n.held = nil })
	}
	w.after(e.Last, func() {
		n.cutAll(errBroken)
		n.resume()
	})
}

// quarantines demands that a node that forgot has no lock before its quarantine is over. That begins when a command notices
// that the node forgot, and locks have to be waited for until it is over. It is called under the world's mutex.
func (w *World) quarantines(n *node, c *command) {
	if n.unseen && n.server.Field(wire.IncarnationKey, "run") == n.server.RunID() {
		n.unseen, n.mute = false, time.Now().Add(w.plan.Longest()-time.Millisecond)
		w.judge.excuse(w.plan.Longest() + 4*w.plan.Timeout())
	}
	of := c.op != "script" && c.lock != "" // of a lock, and not what a client says of itself
	if of && (n.unseen || n.mute.After(time.Now())) && n.server.Stands(c.lock) {
		w.failed(c.lock, "node %d forgot all locks, and has granted one %v before its quarantine is over", n.index,
			time.Until(n.mute))
	}
}
