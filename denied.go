package relock

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	firstRetry = time.Second            // until a channel that was refused is asked for again; doubles up to linger
	vetTimeout = 250 * time.Millisecond // how long the first Lock waits for the inbox's answer
)

// denial is a channel that Redis does not let this user subscribe. It concerns those who would wait for its messages,
// and nobody else: neither other locks nor holders.
type denial struct {
	err   error
	pause backoff
	again time.Time // when to ask once more
}

// denies reports whether err is an answer to a subscription that waiting alone does not change.
func denies(err error) bool { return replied(err) != "" && !transient(err) }

// deny notes that channel may not be subscribed, tells its waiters, and returns how long to wait before asking again.
func (h *hub) deny(channel string, err error) time.Duration {
	pause, told := h.noteDenial(channel, err)
	if told {
		h.log.Warn("relock: may not subscribe, Lock fails where it would have to wait", "channel", channel, "reason", err)
	}
	return pause
}

// noteDenial also reports whether the logger is to be told: of the first channel and of every hundredth.
func (h *hub) noteDenial(channel string, err error) (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.roomOf(channel)
	if r == nil && channel != inboxPrefix+h.client {
		return linger, false // nobody wants it any more
	}
	d, first := h.denied[channel], false
	if d == nil {
		d = &denial{pause: backoff{least: firstRetry, most: linger}}
		h.denied[channel] = d
		first = h.denials%100 == 0
		h.denials++
	}
	d.err = fmt.Errorf("channel %s: %w", channel, err)
	pause := d.pause.next()
	d.again = time.Now().Add(pause)
	if r != nil {
		r.ready = false
		wakeWaiting(slices.Values(r.members))
	} else {
		h.vet()
		wakeWaiting(maps.Values(h.acqs))
	}
	return pause, first
}

func wakeWaiting(all iter.Seq[*acquisition]) {
	for a := range all {
		if a.phase == waiting {
			a.poke()
		}
	}
}

// roomOf returns the room that a channel of a lock belongs to, nil for the inbox and for what is over.
func (h *hub) roomOf(channel string) *room {
	if tag, found := strings.CutPrefix(channel, listenPrefix); found {
		channel = unlockPrefix + tag
	}
	return h.rooms[channel]
}

// deafness tells why no message can reach a, nil where one can or where that is not known yet: it would wait beside a
// free lock.
func (h *hub) deafness(a *acquisition) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.denied) == 0 {
		return nil
	}
	for _, channel := range [...]string{inboxPrefix + h.client, a.names.unlock, a.names.listen} {
		if d := h.denied[channel]; d != nil {
			return &NodeError{Op: "subscribe", Name: a.names.name, Err: d.err}
		}
	}
	return nil
}

// vet ends the wait of the first holders: it is known whether the inbox may be subscribed, or nobody can tell. The
// caller holds the hub's mutex.
func (h *hub) vet() {
	if !h.isVetted() {
		close(h.vetted)
	}
}

func (h *hub) isVetted() bool {
	select {
	case <-h.vetted:
		return true
	default:
		return false
	}
}

// firstVerdict holds a back that was granted its lock before anybody knew whether the inbox may be subscribed, until
// that is known: a missing right is told to the first Lock, not to those who will wait one day.
func (h *hub) firstVerdict(ctx context.Context, a *acquisition) error {
	h.mu.Lock()
	first := a.unvetted
	a.unvetted = false
	h.mu.Unlock()
	if !first {
		return nil
	}
	late := time.NewTimer(min(vetTimeout, a.timeout))
	defer late.Stop()
	select {
	case <-h.vetted:
	case <-late.C:
	case <-ctx.Done():
	}
	return h.deafness(a)
}

// nextRetry is how long until a channel that was refused is to be asked for again; false when there is none.
func (h *hub) nextRetry(now time.Time) (time.Duration, bool) {
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
