package relock

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/gate"
)

// A Client makes locks on one Redis and keeps the leases of all of them. One per process and Redis is right; its methods
// may be called from any goroutine.
type Client struct {
	id     string // uuid: fields and inbox of this client
	cfg    config
	arb    arbiter
	gates  *gate.Gates[baton]
	dog    *watchdog
	count  atomic.Uint64 // of acquisitions
	closed atomic.Bool
	close  sync.Once
	calls  atomic.Int64  // that are under way
	idle   chan struct{} // one slot: the last of them ended on a closed client
}

// baton is what one goroutine hands to the next at a lock's gate: the lock itself, or its place in Redis's queue.
type baton struct {
	hold *hold
	next *acquisition
}

// New returns a client over rdb: a single Redis, a Sentinel group or a Cluster, whatever rdb was made for. rdb stays the
// caller's, who closes it after the Client. New sends no command of its own but opens one connection in the background,
// which subscribes once a lock is waited for or held; a Redis that cannot be reached is no error here. It fails with
// ErrInvalidOption for a nil rdb or an option that cannot work.
func New(rdb rueidis.Client, opts ...Option) (*Client, error) {
	if isNil(rdb) {
		return nil, fmt.Errorf("%w: the Redis client is nil", ErrInvalidOption)
	}
	cfg, err := defaultConfig().with(opts, true)
	if err != nil {
		return nil, err
	}
	id := uuid.NewString()
	if cfg.guard == GuardOff {
		return newClientOver(id, cfg, newNode(rdb, id, &cfg)), nil
	}
	// The guard is a quorum's. One Redis is a quorum of one.
	if rdb.Mode() == rueidis.ClientModeCluster {
		return nil, fmt.Errorf("%w: WithRestartGuard: a Cluster's nodes cannot be told apart", ErrInvalidOption)
	}
	cfg.seats = 1
	return newClientOver(id, cfg, newQuorum([]rueidis.Client{rdb}, id, &cfg)), nil
}

// isNil reports whether rdb is no client, or a nil pointer to one.
func isNil(rdb rueidis.Client) bool {
	v := reflect.ValueOf(rdb)
	return rdb == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

func newClientOver(id string, cfg config, arb arbiter) *Client {
	c := &Client{id: id, cfg: cfg, arb: arb, gates: gate.New[baton](), idle: make(chan struct{}, 1)}
	c.dog = newWatchdog(arb.renew)
	return c
}

// Initialize declares that nobody holds a lock that a node may have forgotten, so that the restart guard lets all nodes
// grant locks at once: on new nodes under GuardStrict, or where somebody knows better than the guard. Calling it while
// locks are held gives up what the guard is for. It does nothing without WithRestartGuard, and fails with a *QuorumError
// when fewer than a quorum of nodes could be told.
func (c *Client) Initialize(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if err := c.begin(); err != nil {
		return err
	}
	defer c.end()
	if q, ok := c.arb.(*quorum); ok && c.cfg.guard != GuardOff {
		return q.initialize(ctx)
	}
	return nil
}

// Mutex returns the lock named name, with the client's options changed by opts. A name or an option that cannot work is
// reported by the first method called on the Mutex, with ErrInvalidName or ErrInvalidOption.
func (c *Client) Mutex(name string, opts ...Option) *Mutex {
	if c == nil || c.arb == nil {
		return &Mutex{err: errNotNew}
	}
	m := &Mutex{c: c}
	if m.names, m.err = namesOf(c.cfg.prefix, name); m.err != nil {
		return m
	}
	m.cfg, m.err = c.cfg.with(opts, false)
	return m
}

// ID returns the client's uuid: the part before the colon in the owner fields of its locks.
func (c *Client) ID() string { return c.id }

// Close ends the client: waiting Locks return ErrClosed, the contexts of held leases end with cause ErrClosed, and
// renewals stop. Locks still held are not released, since the code under them may still run; they end with their leases.
// What no caller was given, or was unlocked, is released. Close tries once more to undo what was left unanswered, and
// returns when no call and no goroutine of the client is left, at the latest after a few command timeouts.
func (c *Client) Close() {
	if c == nil || c.arb == nil {
		return
	}
	c.close.Do(func() {
		c.closed.Store(true)
		c.gates.Close()
		for _, h := range c.dog.close() {
			h.lose(ErrClosed)
		}
		c.arb.stop()
		c.settle()
		c.arb.close()
	})
}

func (c *Client) isClosed() bool { return c.closed.Load() }

// begin counts a call that is under way, which Close waits for. On a closed client it returns ErrClosed and counts nothing.
func (c *Client) begin() error {
	if c == nil || c.arb == nil {
		return errNotNew
	}
	c.calls.Add(1)
	if c.isClosed() {
		c.end()
		return ErrClosed
	}
	return nil
}

func (c *Client) end() {
	if c.calls.Add(-1) == 0 && c.isClosed() {
		select {
		case c.idle <- struct{}{}:
		default:
		}
	}
}

// settle waits for the calls under way. They may hold what they have to give back, and leave within a command timeout
// where Redis answers.
func (c *Client) settle() {
	t := time.NewTimer(2 * c.cfg.commandTimeout())
	defer t.Stop()
	for c.calls.Load() > 0 {
		select {
		case <-c.idle:
		case <-t.C:
			return
		}
	}
}

func (c *Client) newAcquisition(nm names, owner string, cfg *config) *acquisition {
	return newAcquisition(nm, c.id, c.count.Add(1), owner, cfg)
}

func (c *Client) newHold(a *acquisition, g grant, cfg *config, atGate bool) *hold {
	if atGate {
		c.gates.Remark(a.names.lock, nil)
	}
	h := newHold(c, a, g, cfg, atGate)
	c.arb.attach(a, h)
	return h
}

// releaseAtGate gives h's lock back. If others wait at the gate, the next place in Redis's queue is taken for them in
// the same command.
func (c *Client) releaseAtGate(ctx context.Context, h *hold) error {
	key := h.a.names.lock
	var next *acquisition
	if c.gates.Remark(key, gate.ErrNothingYet) {
		next = c.newAcquisition(h.a.names, "", h.cfg)
	}
	g, granted, err := c.arb.release(ctx, h.a, next)
	if !granted {
		c.gates.Remark(key, heardBack(err))
	}
	switch {
	case granted:
		nh := c.newHold(next, g, h.cfg, true)
		if !c.gates.Pass(key, baton{hold: nh}) {
			_ = nh.finish(ctx) // everyone who waited has given up
		}
	case next != nil && c.gates.Pass(key, baton{next: next}):
	default:
		if next != nil {
			c.arb.abandon(next)
		}
		c.gates.Leave(key)
	}
	return err
}

// heardBack is err unless it is what Redis answered.
func heardBack(err error) error {
	if fromRedis(err) {
		return err
	}
	return nil
}

// unlockTimeout bounds an Unlock, whose caller's cancellation does not.
func unlockTimeout(a *acquisition) time.Duration { return 5 * a.timeout }
