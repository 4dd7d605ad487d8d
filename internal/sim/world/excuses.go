package world

import (
	"slices"
	"strings"
	"time"
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

// quietest is the longest time between two moments in which a process's commands met no fault, nor too many nodes did. It
// is called under the world's mutex.
func (w *World) quietest(p *process, from, to time.Time) time.Duration {
	moments := []time.Time{from, to}
	inside := func(s spans) {
		for i := len(s) - 1; i >= 0 && s[i].to.After(from); i-- {
			moments = append(moments, s[i].from, s[i].to)
		}
	}
	inside(p.faults)
	for _, n := range w.nodes {
		inside(n.faults)
	}
	slices.SortFunc(moments, time.Time.Compare)
	var longest time.Duration
	began := time.Time{}
	for i, at := range moments[:len(moments)-1] {
		if at.Before(from) || !at.Before(to) {
			continue
		}
		if middle := at.Add(moments[i+1].Sub(at) / 2); w.faulty(p, middle) {
			began = time.Time{}
			continue
		}
		if began.IsZero() {
			began = at
		}
		longest = max(longest, earlier(to, moments[i+1]).Sub(began))
	}
	return longest
}

func (w *World) faulty(p *process, at time.Time) bool {
	if p.faults.at(at) {
		return true
	}
	faulty := 0
	for _, n := range w.nodes {
		if n.faults.at(at) {
			faulty++
		}
	}
	return faulty > (len(w.nodes)-1)/2
}

func (s spans) at(moment time.Time) bool {
	for i := len(s) - 1; i >= 0 && !s[i].to.Before(moment); i-- {
		if !s[i].from.After(moment) {
			return true
		}
	}
	return false
}

// renewable demands of a loss that no renewal could have come through: one is due in each third of a lease.
func (w *World) renewable(h *Held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lease := h.first
	now := time.Now()
	if p := h.proc; p.dead || w.procs[p.index] != p || w.off() || len(w.nodes) > 1 || w.plan.Topology.Guarded {
		return // a node that forgot, and is not taken again yet, confirms no renewal
	}
	shorter, longer := min(lease, h.lease), max(lease, h.lease)
	if quiet := w.quietest(h.proc, now.Add(-shorter+shorter/50), now); quiet > longer/3+4*w.plan.Timeout() {
		w.failed(h.Name, "token %d of p%d was lost, though a renewal could come through for %v of its lease of %v", h.Token,
			h.proc.index, quiet, lease)
	}
}

// off reports whether a clock may be wrong.
func (w *World) off() bool {
	for _, n := range w.nodes {
		if n.off {
			return true
		}
	}
	return false
}

// forcedOpen is told that a process hears that a lock was forced open: it asks, and believes no longer. It is called under
// the world's mutex.
func (w *World) forcedOpen(p *process, channel, message string) {
	if !strings.HasPrefix(channel, "relock_inbox:") || !strings.HasPrefix(message, "0 ") {
		return
	}
	parts := strings.SplitN(message, " ", 4)
	if len(parts) < 4 || parts[1] == "1" || parts[1] == "2" {
		return // only that it is wanted, or that somebody is before it
	}
	id, heard := parts[2], time.Now()
	time.AfterFunc(4*w.plan.Timeout(), func() { w.stillBelieves(p, id, heard) })
}

// stillBelieves demands that a holder that was told, and could ask, believes in what stands.
func (w *World) stillBelieves(p *process, id string, heard time.Time) {
	w.mu.Lock()
	o := w.strays.owned[id]
	if o == nil || p.dead || w.quietest(p, heard, time.Now()) < time.Since(heard) {
		w.mu.Unlock()
		return
	}
	held := slices.Clone(o.held)
	w.mu.Unlock()
	for _, h := range held {
		if !h.over.Load() && w.standsOn(h.Name, id) == 0 && h.Lease.Count() > 0 && !h.over.Load() {
			w.fail(h.Name, "p%d heard %v ago that its lock was forced open, and believes in token %d", p.index, time.Since(heard),
				h.Token)
		}
	}
}

// standsOn is how many nodes hold a lock for an id.
func (w *World) standsOn(lock, id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	count := 0
	for _, n := range w.nodes {
		if n.server.Field(lock, id) != "" || !n.server.Running() {
			count++
		}
	}
	return count
}
