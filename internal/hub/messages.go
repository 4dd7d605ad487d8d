package hub

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/wire"
)

// Message handles one message. It runs in the connection's reader and never blocks.
func (h *Hub) Message(channel, message string) {
	var err error
	if strings.HasPrefix(channel, wire.InboxPrefix) {
		err = h.receiveGrant(message)
	} else if tag, found := strings.CutPrefix(channel, wire.ListenPrefix); found {
		err = h.receiveTurn(wire.UnlockPrefix+tag, message)
	} else {
		err = h.receiveUnlock(channel, message)
	}
	if err != nil {
		h.skip(channel, message, err)
	}
}

// skip counts a message that means nothing, and tells of the first and every hundredth.
func (h *Hub) skip(channel, message string, why error) {
	if n := h.skipped.Add(1); n%100 == 1 {
		h.Impaired(fmt.Errorf("skipped a message on channel %q, %d so far: %q: %w",
			channel, n, message[:min(len(message), 64)], why))
	}
}

func (h *Hub) receiveUnlock(channel, message string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rooms[channel]
	if r == nil {
		return nil
	}
	if message != "0" {
		return fmt.Errorf("no unlock, which is 0") // other locks of Redisson use other numbers on other channels
	}
	r.turns.unlocked()
	for _, e := range r.members {
		e.news()
	}
	return nil
}

func (h *Hub) receiveTurn(channel, message string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rooms[channel]
	if r == nil {
		return nil
	}
	if _, err := strconv.ParseUint(message, 10, 64); err != nil {
		return fmt.Errorf("no turn, which is a number of microseconds")
	}
	r.turns.opened(message, time.Now())
	return nil
}

func (h *Hub) receiveGrant(message string) error {
	g, err := wire.ParseGrant(message)
	if err != nil {
		return err
	}
	e := h.deliver(g)
	switch {
	case e != nil && g.Wanted:
		e.want(true)
	case e == nil && g.Tokens.First > 0 && strings.HasPrefix(g.ID, h.client):
		h.orphan(g)
	}
	return nil
}

// deliver tells an entry's ear of a message. It returns the ear, which the caller tells that its lock
// is wanted: without the hub's mutex, since an observer hears of that. A grant of another lock than
// the entry waits for finds no ear.
func (h *Hub) deliver(g wire.Grant) *Ear {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.ears[g.ID]
	if e == nil || e.entry.Names.Lock != g.Name {
		return nil
	}
	phase := e.phase.Load()
	switch {
	case g.Wanted && g.Tokens.First == 0:
	case g.Tokens.First == 0 && phase == earWaits: // deposed before it knew of its grant, or nudged
		e.hints.Nudged = true
		e.wake.Poke()
	case g.Nudge:
	case g.Tokens.First == 0:
		e.doubt() // it was deposed
	case phase == earWaits:
		e.granted(g.Tokens)
	case phase == earReleases:
		// It may have been granted after the release ran: the release is not the last word.
		e.regranted.Store(true)
	}
	return e
}
