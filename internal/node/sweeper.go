package node

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// sweeper ends claims in the background that are over here, but perhaps not in Redis: a release was
// not answered, a question may come late, or a grant came that no goroutine waits for. It sends a
// release for each, and repeats that until Redis has answered. If a question may still run, one
// answer is not enough: the sweeper comes back, soon at first and then every third of a lease,
// until it has sent a release more than a lease after the claim was over.
//
// One goroutine waits for the claim that is due first. Claims that are due together are sent
// together: one command for each group of locks, with sweepBatch claims at most, of no more than
// wire.MaxWeight. Each command has a goroutine of its own, and the number of commands that are out is
// bounded.
type sweeper struct {
	node *Node

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	slots  chan struct{} // one for each command that is out

	// mu guards what follows and every sweep. Invariant: all holds every claim that is to be ended,
	// and due those of them that are in no command. wg grows only while closed is not set.
	mu      sync.Mutex
	closed  bool
	running bool
	silent  bool // a try was not answered since back last looked
	all     map[target]*sweep
	due     *clock.Schedule[*sweep]
}

// target is what a sweep ends: an entry at a lock. The id alone would not do. A message may grant
// an entry another lock than the one it waits for; then the entry is ended at both locks.
type target struct{ id, lock string }

func targetOf(c *Claim) target { return target{c.Entry.ID, c.Entry.Names.Lock} }

// sweep is one claim that is to be ended.
type sweep struct {
	clock.Slot // when to try next

	c        *Claim
	lateEnd  clock.Stamp   // a question that runs later than this is not swept: it costs one lease
	giveUpAt clock.Stamp   // by then its leases in Redis have run out, one lengthened by Extend included
	last     outcome       // of the last try
	again    bool          // something new was heard of the claim since it was last sent
	failing  clock.Backoff // between tries that failed
	declined clock.Backoff // between tries that were denied
	coming   clock.Backoff // between tries that were answered, while a question may still run
}

// outcome is what a try did for one claim of a batch. It says when the sweep is over, and when the
// next try is due if it is not. A sweep is also over once it is known that no question ever ran.
//
//	            over                  next try
//	failed      giveUpAt has come*    after failing; at once when Redis answers again
//	stands      giveUpAt has come     after failing
//	denied      giveUpAt has come     after declined
//	forbidden   giveUpAt has come     after declined, in a command of its own
//	swept       no more may come†     after coming, or at lateEnd; at once if again
//	hopeless    at once
//
//	*  the sweep of a sharer goes on, unless there are too many claims: the owner's other entries
//	   keep the lock in Redis, and with it what is left of this claim.
//	†  no question may run late, or the try was sent after lateEnd; and nothing was heard since.
type outcome uint8

const (
	failed    outcome = iota // Redis did not answer, or refused for a time
	stands                   // Redis did not end it, or did not answer to a part of the batch
	denied                   // Redis refused the command, as long as the cause lasts: a missing right, say
	forbidden                // as denied, but the command was for this lock alone: the right to its keys may be missing
	swept                    // Redis ended it, or knew nothing of it
	hopeless                 // no try can succeed any more
)

// outcomeOf returns the outcome of a try that failed as a whole with err.
func outcomeOf(err error) outcome {
	switch {
	case wire.Transient(err):
		return failed
	case link.Reply(err) != "": // rights, or memory, may come back
		return denied
	}
	return hopeless // no answer, and no retry can give one
}

const (
	mostShared = 1000 // claims in all up to which a sharer's claim is kept beyond its leases
	sweepBatch = 50   // claims in one command, which keeps other clients waiting for about half a millisecond
	sweepsOut  = 8    // commands that are out at once
	// clusterSweepsOut is the same for a Cluster, where each slot takes a command of its own. It is a
	// quarter of the commands that a link lets out.
	clusterSweepsOut = 256
	sweepWindow      = 20 * time.Millisecond // claims that are due so soon are sent along with a due one
	// sweepPace is the time between two looks at what is due. The first claim is sent at once. Those
	// that follow within the pace are sent together: with WithLinger many locks may end in one moment.
	sweepPace = time.Millisecond
	// sweepGrace is how long the sweeper waits before it sends a release if an answer is still to come:
	// the answer may leave nothing to end.
	sweepGrace = 10 * time.Millisecond
)

