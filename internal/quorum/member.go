package quorum

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// member is one of the masters.
type member struct {
	*node.Node
	index int // from 1, as errors name it

	checking chan struct{} // one slot: one check at a time
	identity atomic.Pointer[identity]
	clock    atomic.Pointer[reading] // nil until first read
	clockOff atomic.Bool             // its clock was too far off when last looked at
}

// voter is one entry's claim at one member, and the state of its votes there. One goroutine at a
// time touches it: the one that contends, releases or abandons. Renewals run beside it, and touch
// only missingSince and what is fixed.
type voter struct {
	node.Claim
	member  *member
	contest *contest

	// The grant at the node, beside what Belief knows of it.
	regranted      bool          // the node granted us again after a yield: it knew no lower ticket
	counted        int64         // how far the node has counted, as is known under the believed grant
	writingBack    bool          // a write-back is unanswered
	writeBackPause clock.Backoff // between write-backs that the node did not confirm
	yield          int64         // grant to give back with the next vote
	gaveBack       bool          // a grant was given back there, and none was got since
	staysOut       bool          // for that, the last vote kept out of the owner's hold (see yieldAt)

	// The last vote, what it answered, and the next.
	pending    bool          // a vote is unanswered
	voteDone   chan struct{} // closed once the last vote is over; nil if there was none
	askedAt    clock.Stamp   // when the last vote was sent, zero for never
	votePause  clock.Backoff // between votes that were refused or not answered
	due        clock.Stamp   // when to vote next
	voteNow    bool          // vote at once: to tell a node that forgot, or to learn a counter
	voteAgain  bool          // news came while a vote was out, and the vote may have missed it
	err        error         // of the last vote
	deaf       error         // why no message can tell of a grant there; set by hopeless
	answeredAt clock.Stamp   // when the last answered vote was sent, zero for none
	lowest     int64         // the lowest ticket of owner and queue by the last answer; 0 for none
	holder     string        // of the lock there, as the last vote said, "" for none
	ttl        time.Duration // of its lease
	refusals   int           // answers that the node is not ours

	// A node that forgot how far the lock was counted.
	forgotBorn  string      // the incarnation that forgot how far it counted, "" for none
	forgotAt    clock.Stamp // when that was first heard
	seeded      bool        // it was told the counter since, or will be with the next vote
	timesSeeded int         // how often that incarnation was told, or was to be
	seedValue   int64       // the counter that it is told

	// missingSince is when the renewal was sent that first found the lock lost there. It is nil
	// while the lock is not known to be lost. Renewals read and write it in their own goroutines.
	missingSince atomic.Pointer[clock.Stamp]

	// yielded is when the last vote was answered that gives the grant back. It is clock.Never()
	// while that vote is out, and nil if there was none since the grant that is believed.
	yielded atomic.Pointer[clock.Stamp]
}

// yieldIsOut is what yielded is while a vote that gives the grant back may still run.
var yieldIsOut = clock.Never()

// confirms reports whether to count a node's answer that it keeps the lock; it was asked at sent.
// The answer does not count while a vote may still run that gives the grant back. A contender may
// have sent such a vote before it got its quorum elsewhere. Until the vote runs the node keeps the
// lock, and says so. Then the lock goes to another contender, or is ours for another lease.
func (v *voter) confirms(sent clock.Stamp) bool {
	answered := v.yielded.Load()
	return answered == nil || answered.Before(sent)
}

// errYielding is why the answer of a node does not count.
var errYielding = errors.New("it may still give back what it was granted for")

// beginVote notes that a vote is about to be sent: belief in a grant counts from here. The caller
// closes what it returns when the vote is over.
func (v *voter) beginVote(now clock.Stamp) chan struct{} {
	v.Belief.Begin(now)
	v.pending, v.askedAt, v.voteDone = true, now, make(chan struct{})
	return v.voteDone
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

// noteGrant notes what the believed grant tells, if it is new: before is the number that was
// believed until now. The node has counted to the end of the new grant's block.
func (v *voter) noteGrant(before int64) {
	if b := &v.Belief; b.Number != before {
		v.yielded.Store(nil) // a vote that comes late names another grant
		v.counted = b.Number + int64(b.Count) - 1
	}
}

// yieldGrant marks the voter's grant to be given back. It is not believed from here on, whatever
// becomes of the message: the node may grant to another as soon as it has it.
func (v *voter) yieldGrant(now clock.Stamp) {
	v.yield = v.Belief.Number
	v.Belief.Drop()
	v.regranted, v.due = false, now
}

// disown ends belief in the voter's grant, which the node does not confirm. Unlike Drop it leaves
// the counter: a vote that confirms the grant makes it believed again.
func (v *voter) disown() { v.Belief.Number, v.regranted = 0, false }

// putOff sets when to ask a node again that did not answer, or refused: after pause, and not before
// the time that it said itself.
func (v *voter) putOff(err error, pause time.Duration, now clock.Stamp) {
	// A third of a lease is the most. The clock that the node told its time by may be set right
	// since, and each vote renews our place in its queue.
	v.due = now.Add(max(pause, min(wire.RefusalOf(err).Left, v.Entry.Lease/3)))
}
