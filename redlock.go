package relock

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/quorum"
	"github.com/relock-go/relock/internal/wire"
)

// NewRedlock returns a client whose locks are held by a quorum of nodes: independent Redis masters,
// none of which knows another, usually five. It is a Client like any other. A lock is held while
// more than half of the nodes (or as many as WithQuorum says) keep it; the others may be down,
// hung, cut off or in the hands of somebody else. The idea is Redlock's, with queues instead of
// random retries; docs/safety.md says what it takes and what it gives.
//
// Each node is asked with a timeout of its own (WithCommandTimeout, by default a twentieth of the
// lease and at most one second), all at once, and a call returns as soon as a quorum has decided. A
// node that lost its memory stays out for a lease (WithRestartGuard). Nodes are checked when they
// are first used, with ErrInvalidNodes if they make no quorum; a node that cannot be reached is no
// error while a quorum can. The clients in nodes stay the caller's.
//
// It fails with ErrInvalidOption for no node, a nil or doubled client, a Cluster, or an option that
// cannot work.
func NewRedlock(nodes []rueidis.Client, opts ...Option) (*Client, error) {
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%w: no nodes", ErrInvalidOption)
	}
	for i, rdb := range nodes {
		if isNil(rdb) {
			return nil, fmt.Errorf("%w: node %d is nil", ErrInvalidOption, i+1)
		}
		twin := slices.IndexFunc(nodes, func(other rueidis.Client) bool { return same(rdb, other) })
		switch {
		case twin >= 0 && twin < i:
			return nil, fmt.Errorf("%w: node %d is node %d again", ErrInvalidOption, i+1, twin+1)
		case rdb.Mode() == rueidis.ClientModeCluster:
			return nil, fmt.Errorf("%w: node %d is a Cluster; a quorum is of single masters", ErrInvalidOption, i+1)
		}
	}
	cfg, err := redlockConfig(len(nodes), opts)
	if err != nil {
		return nil, err
	}
	drivers := make([]driver.Redis, len(nodes))
	for i, rdb := range nodes {
		drivers[i] = overrueidis.New(rdb)
	}
	return redlockOver(drivers, cfg), nil
}

func redlockConfig(nodes int, opts []Option) (config, error) {
	cfg := defaultConfig()
	cfg.nodes, cfg.guard, cfg.longest = nodes, GuardAuto, defaultLease
	return cfg.with(opts, true)
}

// redlockOver is NewRedlock over drivers.
func redlockOver(nodes []driver.Redis, cfg config) *Client {
	id := uuid.NewString()
	return newClientOver(id, cfg, newQuorum(nodes, id, &cfg))
}

// same reports whether two clients are one. Wrappers that cannot be compared are told apart by the
// server behind them.
func same(a, b rueidis.Client) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// ballot is the arbiter over a quorum of nodes.
type ballot struct{ *quorum.Quorum }

func newQuorum(nodes []driver.Redis, id string, cfg *config) ballot {
	return ballot{quorum.New(nodes, quorum.Config{
		Client: id, Need: cfg.quorumSize(), Timeout: cfg.commandTimeout, Lease: cfg.firstLease,
		Guard: cfg.guard != GuardOff, Auto: cfg.guard == GuardAuto, Longest: cfg.longest,
		Retention: cfg.retention, Impaired: cfg.impaired, Presence: cfg.presence,
	})}
}

func (b ballot) claim(e wire.Entry) claim { return candidate{b.Claim(&e)} }

// candidate is an entry's claim at all nodes.
type candidate struct{ *quorum.Claim }

func (c candidate) of() *wire.Entry { return c.Entry }

func (c candidate) wait(ctx context.Context, remark remark) (node.Grant, error) {
	if remark == nil {
		return c.Wait(ctx, nil)
	}
	return c.Wait(ctx, func(heard error) { remark(c.Entry.Names.Lock, heard) })
}

func (c candidate) try(ctx context.Context) (node.Grant, error) { return c.Try(ctx) }

// release never returns a grant: what the nodes answer are votes, which next counts when it waits.
func (c candidate) release(_ context.Context, next claim) (node.Grant, bool, error) {
	n, _ := next.(candidate)
	return node.Grant{}, false, c.Release(n.Claim)
}

func (c candidate) setCount(ctx context.Context, count int, lease time.Duration) (clock.Stamp, error) {
	return c.SetCount(ctx, count, lease)
}

func (c candidate) refill(func(node.Grant))       {} // what a quorum's nodes count is reconciled by grants alone
func (c candidate) attend() bool                  { return c.Attend() }
func (c candidate) asks(lease time.Duration)      { c.Asks(lease) }
func (c candidate) seen() (string, time.Duration) { return c.Seen() }
func (c candidate) watch(w *hub.Watcher)          { c.Watch(w) }
func (c candidate) abandon()                      { c.Abandon() }
func (c candidate) forget()                       { c.Forget() }

func (b ballot) renew(ctx context.Context, batch []renewal, settle settleFunc) {
	asks := make([]quorum.Renewal, len(batch))
	for i, r := range batch {
		asks[i] = quorum.Renewal{Claim: r.claim.(candidate).Claim, Count: r.count, Lease: r.lease}
	}
	b.Renew(ctx, asks, settle)
}

func (b ballot) silence(op, name string, cause error) error { return b.Silence(op, name, cause) }

func (b ballot) inspect(ctx context.Context, n *wire.Names) (wire.State, error) {
	return b.Inspect(ctx, n)
}

func (b ballot) force(ctx context.Context, k *wire.Kind, n *wire.Names) (bool, error) {
	return b.Force(ctx, k, n)
}

func (b ballot) initialize(ctx context.Context) error { return b.Initialize(ctx) }

func (b ballot) nodes() []*node.Node { return b.Nodes() }

func (b ballot) stop()  { b.Stop() }
func (b ballot) close() { b.Close() }
