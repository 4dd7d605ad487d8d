// Package election lets one process at a time lead, among all that use the same Redis, or the same
// quorum.
//
//	leader := election.New(locks.Mutex("billing:leader", relock.WithLease(5*time.Second)))
//	err := leader.Run(ctx, func(ctx context.Context) error {
//		return bill(ctx, relock.Token(ctx)) // ctx ends before another process leads
//	})
//
// A leader holds a [relock.Mutex]. The others wait in its queue and follow in order of arrival. A
// process leads for one term after the other: Run calls the function once in each.
//
// # How a term ends
//
// The function's context says why, as its [context.Cause]. It ends first. Then Run waits for the
// function to return, and only then gives the lock to the process that has waited longest, which
// takes one message. The function must return soon after its context ends.
//
//	cause                        what happened                         what Run does then
//	relock.ErrLost               the lease ran out, or it was forced   waits for its next term
//	relock.ErrMaxHold            relock.WithMaxHold's time was up      waits for its next term
//	ErrResigned                  Resign was called                     waits for its next term
//	ErrGaveWay                   another process waits, see GiveWay    waits for its next term
//	what ended Run's context     the caller stops                      returns nil
//	relock.ErrClosed             the client was closed                 returns relock.ErrClosed
//	what the function returned   it failed                             returns that error
//
// A function that returns nil goes on leading: this process leads until its term ends otherwise, as
// under a callback of client-go's or of Curator's LeaderLatch. What it started may run under its
// context meanwhile. A function that has led for long enough calls Resign.
//
// # When a process fails
//
// If the leader's process dies, another leads when its lease has run out: after [relock.WithLease],
// 30 seconds by default. If Redis does not answer the leader, its term ends before another can
// lead. Processes that wait go on waiting through an outage. Before the client is closed, end Run's
// context and wait for Run: Close alone leaves the lock to the end of its lease.
//
// # What it cannot promise
//
// By the leases, two processes never lead at once, as long as their clocks run equally fast and
// Redis does not forget the lock. No lease can keep these from acting late:
//
//   - a process that is stopped between a look at its context and a write;
//   - a function that does not return when its context ends. Run then waits for it, and calls no
//     second function beside it. If the lock was lost, another process leads meanwhile. If not, no
//     process does until the function returns: [relock.WithMaxHold] bounds that.
//
// So give [relock.Token] of the function's context to the store that is written to, and let the
// store refuse what is lower than the greatest token it has seen. docs/safety.md in the repository
// says which faults make Redis forget a lock.
package election

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock"
)

var (
	// ErrResigned is the cause of the function's context after Resign.
	ErrResigned = errors.New("relock: election: the leader resigned")
	// ErrGaveWay is the cause of the function's context once the leader gave way to another
	// process.
	ErrGaveWay = errors.New("relock: election: the leader gave way")
)

var (
	errNilContext = fmt.Errorf("%w: the context is nil", relock.ErrMisuse)
	errNilFunc    = fmt.Errorf("%w: the function is nil", relock.ErrMisuse)
	errRunning    = fmt.Errorf("%w: Run is under way already", relock.ErrMisuse)
)

// standBack is how long a process that gave the lead away leaves it to the others. An unlock passes
// over a waiter that has just come and does not hear messages yet: that one asks again.
//
// It is also the least time between two tries for the lock, where relock.WithWait ends them.
const standBack = 100 * time.Millisecond

// An Election is this process's part in one election: the one of all that use the same Mutex. Its
// methods may be called from any goroutine.
type Election struct {
	m       *relock.Mutex
	after   time.Duration // of WithGiveWay, 0 for never
	err     error         // what was wrong with the options
	running atomic.Bool

	mu      sync.Mutex    // guards what follows
	now     term          // zero while this process does not lead
	changed chan struct{} // closed, and made anew, as a term begins or ends
}

// term is a time in which this process leads.
type term struct {
	ctx context.Context         // the lease's
	end context.CancelCauseFunc // ends ctx
}

// New returns the election whose leader holds m. Run reports what is wrong with m or an option. For
// the leader's name, give [relock.WithClientName] to m's client.
//
// All processes must give the same name of m. With [relock.WithLease] m says how soon another leads
// after a crash. [relock.WithWait] is for locks that may be given up: under it Run begins to wait
// anew each time, behind all others.
func New(m *relock.Mutex, opts ...Option) *Election {
	e := &Election{m: m, changed: make(chan struct{})}
	for _, opt := range opts {
		if opt.apply != nil {
			opt.apply(e)
		}
	}
	return e
}

// An Option changes how a process takes part in an election.
type Option struct{ apply func(*Election) }

// WithGiveWay makes a leader that has led for after end its term, with cause ErrGaveWay, once another
// process waits to lead, or has tried to take the lock. So processes of a new release come to lead
// while those of the old one still run. The process that has waited longest leads next.
//
// Where several processes always wait, they take turns of after each. The leader that gave way
// waits again too, as after Resign. So let after be longer than a deployment needs to end the old
// processes, or the lead comes back to them. A leader hears of waiting processes as
// [relock.Lease.Wanted] says, and not of other elections over its own client.
//
// after must be positive: otherwise Run returns relock.ErrInvalidOption. By default a leader leads
// until it resigns or fails.
func WithGiveWay(after time.Duration) Option {
	return Option{func(e *Election) {
		e.after = after
		if after <= 0 {
			e.err = fmt.Errorf("%w: WithGiveWay: %v is not positive", relock.ErrInvalidOption, after)
		}
	}}
}

