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

// sweeper ends claims that are over here but perhaps not in Redis: a release that went unanswered,
// an acquire that may still come late, a grant that no goroutine waits for. It repeats until Redis
// answered. Where an acquire may still run it comes back, soon at first and then every third of a
// lease, until one whole lease has passed.
//
// One goroutine waits for the earliest of all that is due. What is due together goes in one command
// for each group, with at most sweepBatch in it, and a bounded number of commands is out at once.
type sweeper struct {
	node *Node

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	slots  chan struct{} // one for each command that is out

	// mu guards what follows and every sweep. Invariant: all holds the claims that are to be ended;
	// those of them that are in no command are in due. wg grows only while closed is not set.
	mu      sync.Mutex
	closed  bool
	running bool
	all     map[target]*sweep
	due     *clock.Schedule[*sweep]
}

// target is what a sweep ends: an entry at a lock. A grant that names another lock than its entry waits
// for is ended there, and the entry at its own.
type target struct{ id, lock string }

func targetOf(c *Claim) target { return target{c.Entry.ID, c.Entry.Names.Lock} }

// sweep is one claim that is to be ended.
type sweep struct {
	clock.Slot // when to try next

	c        *Claim
	lateEnd  clock.Stamp   // an acquire that comes later than this costs one lease
	giveUpAt clock.Stamp   // after this every lease in Redis has expired, one lengthened by Extend included
	again    bool          // something new about it was seen since it was last sent
	refused  bool          // Redis answered the last try with a refusal
	denied   bool          // that refusal will not pass by itself: a right is missing, say
	apart    bool          // the right to this lock's keys may be missing: it is swept by a command of its own
	failing  clock.Backoff // after a try that failed
	declined clock.Backoff // after one that was denied
	coming   clock.Backoff // until a late acquire came, if it comes
}

// outcome is what became of one claim of a batch.
type outcome uint8

const (
	stands    outcome = iota // it could not be swept
	forbidden                // the command for its lock alone was refused
	swept
)

const (
	sweepBatch = 50 // keeps others waiting for about half a millisecond
	sweepsOut  = 8  // commands at once to one Redis
	// clusterSweepsOut is likewise for a Cluster, where each slot takes a command of its own: a quarter of
	// the permits that its link has for all.
	clusterSweepsOut = 256
	sweepWindow      = 20 * time.Millisecond // what is due so soon is taken along
	// sweepPace is the time between two looks at what is due. The first claim goes at once. Those that
	// follow closely go together: with WithLinger many locks may end in one moment.
	sweepPace = time.Millisecond
	// sweepGrace is how long an answer that is still out may end the matter before anything is
	// sent.
	sweepGrace = 10 * time.Millisecond
)

