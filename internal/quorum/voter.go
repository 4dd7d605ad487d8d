package quorum

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// voter is one entry's claim at one member, and the state of its votes there. One goroutine at a
// time touches it: the one that contends, releases or abandons. Renewals run beside it, and touch
// only the atomic fields and fields that never change.
//
// Its votes are in one of four phases. An answer ends the vote that is out, and sets when the next
// one is due; a failure puts the next one off.
//
//	           call     news       sent    answered           failed
//	resting    called   due now    out
//	called     called   due now    out
//	voting              overtaken          resting            resting
//	overtaken           overtaken          resting, due now   resting
//
// lastYield, what became of the last grant that was given back, changes so:
//
//	                                  noYield    regranted   gaveBack   staysOut
//	new grant, in answer to a yield   regranted  regranted   regranted  regranted
//	new grant, in another answer      noYield    regranted   noYield    noYield
//	the yield is confirmed            gaveBack   gaveBack    gaveBack   gaveBack
//	the node is not ours              noYield    noYield     gaveBack   gaveBack
//	not ours, and vote stays out      noYield    noYield     staysOut   staysOut
//	the grant ends or is replaced*    noYield    noYield     gaveBack   staysOut
//	its owner may hold the lock       noYield    regranted   gaveBack   gaveBack
//
//	*  without an answer to a vote: it is to be given back, or is not confirmed, or a message tells
//	   that it was taken away, or tells of a newer grant.
type voter struct {
	node.Claim
	member  *member
	contest *contest

	// The grant at the node, beside what Belief knows of it.
	yield          int64         // number of the grant to give back with the next vote, 0 for none
	lastYield      lastYield     // what became of the last grant that was given back
	counted        int64         // how far the node is known to have counted, under the believed grant
	writingBack    bool          // a write-back is unanswered
	writeBackPause clock.Backoff // between write-backs that the node did not confirm

	// The last vote, its answer, and the next vote.
	phase      phase
	voteDone   chan struct{} // closed once the last vote is over; nil if there was none
	askedAt    clock.Stamp   // when the last vote was sent, zero for never
	votePause  clock.Backoff // between votes that were refused or not answered
	due        clock.Stamp   // when to vote next
	err        error         // of the last vote
	deaf       error         // why no message can tell of a grant there; set by hopeless
	answeredAt clock.Stamp   // when the last answered vote was sent, zero for none
	lowest     int64         // the lowest ticket of owner and queue by the last answer; 0 for none
	holder     string        // of the lock there, as the last vote said, "" for none
	ttl        time.Duration // what was left of the holder's lease
	refusals   int           // answers that the node is not ours

	// A node that forgot how far the lock was counted.
	forgotBorn  string      // the incarnation that forgot how far it counted, "" for none
	forgotAt    clock.Stamp // when that was first heard
	seed        seed        // what it was told since its last answer, or will be with the next vote
	timesSeeded int         // how many seeds were planned for that incarnation

	// missingSince is when the renewal that first found the lock lost there was sent. It is nil while
	// the lock is not known to be lost. Renewals read and write it in their own goroutines.
	missingSince atomic.Pointer[clock.Stamp]

	// yielded is when the last vote that gives a grant back was answered. It is yieldIsOut while that
	// vote is out, and nil if no such vote was sent since the believed grant came.
	yielded atomic.Pointer[clock.Stamp]
}

// phase is where a voter's votes are.
type phase uint8

const (
	resting   phase = iota // no vote is out, and the next one waits until it is due
	called                 // no vote is out; for a node that forgot, the next one is sent at once, by a try too
	voting                 // a vote is out
	overtaken              // a vote is out, and may have run before the latest news
)

// lastYield is what became of the last grant that was given back. In gaveBack and staysOut, the node
// has not answered with a grant since.
type lastYield uint8

const (
	noYield   lastYield = iota // nothing that matters now
	regranted                  // the node granted to us again: it knew no lower ticket
	gaveBack                   // the node took it back
	staysOut                   // as gaveBack, and the last vote kept out of the owner's hold (see yieldAt)
)

// yieldIsOut is the value of yielded while a vote that gives the grant back may still run.
var yieldIsOut = clock.Never()

