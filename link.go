package relock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// link sends scripts to one Redis. It bounds how many commands are out, and it lets a command whose caller has left run
// on to its own time-out, so that its answer still tells what became of it.
//
// The client library writes commands into a ring. A Redis that hangs fills the ring, and a full ring holds its callers
// however short their contexts are. So every command runs in a goroutine that holds a permit until the library returns,
// and a caller waits for the permit and the answer only as long as its context lives.
type link struct {
	rdb     rueidis.Client
	timeout time.Duration // of a command whose caller has left
	heard   func(error)   // told of each command that was sent: nil when it was answered; may be nil

	commands sync.Pool // those that were answered in time, for reuse

	// lanes hold the permits. A Cluster has several, by slot, so that a master that hangs does not stop the others.
	lanes []chan struct{}

	mu   sync.Mutex    // guards what follows
	out  int           // goroutines that run
	idle chan struct{} // closed when out falls to 0; nil while nobody waits for that
}

const (
	lanePermits        = 256 // commands out at once to one Redis
	clusterLanes       = 16  // of 1,024 slots each
	clusterLanePermits = 64
)

// errUnsent says that a command was never given to Redis.
var errUnsent = errors.New("not sent")

func newLink(rdb rueidis.Client, timeout time.Duration) *link {
	l := &link{rdb: rdb, timeout: timeout}
	lanes, permits := 1, lanePermits
	if rdb != nil && rdb.Mode() == rueidis.ClientModeCluster {
		lanes, permits = clusterLanes, clusterLanePermits
	}
	for range lanes {
		l.lanes = append(l.lanes, make(chan struct{}, permits))
	}
	return l
}

// latecomer hears what became of a command after its caller has left, in the command's goroutine.
type latecomer interface{ late(rueidis.RedisResult) }

// do runs a script and returns its answer, or an error when ctx ended or timeout was over first. The error is errUnsent
// where the command surely never ran. Where it may have, who hears what became of it in the end, unless who is nil.
func (l *link) do(ctx context.Context, timeout time.Duration, lua *rueidis.Lua, keys, args []string, who latecomer) rueidis.RedisResult {
	lane := l.lane(keys)
	if err := enter(ctx, timeout, lane); err != nil {
		return rueidis.NewErrorResult(err)
	}
	return l.send(ctx, timeout, lane, lua, keys, args, who)
}

// urge is do for what keeps leases alive: it waits for no permit, its sender bounds how much of it is out.
func (l *link) urge(ctx context.Context, lua *rueidis.Lua, keys, args []string) rueidis.RedisResult {
	return l.send(ctx, l.timeout, nil, lua, keys, args, nil)
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
			return fmt.Errorf("%w: %w", errUnsent, context.Cause(ctx))
		}
	}
	return fmt.Errorf("%w: %w", errUnsent, context.Cause(ctx))
}

// command is one that is out. It is its own context, which ends by a time-out alone and keeps the caller's values. The
// caller and the command's goroutine agree by claimed, which of them comes first, on who hears the answer: the caller, or
// a latecomer.
type command struct {
	context.Context
	deadline time.Time
	timer    *time.Timer
	done     chan struct{} // closed by timer
	over     atomic.Bool   // likewise, before

	answer  chan rueidis.RedisResult
	claimed atomic.Bool
	spent   bool // the timer has fired; written before answer is sent
}

func (l *link) newCommand(ctx context.Context, timeout time.Duration) *command {
	c, _ := l.commands.Get().(*command)
	if c == nil {
		c = &command{answer: make(chan rueidis.RedisResult, 1), done: make(chan struct{})}
		c.timer = time.AfterFunc(timeout, func() {
			c.over.Store(true)
			close(c.done)
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

func (l *link) send(ctx context.Context, timeout time.Duration, lane chan struct{}, lua *rueidis.Lua, keys, args []string,
	who latecomer) rueidis.RedisResult {
	l.begin()
	c := l.newCommand(ctx, max(timeout, l.timeout))
	go l.run(c, lane, lua, keys, args, who)
	var early <-chan time.Time
	if timeout < l.timeout {
		t := time.NewTimer(timeout)
		defer t.Stop()
		early = t.C
	}
	res, answered := c.wait(ctx, early)
	if answered && !c.spent { // nobody else holds it
		c.claimed.Store(false)
		l.commands.Put(c)
	}
	return res
}

func (l *link) run(c *command, lane chan struct{}, lua *rueidis.Lua, keys, args []string, who latecomer) {
	defer l.end()
	res := lua.Exec(c, l.rdb, keys, args)
	c.spent = !c.timer.Stop()
	leave(lane)
	if l.heard != nil {
		l.heard(res.NonRedisError())
	}
	if c.claimed.CompareAndSwap(false, true) {
		c.answer <- res
	} else if who != nil {
		who.late(res)
	}
}

// wait returns the answer, or why the caller has left before it came.
func (c *command) wait(ctx context.Context, early <-chan time.Time) (res rueidis.RedisResult, answered bool) {
	err := context.DeadlineExceeded
	select {
	case res := <-c.answer:
		return res, true
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-early:
	case <-c.done: // the library may hang beyond that
	}
	if !c.claimed.CompareAndSwap(false, true) {
		return <-c.answer, true
	}
	return rueidis.NewErrorResult(err), false
}

func (l *link) lane(keys []string) chan struct{} {
	if len(l.lanes) == 1 {
		return l.lanes[0]
	}
	return l.lanes[int(l.slot(keys[0]))*len(l.lanes)>>14]
}

// slot is the Cluster slot of a key.
func (l *link) slot(key string) uint16 {
	cmd := l.rdb.B().Exists().Key(key).Build()
	return cmd.Slot()
}

func leave(lane chan struct{}) {
	if lane != nil {
		<-lane
	}
}

func (l *link) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out++
}

func (l *link) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out--
	if l.out == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// close returns when no command is out, at the latest after two time-outs: where the library's ring is full a command
// hangs until the library gives its connection up. It bars no command: an Unlock may be on its way
// while its client is closed, and must still give its lock back.
func (l *link) close() {
	l.mu.Lock()
	if l.out == 0 {
		l.mu.Unlock()
		return
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.mu.Unlock()
	t := time.NewTimer(2 * l.timeout)
	defer t.Stop()
	select {
	case <-idle:
	case <-t.C:
	}
}

// mayHaveRun reports whether a command that failed with err may have run, or may yet. A connection that was refused
// carried nothing.
func mayHaveRun(err error) bool {
	if !unknown(err) || errors.Is(err, errUnsent) {
		return false
	}
	var dial *net.OpError
	return !errors.As(err, &dial) || dial.Op != "dial"
}
