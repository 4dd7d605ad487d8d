package world

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/wire"
)

// Excuses have an end. A fault excuses the loss of a lease where each renewal of the time before met it; and a lock that was
// forced open is believed in until the message that says so was heard.

// span is a spell of time.
type span struct{ from, to time.Time }

// spans are times in which a fault touched something, in order and apart.
type spans []span

// add notes a fault from now until then.
func (s *spans) add(to time.Time) {
	now := time.Now()
	if to.Before(now) {
		to = now
	}
	if n := len(*s); n > 0 && !(*s)[n-1].to.Before(now) {
		(*s)[n-1].to = later((*s)[n-1].to, to)
		return
	}
	*s = append(*s, span{now, to})
}

// begins is when the first fault from a moment on begins: that moment itself within one.
func (s spans) begins(moment time.Time) time.Time {
	first := moment.Add(never)
	for i := len(s) - 1; i >= 0 && !s[i].to.Before(moment); i-- {
		first = later(moment, s[i].from)
	}
	return first
}

// never is longer than any run lasts.
const never = 1000 * time.Hour

// quietest is the longest time between two moments in which a quorum of nodes answered what a process sent them: neither
// it, nor its line to them, nor they met a fault. Where since is not nil, it says since when each of them could confirm a
// lease, zero for one that cannot. It is called under the world's mutex.
func (w *World) quietest(p *process, from, to time.Time, since *footing) time.Duration {
	moments := append(make([]time.Time, 0, 16), from)
	ended := func(s spans) {
		for i := len(s) - 1; i >= 0 && s[i].to.After(from); i-- {
			moments = append(moments, s[i].to.Add(1))
		}
	}
	ended(p.faults)
	for i, n := range w.nodes {
		ended(n.faults)
		ended(p.lines[i].spoilt)
		if since != nil {
			moments = append(moments, since.kept[i])
		}
	}
	var longest time.Duration
	for _, at := range moments {
		if at.Before(from) {
			continue
		}
		var quiet [mostNodes]time.Time
		for i, n := range w.nodes {
			if since == nil || !since.kept[i].IsZero() && !since.kept[i].After(at) {
				quiet[i] = earlier(n.faults.begins(at), p.lines[i].spoilt.begins(at))
			}
		}
		last := quiet[:len(w.nodes)]
		slices.SortFunc(last, time.Time.Compare)
		end := earlier(earlier(to, p.faults.begins(at)), last[len(last)-len(last)/2-1])
		longest = max(longest, end.Sub(at))
	}
	return longest
}

// mostNodes is how many a topology has at most.
const mostNodes = 5

// footing is what the judge has seen, at each look, of a live lease on each node. The world's mutex guards it.
type footing struct {
	kept [mostNodes]time.Time // since when the node keeps it, and can confirm that; zero where it does not
	bare [mostNodes]time.Time // since when it does not, though nothing is in the way of it; zero where that is not so
}

// regained looks at a live lease on a node, and demands that the node has it again after two renewals: a renewal goes to all
// nodes, and one that lost the lock, or was never given it, is asked to take it. It need not while another wants the lock.
// It is called under the world's mutex.
func (w *World) regained(h *Held, n *node, keeps bool, until time.Time) {
	i, p, now := n.index, h.proc, time.Now()
	longer := max(h.first, h.lease)
	quarantined := n.quarantined()
	if !keeps || n.off || quarantined {
		h.on.kept[i] = time.Time{}
	} else if h.on.kept[i].IsZero() {
		h.on.kept[i] = now
	}
	if keeps {
		h.on.bare[i] = time.Time{}
		return
	}
	touched := later(later(p.disturbed, n.disturbed), later(n.refusing, w.confirmed(h)))
	touched = later(touched, p.lines[i].silent) // the library leaves a node alone then
	switch {
	case quarantined, !w.plan.Topology.Quorum, h.fixed, h.capped(), n.off, p.dead, p.closed, w.procs[p.index] != p,
		!touched.Before(now), !n.server.Running(), w.parted(p, n), until.After(now.Add(longer)), w.contended(h.Name, n):
		h.on.bare[i] = time.Time{}
		return
	case h.on.bare[i].IsZero():
		h.on.bare[i] = now
	}
	h.on.bare[i] = later(h.on.bare[i], touched)
	if bare := now.Sub(h.on.bare[i]); bare > 2*longer/3+4*w.plan.Timeout() {
		w.failed(h.Name, "token %d of p%d does not stand on node %d for %v, though two renewals of its lease of %v were due",
			h.Token, p.index, i, bare, longer)
	}
}

