package world

import (
	"time"

	"github.com/relock-go/relock"
)

// Given again: what a process may give out of a hold that it was granted before. From the cache comes nothing once messages
// about the lock may have been missed. The tokens of one acquisition rise, whatever became of the counter in Redis. Readers
// share a hold as long as they may: those that waited when it was granted in any case, all others until the process hears
// that another one wants the lock, and for the times of their options.

// past is what an acquisition was given out as before. The world's mutex guards it.
type past struct {
	since  time.Time     // when its first lease was given out
	token  int64         // of its last lease
	shared time.Duration // for how long readers may join, counted from the first question: the longest that one asked for
}

// again looks at a lease that is no re-entry. The caller holds the world's mutex.
func (w *World) again(s *stay, h *Held, how relock.How) {
	was, now, reads := s.past, h.taken(), w.form.RW && h.amount < allOf
	s.past.token = max(was.token, h.Token)
	s.past.shared = max(was.shared, h.passes.time, h.linger)
	if h.passes.most == 0 { // a scene does not say
		s.past.shared = max(s.past.shared, usualTime)
	}
	if was.since.IsZero() {
		s.past.since = now
		return
	}
	taken := now
	if !s.filled.Before(h.began) { // it came from the cache before Redis was asked to lengthen it
		taken = s.filled
	}
	if broke := h.proc.broke; how == relock.HowCached && len(w.nodes) == 1 && broke.After(was.since) && broke.Before(taken) {
		w.failed(h.Name, "token %d of p%d comes from the cache, though messages may have been missed since its grant: the "+
			"subscription broke %v ago", h.Token, h.proc.index, now.Sub(broke))
	}
	switch {
	case !reads:
		if h.Token <= was.token && !w.form.Permits {
			w.failed(h.Name, "token %d of p%d is not above %d, which the same acquisition had before", h.Token, h.proc.index, was.token)
		}
	case !h.began.After(was.since):
		// It was let in at the grant.
	case !s.wanted.IsZero() && s.wanted.Before(now):
		w.failed(h.Name, "p%d gives a share of token %d out, and has heard %v ago that the lock is wanted", h.proc.index, h.Token,
			now.Sub(s.wanted))
	case now.After(s.first.Add(s.past.shared)):
		w.failed(h.Name, "p%d gives a share of token %d out, %v after it asked for the hold, which may be joined for %v", h.proc.index,
			h.Token, now.Sub(s.first), s.past.shared)
	}
}

// broken notes that a process has lost the connection over which it hears its inbox. One that waits for the answer to a SUBSCRIBE
// finds out behind that. The caller holds the world's mutex.
func (e *listener) broken() {
	if e.inbox && e.proc.subscribing == 0 {
		e.proc.broke = time.Now()
	}
}
