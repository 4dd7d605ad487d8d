package relock

import (
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/pool"
)

// severally is the manner of a lock that several owners may hold at once, each with a hold of its own.
// The holder leaves the gate, so that the next goroutine may get the lock beside it. That goroutine is
// this process's contender at Redis. The holder passes its hold on past it, to the goroutines that wait
// behind: so most of them need no command, and the contender waits for one of the holds to reach the
// bounds of WithLocalHandoff at most.
type severally struct{ exclusively }

func (severally) keepsGate() bool { return false }

// nests is false: an Acquire under a permit's context takes more.
func (severally) nests() bool { return false }

// reserved is what the entry asks for: there are no tokens that could be used up.
func (severally) reserved(c *config, _ int) int { return c.block() }

// nextToken is 0: the holders have no order.
func (s severally) nextToken(h *hold) int64 {
	s.exclusively.nextToken(h)
	return 0
}

// passOn gives the hold to the next local waiter behind the gate. If none waits there, it lays down a
// hold that may linger.
func (s severally) passOn(h *hold, now clock.Stamp) bool {
	lingers := s.mayRest(h, now)
	if !lingers && !s.mayPass(h, now) {
		return false
	}
	if !h.cfg.strict && s.passBeside(h, now) {
		return true
	}
	if !lingers || !h.mayLinger() {
		return false
	}
	h.layDown()
	h.pool.Add(h, h.entry.Amount)
	h.schedule(now)
	return true
}

// passBeside gives the hold to a goroutine that waits behind the one at the gate, or after a short hold to
// one that comes first. It returns false if none waits there.
func (severally) passBeside(h *hold, now clock.Stamp) bool {
	if now.Since(h.term.Began()) <= gate.Soon {
		return h.k.gates.OfferBeside(h.gate, h, now.Mono())
	}
	return h.k.gates.PassBeside(h.gate, h)
}

// withdraw takes an idle hold out of the pool.
func (severally) withdraw(h *hold) {
	if h.rest.Idle {
		h.pool.Remove(h)
	}
}

// atHand returns an idle hold of that amount for a caller, nil if there is none.
func (s severally) atHand(n *known, amount int) *hold {
	for {
		h := n.pool.Take(amount)
		if h == nil || h.resume(clock.Now()) {
			return h
		}
	}
}

// spare picks up all idle holds, for a caller that asks Redis for another amount.
func (s severally) spare(n *known) (spare []*hold) {
	for h := n.pool.Take(pool.Any); h != nil; h = n.pool.Take(pool.Any) {
		if h.resume(clock.Now()) {
			spare = append(spare, h)
		}
	}
	return spare
}