// confirmed is since when renewals of a lease are confirmed, as far as its nodes go: no other takes the lock again at a node.
func (w *World) confirmed(h *Held) time.Time {
	var since [mostNodes]time.Time
	for i, n := range w.nodes {
		if since[i] = n.disturbed; h.on.kept[i].IsZero() {
			since[i] = time.Now()
		}
	}
	all := since[:len(w.nodes)]
	slices.SortFunc(all, time.Time.Compare)
	return all[len(all)/2]
}

// quarantined reports whether a node confirms nothing, since it was started anew: from then until a lease after a client
// has noticed.
func (n *node) quarantined() bool {
	if !n.w.plan.Topology.Guarded {
		return false
	}
	born, _ := strconv.ParseInt(n.server.Field(wire.IncarnationKey, "born"), 10, 64)
	longest, _ := strconv.ParseInt(n.server.Field(wire.IncarnationKey, "longest"), 10, 64)
	return n.server.Field(wire.IncarnationKey, "run") != n.server.RunID() || born+longest > n.server.Clock().Micro()/1000
}

// capped reports whether WithMaxHold ends the hold, so that renewals end before.
func (h *Held) capped() bool { return h.bound != nil && !h.bound.hold.IsZero() }

// contended reports whether another has the lock on a node, or a caller waits for it.
func (w *World) contended(lock string, n *node) bool {
	other := len(w.judge.waiters(lock)) > 0
	n.server.Fields(lock, func(string) { other = true })
	return other
}

// renewable demands of a loss that no renewal could have come through: one is due in each third of a lease, and goes to all
// nodes. Of a quorum it takes as many as are needed that kept the lease, and could say so, all that time: one that forgot it,
// or is quarantined, or is not asked since its clock is wrong, confirms none.
func (w *World) renewable(h *Held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := h.proc; p.dead || w.procs[p.index] != p {
		return
	}
	now, shorter, longer := time.Now(), min(h.first, h.lease), max(h.first, h.lease)
	if quiet := w.quietest(h.proc, now.Add(-shorter+shorter/50), now, &h.on); quiet > longer/3+4*w.plan.Timeout() {
		w.failed(h.Name, "token %d of p%d was lost, though a renewal could come through for %v of its lease of %v", h.Token,
			h.proc.index, quiet, h.first)
	}
}

// forcedOpen is told that a process hears that a lock was forced open: it asks, and believes no longer. It is called under
// the world's mutex.
func (w *World) forcedOpen(p *process, channel, message string) {
	if !strings.HasPrefix(channel, "relock_inbox:") || !strings.HasPrefix(message, "0 ") {
		return
	}
	parts := strings.SplitN(message, " ", 4)
	if len(parts) < 4 || parts[1] == "1" || parts[1] == "2" {
		return // only that it is wanted, or that another is before it
	}
	id, heard := parts[2], time.Now()
	time.AfterFunc(4*w.plan.Timeout(), func() { w.stillBelieves(p, id, heard) })
}

// stillBelieves demands that a holder that was told, and could ask, believes in what stands. What stood when it asked may
// have been deleted since, of which nothing tells it; a force that came later has a message of its own.
func (w *World) stillBelieves(p *process, id string, heard time.Time) {
	w.mu.Lock()
	s := w.stays[id]
	if s == nil || p.dead || w.quietest(p, heard, time.Now(), nil) < time.Since(heard) {
		w.mu.Unlock()
		return
	}
	held := slices.Clone(s.held)
	w.mu.Unlock()
	for _, h := range held {
		if !h.over.Load() && !w.judge.struckSince(h.Name, heard) && w.standsOn(h.Name, id) == 0 && h.Lease.Count() > 0 && !h.over.Load() {
			w.fail(h.Name, "p%d heard %v ago that its lock was forced open, and believes in token %d", p.index, time.Since(heard),
				h.Token)
		}
	}
}

// struckSince reports whether a lock was deleted, forced open or perhaps forgotten after a moment.
func (j *judge) struckSince(lock string, moment time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.of(lock).struck.After(moment)
}

// standsOn is how many nodes hold a lock for an id.
func (w *World) standsOn(lock, id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	count := 0
	for _, n := range w.nodes {
		if w.form.held(n, lock, id) || !n.server.Running() {
			count++
		}
	}
	return count
}
