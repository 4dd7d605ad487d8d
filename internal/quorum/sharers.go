package quorum

import (
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// yieldAt returns the Yield of the next ballot at a node: the number of the grant to give back, 0 for
// none, or for a sharer Apart or Again.
//
// A sharer that gave the lock back at a node stays out of the owner's hold there until that hold
// may be one of a quorum. Otherwise two sharers, each with too few nodes, would enter by turns, and
// no node would ever be free.
func (t *contest) yieldAt(v *voter) int64 {
	switch {
	case v.yield > 0 || v.lastYield < gaveBack || v.Entry.Owner == "":
		return v.yield
	case t.ownerMayHold():
		return wire.Again
	}
	return wire.Apart
}

// ownerMayHold reports whether the entry's owner may have a quorum, by the last answers. These may be
// out of date: a vote that enters the owner's hold finds out.
func (t *contest) ownerMayHold() bool {
	return t.count(func(v *voter) bool { return v.err == nil && v.holder == v.Entry.Owner }) >= t.q.need
}

// rejoin makes all nodes that a sharer lacks due in one round. It does so if the owner may have a
// quorum, and the sharer is about to ask again a node that it gave back. If the nodes were asked one
// by one, each would be given back to a lower ticket before the next is won.
func (t *contest) rejoin(now clock.Stamp) {
	if t.claim.Entry.Owner == "" || !t.ownerMayHold() {
		return
	}
	asks := false // one of the lacking nodes is due now
	for _, v := range t.voters {
		again := v.lastYield == staysOut || v.lastYield == gaveBack && v.due.Reached(now)
		asks = asks || again && v.Belief.Number == 0 && !v.pending()
	}
	for _, v := range t.voters {
		if asks && v.Belief.Number == 0 && v.yield == 0 {
			v.news(now)
			if v.lastYield == staysOut {
				v.lastYield = gaveBack
			}
		}
	}
}