func newSweeper(n *Node) *sweeper {
	out := sweepsOut
	if n.redis.Cluster() {
		out = clusterSweepsOut // a command there takes the locks of one slot alone
	}
	s := &sweeper{node: n, slots: make(chan struct{}, out), all: make(map[target]*sweep), due: clock.NewSchedule[*sweep]()}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// sweep starts to end c. If answered is set, a release of c was answered already: then only
// questions that may still run are left to undo.
func (s *sweeper) sweep(c *Claim, answered bool) {
	now := clock.Now()
	s.mu.Lock()
	if s.closed {
		s.all[targetOf(c)] = &sweep{c: c}
		s.mu.Unlock()
		// Once more if a late answer comes; the lease ends what these do not. An Unlock that has waited for one
		// command does not wait for another.
		s.node.hub.Go(func() { _, _ = s.try([]*Claim{c}) })
		return
	}
	defer s.mu.Unlock()
	if w := s.all[targetOf(c)]; w != nil {
		s.news(w, now)
		return
	}
	w := &sweep{
		c: c, lateEnd: now.Add(c.Entry.Lease),
		giveUpAt: now.Add(2*c.Entry.Lease + time.Duration(c.longest.Load())),
		failing:  clock.Backoff{Least: 20 * time.Millisecond, Most: time.Second},
		declined: clock.Backoff{Least: 100 * time.Millisecond, Most: max(c.Entry.Lease/3, 100*time.Millisecond)},
		coming:   clock.Backoff{Least: 10 * time.Millisecond, Most: c.Entry.Lease / 3}, // most commands that come late come soon
	}
	at := now
	if answered || c.MayRunLate() {
		at = now.Add(sweepGrace)
	}
	s.all[targetOf(c)] = w
	s.due.Put(w, at, now)
	if !s.running {
		s.running = true
		s.wg.Go(func() { s.due.Run(s.ctx, s.look) })
	}
}

// answered is told that a question of c was answered late, or is known never to have run. What it
// did can be undone for good now; if no question of c ever ran, nothing is left to do. It is called
// in the question's goroutine, for which closing the node waits: so a question that is answered after
// the last try of close is undone, too.
func (s *sweeper) answered(c *Claim) {
	s.mu.Lock()
	w := s.all[targetOf(c)]
	if s.closed {
		s.mu.Unlock()
		if w != nil {
			s.try([]*Claim{c})
		}
		return
	}
	defer s.mu.Unlock()
	switch {
	case w == nil:
	case c.MayStand() || !w.In():
		s.news(w, clock.Now())
	default:
		s.due.Drop(w)
		delete(s.all, targetOf(c))
	}
}

// news makes w due now, or, if it is being sent, as soon as that is over. The caller holds s.mu.
func (s *sweeper) news(w *sweep, now clock.Stamp) {
	w.again = true
	if w.In() {
		s.due.Put(w, now, now)
	}
}

// look sends what is due, and returns for how long nothing else will be due.
func (s *sweeper) look() time.Duration {
	batches := s.take(clock.Now())
	for _, batch := range batches {
		select {
		case s.slots <- struct{}{}:
		case <-s.ctx.Done():
			return 0 // the sweeper is closing: close tries all that is left, these too
		}
		s.wg.Go(func() {
			s.send(batch)
			<-s.slots
		})
	}
	if len(batches) > 0 {
		clock.Sleep(s.ctx, sweepPace)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due.UntilNext(clock.Now(), time.Minute)
}

// take removes from due the claims to send, and returns them in batches of one command each. If any
// claim is due, claims that will be due within sweepWindow go along.
func (s *sweeper) take(now clock.Stamp) [][]*sweep {
	s.mu.Lock()
	defer s.mu.Unlock()
	type company struct {
		group
		lock string // of a claim that is sent apart from other locks' claims; "" for all others
	}
	groups := make(map[company][]*sweep)
	for horizon := now; ; horizon = now.Add(sweepWindow) {
		w, is := s.due.Next(horizon)
		if !is {
			break
		}
		w.again = false
		with := company{group: s.node.groupOf(w.c.Entry)}
		if w.last == forbidden {
			with.lock = w.c.lock()
		}
		groups[with] = append(groups[with], w)
	}
	var batches [][]*sweep
	for _, g := range groups {
		slices.SortStableFunc(g, func(a, b *sweep) int { return strings.Compare(a.c.lock(), b.c.lock()) })
		batches = slices.AppendSeq(batches, wire.Commands(g, sweepBatch, func(w *sweep) *wire.Entry { return w.c.Entry }))
	}
	return batches
}

// send tries to end a batch, and then drops each sweep that is over or sets its next try.
func (s *sweeper) send(batch []*sweep) {
	sent := clock.Now()
	claims := make([]*Claim, len(batch))
	for i, w := range batch {
		claims[i] = w.c
	}
	var got []outcome
	err := ErrIdle
	if !s.node.Idle() {
		got, err = s.try(claims)
	}
	if err != nil {
		got = slices.Repeat([]outcome{outcomeOf(err)}, len(batch))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = s.silent || err != nil && got[0] != denied
	now := clock.Now()
	crowded := len(s.all) > mostShared
	for i, w := range batch {
		if w.last = got[i]; w.over(crowded, sent, now) {
			delete(s.all, targetOf(w.c))
		} else {
			s.due.Put(w, w.next(now), now)
		}
	}
	if err == nil {
		s.back(now)
	}
}

// over reports whether nothing is left to do after a try that was sent at sent. crowded says that
// there are too many claims to keep one beyond its leases. The caller holds the sweeper's mutex.
func (w *sweep) over(crowded bool, sent, now clock.Stamp) bool {
	switch {
	case w.last == hopeless, !w.c.MayStand():
		return true
	case w.last == swept:
		// The last try must be sent after lateEnd, not only answered after it: a question may run between.
		return !w.again && (!w.c.MayRunLate() || w.lateEnd.Reached(sent))
	}
	stays := w.last == failed && w.c.Entry.Owner != "" && !crowded
	return w.giveUpAt.Reached(now) && !stays
}

// next returns when the next try is due, and lengthens the pause before the one after it. The caller
// holds the sweeper's mutex.
func (w *sweep) next(now clock.Stamp) clock.Stamp {
	switch w.last {
	case failed, stands:
		return now.Add(w.failing.Next())
	case denied, forbidden:
		return now.Add(w.declined.Next())
	}
	if w.again {
		return now
	}
	w.failing.Reset()
	w.declined.Reset()
	return clock.Sooner(now.Add(w.coming.Next()), w.lateEnd, now)
}

// back is called when Redis has answered. Claims whose tries were not answered become due at once.
// Claims that Redis did not end in its answer keep their pause: otherwise they would be sent without
// any. After an outage back looks at all claims once, not with each answer: there may be a hundred
// thousand. The caller holds s.mu.
func (s *sweeper) back(now clock.Stamp) {
	if !s.silent {
		return
	}
	s.silent = false
	for _, w := range s.all {
		if w.In() && w.failing.Begun() && (w.last == failed || w.last == swept) {
			w.failing.Reset()
			s.due.Put(w, now, now)
		}
	}
}

// try sends one command for a batch and waits for its answer. A missing right to one lock's keys
// makes Redis refuse the whole command. Then try sends either half of the batch by itself, and so
// on down to single locks, so that the one lock does not keep the others from being ended.
func (s *sweeper) try(batch []*Claim) ([]outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.node.cfg.Timeout)
	done, err := s.node.end(ctx, batch)
	cancel()
	got := slices.Repeat([]outcome{stands}, len(batch))
	switch {
	case err == nil:
		for i, is := range done {
			if is {
				got[i] = swept
			}
		}
	case !wire.OfOneKey(err):
		return nil, err
	default:
		half := between(batch)
		if half == 0 {
			return slices.Repeat([]outcome{forbidden}, len(batch)), nil
		}
		left, _ := s.try(batch[:half]) // claims without an answer have the outcome stands
		right, _ := s.try(batch[half:])
		copy(got, left)
		copy(got[half:], right)
	}
	return got, nil
}

// between returns a place near the middle of a batch, sorted by lock, where one lock's claims end
// and the next one's begin. It returns 0 if all claims are of one lock.
func between(batch []*Claim) int {
	middle := len(batch) / 2
	for off := range middle + 1 {
		for _, i := range [...]int{middle - off, middle + off} {
			if 0 < i && i < len(batch) && batch[i-1].lock() != batch[i].lock() {
				return i
			}
		}
	}
	return 0
}

// lock is the key of the claim's lock.
func (c *Claim) lock() string { return c.Entry.Names.Lock }

// close lets every sweep try once more and waits for them.
func (s *sweeper) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
	s.mu.Lock()
	groups := make(map[group][]*Claim)
	for _, w := range s.all {
		g := s.node.groupOf(w.c.Entry)
		groups[g] = append(groups[g], w.c)
	}
	s.mu.Unlock()
	slots := make(chan struct{}, cap(s.slots))
	var wg sync.WaitGroup
	for _, g := range groups {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for batch := range wire.Commands(g, sweepBatch, func(c *Claim) *wire.Entry { return c.Entry }) {
				if _, err := s.try(batch); link.Unanswered(err) {
					return // Redis does not answer: the leases end what is left
				}
			}
		})
	}
	wg.Wait()
}
