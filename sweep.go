package relock

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// sweeper ends acquisitions that are over here but perhaps not in Redis: a release that went unanswered, an acquire that
// may still come late, a grant that nobody waits for. It repeats until Redis answered. Where an acquire may still run it
// comes back, soon at first and then every third of a lease, until one whole lease has passed.
//
// One goroutine waits for the earliest of all that is due. What is due together goes in one command for each group, with
// at most sweepBatch in it, and at most sweepsOut commands are out at once.
type sweeper struct {
	link  *link
	end   func(ctx context.Context, batch []*acquisition) ([]bool, error) // which of them Redis has ended
	group func(*acquisition) uint16                                       // only one group fits into a command
	idle  func() bool                                                     // Redis did not answer lately: leave it alone for now

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	kick   chan struct{} // one slot: something is due before the timer
	slots  chan struct{} // one for each command that is out

	// mu guards what follows and every sweep. Invariant: all holds the acquisitions that are to be ended; those of them
	// that are in no command are in due. wg grows only while closed is not set.
	mu      sync.Mutex
	closed  bool
	running bool
	all     map[string]*sweep
	due     dueHeap[*sweep]
}

// sweep is one acquisition that is to be ended.
type sweep struct {
	a        *acquisition
	at       clock.Stamp // when to try next
	lateEnd  clock.Stamp // an acquire that comes later than this costs one lease
	giveUpAt clock.Stamp // after this every lease in Redis has expired, one lengthened by Extend included
	again    bool        // something new about it was seen since it was last sent
	index    int         // in due, -1 outside
	failing  backoff     // after a try that failed
	coming   backoff     // until a late acquire came, if it comes
}

const (
	sweepBatch  = 50 // keeps others waiting for about half a millisecond
	sweepsOut   = 8
	sweepWindow = 20 * time.Millisecond // what is due so soon is taken along
	// sweepGrace is how long an answer that is still out may end the matter before anything is sent.
	sweepGrace = 10 * time.Millisecond
)

func newSweeper(l *link, end func(context.Context, []*acquisition) ([]bool, error),
	group func(*acquisition) uint16, idle func() bool) *sweeper {
	s := &sweeper{
		link: l, end: end, group: group, idle: idle,
		kick: make(chan struct{}, 1), slots: make(chan struct{}, sweepsOut), all: make(map[string]*sweep),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// sweep starts to end a. With answered, a release of a was already answered, so only late commands are left to undo.
func (s *sweeper) sweep(a *acquisition, answered bool) {
	now := clock.Now()
	s.mu.Lock()
	if s.closed {
		s.all[a.id] = &sweep{a: a, index: -1}
		s.mu.Unlock()
		s.try([]*acquisition{a}) // and one more should a late answer come; the lease ends what they do not
		return
	}
	defer s.mu.Unlock()
	if w := s.all[a.id]; w != nil {
		s.news(w, now)
		return
	}
	w := &sweep{
		a: a, at: now, lateEnd: now.Add(a.lease), index: -1,
		giveUpAt: now.Add(2*a.lease + time.Duration(a.stretched.Load())),
		failing:  backoff{least: 20 * time.Millisecond, most: time.Second},
		coming:   backoff{least: 10 * time.Millisecond, most: a.lease / 3}, // most commands that come late come soon
	}
	if answered || a.mayRunLate() {
		w.at = now.Add(sweepGrace)
	}
	s.all[a.id] = w
	s.push(w, now)
	if !s.running {
		s.running = true
		s.wg.Go(s.run)
	}
}

// answered is told what became of a late command of a: what it did can be undone now, for good. It is called in the
// command's goroutine, for which closing waits: so what comes behind the last try of close is undone too.
func (s *sweeper) answered(a *acquisition) {
	s.mu.Lock()
	w := s.all[a.id]
	if s.closed {
		s.mu.Unlock()
		if w != nil {
			s.try([]*acquisition{a})
		}
		return
	}
	defer s.mu.Unlock()
	switch {
	case w == nil:
	case a.mayStand() || w.index < 0:
		s.news(w, clock.Now())
	default:
		heap.Remove(&s.due, w.index)
		delete(s.all, a.id)
	}
}

// news makes w be sent again, even if it is out just now. The caller holds s.mu.
func (s *sweeper) news(w *sweep, now clock.Stamp) {
	w.again = true
	if w.index >= 0 {
		w.at = now
		heap.Fix(&s.due, w.index)
		s.wake(now, w)
	}
}

func (s *sweeper) push(w *sweep, now clock.Stamp) {
	heap.Push(&s.due, w)
	s.wake(now, w)
}

// wake makes the goroutine look if w is the first that is due. The caller holds s.mu.
func (s *sweeper) wake(now clock.Stamp, w *sweep) {
	if w.index == 0 {
		select {
		case s.kick <- struct{}{}:
		default:
		}
	}
}

// orphan ends the acquisition of a grant that came for nobody.
func (s *sweeper) orphan(g grantMessage) {
	nm, err := namesOf("", g.name)
	if err != nil {
		return
	}
	lease := time.Duration(g.lease) * time.Millisecond
	cfg := defaultConfig()
	cfg.lease = lease
	a := &acquisition{names: nm, id: g.id, owner: g.owner, lease: lease, block: 1, timeout: cfg.commandTimeout()}
	a.known.Store(true)
	s.sweep(a, false)
}

func (s *sweeper) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-s.kick:
		case <-s.ctx.Done():
			return
		}
		for _, batch := range s.take(clock.Now()) {
			select {
			case s.slots <- struct{}{}:
			case <-s.ctx.Done():
				return // close has them all
			}
			s.wg.Go(func() {
				s.send(batch)
				<-s.slots
			})
		}
		timer.Reset(s.rest(clock.Now()))
	}
}

