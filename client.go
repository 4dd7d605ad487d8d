package relock

import (
	"context"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/calls"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/presence"
	"github.com/relock-go/relock/internal/single"
	"github.com/relock-go/relock/internal/watchdog"
	"github.com/relock-go/relock/internal/wire"
)

// A Client makes locks on one Redis and keeps the leases of all of them. Create one Client per
// process and Redis. Its methods may be called from any goroutine.
type Client struct {
	core   *core
	close  sync.Once
	ended  context.Context // ends when Close returns; nil before Close
	closed []func()        // returned by its observers, called at the end of Close
}

// New returns a client over rdb: a single Redis, a Sentinel group or a Cluster, whatever rdb was
// made for. rdb stays the caller's: close it after the Client.
//
// New sends no command. It opens one connection in the background, which subscribes once a lock is
// waited for or held. A Redis that cannot be reached is no error here. New fails with
// ErrInvalidOption for a nil rdb or an option that cannot work.
//
// rueidis finds out by itself that it leads to a Cluster, unless ForceSingleClient forbids it. Locks
// that another server of the Cluster keeps then fail at once, and say why.
func New(rdb rueidis.Client, opts ...ClientOption) (*Client, error) {
	return newOver(overrueidis.New(rdb), opts)
}

// newOver is New over a driver.
func newOver(rdb driver.Redis, opts []ClientOption) (*Client, error) {
	if driver.Missing(rdb) {
		return nil, fmt.Errorf("%w: the Redis client is nil", ErrInvalidOption)
	}
	cfg, err := with(defaultConfig(), opts, "")
	if err != nil {
		return nil, err
	}
	if cfg.longest == 0 {
		id := uuid.NewString()
		return newClientOver(id, cfg, single.New(newNode(rdb, id, &cfg, 0))), nil
	}
	// Only a quorum has the guard, so one Redis becomes a quorum of one.
	if rdb.Cluster() {
		return nil, fmt.Errorf("%w: WithRestartGuard: a Cluster's nodes cannot be told apart", ErrInvalidOption)
	}
	cfg.nodes = 1
	cfg.derive()
	return overQuorum([]driver.Redis{rdb}, cfg), nil
}

// newNode returns the node with that index. A quorum's nodes are numbered from 1. Index 0 is the
// Redis that decides alone.
func newNode(rdb driver.Redis, id string, cfg *config, index int) *node.Node {
	impaired, mended := cfg.tells(EventNodeImpaired), cfg.tells(EventNodeMended)
	return node.New(rdb, node.Config{
		Options: wire.Options{Votes: index > 0, Retention: cfg.retention, Longest: cfg.longest},
		Client:  id, Timeout: cfg.commandTimeout, Plain: cfg.plain,
		Reachable: func(cause error) {
			kind := EventNodeUp
			if cause != nil {
				kind = EventNodeDown
			}
			cfg.tells(kind)(index, cause)
		},
		Impaired: func(cause error) { impaired(index, cause) },
		Mended:   func(cause error) { mended(index, cause) },
	})
}

func newClientOver(id string, cfg config, arb claim.Arbiter) *Client {
	k := &core{id: id, cfg: cfg, arbiter: arb, gates: gate.New[baton](), calls: calls.New()}
	k.report = func(key string, heard error) { k.gates.Report(key, heard) }
	if cfg.name != "" {
		k.presence = presence.New(presence.Config{Client: id, Name: cfg.name, Stay: cfg.lease, Enough: cfg.quorumSize()}, arb.Nodes())
	}
	k.watchdog = watchdog.New(arb.Renew, k.presence.Rounds())
	c := &Client{core: k}
	c.introduce()
	return c
}

// introduce gives the client to each of its observers that is a ClientObserver.
func (c *Client) introduce() {
	for _, o := range c.core.cfg.observers {
		if o, wants := o.(ClientObserver); wants {
			if closed := o.ObserveClient(c); closed != nil {
				c.closed = append(c.closed, closed)
			}
		}
	}
}

