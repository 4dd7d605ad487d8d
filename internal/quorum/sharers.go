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

// rejoin has the voters that stayed out of the owner's hold vote at once, where it may be one of a
// quorum by now.
func (t *contest) rejoin(now clock.Stamp) {
	for _, v := range t.voters {
		if v.apart && v.Belief.Number == 0 && t.among() {
			v.due, v.look, v.apart = now, v.pending, false
		}
	}
}
