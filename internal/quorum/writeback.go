package quorum

import (
	"cmp"
	"slices"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// raised is the answer to one write-back.
type raised struct {
	voter   *voter
	number  int64 // the grant under which it was sent
	reached int64 // what the node's fencing counter was to reach
	held    bool  // the node still kept the lock for us
	err     error
}

// win returns the grant once a quorum of nodes is ours and its token is safe: the smallest number
// that a quorum of believed grants reaches, once a quorum of nodes has counted so far. Where that
// is missing it is written back, to each node only while it is still ours; the answers come as
// messages.
func (t *contest) win() (node.Grant, bool) {
	now := clock.Now()
	var ours []*voter
	for _, v := range t.voters {
		if v.owns(now) {
			ours = append(ours, v)
		}
	}
	if len(ours) < t.q.need {
		return node.Grant{}, false
	}
	slices.SortFunc(ours, byNumber)
	token := ours[t.q.need-1].Belief.Number
	count := t.claim.Entry.Block
	for _, v := range ours {
		count = min(count, v.Belief.Count)
	}
	reached := token + int64(count) - 1
	if !t.counted(ours, reached) {
		return node.Grant{}, false
	}
	t.remind(reached)
	for _, v := range t.voters {
		v.Count.Reached = reached
		v.Ear().Granted(wire.Tokens{First: v.Belief.Number, Count: count})
	}
	slices.SortFunc(ours, func(a, b *voter) int { return byAge(a, b, now) })
	return node.Grant{Token: token, Passes: count, Sent: ours[t.q.need-1].Belief.Sent, Fresh: t.fresh(ours)}, true
}

// fresh reports whether nobody waited when the lock was asked for: all that are ours were granted in
// answer to their first vote.
func (t *contest) fresh(ours []*voter) bool {
	return !t.requeued && !slices.ContainsFunc(ours, func(v *voter) bool { return !v.Belief.Fresh })
}

// byNumber orders grants by their number.
func byNumber(a, b *voter) int { return cmp.Compare(a.Belief.Number, b.Belief.Number) }

// byAge orders grants by how long they have been believed, the youngest first.
func byAge(a, b *voter, now clock.Stamp) int {
	return cmp.Compare(now.Since(a.Belief.Sent), now.Since(b.Belief.Sent))
}

// counted reports whether a quorum of the nodes that are ours has counted as far as reached. The
// others are asked to.
func (t *contest) counted(ours []*voter, reached int64) bool {
	n := 0
	for _, v := range ours {
		if v.counted >= reached {
			n++
		}
	}
	if n >= t.q.need {
		return true
	}
	for _, v := range ours {
		if v.counted < reached && !v.raising {
			t.raise(v, reached)
		}
	}
	return false
}

// raise writes reached back to one node. That has the node's time: the caller's end is no failure
// of the node.
func (t *contest) raise(v *voter, reached int64) {
	v.raising = true
	r := raised{voter: v, number: v.Belief.Number, reached: reached}
	t.q.crew.Start(func() {
		r.held, r.err = v.member.Wire.Raise(t.q.ctx, v.Entry, reached)
		t.raised <- r
	})
}

// note takes the answer to a write-back. A node that did not confirm it has to vote again before it
// counts, which is put off further each time.
func (t *contest) note(r raised) {
	v, now := r.voter, clock.Now()
	v.raising = false
	switch {
	case v.Belief.Number != r.number: // given back or lost since
	case r.err != nil:
		v.disown()
		v.err = r.err
		v.putOff(r.err, v.amiss.Next(), now)
	case !r.held:
		v.Belief.Drop()
		v.kept = false
		v.due = now.Add(v.amiss.Next())
	default:
		v.counted = max(v.counted, r.reached)
		v.amiss.Reset()
	}
}
