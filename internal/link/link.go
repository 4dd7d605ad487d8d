// Package link sends scripts to one Redis. It bounds how many commands are out. A caller may leave
// before its answer: the command then runs on to its own timeout, and its answer still tells what
// became of it.
//
// A client library writes commands into a ring. A Redis that hangs fills the ring, and a full ring
// holds its callers however short their contexts are. So every command runs in a goroutine that
// holds a permit until the library returns. A caller waits for the permit and the answer only as
// long as its context lives.
package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/crew"
	"github.com/relock-go/relock/internal/driver"
)

// Link sends the scripts of one client to one Redis.
type Link struct {
	Timeout time.Duration // of a command, which its caller's end does not shorten

	rdb driver.Redis
	// Apart reports whether a batch was refused for one of its calls, so that it ran for none.
	Apart    func(error) bool
	ended    func(error) // called when a sent command has ended: nil if Redis answered; may be nil
	commands sync.Pool   // *command: those that were answered in time
	joined   sync.Pool   // *joined

	// lanes hold the permits. A Cluster has several, by slot, so that a master that hangs does not
	// stop the others.
	lanes []chan struct{}

	// A Cluster has a batcher for each slot, since the keys of one command must be in one slot. It
	// is nil until the slot is first used. Any other Redis has one batcher.
	batchers []atomic.Pointer[batcher]
	batcher  batcher

	out crew.Crew // the commands
}

const (
	lanePermits        = 256 // commands out at once to one Redis
	clusterLanes       = 16  // of 1,024 slots each
	clusterLanePermits = 64
)

// New returns a link. It calls ended, unless that is nil, when a command has ended that had its
// whole timeout: with nil if Redis answered, be it with an error.
func New(rdb driver.Redis, timeout time.Duration, ended func(error)) *Link {
	l := &Link{rdb: rdb, Timeout: timeout, ended: ended}
	lanes, permits := 1, lanePermits
	if rdb.Cluster() {
		lanes, permits = clusterLanes, clusterLanePermits
		l.batchers = make([]atomic.Pointer[batcher], driver.Slots)
	}
	for range lanes {
		l.lanes = append(l.lanes, make(chan struct{}, permits))
	}
	return l
}

// A Latecomer hears what became of a command after its caller has left, in the command's goroutine:
// nil when Redis answered, be it with an error.
type Latecomer interface{ Late(err error) }

// Unheeded is a latecomer for a command that no lock needs. What became of that command is reported
// to no one, and it counts neither as answered nor as unanswered.
var Unheeded Latecomer = unheeded{}

type unheeded struct{}

func (unheeded) Late(error) {}

// Do runs a script and returns its answer, or an error when ctx ended or timeout was over first.
// The error is driver.ErrUnsent where the command surely never ran. Where it may have, late hears what
// became of it in the end, unless late is nil.
func (l *Link) Do(ctx context.Context, timeout time.Duration, s *driver.Script, keys, args []string,
	late Latecomer) (driver.Value, error) {
	lane := l.lane(keys)
	if err := enter(ctx, timeout, lane); err != nil {
		return driver.Value{}, err
	}
	return l.send(ctx, timeout, lane, nil, s, keys, args, late)
}

// Urge is Do for what keeps leases alive. It waits for no permit: a lease must not run out behind a
// full lane. Its sender bounds how many such commands are out.
func (l *Link) Urge(ctx context.Context, s *driver.Script, keys, args []string) (driver.Value, error) {
	return l.send(ctx, l.Timeout, nil, nil, s, keys, args, nil)
}

