package quorum

import (
	"cmp"
	"slices"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// writeBack is the answer to one write-back.
type writeBack struct {
	voter   *voter
	number  int64 // the grant under which it was sent
	reached int64 // the value that the node's fencing counter was to reach
	held    bool  // the node still kept the lock for us
	err     error
}

// win returns the grant once a quorum of nodes is ours and its token is safe.
//
// The token is the smallest number with a quorum of believed grants at or below it. It is above every
// token that was given out before: the quorum that had counted an earlier token shares a node with
// these grants. That node had counted the earlier token when it granted, so its grant is above it.
//
// So that the next token is above ours, ours is not given out before a quorum of nodes has counted
// to the end of its block. A node that is behind is written the counter, only while the node is ours.
// The answers come into writeBacks.
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
	count := t.claim.Entry.Block // at most; the shortest grant decides
	for _, v := range ours {
		count = min(count, v.Belief.Count)
	}
	reached := token + int64(count) - 1
	if !t.quorumCounted(ours, reached) {
		return node.Grant{}, false
	}
	t.seedRest(reached)
	// All nodes learn the counter with the release: the next grants then need no write-back.
	for _, v := range t.voters {
		v.Count.Reached = reached
		v.Ear().Granted(wire.Tokens{First: v.Belief.Number, Count: count})
	}
	// The lease counts from the need-th youngest grant: a quorum of them lasts for at least as
	// long.
	slices.SortFunc(ours, func(a, b *voter) int { return byAge(a, b, now) })
	sent := ours[t.q.need-1].Belief.Sent
	// No entry waited if every node that is ours granted in answer to its first vote.
	fresh := !t.requeued && !slices.ContainsFunc(ours, func(v *voter) bool { return !v.Belief.Fresh })
	return node.Grant{Token: token, Passes: count, Sent: sent, Fresh: fresh}, true
}

// byNumber orders grants by their number.
func byNumber(a, b *voter) int { return cmp.Compare(a.Belief.Number, b.Belief.Number) }

// byAge orders grants by how long they have been believed, the youngest first. Two stamps alone
// have no order, since each has two clocks: so their ages at now are compared.
func byAge(a, b *voter, now clock.Stamp) int {
	return cmp.Compare(now.Since(a.Belief.Sent), now.Since(b.Belief.Sent))
}

// quorumCounted reports whether a quorum of nodes has raised its counter to reached. It looks only
// at ours, the nodes whose grant to this entry is believed: other nodes' counters are not known.
// Without a quorum, it sends reached to each of ours that is behind.
func (t *contest) quorumCounted(ours []*voter, reached int64) bool {
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
		if v.counted < reached && !v.writingBack {
			t.sendWriteBack(v, reached)
		}
	}
	return false
}

// sendWriteBack writes reached back to one node. It runs under the client's context, not the
// caller's: a caller that gives up must not look like a node that failed. A voter has one write-back
// out at a time, so there is a slot for the answer.
func (t *contest) sendWriteBack(v *voter, reached int64) {
	v.writingBack = true
	r := writeBack{voter: v, number: v.Belief.Number, reached: reached}
	t.q.crew.Start(func() {
		r.held, r.err = v.Raise(t.q.ctx, reached)
		t.writeBacks <- r
	})
}

// takeWriteBack takes the answer to a write-back. A node that did not confirm it has to vote again
// before the node counts. That vote is put off further each time.
func (t *contest) takeWriteBack(r writeBack) {
	v, now := r.voter, clock.Now()
	v.writingBack = false
	switch {
	case v.Belief.Number != r.number: // the grant was given back or lost since
	case r.err != nil:
		v.disown() // the grant may still stand: a vote that confirms it makes it count again
		v.err = r.err
		v.putOff(r.err, v.writeBackPause.Next(), now)
	case !r.held:
		v.drop() // the grant is over: a message about it that comes late must not be believed
		v.due = now.Add(v.writeBackPause.Next())
	default:
		v.counted = max(v.counted, r.reached)
		v.writeBackPause.Reset()
	}
}
