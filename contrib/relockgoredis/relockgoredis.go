// Package relockgoredis makes clients of package relock over go-redis, for services that have a
// client of go-redis already. Everything else is package relock's: options, locks, leases, errors,
// and the format in Redis. So clients over go-redis share locks with clients over rueidis.
//
// New takes a *redis.Client, for a single Redis or a Sentinel group, or a *redis.ClusterClient.
// go-redis never repeats the commands of locks, whatever MaxRetries says: only relock may send a
// command again. Each client has one more connection beside go-redis's pool, for its subscriptions;
// in a Cluster one to each master on which it waits for a lock.
//
// Set ContextTimeoutEnabled in the options of go-redis. Without it a call of relock still returns
// in time, but leaves behind a goroutine and a connection: they wait for a server that hangs until
// ReadTimeout is over.
package relockgoredis

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockgoredis/overgoredis"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/opening"
)

// New returns a client over rdb as relock.New does: a single Redis, a Sentinel group or a Cluster.
// rdb stays the caller's: close it after the Client.
//
// New sends no command of its own. It fails with relock.ErrInvalidOption for
//   - a nil rdb, one that go-redis did not make, as &redis.Client{}, or an option that cannot work;
//   - a *redis.Ring, whose shards know nothing of one another;
//   - a type that is neither *redis.Client nor *redis.ClusterClient: relock cannot see where it
//     leads;
//   - a *redis.ClusterClient with ClusterSlots of its own, as NewFailoverClusterClient makes it:
//     use NewFailoverClient for Sentinel;
//   - a ReadTimeout or WriteTimeout of -1 (off) without ContextTimeoutEnabled, or of -2: nothing
//     would end a command to a server that hangs.
//
// A *redis.Client of one server of a Redis Cluster passes. Locks that another server keeps fail at
// once, and say that a ClusterClient is needed. A failover client with ReplicaOnly passes, since
// go-redis does not show that option: TryLock then fails with Redis's own READONLY, which matches
// relock.ErrUnavailable, and Lock waits until its context ends, since a replica may become the master.
func New(rdb redis.UniversalClient, opts ...relock.ClientOption) (*relock.Client, error) {
	d, err := overgoredis.New(rdb)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", relock.ErrInvalidOption, err)
	}
	c, err := opening.New(d, opts)
	return c.(*relock.Client), err
}

// NewRedlock returns a client whose locks are held by a quorum of nodes, as relock.NewRedlock does.
// Each node is a *redis.Client of an independent master.
//
// It fails with relock.ErrInvalidOption for no node, a node that New would refuse, a Cluster, or a
// client that is given twice.
func NewRedlock(nodes []redis.UniversalClient, opts ...relock.ClientOption) (*relock.Client, error) {
	drivers := make([]driver.Redis, len(nodes))
	for i, rdb := range nodes {
		d, err := overgoredis.New(rdb)
		if err != nil {
			return nil, fmt.Errorf("%w: node %d: %w", relock.ErrInvalidOption, i+1, err)
		}
		drivers[i] = d
	}
	c, err := opening.NewRedlock(drivers, opts)
	return c.(*relock.Client), err
}