func newSweeper(n *Node) *sweeper {
	s := &sweeper{
		node: n, slots: make(chan struct{}, sweepsOut), all: make(map[target]*sweep), due: clock.NewSchedule[*sweep](),
	}
	if n.redis.Cluster() {
		s.slots = make(chan struct{}, clusterSweepsOut)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// sweep starts to end c. With answered, a release of c was already answered, so only late commands
// are left to undo.
func (s *sweeper) sweep(c *Claim, answered bool) {
	now := clock.Now()
	s.mu.Lock()
	if s.closed {
		s.all[targetOf(c)] = &sweep{c: c}
		s.mu.Unlock()
		s.try([]*Claim{c}) // and one more should a late answer come; the lease ends what they do not
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

// answered is told what became of a late command of c: what it did can be undone now, for good. It
// is called in the command's goroutine, for which closing waits: so what comes behind the last try
// of close is undone too.
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

// news makes w be sent again, even if it is out just now. The caller holds s.mu.
func (s *sweeper) news(w *sweep, now clock.Stamp) {
	w.again = true
	if w.In() {
		s.due.Put(w, now, now)
	}
}

// look sends what is due, and returns how long nothing is.
func (s *sweeper) look() time.Duration {
	batches := s.take(clock.Now())
	for _, batch := range batches {
		select {
		case s.slots <- struct{}{}:
		case <-s.ctx.Done():
			return 0 // close has them all
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
	return s.due.Rest(clock.Now(), time.Minute)
}

// take removes from due what is to be sent, in batches that fit into a command each. Once one claim is
// due, those that will be within sweepWindow go along.
func (s *sweeper) take(now clock.Stamp) [][]*sweep {
	s.mu.Lock()
	defer s.mu.Unlock()
	type company struct {
		group
		lock string // alone, "" with others
	}
	groups := make(map[company][]*sweep)
	for horizon := now; ; horizon = now.Add(sweepWindow) {
		w, is := s.due.Next(horizon)
		if !is {
			break
		}
		w.again = false
		with := company{group: s.node.groupOf(w.c.Entry)}
		if w.apart {
			with.lock = w.c.lock()
		}
		groups[with] = append(groups[with], w)
	}
	var batches [][]*sweep
	for _, g := range groups {
		slices.SortStableFunc(g, func(a, b *sweep) int { return strings.Compare(a.c.lock(), b.c.lock()) })
		for len(g) > 0 {
			n := min(len(g), sweepBatch)
			batches, g = append(batches, g[:n]), g[n:]
		}
	}
	return batches
}

// send tries to end a batch, and settles what became of each.
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
	denied := link.Reply(err) != "" && !wire.Transient(err) // rights, or memory, may come back
	final := err != nil && !denied && !wire.Transient(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Now()
	for i, w := range batch {
		w.apart = err == nil && got[i] == forbidden
		w.denied = denied || w.apart
		w.refused = w.denied || err == nil && got[i] != swept
		switch {
		case final || w.settled(err == nil && got[i] == swept, sent, now):
			delete(s.all, targetOf(w.c))
		default:
			s.due.Put(w, w.Due, now)
		}
	}
	if err == nil {
		s.back(now)
	}
}

// settled notes what became of a try sent at sent. It returns true when nothing is left to do. The
// caller holds the sweeper's mutex.
func (w *sweep) settled(ended bool, sent, now clock.Stamp) bool {
	switch {
	case !w.c.MayStand():
		return true // a late answer said that it never ran
	case !ended:
		pause := &w.failing
		if w.denied {
			pause = &w.declined
		}
		w.Due = now.Add(pause.Next())
		return w.giveUpAt.Reached(now)
	case w.again:
		w.Due = now
		return false
	}
	w.failing.Reset()
	w.declined.Reset()
	// The last try must be sent after lateEnd, not only answered after it: a late acquire may come
	// between.
	w.Due = clock.Sooner(now.Add(w.coming.Next()), w.lateEnd, now)
	return !w.c.MayRunLate() || w.lateEnd.Reached(sent)
}

// back makes what was not answered before be tried at once: Redis answers again. What it refused is
// no better off for that. The caller holds s.mu.
func (s *sweeper) back(now clock.Stamp) {
	for _, w := range s.all {
		if w.In() && w.failing.Begun() && !w.refused {
			w.failing.Reset()
			s.due.Put(w, now, now)
		}
	}
}

// try sends one command and waits for its answer. A batch that is refused for one lock's key is
// halved between locks, so that it does not keep the others from being ended.
func (s *sweeper) try(batch []*Claim) ([]outcome, error) {
	got := make([]outcome, len(batch))
	done, err := s.tryOnce(batch)
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
		left, _ := s.try(batch[:half]) // what is not answered stands
		right, _ := s.try(batch[half:])
		copy(got, left)
		copy(got[half:], right)
	}
	return got, nil
}

// between returns about the middle of a batch, where one lock's claims end; 0 for claims of one lock.
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

func (s *sweeper) tryOnce(batch []*Claim) ([]bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.node.cfg.Timeout)
	defer cancel()
	return s.node.end(ctx, batch)
}

// left returns what is still to be ended, by groups.
func (s *sweeper) left() map[group][]*Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	groups := make(map[group][]*Claim)
	for _, w := range s.all {
		groups[s.node.groupOf(w.c.Entry)] = append(groups[s.node.groupOf(w.c.Entry)], w.c)
	}
	return groups
}

// close lets every sweep try once more and waits for them.
func (s *sweeper) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
	slots := make(chan struct{}, cap(s.slots))
	var wg sync.WaitGroup
	for _, g := range s.left() {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for len(g) > 0 {
				n := min(len(g), sweepBatch)
				if _, err := s.try(g[:n]); link.Unanswered(err) {
					return // Redis does not answer: the leases end what is left
				}
				g = g[n:]
			}
		})
	}
	wg.Wait()
}
