package hub

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

const (
	firstRetry = time.Second            // until a channel that was refused is asked for again; doubles up to linger
	vetTimeout = 250 * time.Millisecond // how long the first Lock waits for the inbox's answer
)

// denial is a channel that Redis does not let this user subscribe. It concerns the waiters for its
// messages alone: neither other locks nor holders.
type denial struct {
	err   error
	pause clock.Backoff
	again time.Time // when to ask once more
}

// deny notes that channel may not be subscribed, tells its waiters, and returns how long to wait
// before asking again.
func (h *Hub) deny(channel string, err error) time.Duration {
	pause, told := h.noteDenial(channel, err)
	if told {
		h.Impaired(fmt.Errorf("may not subscribe channel %q, Lock fails where it would have to wait: %w", channel, err))
	}
	return pause
}

// noteDenial also reports whether the user is to be told: of the first channel and of every
// hundredth.
func (h *Hub) noteDenial(channel string, err error) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.roomOf(channel)
	if r == nil && channel != wire.InboxPrefix+h.client {
		return linger, false // no entry wants it any more
	}
	d, first := h.denied[channel], false
	if d == nil {
		d = &denial{pause: clock.Backoff{Least: firstRetry, Most: linger}}
		h.denied[channel] = d
		first = h.denials%100 == 0
		h.denials++
	}
	d.err = fmt.Errorf("channel %s: %w", channel, err)
	pause := d.pause.Next()
	d.again = time.Now().Add(pause)
	if r != nil {
		r.ready = false
		wakeWaiting(slices.Values(r.members))
	} else {
		h.vet()
		h.hears.Store(false)
		wakeWaiting(maps.Values(h.ears))
	}
	return pause, first
}

func wakeWaiting(all iter.Seq[*Ear]) {
	for e := range all {
		if e.phase.Load() == earWaits {
			e.wake.Poke()
		}
	}
}

// roomOf returns the room that a channel of a lock belongs to, nil for the inbox and for what is
// over.
func (h *Hub) roomOf(channel string) *room {
	return cmp.Or(h.rooms[channel], h.beside[channel])
}

// Deafness tells why no message can reach the ear, nil where one can or where that is not known
// yet: its entry would wait beside a free lock.
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

// verdict holds an entry back that was granted its lock before it was known whether the inbox may
// be subscribed, until that is known: a missing right is told to the first Lock, not to waiters that
// will wait one day.
func (e *Ear) verdict(ctx context.Context) error {
	late := time.NewTimer(min(vetTimeout, e.entry.Timeout))
	defer late.Stop()
	select {
	case <-e.hub.vetted:
	case <-late.C:
	case <-ctx.Done():
	}
	return e.Deafness()
}

// vet ends the wait of the first holders: it is known whether the inbox may be subscribed, or
// nobody can tell. The caller holds the hub's mutex.
func (h *Hub) vet() {
	if !h.isVetted() {
		close(h.vetted)
	}
	h.settled.Store(h.inbox)
}

func (h *Hub) isVetted() bool {
	select {
	case <-h.vetted:
		return true
	default:
		return false
	}
}

// nextRetry is how long until a channel that was refused is to be asked for again; false when there
// is none.
func (h *Hub) nextRetry(now time.Time) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	least, found := time.Duration(0), false
	for _, d := range h.denied {
		if left := d.again.Sub(now); !found || left < least {
			least, found = left, true
		}
	}
	return least, found
}
