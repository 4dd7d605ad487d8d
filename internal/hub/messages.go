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
	} else {
		err = h.receive(channel, message)
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

// receive handles a message on one of the two channels of a room.
func (h *Hub) receive(channel, message string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.beside[channel]; r != nil {
		return r.receiveTurn(message)
	}
	r := h.rooms[channel]
	switch {
	case r == nil:
		return nil
	case !r.names.Kind.Channel.Frees(message):
		return fmt.Errorf("no word that a %s is free", r.names.Kind.Name)
	}
	r.turns.unlocked()
	for _, e := range r.members {
		e.news()
	}
	return nil
}

// receiveTurn takes the word that a turn begins. The caller holds the hub's mutex.
func (r *room) receiveTurn(message string) error {
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
	case g.Tokens.First == 0 && phase == earWaits: // nudged, or deposed before it knew of its grant
		e.hints.Nudged = true
		e.wake.Poke()
		if !g.Nudge {
			e.depose() // the grant may be on its way
		}
	case g.Nudge:
	case g.Tokens.First == 0:
		e.depose()
	case phase == earWaits:
		e.granted(g.Tokens)
	case phase == earReleases:
		// It may have been granted after the release ran: the release is not the last word.
		e.regranted.Store(true)
	}
	return e
}
