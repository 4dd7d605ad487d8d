package quorum

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// member is one of the masters.
type member struct {
	*node.Node
	index int // from 1, as errors name it

	checking chan struct{} // one slot: one check at a time
	who      atomic.Pointer[identity]
	clock    atomic.Pointer[reading] // nil until it was read
	astray   atomic.Bool             // its clock was too far off when last looked at
}

func newMember(index int, rdb driver.Redis, cfg Config) *member {
	longest := cfg.Longest
	if !cfg.Guard {
		longest = 0
	}
	var presence func(error)
	if cfg.Presence != nil {
		presence = cfg.Presence(index)
	}
	return &member{
		index: index, checking: make(chan struct{}, 1),
		Node: node.New(rdb, node.Config{
			Client: cfg.Client, Timeout: cfg.Timeout, Retention: cfg.Retention, Votes: true, Longest: longest,
			Impaired: func(cause error) { cfg.Impaired(index, cause) }, Presence: presence,
		}),
	}
}

// voter is one entry's claim at one member, and how that votes. It is touched by the goroutine that
// contends, releases or abandons, one at a time.
type voter struct {
	node.Claim
	member  *member
	contest *contest

	kept    bool          // a yield left the grant with us: nobody lower was alive there
	counted int64         // the node's fencing counter is known to have got so far under the grant that is believed
	raising bool          // a write-back is unanswered
	amiss   clock.Backoff // between write-backs that the node did not confirm
	failing clock.Backoff // between votes that were refused or not answered
	low     int64         // lowest ticket heard of there
	yield   int64         // grant to give back with the next vote
	gave    bool          // a grant was given back there, and none was had since
	apart   bool          // the last vote stayed out of the owner's hold for that
	pending bool          // a vote is unanswered
	answer  chan struct{} // closed once the last vote was answered, nil for never asked
	asked   clock.Stamp   // when the last vote was sent, zero for never
	due     clock.Stamp   // when to vote next
	anew    bool          // vote at once: a node that forgot is to be told, or of its counter
	look    bool          // news came while a vote was out, which may have missed it: vote again
	err     error         // of the last vote
	deaf    error         // why no message can tell of a grant there; set when that is asked
	told    clock.Stamp   // when the last vote was sent that was answered
	holder  string        // of the lock there, as the last vote said, "" for none
	ttl     time.Duration // of its lease

	refusals int // answers that the node is not ours

	doubter string      // the incarnation that forgot how far it counted, "" for none
	doubted clock.Stamp // when that was first heard
	seeded  bool        // it was told the counter since, or is with the next vote
	seeds   int         // how often that incarnation was
	reached int64       // what it is told

	// missing is when a renewal was sent that first found the lock lost there; nil while it is not
	// known to be. Renewals read and write it from their own goroutines.
	missing atomic.Pointer[clock.Stamp]

	// yielded is when the last vote was answered that gives the grant back, clock.Never() while that
	// is out, and nil where there was none since the grant that is believed.
	yielded atomic.Pointer[clock.Stamp]
}

// yieldIsOut is what yielded is while a vote that gives the grant back may still run.
var yieldIsOut = clock.Never()

// confirms reports whether the node's word counts that it keeps the lock, where it was asked at sent.
// It does not while a vote may still run that gives the node's grant back, which a contender sent
// before it got its quorum elsewhere: until that vote runs the node has the lock, and says so; then it
// goes to another contender, or is ours for another lease.
func (v *voter) confirms(sent clock.Stamp) bool {
	answered := v.yielded.Load()
	return answered == nil || answered.Before(sent)
}

// errYielding is why the word of a node does not count.
var errYielding = errors.New("it may still give back what it was granted for")

func newVoter(t *contest, m *member, pause clock.Backoff) *voter {
	v := &voter{member: m, contest: t, amiss: pause, failing: pause}
	v.Start(m.Node, t.claim.Entry, t.claim.wake)
	v.Belief.Counter = -1
	v.Enter()
	return v
}

// ask notes that a vote is sent. What is returned is to be closed when it was answered.
func (v *voter) ask(now clock.Stamp) chan struct{} {
	v.pending, v.asked, v.answer = true, now, make(chan struct{})
	return v.answer
}

// answered reports whether no vote is out.
func (v *voter) answered() bool {
	if v.answer == nil {
		return true
	}
	select {
	case <-v.answer:
		return true
	default:
		return false
	}
}

// settle makes the claim one that is to end. It waits a little for a vote that is out: what ends a
// claim should not overtake what began it. A vote that stays out may yet run.
func (v *voter) settle(voteTimeout time.Duration) {
	if !v.answered() {
		late := time.NewTimer(v.asked.Add(voteTimeout).Until(clock.Now()))
		defer late.Stop()
		select {
		case <-v.answer:
		case <-late.C:
		}
	}
	v.Ending(!v.answered())
}

// owns reports whether the voter's grant is believed at now.
func (v *voter) owns(now clock.Stamp) bool { return v.Belief.Owns(v.Entry, now) }

// believe takes the grant that Belief has come to.
func (v *voter) believe(before int64) {
	if b := &v.Belief; b.Number != before {
		v.yielded.Store(nil) // a vote that comes late names another grant
		v.counted = b.Number + int64(b.Count) - 1
	}
}

// give marks the voter's grant to be given back. It is not believed from here on, whatever becomes
// of the message.
func (v *voter) give(now clock.Stamp) {
	v.yield = v.Belief.Number
	v.Belief.Drop()
	v.kept, v.due = false, now
}

// disown ends belief in the voter's grant, which the node does not confirm.
func (v *voter) disown() { v.Belief.Number, v.kept = 0, false }

// putOff sets when to ask a node again that did not answer, or refused: after pause, or when it
// said that it would not.
func (v *voter) putOff(err error, pause time.Duration, now clock.Stamp) {
	// The node told that by a clock which may be set right since, and it is to keep our place in
	// its queue.
	v.due = now.Add(max(pause, min(wire.RefusalOf(err).Left, v.Entry.Lease/3)))
}
