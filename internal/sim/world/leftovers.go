package world

import (
	"strings"
	"time"
)

// Nothing left behind: an id that stands in Redis is a lease's, or one that lingers, or on its way to a waiter. Else its
// client ends it, which takes some commands: they are counted from the last fault that touched the client or the node. The
// lease, which ends it without them, is no excuse, but for what a copy of a command left, or one that ran more than a lease
// after its client had ended what it asks for. When Close returns it is gone.

// stray is an id in the hash of a lock on one node.
type stray struct {
	node     int
	lock, id string
}

// strays are the ids that stand without a lease, and since when. The world's mutex guards it.
type strays map[stray]time.Time

// strayedAll looks at all ids that stand. It is called with each tick of the watch.
func (w *World) strayedAll(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.serving {
		return // what serves then is not among the judge's leases
	}
	clients := w.alive()
	seen := make(strays, len(w.strays))
	for _, n := range w.nodes {
		if n.off {
			continue // ids last by its clock
		}
		for _, name := range w.plan.Names {
			w.form.entries(n, name, func(id string) {
				if w.form.RW && deadRW(n, name, id) {
					return
				}
				id = w.form.idOf(id)
				client, _, _ := strings.Cut(id, ":")
				if p := clients[client]; p != nil && !w.permits.robbed[id] {
					w.strayed(n, p, stray{n.index, name, id}, seen, now)
				}
			})
		}
	}
	w.strays = seen
}

// sweepPause is how long the library waits at most before it tries again to end what was not answered. What was refused, or
// may have come late, it comes back to after a third of a lease.
const sweepPause = time.Second

// strayed judges one id of a process.
func (w *World) strayed(n *node, p *process, at stray, seen strays, now time.Time) {
	since, known := w.strays[at]
	if !known {
		since = now
	}
	if w.judge.waiters(at.lock)[p] || w.grasps[asking{p, at.lock}] > 0 || len(w.nodes) > 1 && w.calling[asking{p, at.lock}] > 0 {
		since = now // on a quorum a waiter keeps the nodes that it has; All keeps what it has while it waits for the rest
	}
	most := w.plan.Longest()/3 + sweepPause + 2*w.plan.Timeout()
	if s := w.stays[at.id]; s != nil {
		if since = later(later(since, s.last), earlier(now, s.least)); s.has() { // a lease may be shorter than the time between two looks
			since = now
		}
		most += s.linger
		switch {
		case s.copied: // it may be queued anew, and granted when that is its turn
			most += 3 * w.plan.Longest()
		case s.late: // it costs a lease more, once no other of its owner has the lock there
			most += w.plan.Longest()
			if w.livesOn(n, at.lock) {
				since = now
			}
		}
	}
	since = later(since, earlier(now, later(later(p.disturbed, n.disturbed), n.refusing)))
	seen[at] = since
	if now.Sub(since) > most {
		w.failed(at.lock, "%s of p%d has stood on node %d for %v without a lease", at.id, p.index, n.index, now.Sub(since))
	}
}

// livesOn reports whether a node keeps a lock for an acquisition that may have a live lease.
func (w *World) livesOn(n *node, lock string) (lives bool) {
	w.form.entries(n, lock, func(id string) {
		s := w.stays[w.form.idOf(id)]
		lives = lives || s != nil && s.has()
	})
	return lives
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// alive are the clients that were not killed, by their uuid.
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
func (j *judge) hadAt(s *stay, moment time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, h := range s.held {
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
	left := func(id string) bool {
		s := w.stays[id]
		if s != nil && (s.handle || time.Now().Before(s.least)) {
			return false // WithMinHold keeps it
		}
		return s == nil || !w.judge.hadAt(s, began) && !s.placed.down // whose caller has the write lease until then
	}
	for _, n := range w.nodes {
		if n.disturbed.After(before) || n.refusing.After(before) || n.off {
			continue
		}
		for _, name := range w.plan.Names {
			w.form.entries(n, name, func(id string) {
				id = w.form.idOf(id)
				if strings.HasPrefix(id, p.client.ID()+":") && left(id) && !w.graspedSince(p, name, began) {
					w.failed(name, "p%d has closed and left %s on node %d", p.index, id, n.index)
				}
			})
			if w.torn[name] { // it may have queued its entry again, behind the sweep; a hand-over takes that out
				continue
			}
			w.glimpse.line = n.server.Line(w.form.queueOf(name), w.glimpse.line[:0])
			for _, waiter := range w.glimpse.line {
				if id, client := waiterOf(waiter.Member); client == p.client.ID() && left(id) {
					w.failed(name, "p%d has closed and left %s in the queue of node %d", p.index, id, n.index)
				}
			}
		}
	}
}
