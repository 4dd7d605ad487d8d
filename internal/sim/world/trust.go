package world

import (
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/relock-go/relock"
)

// Trust against Redis: no lease is trusted for longer than enough nodes keep its id. That is asked of the state as it is,
// when a lease is given out or lengthened and with each tick of the watch: a lease that is trusted for too long fails
// whether or not another is granted the lock in that time.

// idOf is the acquisition id of a lease, and what its lock was first asked for with. No call tells them, so they are read
// where the library keeps them; they never change.
func idOf(l *relock.Lease) (id string, lease time.Duration) {
	e := reflect.ValueOf(l).Elem().FieldByName("h").Elem().FieldByName("entry").Elem()
	return e.FieldByName("ID").String(), time.Duration(e.FieldByName("Lease").Int())
}

// trustsAll looks at every lease that may be live.
func (j *judge) trustsAll() {
	j.mu.Lock()
	var held []*Held
	for _, r := range j.locks {
		for _, h := range r.held {
			if !h.over.Load() {
				held = append(held, h)
			}
		}
	}
	j.mu.Unlock()
	for _, h := range held {
		j.trusts(h)
	}
}

// trusts demands that a lease ends before its id does on the nodes that it needs. A lease that a fault may have ended is
// excused; the fault excuses none that was granted after it.
func (j *judge) trusts(h *Held) {
	until := h.Lease.Until()
	if until.IsZero() || h.over.Load() {
		return
	}
	j.bounded(h, until)
	kept := time.Now().Add(j.w.keeps(h, until))
	j.mu.Lock()
	r := j.of(h.Name)
	excused := h.Token <= max(r.horizon, r.alien)
	j.mu.Unlock()
	excused = excused || j.w.wasRobbed(h.id)
	if until.After(kept) && !excused && !h.over.Load() {
		j.w.fail(h.Name, "token %d of p%d is trusted for %v, %v longer than enough nodes keep its id", h.Token, h.proc.index,
			time.Until(until), until.Sub(kept))
	}
}

// keeps is for how long enough nodes keep a lease's id. Nodes that cannot be asked, or may have lost what they confirmed,
// count as those that keep it.
func (w *World) keeps(h *Held, until time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := make([]time.Duration, 0, 5)
	for _, n := range w.nodes {
		d, kept := w.form.keeps(n, h.Name, h.id)
		w.regained(h, n, kept, until)
		if !n.server.Running() || n.lapsed.After(time.Now()) {
			d = math.MaxInt64 / 2
		}
		left = append(left, min(d, math.MaxInt64/2))
	}
	slices.Sort(left)
	return left[len(left)-len(left)/2-1] // of the longest ones as many as are needed
}

// lapses notes that what a node has confirmed so far may end, or have ended, before its time. What it confirms from now
// on does not.
func (n *node) lapses() { n.lapsed = later(n.lapsed, time.Now().Add(n.w.plan.Longest())) }

// keeps is for how long a node keeps an id, and whether it does.
func (f Form) keeps(n *node, name, id string) (left time.Duration, kept bool) {
	if f.RW {
		return keepsRW(n, name, id)
	}
	if f.Permits {
		return n.server.Listed(f.leasesOf(name), id+":1")
	}
	return n.server.Keeps(name, id)
}
