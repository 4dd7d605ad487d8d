package quorum

import (
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// yield is what a vote is to do with what the entry has, or had, at the node. A sharer that gave
// the lock back there stays out of the owner's hold until that may be one of a quorum: else two
// sharers, each with too few nodes, would go in by turns, and no node would ever be free.
func (t *contest) yield(v *voter) int64 {
	switch {
	case v.yield > 0 || !v.gave || v.Entry.Owner == "":
		return v.yield
	case t.among():
		return wire.Again
	}
	return wire.Apart
}

// among reports whether the entry's owner may have a quorum, as the last votes told.
func (t *contest) among() bool {
	n := 0
	for _, v := range t.voters {
		if v.err == nil && v.holder == v.Entry.Owner {
			n++
		}
	}
	return n >= t.q.need
}

// rejoin has all nodes that are lacking asked in one round, where the owner may have a quorum by now
// and one of those is to be asked that the entry stays out of, or has left: one by one they would be
// given back to a lower ticket, each before the next is had.
func (t *contest) rejoin(now clock.Stamp) {
	if t.claim.Entry.Owner == "" || !t.among() {
		return
	}
	asks := false
	for _, v := range t.voters {
		asks = asks || v.gave && v.Belief.Number == 0 && !v.pending && (v.apart || v.due.Reached(now))
	}
	for _, v := range t.voters {
		if asks && v.Belief.Number == 0 && v.yield == 0 {
			v.due, v.look, v.apart = now, v.pending, false
		}
	}
}
