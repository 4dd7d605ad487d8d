package relock

import (
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/clock"
)

// seat is one master of a quorum, as seen from this client.
type seat struct {
	index   int // from 1, as errors name it
	rdb     rueidis.Client
	link    *link
	ballots ballots
	hub     *hub
	sweeper *sweeper

	*health
	checking chan struct{} // one slot: one check at a time
	who      atomic.Pointer[identity]
	clock    atomic.Pointer[reading] // nil until it was read
	astray   atomic.Bool             // its clock was too far off when last looked at
}

func newSeat(index int, rdb rueidis.Client, id string, longest time.Duration, cfg *config) *seat {
	l := newLink(rdb, cfg.commandTimeout())
	s := &seat{
		index: index, rdb: rdb, link: l, ballots: newBallots(l, longest, cfg.retention), health: newHealth(l.timeout),
		checking: make(chan struct{}, 1),
	}
	l.heard = s.heard
	s.sweeper = newSweeper(l, s.ballots.sweep, oneGroup, s.idle)
	s.hub = newHub(rdb, id, cfg.log, s.sweeper.orphan)
	s.hub.startPlain(true)
	return s
}

// leg is one acquisition's standing at one seat. It is touched by the goroutine that contends, releases or abandons,
// one at a time. The acquisition in it has the quorum's id, and is what the seat's hub knows.
type leg struct {
	*acquisition
	seat *seat

	own     int64         // number of the grant believed, 0 for none
	count   int           // how many tokens it has
	sent    clock.Stamp   // the grant's lease runs from here at the latest
	kept    bool          // a yield left it with us: nobody lower was alive there
	counted int64         // the node's fencing counter is known to have got so far under that grant
	raising bool          // a write-back is unanswered
	amiss   backoff       // between write-backs that the node did not confirm
	failing backoff       // between votes that were refused or not answered
	low     int64         // lowest ticket heard of there
	yield   int64         // grant to give back with the next vote
	pending bool          // a vote is unanswered
	answer  chan struct{} // closed once the last vote was answered, nil for never asked
	asked   clock.Stamp   // when the last vote was sent, zero for never
	due     clock.Stamp   // when to vote next
	look    bool          // news came while a vote was out, which may have missed it: vote again
	err     error         // of the last vote
	deaf    error         // why no message can tell of a grant there; set when that is asked
	told    clock.Stamp   // when the last vote was sent that was answered
	doubter string        // the incarnation that forgot how far it counted, "" for none
	doubted clock.Stamp   // when that was first heard
	seeded  bool          // it was told the counter since

	stage atomic.Int32 // running, ending or over, in this order
	late  atomic.Bool  // something that may have taken the node was answered after the leg was to end
}

const (
	running = iota
	ending  // a release may be out
	over    // nobody waits for an answer
)

// ask notes that a vote is sent. What is returned is to be closed when it was answered.
func (l *leg) ask(now clock.Stamp) chan struct{} {
	l.pending, l.asked, l.answer = true, now, make(chan struct{})
	return l.answer
}

// settle makes the leg one that is to end. It waits a little for a vote that is out: what ends an acquisition should not
// overtake what began it. A vote that stays out may yet run: see straggled.
func (l *leg) settle(tau time.Duration) {
	if l.answer != nil {
		late := time.NewTimer(l.asked.Add(tau).Until(clock.Now()))
		defer late.Stop()
		select {
		case <-l.answer:
		case <-late.C:
			l.known.Store(true) // as far as anybody can tell now
		}
	}
	l.stage.Store(ending)
}

// end drops the leg. It is swept where it may still stand, or where a late vote may put it back.
func (l *leg) end(open bool) {
	l.stage.Store(over)
	l.seat.hub.forget(l.acquisition)
	if open || l.late.Load() || l.mayRunLate() {
		l.seat.sweeper.sweep(l.acquisition, !open && !l.late.Load())
	}
}

// straggled is told of every answer to what may have taken the node. One that comes late may have undone what ended the
// leg. While the release is out it is left to end: a sweep that overtook the release would make it look lost.
func (l *leg) straggled(err error) {
	l.noted(err)
	if l.stage.Load() == running {
		return
	}
	l.late.Store(true)
	if l.stage.Load() == over {
		l.seat.sweeper.sweep(l.acquisition, false)
	}
}

// take notes a grant, of which a command sent at sent tells.
func (l *leg) take(given tokens, sent clock.Stamp) {
	if l.own != given.first {
		l.count = given.among(l.block)
		l.counted = given.first + int64(l.count) - 1
	}
	l.own, l.sent = given.first, sent
}

// owns reports whether the leg's grant is believed at now.
func (l *leg) owns(now clock.Stamp) bool {
	return l.own > 0 && !l.sent.Add(l.lease-margin(l.lease)).Reached(now)
}

// give marks the leg's grant to be given back. It is not believed from here on, whatever becomes of the message.
func (l *leg) give(now clock.Stamp) {
	l.yield, l.counter = l.own, max(l.counter, l.own)
	l.own, l.kept, l.due = 0, false, now
}
