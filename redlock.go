package relock

import (
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/quorum"
)

// NewRedlock returns a client whose locks are held by a quorum of nodes, as Redlock's are, but with
// queues in place of random retries, fencing tokens and a restart guard. Nodes are independent Redis
// masters, usually five. A lock is held while more than half of them (or as many as WithQuorum says)
// keep it. The others may be down, hung, cut off or in another owner's hands. docs/safety.md says what
// it takes and what it gives. An RWMutex, a Semaphore, a Flight and a hand-over fail with
// errors.ErrUnsupported there.
//
//   - All nodes are asked at once, each with a timeout of its own (WithCommandTimeout, by default a
//     twentieth of the lease and at most one second). A call returns once a quorum has decided.
//   - A node that lost its memory stays out for a lease (WithRestartGuard).
//   - Nodes are checked when they are first used: locks fail with ErrInvalidNodes if the nodes make no
//     quorum. A node that cannot be reached is no error while a quorum can be reached.
//
// The clients in nodes stay the caller's. NewRedlock fails with ErrInvalidOption for no node, a nil
// or doubled client, a Cluster, or an option that cannot work.
func NewRedlock(nodes []rueidis.Client, opts ...ClientOption) (*Client, error) {
	drivers := make([]driver.Redis, len(nodes))
	for i, rdb := range nodes {
		drivers[i] = overrueidis.New(rdb)
	}
	return redlockOver(drivers, opts)
}

// redlockOver is NewRedlock over drivers.
func redlockOver(nodes []driver.Redis, opts []ClientOption) (*Client, error) {
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%w: no nodes", ErrInvalidOption)
	}
	for i, rdb := range nodes {
		if driver.Missing(rdb) {
			return nil, fmt.Errorf("%w: node %d is nil", ErrInvalidOption, i+1)
		}
		// Clients that cannot be compared pass: run ids tell later whether two lead to one server.
		twin := slices.IndexFunc(nodes[:i], func(other driver.Redis) bool { return driver.Same(rdb, other) })
		switch {
		case twin >= 0:
			return nil, fmt.Errorf("%w: node %d is node %d again", ErrInvalidOption, i+1, twin+1)
		case rdb.Cluster():
			return nil, fmt.Errorf("%w: node %d is a Cluster; a quorum is of single masters", ErrInvalidOption, i+1)
		}
	}
	cfg := defaultConfig()
	cfg.nodes, cfg.longest = len(nodes), defaultLease
	cfg, err := with(cfg, opts, "")
	if err != nil {
		return nil, err
	}
	return overQuorum(nodes, cfg), nil
}

// overQuorum returns a client over the nodes of a quorum.
func overQuorum(nodes []driver.Redis, cfg config) *Client {
	id, of := uuid.NewString(), make([]*node.Node, len(nodes))
	for i, rdb := range nodes {
		of[i] = newNode(rdb, id, &cfg, i+1)
	}
	return newClientOver(id, cfg, quorum.New(of, quorum.Config{
		Need: cfg.quorumSize(), Timeout: cfg.commandTimeout, Lease: cfg.firstLease,
		Impaired: cfg.tells(EventNodeImpaired), Mended: cfg.tells(EventNodeMended),
		Guard: cfg.longest > 0, Auto: cfg.longest > 0 && !cfg.wary, Longest: cfg.longest,
	}))
}
