package relock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/drivertest"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// shared returns a source of one client.
func shared(t *testing.T, opt rueidis.ClientOption) func() rueidis.Client {
	rdb, err := rueidis.NewClient(opt)
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	return func() rueidis.Client { return rdb }
}

// settled waits until c's waiter for key hears the lock's channels and has looked once more since.
func settled(t *testing.T, c *Client, key string) {
	t.Helper()
	h, unlock := c.core.arbiter.(*single).node.Debug().Hub, c.Mutex(key).names.Unlock
	require.Eventually(t, func() bool {
		members, confirmed, quiet := h.Listening(unlock)
		return members == 1 && confirmed && quiet
	}, patience, time.Millisecond)
}

// exclusive lets goroutines of two clients do an unguarded read-modify-write under the lock.
func exclusive(ctx context.Context, t *testing.T, key string, clients ...*Client) {
	t.Helper()
	const workers, rounds = 6, 20
	var (
		wg     sync.WaitGroup
		inside int // guarded by the lock under test alone: the race detector is a second judge
		last   int64
	)
	for _, c := range clients {
		for range workers {
			wg.Go(func() {
				for range rounds {
					err := c.Mutex(key).Do(ctx, func(ctx context.Context) error {
						l, err := c.Mutex(key).Held(ctx)
						if err == nil && l.Token() <= last {
							err = fmt.Errorf("token %d after %d", l.Token(), last)
						}
						if err == nil {
							last = l.Token()
							inside++
						}
						return err
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	require.Equal(t, len(clients)*workers*rounds, inside)
}

// rights are the ACLs of docs/wire.md: what everyone needs, and what a Cluster and a quorum take beyond that.
func rights(t *testing.T, prefix string) [][]string {
	every, cluster, quorum := drivertest.Rights(t, prefix)
	return [][]string{every, cluster, quorum}
}

// mutexOf is the Mutex that a lease is of.
func mutexOf(l *Lease) *Mutex { return &Mutex{*l.of} }

// tapped returns a client over servers and where each has its faults.
func tapped(t *testing.T, servers []*redistest.Server, opts ...Option) (*Client, []*faults.Client) {
	t.Helper()
	var nodes []rueidis.Client
	var taps []*faults.Client
	for _, s := range servers {
		w := faulty(s)
		nodes, taps = append(nodes, w), append(taps, w)
	}
	if len(servers) == 1 {
		return newClient(t, nodes[0], opts...), taps
	}
	c, err := NewRedlock(nodes, opts...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, taps
}

func nothing(context.Context) error { return nil }

const counterOfK = "redisson_lock_token:{k}"
