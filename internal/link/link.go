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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/crew"
	"github.com/relock-go/relock/internal/driver"
)

// Link sends the scripts of one client to one Redis.
type Link struct {
	Timeout time.Duration // of a command; a caller that leaves does not shorten it

	// Apart reports whether a batch was refused for one of its calls, so that it ran for none. It
	// may be nil.
	Apart func(error) bool

	rdb    driver.Redis
	report func(silent error) // see New; may be nil

	commands sync.Pool // *command: those whose callers have their answers
	joined   sync.Pool // *joined

	// lanes hold the permits. A Cluster has several, by slot, so that a master that hangs does not
	// stop the others.
	lanes []chan struct{}

	// A Cluster has a batcher for each slot, since the keys of one command must be in one slot. It
	// is nil until the slot is first used. Any other Redis has one batcher.
	batchers []atomic.Pointer[batcher]
	batcher  batcher

	out crew.Crew // the goroutines that have a command out
}

const (
	lanePermits        = 256 // commands out at once to one Redis
	clusterLanes       = 16  // of 1,024 slots each
	clusterLanePermits = 64
)

// New returns a link. Unless report is nil, the link calls it at the end of each command that had its
// whole timeout: with nil if Redis answered, even with an error, otherwise with why it did not.
func New(rdb driver.Redis, timeout time.Duration, report func(silent error)) *Link {
	l := &Link{rdb: rdb, Timeout: timeout, report: report}
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
// nil if Redis answered, even with an error.
type Latecomer interface{ Late(err error) }

// Unheeded is a latecomer for a command that no lock needs. The command's result is not reported: it
// counts neither as answered nor as unanswered.
var Unheeded Latecomer = unheeded{}

type unheeded struct{}

func (unheeded) Late(error) {}

// Do runs a script and returns its answer. It returns an error if ctx ends or timeout is over first,
// the wait for a permit included: driver.ErrUnsent if the command surely never ran. If the command may
// have run, late hears what became of it in the end, unless late is nil. Do keeps a copy of args.
func (l *Link) Do(ctx context.Context, timeout time.Duration, s *driver.Script, keys, args []string,
	late Latecomer) (driver.Value, error) {
	lane := l.lane(keys)
	left, err := enter(ctx, timeout, lane)
	if err != nil {
		return driver.Value{}, err
	}
	return l.send(l.newCommand(ctx, max(timeout, l.Timeout), keys, args, late), left, s, lane, nil)
}

// Urge is Do for commands that keep leases alive. It waits for no permit: a lease must not run out
// behind a full lane. Its caller bounds how many such commands are out.
func (l *Link) Urge(ctx context.Context, s *driver.Script, keys, args []string) (driver.Value, error) {
	return l.send(l.newCommand(ctx, l.Timeout, keys, args, nil), l.Timeout, s, nil, nil)
}

// lane returns the lane of the keys' slot.
func (l *Link) lane(keys []string) chan struct{} {
	if len(l.lanes) == 1 {
		return l.lanes[0]
	}
	return l.lanes[int(driver.Slot(keys[0]))*len(l.lanes)/driver.Slots]
}

// enter waits for a permit of lane, until ctx ends and for timeout at most. It returns what is left of
// timeout for the command's answer.
func enter(ctx context.Context, timeout time.Duration, lane chan struct{}) (left time.Duration, err error) {
	if ctx.Err() != nil { // a select could take a permit all the same
		return 0, unsent(context.Cause(ctx))
	}
	select {
	case lane <- struct{}{}: // without a timer
		return timeout, nil
	default:
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case lane <- struct{}{}:
		return timeout - time.Since(began), nil
	case <-ctx.Done():
		return 0, unsent(context.Cause(ctx))
	}
}

// unsent is the error of a caller that left, for a cause, before its command was sent.
func unsent(cause error) error { return fmt.Errorf("%w: %w", driver.ErrUnsent, &Left{Cause: cause}) }

// command is a command that is out, or a call of a batch. It is the context that the client library
// is given: it keeps the values of the caller's context, and ends by a timeout alone.
//
// The caller and the sender race to set claimed. The first decides what becomes of the command:
//
//	answered  The sender was first. The caller receives the answer.
//	left      The caller was first: its context ended, or its time was over. It has returned. The
//	          sender gives the answer to the latecomer.
//
// A call of a batch is queued before it is sent. A caller that leaves takes its call out of the
// queue, if it is still there; it then was surely never sent.
//
// An answered command goes back to the pool. By then only its timer may still refer to it, so it
// goes back only if the timer was stopped before it fired.
type command struct {
	context.Context
	keys, args []string
	late       Latecomer // may be nil
	timeout    time.Duration
	deadline   time.Time
	timer      *time.Timer
	expired    atomic.Bool   // set by timer before it closes done
	done       chan struct{} // closed by timer
	claimed    atomic.Bool
	answer     chan answer // one slot
}

type answer struct {
	value driver.Value
	err   error
}

// newCommand returns a command whose timeout begins now. It keeps a copy of args.
func (l *Link) newCommand(ctx context.Context, timeout time.Duration, keys, args []string, late Latecomer) *command {
	c, _ := l.commands.Get().(*command)
	if c == nil {
		c = &command{answer: make(chan answer, 1), done: make(chan struct{})}
		c.timer = time.AfterFunc(timeout, func() {
			c.expired.Store(true)
			close(c.done)
		})
	} else {
		c.timer.Reset(timeout)
	}
	c.Context, c.keys, c.args, c.late = ctx, keys, append(c.args, args...), late
	c.timeout, c.deadline = timeout, time.Now().Add(timeout)
	return c
}

// recycle gives a command that was answered to the pool. The caller must not use it any more.
func (l *Link) recycle(c *command) {
	if c.timer.Stop() {
		c.args = emptied(c.args)
		c.claimed.Store(false)
		l.commands.Put(c)
	}
}

// Deadline is when the command gives up by itself.
func (c *command) Deadline() (time.Time, bool) { return c.deadline, true }

// Done is closed at the deadline.
func (c *command) Done() <-chan struct{} { return c.done }

// Err reports whether the command's timeout is over. The caller's context does not count.
func (c *command) Err() error {
	if c.expired.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

// send runs a script as the command c, and gives the permit back when the command has ended. The
// caller waits for the answer for timeout at most. If b is not nil, the command counts as out there
// until it has ended, and its end may send the next batch.
func (l *Link) send(c *command, timeout time.Duration, s *driver.Script, permit chan struct{}, b *batcher) (driver.Value, error) {
	l.out.Join()
	go l.run(c, s, permit, b)
	var early <-chan time.Time
	if timeout < c.timeout {
		t := time.NewTimer(timeout)
		defer t.Stop()
		early = t.C
	}
	got, answered := c.wait(early)
	if answered {
		l.recycle(c)
	}
	return got.value, got.err
}

// run is the goroutine of a command: it executes the script and delivers the answer.
func (l *Link) run(c *command, s *driver.Script, permit chan struct{}, b *batcher) {
	defer l.out.Leave()
	if b != nil {
		defer l.sendNext(b, 1)
	}
	value, err := l.exec(c, s, c.keys, c.args)
	if permit != nil {
		<-permit
	}
	if l.report != nil && c.late != Unheeded {
		l.report(Silence(err))
	}
	c.deliver(answer{value, err}, err)
}

// exec runs a script. A server of a Cluster may answer that a key is at another server: one of the
// keys, or one that the script names by itself. If the client knows only that server, exec marks the
// answer as Astray.
func (l *Link) exec(ctx context.Context, s *driver.Script, keys, args []string) (driver.Value, error) {
	value, err := l.rdb.Run(ctx, s, keys, args)
	if reply, answered := err.(*driver.ReplyError); answered && elsewhere(reply.Text) && !l.rdb.Cluster() {
		astray := *reply
		astray.Astray, err = true, &astray
	}
	return value, err
}

// elsewhere reports whether a server of a Cluster says that another server has a key.
func elsewhere(reply string) bool {
	return strings.HasPrefix(reply, "MOVED ") || strings.HasPrefix(reply, "ASK ") ||
		strings.Contains(reply, "attempted to access a non local key")
}

// wait returns the answer, or why the caller left before it came: its context ended, early came, or
// the command's own time is over. A caller that leaves must claim the command. If the sender was
// faster, the answer is there in a moment, and the caller takes it.
func (c *command) wait(early <-chan time.Time) (got answer, answered bool) {
	err := context.DeadlineExceeded
	select {
	case got := <-c.answer:
		return got, true
	case <-c.Context.Done():
		err = &Left{Cause: context.Cause(c.Context)}
	case <-early:
	case <-c.done: // the client library may return much later: it is not waited for
	}
	if !c.claimed.CompareAndSwap(false, true) {
		return <-c.answer, true
	}
	return answer{err: err}, false
}

// deliver gives the answer to the caller, or tells the latecomer if the caller has left. failure is
// why the command as a whole failed. The sender must not use c any more: a caller that has its
// answer gives c away.
func (c *command) deliver(got answer, failure error) {
	if c.claimed.CompareAndSwap(false, true) {
		c.answer <- got
		return
	}
	c.timer.Stop() // nothing waits for it
	if c.late != nil {
		c.late.Late(Silence(failure))
	}
}

// Silence returns err if Redis did not answer, nil if it did.
func Silence(err error) error {
	if Unanswered(err) {
		return err
	}
	return nil
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

// Reply returns the text of Redis's error reply, "" if err is none.
func Reply(err error) string {
	var reply *driver.ReplyError
	if !errors.As(err, &reply) {
		return ""
	}
	return reply.Text
}

// Astray reports whether err is marked as driver.ReplyError.Astray: the answer of one server of a
// Cluster to a client that knows no other.
func Astray(err error) bool {
	var reply *driver.ReplyError
	return errors.As(err, &reply) && reply.Astray
}

// Stranger reports whether err is marked as driver.ReplyError.Stranger: the refusal of a login that never
// succeeded.
func Stranger(err error) bool {
	var reply *driver.ReplyError
	return errors.As(err, &reply) && reply.Stranger
}

// Unanswered reports whether a command failed with err without an answer of Redis's.
func Unanswered(err error) bool { return err != nil && Reply(err) == "" }

// MayHaveRun reports whether an unanswered command that failed with err may have run, or may run
// yet. A command that was never sent did not run.
func MayHaveRun(err error) bool { return Unanswered(err) && !errors.Is(err, driver.ErrUnsent) }
