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

// late hears what became of a command after its caller has left, in the command's goroutine.
type late func(rueidis.RedisResult)

// do runs a script and returns its answer, or an error when ctx ended first. The error is errUnsent where the command
// surely never ran. Where it may have, late is called with what became of it in the end, unless late is nil.
func (l *link) do(ctx context.Context, lua *rueidis.Lua, keys, args []string, late late) rueidis.RedisResult {
	lane := l.lane(keys)
	if err := enter(ctx, lane); err != nil {
		return rueidis.NewErrorResult(err)
	}
	return l.send(ctx, lane, lua, keys, args, late)
}

// urge is do for what keeps leases alive: it waits for no permit, its sender bounds how much of it is out.
func (l *link) urge(ctx context.Context, lua *rueidis.Lua, keys, args []string) rueidis.RedisResult {
	return l.send(ctx, nil, lua, keys, args, nil)
}

// enter takes a permit while ctx lives.
func enter(ctx context.Context, lane chan struct{}) error {
	if ctx.Err() == nil {
		select {
		case lane <- struct{}{}:
			return nil
		default:
		}
		select {
		case lane <- struct{}{}:
			return nil
		case <-ctx.Done():
		}
	}
	return fmt.Errorf("%w: %w", errUnsent, context.Cause(ctx))
}

// command is one that is out. Its caller and its goroutine agree by left, which of them comes first, on who hears the answer.
type command struct {
	answer chan rueidis.RedisResult
	left   atomic.Bool // one of the two has come
}

func (l *link) send(ctx context.Context, lane chan struct{}, lua *rueidis.Lua, keys, args []string,
	late late) rueidis.RedisResult {
	l.begin()
	c := &command{answer: make(chan rueidis.RedisResult, 1)}
	timeout := l.timeout
	if end, ok := ctx.Deadline(); ok {
		timeout = max(timeout, time.Until(end))
	}
	go func() {
		defer l.end()
		own, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		res := lua.Exec(own, l.rdb, keys, args)
		leave(lane)
		if l.heard != nil {
			l.heard(failure(res))
		}
		if c.left.CompareAndSwap(false, true) {
			c.answer <- res
		} else if late != nil {
			late(res)
		}
	}()
	select {
	case res := <-c.answer:
		return res
	case <-ctx.Done():
	}
	if !c.left.CompareAndSwap(false, true) {
		return <-c.answer
	}
	return rueidis.NewErrorResult(context.Cause(ctx))
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

// failure is why a command was not answered, nil when it was: a refusal is an answer.
func failure(res rueidis.RedisResult) error {
	return res.NonRedisError()
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
