package relockui

import (
	"sync"
	"time"

	"github.com/relock-go/relock/internal/operator"
)

const (
	maxLocks   = 20_000 // locks with a history
	maxPeriods = 50     // periods of one lock
)

// history has the holders of locks that looks have seen since the page was made.
type history struct {
	mu    sync.Mutex
	locks map[string]*record
}

// record is the history of one lock.
type record struct {
	at      time.Time // when the last look began
	periods []period  // the newest is the last
}

// period is a time during which all looks saw the same grant of a lock, or saw it free. Of a semaphore it
// is one during which as many permits were held.
type period struct {
	From    time.Time // when it was granted, or if that is unknown, the first look
	Until   time.Time // the last look
	Held    bool
	Holder  string // the owner field in Redis; of a semaphore "", since others come and go
	Owner   string // the holder as the page shows it; of a semaphore, how many permits are held
	Token   int64
	Waiters int // the greatest number that a look saw
}

// Lasted returns how long the period is known to have lasted.
func (p period) Lasted() time.Duration { return p.Until.Sub(p.From) }

// sameAs reports whether s belongs to the same period.
func (p *period) sameAs(s *operator.Sighting) bool {
	if s.Held && s.Semaphore() {
		return p.Held && p.Owner == s.CountText()
	}
	return p.Held == s.Held && (!s.Held || p.Holder == s.Holder && p.Token == s.Token)
}

// see enters the result of a look that began at the time at. all says that it was a look at all locks: then
// a lock that it did not see is free.
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

// add enters the result of a look.
func (r *record) add(s *operator.Sighting, at time.Time) {
	r.at = at
	if last := len(r.periods) - 1; last >= 0 && r.periods[last].sameAs(s) {
		p := &r.periods[last]
		p.Until, p.Waiters = at, max(p.Waiters, s.Waiters)
		if text := s.By.String(); text != "" && p.Holder != "" { // the client's card ends with its process: keep the text
			p.Owner = text
		}
		return
	}
	p := period{From: at, Until: at, Held: s.Held, Holder: s.Holder, Token: s.Token, Waiters: s.Waiters}
	p.Owner = operator.Owner(s.Holder, s.By)
	if s.Semaphore() {
		p.Holder, p.Owner = "", s.CountText()
	}
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