// TrustNodes tells the restart guard that no lock is still held that a node may have forgotten. All
// nodes then grant locks at once. It is for new nodes under WithStrictRestartGuard, and for an operator
// that knows more than the guard. If a forgotten lock is held after all, a second owner may be granted
// it. Without a restart guard TrustNodes does nothing. It fails with ErrUnavailable or ErrRefused, in a
// *QuorumError, if fewer than a quorum of nodes could be told; with ErrClosed or ErrMisuse as Lock does.
func (c *Client) TrustNodes(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	k := c.coreOrNil()
	if k == nil {
		return errNotNew
	}
	t := k.calls.Of(0)
	if !t.Begin() {
		return ErrClosed
	}
	defer t.End()
	return k.explained(k.arbiter.TrustNodes(ctx))
}

// Mutex returns the lock named name, with the client's options changed by opts. A name or an option
// that cannot work is reported by the first method called on the Mutex, with ErrInvalidName or
// ErrInvalidOption.
func (c *Client) Mutex(name string, opts ...Option) *Mutex {
	return &Mutex{c.mutex("a Mutex", name, opts)}
}

// mutex returns what a Mutex embeds, or that type of lock, which is one.
func (c *Client) mutex(what, name string, opts []Option) lock {
	return newLock(c.coreOrNil(), wire.Mutex, what, name, opts)
}

// coreOrNil returns the client's core, nil for a Client that New did not make.
func (c *Client) coreOrNil() *core {
	if c == nil {
		return nil
	}
	return c.core
}

// ID returns the client's uuid: the part before the colon in the owner fields of its locks.
func (c *Client) ID() string {
	k := c.coreOrNil()
	if k == nil {
		return ""
	}
	return k.id
}

// Shutdown ends the client. Waiting Locks return ErrClosed, the contexts of held leases end with cause
// ErrClosed, and renewals stop. Locks that callers hold are not released, since the code under them
// may still run: they end with their leases. So let holders unlock first; Shutdown waits for none. It
// releases locks that lie idle (WithLinger) or were granted to no caller, and tries once more to undo
// commands that were not answered.
//
// Shutdown returns nil when no call and no goroutine of the client is left, and observers have heard of
// all events. If Redis answers, that takes milliseconds. If Redis hangs, Shutdown gives up, and returns nil,
//
//   - after seven command timeouts at most: 14 seconds by default, 7 on a quorum;
//   - after two to four command timeouts if only a Lock or an Unlock is under way.
//
// Behind an observer or a logger that blocks it gives up after eight. If ctx ends before, Shutdown returns
// an error that wraps the cause of ctx, with the class of that, if any, and the rest goes on in the background,
// within the same time. Shutdown begins even if ctx has ended. A further Shutdown or Close waits for the
// first. It fails with ErrMisuse for a nil ctx, and for a Client that neither New nor NewRedlock made.
func (c *Client) Shutdown(ctx context.Context) error {
	k := c.coreOrNil()
	switch {
	case k == nil:
		return errNotNew
	case ctx == nil:
		return errNilContext
	}
	c.close.Do(func() {
		var end context.CancelFunc
		c.ended, end = context.WithTimeout(context.Background(), 8*k.cfg.commandTimeout)
		go func() {
			defer end()
			c.shut()
		}()
	})
	select {
	case <-c.ended.Done():
	case <-ctx.Done():
		if c.ended.Err() == nil {
			return fmt.Errorf("relock: Shutdown goes on in the background: %w", context.Cause(ctx))
		}
	}
	return nil
}

// Close is Shutdown without a context: it takes eight command timeouts at most.
func (c *Client) Close() { _ = c.Shutdown(context.Background()) }

// shut is Shutdown, for as long as observers and loggers block.
func (c *Client) shut() {
	k := c.core
	k.giving.Lock() // All hands its leases over before the close, or not at all
	k.calls.Close()
	k.giving.Unlock()
	k.gates.Close()
	var losing sync.WaitGroup
	for _, h := range k.watchdog.Close(2 * k.cfg.commandTimeout) {
		losing.Go(func() { h.(*hold).lose(ErrClosed) }) // an observer that blocks keeps no other lease's context
	}
	losing.Wait()
	k.arbiter.Stop()
	k.calls.Wait(2 * k.cfg.commandTimeout) // if Redis answers, calls end within one timeout
	k.presence.Close()
	k.arbiter.Close()
	if k.cfg.logged != nil {
		k.cfg.logged.Close()
	}
	for _, closed := range c.closed {
		k.cfg.panics.Guard("what an observer returned for Close", closed)
	}
}