// take removes from due what is to be sent, in batches that fit into a command each.
func (s *sweeper) take(now clock.Stamp) [][]*sweep {
	s.mu.Lock()
	defer s.mu.Unlock()
	groups := make(map[uint16][]*sweep)
	for horizon := now; len(s.due) > 0 && s.due[0].at.Reached(horizon); horizon = now.Add(sweepWindow) {
		w := heap.Pop(&s.due).(*sweep)
		w.again = false
		groups[s.group(w.a)] = append(groups[s.group(w.a)], w)
	}
	var batches [][]*sweep
	for _, g := range groups {
		for len(g) > 0 {
			n := min(len(g), sweepBatch)
			batches, g = append(batches, g[:n]), g[n:]
		}
	}
	return batches
}

// rest is how long nothing is due.
func (s *sweeper) rest(now clock.Stamp) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.due) == 0 {
		return time.Minute
	}
	return max(0, s.due[0].at.Until(now))
}

// send tries to end a batch, and settles what became of each.
func (s *sweeper) send(batch []*sweep) {
	sent := clock.Now()
	acqs := make([]*acquisition, len(batch))
	for i, w := range batch {
		acqs[i] = w.a
	}
	var ended []bool
	err := errIdle
	if !s.idle() {
		ended, err = s.try(acqs)
	}
	final := err != nil && !transient(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Now()
	for i, w := range batch {
		switch {
		case final || w.settled(err == nil && ended[i], sent, now):
			delete(s.all, w.a.id)
		default:
			s.push(w, now)
		}
	}
	if err == nil {
		s.back(now)
	}
}

// settled notes what became of a try sent at sent. It returns true when nothing is left to do. The caller holds the
// sweeper's mutex.
func (w *sweep) settled(ended bool, sent, now clock.Stamp) bool {
	switch {
	case !w.a.mayStand():
		return true // a late answer said that it never ran
	case !ended:
		w.at = now.Add(w.failing.next())
		return w.giveUpAt.Reached(now)
	case w.again:
		w.at = now
		return false
	}
	w.failing.reset()
	// The last try must be sent after lateEnd, not only answered after it: a late acquire may come between.
	w.at = clock.Sooner(now.Add(w.coming.next()), w.lateEnd, now)
	return !w.a.mayRunLate() || w.lateEnd.Reached(sent)
}

// back makes what failed before be tried at once: Redis answers again. The caller holds s.mu.
func (s *sweeper) back(now clock.Stamp) {
	found := false
	for _, w := range s.due {
		if w.failing.last > 0 {
			w.failing.reset()
			w.at, found = now, true
		}
	}
	if found {
		heap.Init(&s.due)
		s.wake(now, s.due[0])
	}
}

// try sends one command and waits for its answer. A batch that is refused as a whole is halved, so that what is wrong
// with one lock does not keep the others from being ended.
func (s *sweeper) try(batch []*acquisition) ([]bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.link.timeout)
	defer cancel()
	ended, err := s.end(ctx, batch)
	if err == nil || len(batch) == 1 || transient(err) {
		return ended, err
	}
	half := len(batch) / 2
	left, lerr := s.try(batch[:half])
	right, rerr := s.try(batch[half:])
	if lerr != nil {
		left = make([]bool, half)
	}
	if rerr != nil {
		right = make([]bool, len(batch)-half)
	}
	return append(left, right...), nil
}

// left returns what is still to be ended, by groups.
func (s *sweeper) left() map[uint16][]*acquisition {
	s.mu.Lock()
	defer s.mu.Unlock()
	groups := make(map[uint16][]*acquisition)
	for _, w := range s.all {
		groups[s.group(w.a)] = append(groups[s.group(w.a)], w.a)
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
	slots := make(chan struct{}, sweepsOut)
	var wg sync.WaitGroup
	for _, g := range s.left() {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for len(g) > 0 {
				n := min(len(g), sweepBatch)
				if _, err := s.try(g[:n]); unknown(err) {
					return // Redis does not answer: the leases end what is left
				}
				g = g[n:]
			}
		})
	}
	wg.Wait()
}

func (w *sweep) dueAt() clock.Stamp { return w.at }
func (w *sweep) place() *int        { return &w.index }

// oneGroup says that any acquisitions fit into one command.
func oneGroup(*acquisition) uint16 { return 0 }
