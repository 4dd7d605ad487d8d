package world

import (
	"strconv"
)

// Write-back: when a quorum's call returns, as many nodes as it needs count up to the token that was given out. So whoever
// asks another majority is granted a higher one.

// countedTo looks at the counters of a quorum's nodes.
func (w *World) countedTo(h *Held) {
	if len(w.nodes) == 1 || w.judge.lostCount(h) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	counted, key := 0, w.form.counterOf(h.Name)
	for _, n := range w.nodes {
		at, _ := strconv.ParseInt(n.server.Text(key), 10, 64)
		if at >= h.Token || !n.server.Running() || n.anew.After(h.asked) || n.off {
			counted++
		}
	}
	if counted <= len(w.nodes)/2 && !h.proc.dead {
		w.failed(h.Name, "p%d is given token %d, which %d of %d nodes count up to", h.proc.index, h.Token, counted, len(w.nodes))
	}
}

// lostCount reports whether a lock's counter was lost, or the lock, since a lease's process asked for it.
func (j *judge) lostCount(h *Held) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.of(h.Name)
	return r.lost.After(h.asked.Add(-4*j.w.plan.Longest())) || r.struck.After(h.asked)
}
