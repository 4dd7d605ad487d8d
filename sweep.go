package relock

import (
	"context"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// sweeper ends acquisitions that are over here but perhaps not in Redis: a release that went unanswered, an acquire that
// may still come late, a grant that nobody waits for. It repeats until Redis answered, and where an acquire is in doubt
// comes back, soon at first and then every third of a lease, until one whole lease has passed.
type sweeper struct {
	end    func(context.Context, *acquisition) error
	idle   func() bool // Redis did not answer lately: leave it alone for now
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex // protects closed and running
	closed  bool
	running map[string]*sweep
}

type sweep struct {
	a     *acquisition
	again chan struct{} // one slot: something new about a was seen
}

func newSweeper(end func(context.Context, *acquisition) error, idle func() bool) *sweeper {
	s := &sweeper{end: end, idle: idle, running: make(map[string]*sweep)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// sweep starts to end a. With answered, a release of a was already answered, so only late commands are left to undo.
func (s *sweeper) sweep(a *acquisition, answered bool) {
	s.mu.Lock()
	if w, ok := s.running[a.id]; ok {
		s.mu.Unlock()
		w.poke()
		return
	}
	if s.closed {
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), a.timeout)
		defer cancel()
		_ = s.end(ctx, a) // the one try that is left; the lease ends what it does not
		return
	}
	w := &sweep{a: a, again: make(chan struct{}, 1)}
	s.running[a.id] = w
	s.wg.Add(1)
	s.mu.Unlock()
	go s.run(w, answered)
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
	s.sweep(&acquisition{names: nm, id: g.id, owner: g.owner, lease: lease, block: 1, timeout: cfg.commandTimeout()}, false)
}

func (s *sweeper) run(w *sweep, answered bool) {
	defer s.wg.Done()
	limbo := clock.Now().Add(w.a.lease) // an acquire that comes later than this costs one lease
	// A Redis that is away for longer has nothing left to end but a lease that was made longer than the usual one.
	given := limbo.Add(w.a.lease + time.Duration(w.a.stretched.Load()))
	// Most commands that come late come soon.
	pause := backoff{least: 10 * time.Millisecond, most: w.a.lease / 3}
	if answered {
		w.wait(s.ctx, pause.next())
	}
	for {
		// The last sweep must be sent after the limbo, not only answered after it: a late acquire may come between.
		last := limbo.Reached(clock.Now())
		s.repeat(w, given)
		over := last || !w.a.doubt.Load()
		if s.ctx.Err() != nil || over && s.done(w) {
			break
		}
		if !over {
			w.wait(s.ctx, min(pause.next(), max(limbo.Until(clock.Now()), time.Millisecond)))
		}
	}
	s.mu.Lock()
	delete(s.running, w.a.id)
	s.mu.Unlock()
}

// repeat ends the acquisition until Redis answered or given is reached, or once more when the client is being closed.
func (s *sweeper) repeat(w *sweep, given clock.Stamp) {
	pause := backoff{least: 20 * time.Millisecond, most: max(w.a.lease/3, 20*time.Millisecond)}
	for {
		err := errIdle
		if s.ctx.Err() != nil || !s.idle() {
			ctx, cancel := context.WithTimeout(context.Background(), w.a.timeout)
			err = s.end(ctx, w.a)
			cancel()
		}
		if err == nil || !healing(err) || s.ctx.Err() != nil || given.Reached(clock.Now()) {
			return
		}
		sleep(s.ctx, pause.next())
	}
}

// done removes w unless something new about it was seen meanwhile.
func (s *sweeper) done(w *sweep) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.again:
		return false
	default:
		delete(s.running, w.a.id)
		return true
	}
}

// wait sleeps for d or until something new is seen; false when the sweeper is being closed.
func (w *sweep) wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.again:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *sweep) poke() {
	select {
	case w.again <- struct{}{}:
	default:
	}
}

// close lets every sweep try once more and waits for them.
func (s *sweeper) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}
