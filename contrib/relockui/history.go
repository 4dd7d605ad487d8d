package relockui

import (
	"sync"
	"time"

	"github.com/relock-go/relock/internal/operator"
)

const (
	maxLocks   = 20_000 // whose history is kept
	maxPeriods = 50     // of one lock
)

// history is what the page has seen of locks since it was made.
type history struct {
	mu    sync.Mutex
	locks map[string]*record
}

// record is the history of one lock.
type record struct {
	at      time.Time // of the last look
	periods []period  // the newest is the last
}

// period is a time through which looks saw one grant, or nobody, hold a lock.
type period struct {
	From    time.Time // the grant, or where that is unknown the first look
	Until   time.Time // the last look
	Held    bool
	Holder  string
	Owner   string // as it is shown
	Token   int64
	Waiters int // the most that were seen
}

// Lasted is how long it is known to have lasted.
func (p period) Lasted() time.Duration { return p.Until.Sub(p.From) }

// sameAs reports whether a period goes on.
func (p *period) sameAs(s *operator.Sighting) bool {
	return p.Held == s.Held && (!s.Held || p.Holder == s.Holder && p.Token == s.Token)
}

// see takes over what a look saw that began at the time given. After a look at all there is, a lock
// that was not seen is held by nobody.
func (h *history) see(locks []operator.Sighting, all bool, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range locks {
		h.note(&locks[i], at)
	}
	if !all {
		return
	}
	for name, r := range h.locks {
		if r.at.Before(at) {
			r.add(&operator.Sighting{}, at)
		}
		if !r.periods[len(r.periods)-1].Held && len(h.locks) > maxLocks/2 {
			delete(h.locks, name)
		}
	}
}

func (h *history) note(s *operator.Sighting, at time.Time) {
	r := h.locks[s.Names.Name]
	if r == nil {
		if !s.Held && s.Waiters == 0 || len(h.locks) >= maxLocks {
			return
		}
		r = &record{}
		h.locks[s.Names.Name] = r
	}
	if r.at.Before(at) {
		r.add(s, at)
	}
}

// add adds a look.
func (r *record) add(s *operator.Sighting, at time.Time) {
	r.at = at
	if last := len(r.periods) - 1; last >= 0 && r.periods[last].sameAs(s) {
		p := &r.periods[last]
		p.Until, p.Waiters = at, max(p.Waiters, s.Waiters)
		if text := s.By.String(); text != "" { // what is known of a process outlives it here
			p.Owner = text
		}
		return
	}
	p := period{From: at, Until: at, Held: s.Held, Holder: s.Holder, Token: s.Token, Waiters: s.Waiters}
	p.Owner = operator.Owner(s.Holder, s.By)
	if s.Held && s.Age >= 0 {
		p.From = at.Add(-s.Age)
	}
	if len(r.periods) == maxPeriods {
		r.periods = append(r.periods[:0], r.periods[1:]...)
	}
	r.periods = append(r.periods, p)
}

// of returns the history of a lock, the newest period first.
func (h *history) of(name string) []period {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []period
	if r := h.locks[name]; r != nil {
		for i := len(r.periods) - 1; i >= 0; i-- {
			all = append(all, r.periods[i])
		}
	}
	return all
}
