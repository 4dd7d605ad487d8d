package relock

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// receive handles one message. It runs in the connection's reader and never blocks.
func (h *hub) receive(channel, message string) {
	var err error
	if strings.HasPrefix(channel, inboxPrefix) {
		err = h.receiveGrant(message)
	} else if tag, found := strings.CutPrefix(channel, listenPrefix); found {
		err = h.receiveTurn(unlockPrefix+tag, message)
	} else {
		err = h.receiveUnlock(channel, message)
	}
	if err != nil {
		h.skip(channel, message, err)
	}
}

// skip counts a message that means nothing, and logs the first and every hundredth.
func (h *hub) skip(channel, message string, why error) {
	if n := h.skipped.Add(1); n%100 == 1 {
		h.log.Warn("relock: skipped a message", "channel", channel, "message", message[:min(len(message), 64)],
			"reason", why, "skipped", n)
	}
}

func (h *hub) receiveUnlock(channel, message string) error {
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
	for _, a := range r.members {
		a.news()
	}
	return nil
}

func (h *hub) receiveTurn(channel, message string) error {
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

func (h *hub) receiveGrant(message string) error {
	g, err := parseGrant(message)
	if err != nil {
		return err
	}
	h.mu.Lock()
	a := h.acqs[g.id]
	var deposed *hold
	switch {
	case a == nil:
	case g.token == 0 && a.phase == waiting:
		a.hints.nudged = true
		a.poke()
	case g.token == 0 && g.lease == 0:
		deposed = a.hold
	case g.token == 0:
	case a.phase == waiting:
		if g.token > a.grant.first {
			a.grant = tokens{g.token, g.count}
		}
		a.poke()
	case a.phase == releasing:
		// It may have been granted after the release ran: the release is not the last word.
		a.regranted.Store(true)
	}
	h.mu.Unlock()
	if deposed != nil {
		deposed.doubt()
	} else if a == nil && g.token > 0 && strings.HasPrefix(g.id, h.client) {
		h.orphan(g)
	}
	return nil
}

// grantMessage tells a client that one of its acquisitions owns the lock; with token 0 that it no longer does, or with
// token 0 and lease 1, on a node of a quorum, that somebody with a lower ticket asks for it.
type grantMessage struct {
	token int64
	count int   // how many tokens from that on, 0 for the whole block
	lease int64 // milliseconds
	id    string
	owner string
	name  string
}

// parseGrant reads "<token>[:<how many>] <lease> <id> <length of owner> <owner><name>".
func parseGrant(s string) (g grantMessage, err error) {
	parts := strings.SplitN(s, " ", 5)
	if len(parts) != 5 {
		return g, fmt.Errorf("grant of %d parts", len(parts))
	}
	token, count, told := strings.Cut(parts[0], ":")
	if g.token, err = strconv.ParseInt(token, 10, 64); err != nil {
		return g, err
	}
	if told {
		if g.count, err = strconv.Atoi(count); err != nil {
			return g, err
		}
	}
	if g.lease, err = strconv.ParseInt(parts[1], 10, 64); err != nil {
		return g, err
	}
	length, err := strconv.Atoi(parts[3])
	if err != nil {
		return g, err
	}
	rest := parts[4]
	if length < 0 || length >= len(rest) || g.token < 0 || told && g.count < 1 || g.lease < 0 || g.lease > MaxLease.Milliseconds() {
		return g, fmt.Errorf("grant out of range")
	}
	g.id, g.owner, g.name = parts[2], rest[:length], rest[length:]
	return g, nil
}
