package world

import (
	"strings"
	"time"
)

// Nothing left behind: an id that stands in Redis is a lease's, or one that lingers, or on its way to a waiter. Else it is
// gone within its own lease and some commands, which are counted from the last fault that touched its client or its node;
// and when Close returns.

// stray is an id in the hash of a lock on one node.
type stray struct {
	node     int
	lock, id string
}

// owning is what is known of the id of a hold.
type owning struct {
	held   []*Held
	linger time.Duration
}

// strays knows since when ids stand without a lease. The world's mutex guards it.
type strays struct {
	owned map[string]*owning // by id
	since map[stray]time.Time
}

// owns notes whose id a lease is of. A hold lingers as who asked for it first said.
func (w *World) owns(h *Held) {
	id := h.id
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.strays.owned == nil {
		w.strays.owned = map[string]*owning{}
	}
	o := w.strays.owned[id]
	if o == nil {
		o = &owning{}
		w.strays.owned[id] = o
	}
	o.linger = max(o.linger, h.linger)
	kept := o.held[:0]
	for _, other := range o.held {
		if !other.over.Load() {
			kept = append(kept, other)
		}
	}
	o.held = append(kept, h)
}

// has reports whether an id has a lease that may be live.
func (o *owning) has() bool {
	for _, h := range o.held {
		if !h.over.Load() {
			return true
		}
	}
	return false
}

// strayedAll looks at all ids that stand. It is called with each tick of the watch.
func (w *World) strayedAll(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fates.calm {
		return // what serves then is not among the judge's leases
	}
	clients := w.alive()
	seen := make(map[stray]time.Time, len(w.strays.since))
	for _, n := range w.nodes {
		if n.off {
			continue // ids last by its clock
		}
		for _, name := range w.plan.Names {
			n.server.Fields(name, func(id string) {
				client, _, _ := strings.Cut(id, ":")
				if p := clients[client]; p != nil {
					w.strayed(n, p, stray{n.index, name, id}, seen, now)
				}
			})
		}
	}
	w.strays.since = seen
}

// strayed judges one id of a process.
func (w *World) strayed(n *node, p *process, at stray, seen map[stray]time.Time, now time.Time) {
	since, known := w.strays.since[at]
	if !known {
		since = now
	}
	if w.judge.waiters(at.lock)[p] {
		since = now // on a quorum a waiter keeps the nodes that it has
	}
	linger := time.Duration(0)
	if o := w.strays.owned[at.id]; o != nil {
		if o.has() {
			since = now
		}
		linger = o.linger
	}
	since = later(since, earlier(now, later(p.disturbed, n.disturbed)))
	seen[at] = since
	most := w.plan.Longest() + linger + 8*w.plan.Timeout()
	if w.plan.Rates.Late+w.plan.Rates.Twice+w.plan.Rates.Slow > 0 {
		most += w.plan.Longest() * 3 / 2 // a command may run so late, and lengthen what stands
	}
	if now.Sub(since) > most {
		w.failed(at.lock, "%s of p%d has stood on node %d for %v without a lease", at.id, p.index, n.index, now.Sub(since))
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// alive are the clients that nobody has killed, by their uuid.
func (w *World) alive() map[string]*process {
	clients := make(map[string]*process, len(w.procs))
	for _, p := range w.procs {
		if !p.dead {
			clients[p.client.ID()] = p
		}
	}
	return clients
}

// hadAt reports whether a caller had the lock at a moment: what Unlock is called for later, Close has left to its lease.
func (j *judge) hadAt(o *owning, moment time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, h := range o.held {
		if !h.over.Load() || j.w.trace.start.Add(h.gone).Add(1).After(moment) {
			return true
		}
	}
	return false
}

// closed demands that a client which has closed undisturbed has left nothing but what callers have.
func (w *World) closed(p *process, began time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := began.Add(-2*w.plan.Longest() - 8*w.plan.Timeout())
	if p.dead || w.what != "" || p.disturbed.After(before) {
		return
	}
	for _, n := range w.nodes {
		if n.disturbed.After(before) || n.refusing.After(before) || n.off {
			continue
		}
		for _, name := range w.plan.Names {
			n.server.Fields(name, func(id string) {
				if o := w.strays.owned[id]; strings.HasPrefix(id, p.client.ID()+":") && (o == nil || !w.judge.hadAt(o, began)) {
					w.failed(name, "p%d has closed and left %s on node %d", p.index, id, n.index)
				}
			})
			w.glimpse.line = n.server.Line(queueOf(name), w.glimpse.line[:0])
			for _, waiter := range w.glimpse.line {
				if id, client := waiterOf(waiter.Member); client == p.client.ID() {
					w.failed(name, "p%d has closed and left %s in the queue of node %d", p.index, id, n.index)
				}
			}
		}
	}
}
