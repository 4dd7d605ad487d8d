// Package link sends scripts to one Redis. It bounds how many commands are out, and it lets a
// command whose caller has left run on to its own time-out, so that its answer still tells what
// became of it.
//
// A client library writes commands into a ring. A Redis that hangs fills the ring, and a full ring
// holds its callers however short their contexts are. So every command runs in a goroutine that
// holds a permit until the library returns, and a caller waits for the permit and the answer only
// as long as its context lives.
package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/crew"
	"github.com/relock-go/relock/internal/driver"
)

// Link sends the scripts of one client to one Redis.
type Link struct {
	Timeout time.Duration // of a command whose caller has left

	rdb driver.Redis
	// Apart reports whether a command for many was refused for one of them, so that it ran for none.
	Apart    func(error) bool
	answered func(error) // told of each command that was sent: nil when it was answered; may be nil
	commands sync.Pool   // those that were answered in time, for reuse
	joined   sync.Pool   // *joined, likewise

	// lanes hold the permits. A Cluster has several, by slot, so that a master that hangs does not
	// stop the others.
	lanes []chan struct{}

	// crowds are those of a Cluster's slots: scripts for many must keep to one. Else there is one.
	crowds []atomic.Pointer[crowd]
	crowd  crowd

	out crew.Crew // the commands
}

const (
	lanePermits        = 256 // commands out at once to one Redis
	clusterLanes       = 16  // of 1,024 slots each
	clusterLanePermits = 64
	clusterSlots       = 1 << 14
)

// New returns a link. It tells answered, unless that is nil, of each command that had its whole
// time-out: nil when Redis answered, be it with an error.
func New(rdb driver.Redis, timeout time.Duration, answered func(error)) *Link {
	l := &Link{rdb: rdb, Timeout: timeout, answered: answered}
	lanes, permits := 1, lanePermits
	if rdb.Cluster() {
		lanes, permits = clusterLanes, clusterLanePermits
		l.crowds = make([]atomic.Pointer[crowd], clusterSlots)
	}
	for range lanes {
		l.lanes = append(l.lanes, make(chan struct{}, permits))
	}
	return l
}

// A Latecomer hears what became of a command after its caller has left, in the command's goroutine:
// nil when Redis answered, be it with an error.
type Latecomer interface{ Late(err error) }

// Unheeded is a latecomer for a command that no lock needs: nobody hears what became of it, and it
// does not count as answered or not.
var Unheeded Latecomer = unheeded{}

type unheeded struct{}

func (unheeded) Late(error) {}

// Do runs a script and returns its answer, or an error when ctx ended or timeout was over first.
// The error is ErrUnsent where the command surely never ran. Where it may have, who hears what
// became of it in the end, unless who is nil.
func (l *Link) Do(ctx context.Context, timeout time.Duration, s *driver.Script, keys, args []string,
	who Latecomer) (driver.Value, error) {
	lane := l.lane(keys)
	if err := enter(ctx, timeout, lane); err != nil {
		return driver.Value{}, err
	}
	return l.send(ctx, timeout, lane, nil, s, keys, args, who)
}

// Urge is Do for what keeps leases alive: it waits for no permit, its sender bounds how much of it
// is out.
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
	return fmt.Errorf("%w: %w", ErrUnsent, &Left{Cause: context.Cause(ctx)})
}

// command is one that is out. It is its own context, which ends by a time-out alone and keeps the
// caller's values. The caller and the command's goroutine agree by claimed, which of them comes
// first, on who hears the answer: the caller, or a latecomer.
type command struct {
	context.Context
	deadline time.Time
	timer    *time.Timer
	done     chan struct{} // closed by timer
	over     atomic.Bool   // likewise, before

	answer  chan answer
	claimed atomic.Bool
	spent   bool // the timer has fired; written before answer is sent

	call call        // of one that goes together with others
	told atomic.Bool // such a one's caller hears by answer that the time is over
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
			c.over.Store(true)
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

// Err tells of that, and not of the caller's context.
func (c *command) Err() error {
	if c.over.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

func (l *Link) send(ctx context.Context, timeout time.Duration, permit chan struct{}, of *crowd, s *driver.Script,
	keys, args []string, who Latecomer) (driver.Value, error) {
	l.out.Join()
	c := l.newCommand(ctx, max(timeout, l.Timeout))
	go l.run(c, permit, of, s, keys, args, who)
	var early <-chan time.Time
	if timeout < l.Timeout {
		t := time.NewTimer(timeout)
		defer t.Stop()
		early = t.C
	}
	got, answered := c.wait(ctx, early)
	if answered && !c.spent { // nobody else holds it
		c.claimed.Store(false)
		l.commands.Put(c)
	}
	return got.value, got.err
}

func (l *Link) run(c *command, permit chan struct{}, of *crowd, s *driver.Script, keys, args []string, who Latecomer) {
	defer l.out.Leave()
	if of != nil {
		defer l.follow(of, 1)
	}
	value, err := l.rdb.Run(c, s, keys, args)
	c.spent = !c.timer.Stop()
	leave(permit)
	silent := err
	if !Unanswered(err) {
		silent = nil
	}
	if l.answered != nil && who != Unheeded {
		l.answered(silent)
	}
	if c.claimed.CompareAndSwap(false, true) {
		c.answer <- answer{value, err}
	} else if who != nil {
		who.Late(silent)
	}
}

// wait returns the answer, or why the caller has left before it came.
func (c *command) wait(ctx context.Context, early <-chan time.Time) (got answer, answered bool) {
	err := context.DeadlineExceeded
	select {
	case got := <-c.answer:
		return got, true
	case <-ctx.Done():
		err = &Left{Cause: context.Cause(ctx)}
	case <-early:
	case <-c.done: // the library may hang beyond that
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
	return l.lanes[int(l.rdb.Slot(keys[0]))*len(l.lanes)>>14]
}

// Slot is the Cluster slot of a key.
func (l *Link) Slot(key string) uint16 { return l.rdb.Slot(key) }

func leave(lane chan struct{}) {
	if lane != nil {
		<-lane
	}
}

// Close returns when no command is out, at the latest after two time-outs: where the library's ring
// is full a command hangs until the library gives its connection up. It bars no command: an Unlock
// may be on its way while its client is closed, and must still give its lock back.
func (l *Link) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*l.Timeout)
	defer cancel()
	l.out.Wait(ctx)
}

// Draining reports whether Close waits for commands that are out.
func (l *Link) Draining() bool { return l.out.Awaited() }

// ErrUnsent says that a command was never given to Redis.
var ErrUnsent = errors.New("not sent")

// Left says that a caller left before the answer came, and why. It matches its cause by errors.Is
// but never by errors.As: a cause is the caller's own, and may be what some other Redis answered.
type Left struct{ Cause error }

// Error tells the cause.
func (e *Left) Error() string { return e.Cause.Error() }

// Is reports whether the cause is target. It never is ErrUnsent, which a cause may be of some other
// command.
func (e *Left) Is(target error) bool { return target != ErrUnsent && errors.Is(e.Cause, target) }

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

// MayHaveRun reports whether an unanswered command that failed with err may have run, or may yet.
// One that was never given to Redis did not, and a connection that was refused carried nothing.
func MayHaveRun(err error) bool {
	if !Unanswered(err) || errors.Is(err, ErrUnsent) {
		return false
	}
	var dial *net.OpError
	return !errors.As(err, &dial) || dial.Op != "dial"
}
