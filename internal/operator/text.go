package operator

import (
	"fmt"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/wire"
)

// Owner returns how every tool shows an owner.
func Owner(field string, by wire.Card) string { return wire.Owner(field, by) }

// HolderText names the holder of the lock, and of a semaphore before that how much of it.
func (s *Sighting) HolderText() string {
	if s.Held && s.Semaphore() {
		return s.CountText() + ": " + s.WhoText()
	}
	return s.WhoText()
}

// WhoText names the holder of the lock.
func (s *Sighting) WhoText() string {
	if !s.Held && s.Nodes > 0 {
		return fmt.Sprintf("nobody; %d nodes keep it for %s", s.Nodes, Owner(s.Holder, s.By))
	}
	if !s.Held {
		return "nobody"
	}
	text, others := Owner(s.Holder, s.By), 0
	switch {
	case s.reads():
		others = s.Count - 1
	case s.Semaphore() && s.Whole():
		others = len(s.Holders) - 1
	case s.Semaphore():
		return text + " and others"
	}
	if others > 0 {
		text += fmt.Sprintf(" and %d more", others)
	}
	return text
}

// CountText says how many permits of a semaphore are held, and of how many.
func (s *Sighting) CountText() string {
	if s.Permits < 0 {
		return strconv.Itoa(s.Count)
	}
	return fmt.Sprintf("%d of %d", s.Count, s.Permits)
}

// TTLText says how much of the lease of a semaphore's holder is left.
func (h *Holding) TTLText() string {
	if h.TTL < 0 {
		return neverEnds
	}
	return Short(h.TTL)
}

const neverEnds = "never ends"

// AgeText says how long ago the grant was.
func (s *Sighting) AgeText() string {
	if !s.Held || s.Age < 0 {
		return "-"
	}
	return Short(s.Age)
}

// TTLText says for how long the lock is held unless it is renewed.
func (s *Sighting) TTLText() string {
	switch {
	case !s.Held:
		return "-"
	case s.TTL < 0:
		return neverEnds
	}
	return Short(s.TTL)
}

// WaitText says how long the first waiter has waited.
func (s *Sighting) WaitText() string {
	if s.Waiters == 0 {
		return "-"
	}
	return Short(s.Longest)
}

// Short is a duration in a few characters.
func Short(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// Plain is a name as it can stand on a terminal or a page.
func Plain(name string) string { return wire.Shown(name) }