// confirms reports whether the answer of a node, asked at sent, that it keeps the lock counts. It
// does not while a vote that gives the grant back may still run: a contender may have sent such a
// vote before it got its quorum from other nodes. Until the vote runs, the node keeps the lock, and
// says so. Then the lock goes to another contender, or is ours for another lease.
func (v *voter) confirms(sent clock.Stamp) bool {
	answered := v.yielded.Load()
	return answered == nil || answered.Before(sent)
}

// errYielding says why a node's answer does not count (see confirms).
var errYielding = errors.New("it may still give back what it was granted for")

// beginVote notes that a vote is about to be sent: belief in a grant counts from here. The caller
// closes the returned channel when the vote is over.
func (v *voter) beginVote(now clock.Stamp) chan struct{} {
	v.Belief.Begin(now)
	v.phase, v.askedAt, v.voteDone = voting, now, make(chan struct{})
	return v.voteDone
}

// pending reports whether a vote is unanswered.
func (v *voter) pending() bool { return v.phase >= voting }

// news makes the next vote due now: a vote that is out may have run before the news.
func (v *voter) news(now clock.Stamp) {
	if v.due = now; v.pending() {
		v.phase = overtaken
	}
}

// voteOver reports whether no vote is out.
func (v *voter) voteOver() bool {
	if v.voteDone == nil {
		return true
	}
	select {
	case <-v.voteDone:
		return true
	default:
		return false
	}
}

// awaitVote prepares the end of the claim. It waits a little for a vote that is out: a release that
// overtakes the vote finds nothing to release, and the vote then takes the lock. A vote that stays
// out may still run after the release.
func (v *voter) awaitVote(voteTimeout time.Duration) {
	if !v.voteOver() {
		late := time.NewTimer(v.askedAt.Add(voteTimeout).Until(clock.Now()))
		defer late.Stop()
		select {
		case <-v.voteDone:
		case <-late.C:
		}
	}
	v.Ending(!v.voteOver())
}

// owns reports whether the voter's grant is believed at now. Belief ends with the lease.
func (v *voter) owns(now clock.Stamp) bool { return v.Belief.Owns(v.Entry, now) }

// noteGrant updates the voter if the believed grant is new; before is the number of the grant that
// was believed until now. The node has counted to the end of the new grant's block.
func (v *voter) noteGrant(before int64) {
	if b := &v.Belief; b.Number != before {
		v.yielded.Store(nil) // a vote that comes late names another grant
		v.counted = b.Number + int64(b.Count) - 1
	}
}

// noteYield notes what an answer tells of the grant that was given back. above says that a grant in
// the answer is new.
func (v *voter) noteYield(got *vote, above bool) {
	switch {
	case got.Mine && above && v.yield > 0:
		v.lastYield, v.yield = regranted, 0
	case got.Mine && above:
		if v.lastYield != regranted {
			v.lastYield = noYield
		}
	case !got.Mine && v.yield > 0 && v.yield == got.yield: // else another yield is still to be sent
		v.lastYield, v.yield = gaveBack, 0
	case !got.Mine:
		v.endRegrant()
	}
	if v.lastYield >= gaveBack {
		v.lastYield = gaveBack
		if got.yield == wire.Apart {
			v.lastYield = staysOut
		}
	}
}

// endRegrant notes that the believed grant ends, or that a message tells of a newer one.
func (v *voter) endRegrant() {
	if v.lastYield == regranted {
		v.lastYield = noYield
	}
}

// yieldGrant marks the voter's grant to be given back. From here on the grant is not believed,
// whatever becomes of the vote: the node may grant to another as soon as it has the vote.
func (v *voter) yieldGrant(now clock.Stamp) {
	v.yield = v.Belief.Number
	v.drop()
	v.due = now
}

// drop ends belief in the voter's grant for good.
func (v *voter) drop() {
	v.Belief.Drop()
	v.endRegrant()
}

// disown ends belief in the voter's grant, which the node does not confirm. Unlike drop it leaves
// the counter: a vote that confirms the grant makes it believed again.
func (v *voter) disown() {
	v.Belief.Number = 0
	v.endRegrant()
}

// putOff sets when to ask a node again that did not answer, or refused: after pause, and not before
// the time that the node named.
func (v *voter) putOff(err error, pause time.Duration, now clock.Stamp) {
	// A third of a lease is the most: the node's clock may have been set right since, and each vote
	// renews our place in its queue.
	v.due = now.Add(max(pause, min(wire.RefusalOf(err).Left, v.Entry.Lease/3)))
}
