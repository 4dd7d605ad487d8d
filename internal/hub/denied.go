package hub

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

const (
	firstRetry = time.Second            // until a denied channel is asked for again; doubles up to keepIdle
	vetTimeout = 250 * time.Millisecond // how long the first Lock waits to learn whether it may have an inbox
)

// denial says that Redis does not let this user subscribe a channel. It concerns those alone that
// wait for the channel's messages: a Lock that would have to wait fails. A Lock that finds its lock
// free, and locks that are held, are not concerned.
type denial struct {
	err   error
	pause clock.Backoff
	again time.Time // when to ask for the channel again: the user may be given the right
}

// deny notes that a channel is denied, wakes those that wait for its messages, and tells of it: of
// the first channel and of every hundredth. It returns how long to wait before the channel is asked
// for again.
func (h *Hub) deny(channel string, err error) time.Duration {
	pause, telling := h.noteDenial(channel, err)
	if telling != nil {
		h.owner.Impaired(telling)
	}
	return pause
}

// noteDenial is deny but for telling, which must be done without the hub's mutex. It returns what to
// tell, nil for nothing.
func (h *Hub) noteDenial(channel string, err error) (pause time.Duration, telling error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sub := h.subs[channel]
	if sub == nil && channel != wire.InboxPrefix+h.client {
		return keepIdle, nil // its subscription has ended meanwhile
	}
	d := h.denied[channel]
	if d == nil {
		d = &denial{pause: clock.Backoff{Least: firstRetry, Most: keepIdle}}
		h.denied[channel] = d
		if h.denials%100 == 0 {
			telling = fmt.Errorf("may not subscribe channel %q, Lock fails where it would have to wait: %w", channel, err)
			h.denialTold, h.deniedTold = telling, channel
		}
		h.denials++
	}
	d.err = fmt.Errorf("channel %s: %w", channel, err)
	pause = d.pause.Next()
	d.again = time.Now().Add(pause)
	ears := maps.Values(h.ears)
	if sub != nil {
		sub.ready = false
		ears = slices.Values(sub.ears)
	} else {
		h.vet()
		h.hears.Store(false)
	}
	for e := range ears {
		if e.phase.Load() == earWaits {
			e.wake.Poke() // it finds out by Deafness
		}
	}
	return pause, telling
}

// Deafness tells why no message can reach the ear: one of its channels is denied. It returns nil if
// messages can, or if that is not known yet. An entry that is deaf must not wait: it would not hear
// that its lock is free.
func (e *Ear) Deafness() error {
	h := e.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.denied) == 0 {
		return nil
	}
	n := e.entry.Names
	for _, channel := range [...]string{wire.InboxPrefix + h.client, n.Unlock, n.Listen} {
		if d := h.denied[channel]; d != nil {
			return &wire.NodeError{Op: "subscribe", Name: n.Name, Err: d.err}
		}
	}
	return nil
}

// vet ends the waits in Verdict: it is known now whether the inbox may be subscribed, or that Redis
// does not tell. The caller holds the hub's mutex.
func (h *Hub) vet() {
	if !h.isVetted() {
		close(h.vetted)
	}
	h.settled.Store(h.inboxWanted)
}

func (h *Hub) isVetted() bool {
	select {
	case <-h.vetted:
		return true
	default:
		return false
	}
}

// nextRetry receives when the next denied channel is to be asked for again. It is nil if no channel
// is denied.
func (h *Hub) nextRetry(now time.Time) <-chan time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.denied) == 0 {
		return nil
	}
	left := time.Duration(math.MaxInt64)
	for _, d := range h.denied {
		left = min(left, d.again.Sub(now))
	}
	return time.After(left)
}
