package relock

import (
	"cmp"
	"slices"

	"github.com/relock-go/relock/internal/clock"
)

// raised is the answer to one write-back.
type raised struct {
	leg     *leg
	own     int64 // the grant under which it was sent
	reached int64 // what the node's fencing counter was to reach
	held    bool  // the node still kept the lock for us
	err     error
}

// win returns the grant once a quorum of nodes is ours and its token is safe: the smallest number that a quorum of
// believed grants reaches, once a quorum of nodes has counted so far. Where that is missing it is written back, to each
// node only while it is still ours; the answers come as messages.
func (e *election) win() (grant, bool) {
	now := clock.Now()
	var ours []*leg
	for _, l := range e.legs {
		if l.owns(now) {
			ours = append(ours, l)
		}
	}
	if len(ours) < e.q.need {
		return grant{}, false
	}
	slices.SortFunc(ours, byNumber)
	token := ours[e.q.need-1].own
	count := e.a.block
	for _, l := range ours {
		count = min(count, l.count)
	}
	reached := token + int64(count) - 1
	if !e.counted(ours, reached) {
		return grant{}, false
	}
	e.a.reached = reached
	e.remind(reached)
	for _, l := range e.legs {
		l.reached = reached
		l.seat.hub.hold(l.acquisition, tokens{l.own, count})
	}
	e.a.passes = count
	slices.SortFunc(ours, func(a, b *leg) int { return byAge(a, b, now) })
	return grant{token: token, sent: ours[e.q.need-1].sent}, true
}

// byNumber orders grants by their number.
func byNumber(a, b *leg) int { return cmp.Compare(a.own, b.own) }

// byAge orders grants by how long they have been believed, the youngest first.
func byAge(a, b *leg, now clock.Stamp) int { return cmp.Compare(now.Since(a.sent), now.Since(b.sent)) }

// counted reports whether a quorum of the nodes that are ours has counted as far as reached. The others are asked to.
func (e *election) counted(ours []*leg, reached int64) bool {
	n := 0
	for _, l := range ours {
		if l.counted >= reached {
			n++
		}
	}
	if n >= e.q.need {
		return true
	}
	for _, l := range ours {
		if l.counted < reached && !l.raising {
			e.raise(l, reached)
		}
	}
	return false
}

// raise writes reached back to one node. That has the node's time: the caller's end is no failure of the node.
func (e *election) raise(l *leg, reached int64) {
	l.raising = true
	r := raised{leg: l, own: l.own, reached: reached}
	e.q.crew.start(func() {
		r.held, r.err = l.seat.ballots.fence(e.q.ctx, &l.names, l.id, reached)
		e.raised <- r
	})
}

// note takes the answer to a write-back. A node that did not confirm it has to vote again before it counts, which is put
// off further each time.
func (e *election) note(r raised) {
	l, now := r.leg, clock.Now()
	l.raising = false
	switch {
	case l.own != r.own: // given back or lost since
	case r.err != nil:
		l.own, l.kept, l.err = 0, false, r.err
		l.putOff(r.err, l.amiss.next(), now)
	case !r.held:
		l.counter = max(l.counter, l.own)
		l.own, l.kept = 0, false
		l.due = now.Add(l.amiss.next())
	default:
		l.counted = max(l.counted, r.reached)
		l.amiss.reset()
	}
}
