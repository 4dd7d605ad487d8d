package hub

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/relock-go/relock/internal/wire"
)

// Message handles one message. It runs in the goroutine that reads the connection, and never
// blocks.
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

// skip counts a message that means nothing, and reports the first, the 101st and so on to the user.
func (h *Hub) skip(channel, message string, why error) {
	if n := h.skipped.Add(1); n%100 == 1 {
		h.Impaired(fmt.Errorf("skipped a message on channel %q, %d so far: %q: %w",
			channel, n, message[:min(len(message), 64)], why))
	}
}

// receive handles a message on one of a lock's two channels.
func (h *Hub) receive(channel, message string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	sub := h.subs[channel]
	switch {
	case sub == nil:
		return nil // it was ended meanwhile
	case channel == sub.names.Listen:
		return sub.turns.receive(message)
	case !sub.names.Kind.Channel.Frees(message):
		return sub.sharers(message)
	}
	sub.turns.unlocked()
	for _, e := range sub.ears {
		if !sub.names.Kind.Permits || e.phase.Load() == earWaits { // free permits say nothing of those that are held
			e.news()
		}
	}
	return nil
}

// sharers handles a message for the waiters of one owner.
func (sub *subscription) sharers(message string) error {
	if n, err := strconv.ParseUint(message, 10, 49); err != nil || n < 2 || message[0] == '0' {
		return fmt.Errorf("no word that a %s is free", sub.names.Kind.Name)
	}
	for _, e := range sub.ears {
		if e.code == message && e.phase.Load() == earWaits {
			e.news()
		}
	}
	return nil
}

// receiveGrant handles a message on an inbox.
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

// deliver passes a message to the ear of the entry that it names, and returns the ear. It returns nil
// if the entry is over, and so has no ear, or waits for another lock. A message is one of four:
//
//   - a grant, which has tokens;
//   - a nudge: a waiter is to ask Redis again;
//   - that the entry was deposed: the lock was forced open. A waiter may have lost its place in the queue;
//   - that another entry wants the lock. The caller of deliver passes that on, without the hub's mutex,
//     since an observer hears of it.
func (h *Hub) deliver(g wire.Grant) *Ear {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.ears[g.ID]
	if e == nil || e.entry.Names.Lock != g.Name {
		return nil
	}
	phase := e.phase.Load()
	switch {
	case g.Wanted && g.Tokens.First == 0: // for the caller
	case g.Nudge && phase == earWaits:
		e.hints.Nudged = true
		e.wake.Poke()
	case g.Tokens.First == 0 && phase == earWaits:
		e.grant, e.hints.Look, e.hints.Deposed = wire.Tokens{}, true, true
		e.wake.Poke()
		e.depose() // the answer that grants it may be on its way
	case g.Nudge: // for waiters only
	case g.Tokens.First == 0:
		e.depose()
	case phase == earWaits:
		e.granted(g.Tokens)
	case phase == earReleases:
		// Redis may have granted the lock after the release ran: then the entry must be ended again.
		e.regranted.Store(true)
	}
	return e
}
