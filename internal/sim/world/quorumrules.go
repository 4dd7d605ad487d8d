package world

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// What is demanded of the nodes of a quorum, and of what lingers there. A guarded Redis is a quorum of one.
//
// A node that may have forgotten locks grants none, and confirms none, before its quarantine is over. It grants none before
// it was told how far the lock was counted. That is asked of the node itself, just before each command.
//
// A hold lingers on a quorum if its process had heard, when it was granted, that it is subscribed to its inbox at as many nodes
// as decide: else another could wait for it unheard. And as many granted it by their first question.

// keptUnused is how long a counter, and with it what a node forgot, matters after a quarantine: the library's retention.
const keptUnused = 10 * time.Minute

// shut is why a node may neither grant nor confirm a lock now, and what the lock's last grant was until now.
type shut struct {
	quarantined, untold bool
	first               string
}

// shuts is what keeps a node from a command about a lock. It is called under the world's mutex.
func (w *World) shuts(n *node, c *command) (s shut) {
	if !w.plan.Topology.Guarded {
		return s
	}
	switch c.op {
	case "vote", "unvote", "sweep", "renew", "recount", "fence":
	default:
		return s
	}
	born := n.server.Field(wire.IncarnationKey, "born")
	if born == "0" && n.server.Field(wire.IncarnationKey, "run") == n.server.RunID() {
		return s // it never forgot: most commands are asked no more than this
	}
	s.quarantined, s.first = n.quarantined(), n.server.Field(c.lock, grantedAs)
	at, _ := strconv.ParseInt(born, 10, 64)
	longest, _ := strconv.ParseInt(n.server.Field(wire.IncarnationKey, "longest"), 10, 64)
	late := at+longest+keptUnused.Milliseconds() < n.server.Clock().Micro()/1000
	s.untold = at > 0 && !late && n.server.Text(beside("relock_seed:", c.lock)) != born
	return s
}

// staysShut demands that a command did nothing that its node was shut for. It is called under the world's mutex.
func (w *World) staysShut(n *node, c *command, v driver.Value, s shut) {
	if !s.quarantined && !s.untold || v.Err() != nil && c.op != "sweep" {
		return
	}
	why := "was not told how far the lock was counted"
	if s.quarantined {
		why = "may have forgotten locks"
	}
	switch c.op {
	case "vote", "unvote", "sweep":
		if now := n.server.Field(c.lock, grantedAs); now != "" && now != s.first {
			w.failed(c.lock, "node %d granted the lock by %s, and %s", n.index, c.op, why)
		}
	default:
		if s.quarantined && confirmed(v) {
			w.failed(c.lock, "node %d confirmed the lock by %s, and %s", n.index, c.op, why)
		}
	}
}

// confirmed reports whether an answer confirms a lock, or one of several.
func confirmed(v driver.Value) bool {
	if all, err := v.Values(); err == nil {
		return slices.ContainsFunc(all, func(one driver.Value) bool { return answer{one}.number() > 0 })
	}
	return answer{v}.number() > 0
}

// firstAsks notes, of an acquisition that a command asks a node for, whether the node grants it by its first question. The
// caller holds the world's mutex.
func (w *World) firstAsks(l *line, c *command) {
	if len(w.nodes) == 1 || !strings.HasPrefix(c.args[0], "EVAL") || c.op != "vote" && c.op != "unvote" {
		return
	}
	n, _ := strconv.Atoi(c.args[2])
	id := 3 + n + 2
	if c.op == "unvote" {
		id += 4 // the acquisition that it queues in the place of its own
	}
	if id >= len(c.args) {
		return
	}
	s, bit := w.stays[c.args[id]], uint8(1)<<l.node.index
	if s == nil || s.askedAt&bit != 0 {
		return
	}
	s.askedAt |= bit
	c.heard = append(c.heard, func(v driver.Value) {
		if err := v.Err(); err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
			s.askedAt &^= bit // nothing ran: the whole script is sent now
			return
		}
		if all, err := v.Values(); c.op == "vote" && err == nil && len(all) > 0 && (answer{all[0]}).number() == 1 {
			s.grantedAt |= bit
		}
	})
}

// firstGranted is by how many nodes the first question was answered with the grant.
func (s *stay) firstGranted() (n int) {
	for bits := s.grantedAt; bits > 0; bits &= bits - 1 {
		n++
	}
	return n
}

// hearing is at how many nodes a process has heard that it is subscribed to its inbox. The caller holds the world's mutex.
func (w *World) hearing(p *process) (n int) {
	for _, l := range p.lines {
		if slices.ContainsFunc(l.node.ears, func(e *listener) bool { return e.proc == p && e.heard && !e.over }) {
			n++
		}
	}
	return n
}

// unheardOf is why a hold may not lie in the cache of a quorum's client, "" for nothing. The caller holds the world's mutex.
func (w *World) unheardOf(s *stay) string {
	need := len(w.nodes)/2 + 1
	switch {
	case len(w.nodes) == 1:
	case s.firstGranted() < need:
		return "was granted by the first question at " + small(s.firstGranted()) + " of the nodes, which are too few"
	case s.ears < need:
		return "would be heard of at " + small(s.ears) + " of the nodes, which are too few"
	}
	return ""
}

// shapeHearing has locks that linger on a quorum whose inboxes are often not subscribed.
func shapeHearing(p *Plan, r *rand.Rand) {
	shapeIdle(p, r)
	p.Topology = quorumOf3
	p.Rates.LoseSubscribe = .5
}

// shapeGuards has a client that asks for a longer quarantine than the others, and a node that loses its memory: the longest
// counts, whichever client asks.
func shapeGuards(p *Plan, r *rand.Rand) {
	p.Topology, p.Strict = quorumOf3, pick(r, []bool{false, true})
	p.lasts(pick(r, []time.Duration{time.Second, 3 * time.Second}))
	p.Longer = 2 * p.Longest()
	p.Rates = rates{Delay: p.Rates.Delay}
	p.with(r, 1, "crash", crash)
	e := &p.Events[0]
	e.Round, e.N, e.Last = int64(p.allRounds()/6), 0, p.Lease/10
}
