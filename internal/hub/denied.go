package hub

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

const (
	firstRetry = time.Second            // until a denied channel is asked for again; doubles up to keepIdle
	vetTimeout = 250 * time.Millisecond // how long the first Lock waits to learn whether it may have an inbox
)

// denial says that Redis does not let this user subscribe a channel. A Lock that would have to wait
// for the channel's messages fails, and perhaps the first Lock of a client (see Verdict). Other Locks
// that find their lock free, and held locks, are not concerned.
type denial struct {
	err   error
	pause clock.Backoff
	again time.Time // when to ask for the channel again: the user may be given the right
}

// deny notes that a channel is denied, and wakes the waiters for its messages. It reports the first
// denied channel to the user, and every hundredth. It returns the pause until the channel is asked
// for again.
func (h *Hub) deny(channel string, err error) time.Duration {
	pause, report := h.noteDenial(channel, err)
	if report != nil {
		h.owner.Impaired(report)
	}
	return pause
}

// noteDenial is the part of deny that runs under the hub's mutex. It returns the pause until the next
// attempt, and the error to report to the user, nil for none.
func (h *Hub) noteDenial(channel string, err error) (pause time.Duration, report error) {
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
			report = fmt.Errorf("may not subscribe channel %q, Lock fails where it would have to wait: %w", channel, err)
			h.denialTold, h.deniedTold = report, channel
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
	} else { // the inbox is denied: no waiter of this client can be told that it owns its lock
		h.vet()
		h.hears.Store(false)
	}
	for e := range ears {
		if e.phase.Load() == earWaits {
			e.wake.Poke() // the waiter calls Deafness, and fails
		}
	}
	return pause, report
}

// Deafness returns why no message can reach the ear: one of its channels is denied. It returns nil if
// no channel is known to be denied. An entry that is deaf must not wait: it would not hear that its
// lock is free.
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
			return &wire.NodeError{Op: driver.Subscribe, Name: n.Name, Err: d.err}
		}
	}
	return nil
}

// vet ends the waits in Verdict. The caller has learned whether the inbox may be subscribed, or that
// Redis does not tell, and holds the hub's mutex.
func (h *Hub) vet() {
	if !h.isVetted() {
		close(h.vetted)
	}
	h.settled.Store(h.inboxWanted)
}

// isVetted reports whether vet was called.
func (h *Hub) isVetted() bool {
	select {
	case <-h.vetted:
		return true
	default:
		return false
	}
}

// nextRetry returns a channel that receives when the next denied channel is to be asked for again. It
// returns nil if no channel is denied.
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