// enter takes a permit while ctx lives, and for timeout at most.
func enter(ctx context.Context, timeout time.Duration, lane chan struct{}) error {
	if ctx.Err() == nil {
		select {
		case lane <- struct{}{}:
			return nil
		default:
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		select {
		case lane <- struct{}{}:
			return nil
		case <-ctx.Done():
			return unsent(ctx)
		}
	}
	return unsent(ctx)
}

func unsent(ctx context.Context) error {
	return fmt.Errorf("%w: %w", driver.ErrUnsent, &Left{Cause: context.Cause(ctx)})
}

// command is a command that is out, or a call that is queued for a batch. It is its own context,
// which keeps the caller's values and ends by a timeout alone.
//
// The first to set claimed decides what becomes of it:
//
//	queued    In a batcher's queue. Taken with its batch: sent. Withdrawn by the caller: never sent.
//	sent      Claimed by the sender: answered. By the timer, if batched: overdue. By the caller: left.
//	answered  The caller receives the answer.
//	overdue   The caller receives errOverdue. A call that is still queued is then withdrawn.
//	left      The caller has returned.
//
// The answer to a command that is overdue or left goes to its latecomer. Only a caller that has
// received the answer while the timer had not fired may give the command to the pool: neither the
// sender nor the timer refers to it then.
type command struct {
	context.Context
	deadline time.Time
	timer    *time.Timer
	done     chan struct{} // closed by timer
	expired  atomic.Bool   // set by timer before it closes done

	answer  chan answer // one slot
	claimed atomic.Bool
	fired   bool // the timer has fired; written before the answer is sent, and not for a batched call

	call    call        // of a batched call
	batched atomic.Bool // the caller waits for answer alone, so the timer has to send errOverdue there
}

type answer struct {
	value driver.Value
	err   error
}

func (l *Link) newCommand(ctx context.Context, timeout time.Duration) *command {
	c, _ := l.commands.Get().(*command)
	if c == nil {
		c = &command{answer: make(chan answer, 1), done: make(chan struct{})}
		c.timer = time.AfterFunc(timeout, func() {
			c.expired.Store(true)
			close(c.done)
			c.overdue()
		})
	} else {
		c.timer.Reset(timeout)
	}
	c.Context, c.deadline = ctx, time.Now().Add(timeout)
	return c
}

// Deadline is when the command gives up by itself.
func (c *command) Deadline() (time.Time, bool) { return c.deadline, true }

// Done is closed then.
func (c *command) Done() <-chan struct{} { return c.done }

// Err is about the command's timeout. The caller's context does not count.
func (c *command) Err() error {
	if c.expired.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

func (l *Link) send(ctx context.Context, timeout time.Duration, permit chan struct{}, b *batcher, s *driver.Script,
	keys, args []string, late Latecomer) (driver.Value, error) {
	l.out.Join()
	c := l.newCommand(ctx, max(timeout, l.Timeout))
	go l.run(c, permit, b, s, keys, args, late)
	var early <-chan time.Time
	if timeout < l.Timeout {
		t := time.NewTimer(timeout)
		defer t.Stop()
		early = t.C
	}
	got, answered := c.wait(ctx, early)
	if answered && !c.fired { // neither the sender nor the timer refers to it any more
		c.claimed.Store(false)
		l.commands.Put(c)
	}
	return got.value, got.err
}

func (l *Link) run(c *command, permit chan struct{}, b *batcher, s *driver.Script, keys, args []string, late Latecomer) {
	defer l.out.Leave()
	if b != nil {
		defer l.sendNext(b, 1)
	}
	value, err := l.rdb.Run(c, s, keys, args)
	c.fired = !c.timer.Stop()
	leave(permit)
	silent := err
	if !Unanswered(err) {
		silent = nil
	}
	if l.ended != nil && late != Unheeded {
		l.ended(silent)
	}
	if c.claimed.CompareAndSwap(false, true) {
		c.answer <- answer{value, err}
	} else if late != nil {
		late.Late(silent)
	}
}

// wait returns the answer, or why the caller left before it came. A caller that leaves must claim
// the command. If the sender was faster, the answer is there in a moment, and the caller takes it.
func (c *command) wait(ctx context.Context, early <-chan time.Time) (got answer, answered bool) {
	err := context.DeadlineExceeded
	select {
	case got := <-c.answer:
		return got, true
	case <-ctx.Done():
		err = &Left{Cause: context.Cause(ctx)}
	case <-early:
	case <-c.done: // the library may return much later
	}
	if !c.claimed.CompareAndSwap(false, true) {
		return <-c.answer, true
	}
	return answer{err: err}, false
}

func (l *Link) lane(keys []string) chan struct{} {
	if len(l.lanes) == 1 {
		return l.lanes[0]
	}
	return l.lanes[int(driver.Slot(keys[0]))*len(l.lanes)/driver.Slots]
}

func leave(lane chan struct{}) {
	if lane != nil {
		<-lane
	}
}

// Close returns when no command is out, at the latest after two timeouts. Where the library's ring
// is full, a command hangs until the library gives its connection up. Close bars no command: an
// Unlock that runs while its client is closed must still give its lock back.
func (l *Link) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*l.Timeout)
	defer cancel()
	l.out.Wait(ctx)
}

// Draining reports whether Close waits for commands that are out.
func (l *Link) Draining() bool { return l.out.Awaited() }

// Left says that a caller left before the answer came, and why. It matches its cause by errors.Is
// but never by errors.As: a cause is the caller's own, and may be what some other Redis answered.
type Left struct{ Cause error }

// Error is the cause's.
func (e *Left) Error() string { return e.Cause.Error() }

// Is reports whether the cause is target. It is never true for driver.ErrUnsent: such a cause is about
// another command.
func (e *Left) Is(target error) bool { return target != driver.ErrUnsent && errors.Is(e.Cause, target) }

// Reply returns what Redis answered, "" when err is no error of Redis's.
func Reply(err error) string {
	var reply *driver.ReplyError
	if !errors.As(err, &reply) {
		return ""
	}
	return reply.Text
}

// Unanswered reports whether a command failed with err without an answer of Redis's.
func Unanswered(err error) bool { return err != nil && Reply(err) == "" }

// MayHaveRun reports whether an unanswered command that failed with err may have run, or may run
// yet. A command that was never sent did not run.
func MayHaveRun(err error) bool { return Unanswered(err) && !errors.Is(err, driver.ErrUnsent) }