// Run waits until this process leads, and then calls fn. When that term is over it waits for the
// next one, again and again, until ctx ends or it fails. fn's context derives from ctx, carries the
// lease of the lock (see [relock.FromContext] and [relock.Token]), and ends as the package says.
//
// When Run returns, fn has returned and the lock is given back. If Redis does not answer, that
// takes one command timeout, and goes on behind Run. A panic of fn gives the lock back and goes on.
//
// Run returns nil once ctx has ended. Errors:
//
//   - what fn returned, if it failed before its context ended. Later errors are not looked at: they
//     mostly are the context's own.
//   - ErrRefused, in a *NodeError (*QuorumError on a quorum), if no retry helps.
//   - ErrClosed if the client was closed.
//   - ErrMisuse for a nil argument, while another Run of this Election is under way, and for what
//     New was given wrongly.
//
// ErrUnavailable, what heals, is waited out as by Mutex.Lock. Only a client of Redis that was closed
// makes Run return it.
func (e *Election) Run(ctx context.Context, fn func(ctx context.Context) error) error {
	switch {
	case ctx == nil:
		return errNilContext
	case fn == nil:
		return errNilFunc
	case e.err != nil:
		return e.err
	case !e.running.CompareAndSwap(false, true):
		return errRunning
	}
	defer e.running.Store(false)
	for ctx.Err() == nil {
		if err := e.serve(ctx, fn); err != nil {
			return err
		}
	}
	return nil
}

// serve waits for a term and leads. It returns an error only if Run is to return it.
func (e *Election) serve(caller context.Context, fn func(ctx context.Context) error) error {
	// The lease's context is fn's own, and ends by the end of the one it derives from. A context
	// that derived from the lease's would not look at the clock: after a stop of the process it
	// would go on for a moment. Without Detach, Lock might re-enter a lock that the caller holds.
	ctx, end := context.WithCancelCause(relock.Detach(caller))
	defer end(nil)
	next := time.NewTimer(standBack)
	defer next.Stop()
	lease, err := e.m.Lock(ctx)
	switch {
	case err == nil:
		if err := e.lead(lease, end, fn); err != nil {
			return err
		}
		if cause := context.Cause(ctx); cause != ErrResigned && cause != ErrGaveWay {
			return nil
		}
		next.Reset(standBack)
	case ctx.Err() != nil:
		return nil
	case !errors.Is(err, relock.ErrNotAcquired) && !errors.Is(err, context.DeadlineExceeded):
		return err // Lock waits out what heals, but for the time of WithWait
	}
	select {
	case <-next.C:
	case <-caller.Done():
	}
	return nil
}

// lead serves a term, of a lease whose context ends by end. It returns fn's error if fn failed.
func (e *Election) lead(
	lease *relock.Lease, end context.CancelCauseFunc, fn func(ctx context.Context) error,
) error {
	leads := lease.Context()
	e.tell(term{leads, end})
	defer e.tell(term{}) // last of all: when Watch asks, the next leader has the lock
	defer lease.Unlock(leads)
	var giving sync.WaitGroup
	if e.after > 0 {
		giving.Go(func() { e.giveWay(lease, end) })
	}
	defer giving.Wait()
	defer end(nil) // a panic ends fn's context too, before the lock is given back
	if err := fn(leads); err != nil && leads.Err() == nil {
		end(err)
		return err
	}
	<-leads.Done()
	return nil
}

// giveWay ends the term of a lease once it has lasted long enough and another process waits. It
// returns when the term is over.
func (e *Election) giveWay(lease *relock.Lease, end context.CancelCauseFunc) {
	long := time.NewTimer(e.after)
	defer long.Stop()
	var wanted <-chan struct{} // nil until the term is long enough
	for {
		select {
		case <-lease.Context().Done():
			return
		case <-long.C:
			wanted = lease.Wanted()
		case <-wanted:
			term{lease.Context(), end}.over(ErrGaveWay)
			return
		}
	}
}

// tell notes that a term has begun or, with a zero one, that it is over.
func (e *Election) tell(now term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = now
	close(e.changed)
	e.changed = make(chan struct{})
}

// Resign ends the term of this process, with cause ErrResigned, and returns at once: fn may call
// it. When fn has returned, the lock goes to the process that has waited longest. A tenth of a
// second later Run waits for its next term, behind all others; if there are none it leads again. To
// leave the election, end Run's context. While this process does not lead, or its term has ended
// already, Resign does nothing.
func (e *Election) Resign() {
	e.mu.Lock()
	now := e.now
	e.mu.Unlock()
	now.over(ErrResigned)
}

// over ends the term, unless it is over.
func (t term) over(cause error) {
	if t.end != nil && t.ctx.Err() == nil {
		t.end(cause)
	}
}
