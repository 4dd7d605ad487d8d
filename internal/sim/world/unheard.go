package world

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// subscribing is how long the library waits for the answer to a SUBSCRIBE before it sends another one.
const subscribing = 2 * time.Second

// unheard reports whether a waiter for the lock is passed over at a node that its quorum cannot do without: promise 4 lets
// it wait 2 s longer then. The waiter keeps the lock on every other node that counts, a fault took its SUBSCRIBE to this
// one, less than 2 s ago, and this one knows of no subscription.
func (w *World) unheard(name string, waiting map[*process]bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		others := w.counting(n)
		if len(others) > len(w.nodes)/2 || n.astray() {
			continue
		}
		for _, l := range n.lines {
			keeps := func(other *node) bool { return other.keeps(name, l.proc) }
			if waiting[l.proc] && l.unanswered() && !n.hears(l.proc) && !slices.ContainsFunc(others, func(o *node) bool { return !keeps(o) }) {
				return true
			}
		}
	}
	return false
}

// counting are the nodes but one whose grants count: those that are up, and whose clock is not astray.
func (w *World) counting(but *node) []*node {
	var list []*node
	for _, n := range w.nodes {
		if n != but && !n.paused && n.server.Running() && !n.astray() {
			list = append(list, n)
		}
	}
	return list
}

// astray reports whether a node's clock is off by more than the library lets a quorum's node be.
func (n *node) astray() bool {
	longest := n.w.plan.Longest()
	off := time.Until(n.server.Clock().Now()).Abs()
	return off > max(longest-500*time.Millisecond, longest/2)/2
}

// keeps reports whether a node has the lock of that name for a client of the process.
func (n *node) keeps(name string, p *process) bool {
	v, _ := n.ask("HKEYS", name)
	return slices.ContainsFunc(v.texts(), func(field string) bool { return strings.HasPrefix(field, p.client.ID()) })
}

// hears reports whether a node knows of a subscription to the inbox of a process.
func (n *node) hears(p *process) bool {
	v, _ := n.ask("PUBSUB", "NUMSUB", "relock_inbox:"+p.client.ID())
	parts, _ := v.Values()
	return len(parts) == 2 && answer{parts[1]}.number() > 0
}

// unanswered reports whether a SUBSCRIBE to the inbox is out that a fault took, for less than the library waits for it.
func (l *line) unanswered() bool {
	for c := range l.out {
		if c.fate.name != "" && c.args[0] == "SUBSCRIBE" && slices.Contains(c.args, "relock_inbox:"+l.proc.client.ID()) {
			return time.Since(c.sent) < subscribing
		}
	}
	return false
}

// shapeUnheard has a clock off, so that the other two nodes are needed, and SUBSCRIBEs that are lost there.
func shapeUnheard(p *Plan, r *rand.Rand) {
	p.Topology = quorumOf3
	p.Names = p.Names[:1]
	p.Procs, p.Actors = 3, 3
	p.lasts(pick(r, []time.Duration{200 * time.Millisecond, 300 * time.Millisecond}))
	p.Rates.LoseSubscribe = .3
	p.with(r, 1, "step", step)
	p.Events[0].Round, p.Events[0].Step = 1, p.Lease
	p.with(r, 20, "cut", cutLine)
	for i := range p.Events[1:] {
		p.Events[i+1].N = 1 // also what it listens by
	}
}
