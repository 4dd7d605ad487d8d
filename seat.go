package relock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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

	checking sync.Mutex // one check at a time
	checked  atomic.Bool
	run      string        // run id, "" when the server tells none; set before checked
	marked   bool          // the incarnation marker was there; set before checked
	ahead    atomic.Int64  // microseconds that its clock is ahead of ours
	pauses   atomic.Int64  // commands in a row that were not answered in time
	resume   atomic.Uint64 // not asked before this instant, but by one probe; monotonic nanoseconds since the client began
	began    time.Time
}

func newSeat(index int, rdb rueidis.Client, id string, longest time.Duration, cfg *config) *seat {
	l := newLink(rdb, cfg.commandTimeout())
	s := &seat{index: index, rdb: rdb, link: l, ballots: newBallots(l, longest), began: time.Now()}
	s.sweeper = newSweeper(l, func(ctx context.Context, batch []*acquisition) ([]bool, error) {
		ended, err := s.ballots.sweep(ctx, batch)
		s.heard(err)
		return ended, err
	}, oneGroup, s.idle)
	s.hub = newHub(rdb, id, cfg.log, s.sweeper.orphan)
	s.hub.startPlain(true)
	return s
}

// idle reports whether the seat should not be asked: it did not answer lately. Once in a while somebody gets false and is
// the probe.
func (s *seat) idle() bool {
	until := s.resume.Load()
	if until == 0 {
		return false
	}
	now := uint64(time.Since(s.began))
	return now < until || !s.resume.CompareAndSwap(until, now+uint64(time.Second))
}

// heard notes whether the seat answered in time.
func (s *seat) heard(err error) {
	if !unknown(err) || errors.Is(err, context.Canceled) {
		s.pauses.Store(0)
		s.resume.Store(0)
		return
	}
	pause := min(50*time.Millisecond<<min(s.pauses.Add(1), 5), time.Second)
	s.resume.Store(uint64(time.Since(s.began) + pause))
}

// check asks a server once who it is. A replica or a server that is another seat too would make a quorum that is none.
func (s *seat) check(ctx context.Context) error {
	b := s.rdb.B()
	sent := time.Now()
	got := s.rdb.DoMulti(ctx,
		b.Time().Build(),
		b.Exists().Key(incarnationKey).Build(),
		b.Info().Section("server").Build(),
		b.Info().Section("replication").Build(),
	)
	parts, err := got[0].AsIntSlice()
	if err != nil {
		return err
	}
	if len(parts) != 2 {
		return fmt.Errorf("TIME answered %d parts", len(parts))
	}
	s.tick(parts[0]*1e6+parts[1], sent)
	marked, err := got[1].AsInt64()
	if err != nil {
		return err
	}
	s.marked = marked == 1
	server, _ := got[2].ToString() // an embedded server may tell neither
	replication, _ := got[3].ToString()
	s.run = infoField(server, "run_id")
	if role := infoField(replication, "role"); role != "" && role != "master" {
		return fmt.Errorf("%w: node %d is a %s; a quorum is of masters that do not know each other", ErrInvalidNodes, s.index, role)
	}
	return nil
}

// tick notes the server's clock, in microseconds, in an answer to what was sent at sent.
func (s *seat) tick(now int64, sent time.Time) {
	took := time.Since(sent)
	s.ahead.Store(now - sent.Add(took/2).UnixMicro())
}

// initialize declares that no lock is held that this server may have forgotten.
func (s *seat) initialize(ctx context.Context, longest time.Duration) error {
	s.checking.Lock()
	defer s.checking.Unlock()
	if err := s.check(ctx); err != nil { // it may have been restarted since
		return err
	}
	run := s.run
	if run == "" {
		run = "unknown" // as guard.lua has it
	}
	return s.rdb.Do(ctx, s.rdb.B().Hset().Key(incarnationKey).FieldValue().
		FieldValue("run", run).FieldValue("born", "0").FieldValue("longest", ms(longest)).Build()).Error()
}

// incarnationKey is spelled in guard.lua too.
const incarnationKey = "relock_incarnation"

func infoField(info, field string) string {
	_, rest, found := strings.Cut(info, field+":")
	if !found {
		return ""
	}
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// leg is one acquisition's standing at one seat. It is touched by the goroutine that contends, releases or abandons,
// one at a time. The acquisition in it has the quorum's id, and is what the seat's hub knows.
type leg struct {
	*acquisition
	seat *seat

	own     int64         // number of the grant believed, 0 for none
	sent    clock.Stamp   // the grant's lease runs from here at the latest
	kept    bool          // a yield left it with us: nobody lower was alive there
	counted int64         // the node's fencing counter is known to have got so far under that grant
	raising bool          // a write-back is unanswered
	amiss   backoff       // between write-backs that the node did not confirm
	low     int64         // lowest ticket heard of there
	yield   int64         // grant to give back with the next vote
	pending bool          // a vote is unanswered
	answer  chan struct{} // closed once the last vote was answered, nil for never asked
	asked   clock.Stamp   // when the last vote was sent, zero for never
	due     clock.Stamp   // when to vote next
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
func (l *leg) take(number int64, sent clock.Stamp) {
	if l.own != number {
		l.counted = number + int64(l.block) - 1
	}
	l.own, l.sent = number, sent
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
