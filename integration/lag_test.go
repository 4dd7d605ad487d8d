//go:build unix

package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// lagging is a master that is lost again and again with what its replicas do not have, and clients who lock meanwhile.
type lagging struct {
	t     *testing.T
	a, b  *relock.Client
	locks []string
	last  map[string]int64 // the newest token of each lock
	fell  int              // tokens that did not rise
}

func startLagging(t *testing.T, o func() rueidis.Client) *lagging {
	l := &lagging{t: t, last: make(map[string]int64), locks: []string{"{orders}:1", "{orders}:2", "{orders}:3"}}
	for _, c := range []**relock.Client{&l.a, &l.b} {
		var err error
		*c, err = relock.New(o(), relock.WithLease(2*time.Second))
		require.NoError(t, err)
		t.Cleanup((*c).Close)
	}
	return l
}

// take locks with c and checks that the token is above all before.
func (l *lagging) take(c *relock.Client, lock string) *relock.Lease {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), soon)
	defer cancel()
	lease, err := c.Mutex(lock).Lock(ctx)
	require.NoError(l.t, err)
	if lease.Token() <= l.last[lock] {
		l.fell++
		l.t.Errorf("%s: token %d after %d", lock, lease.Token(), l.last[lock])
	}
	l.last[lock] = max(l.last[lock], lease.Token())
	return lease
}

// give unlocks. Where a busy machine does not answer in time, or answers after the lease, the lease ends by itself.
func (l *lagging) give(lease *relock.Lease) {
	l.t.Helper()
	var silent *relock.NodeError
	if err := lease.Unlock(l.t.Context()); !errors.As(err, &silent) && !errors.Is(err, relock.ErrLost) {
		require.NoError(l.t, err)
	}
}

// round loses a master that counted further than its replicas know, some locks of it held.
func (l *lagging) round(master *redistest.Server, replicas int, failover func(old *redistest.Server)) {
	l.t.Helper()
	for _, lock := range l.locks {
		l.give(l.take(l.a, lock))
	}
	master.AwaitReplicas(replicas)
	master.RefuseReplicas()
	var stale []*relock.Lease
	for _, lock := range l.locks {
		for _, c := range []*relock.Client{l.a, l.b, l.a} {
			l.give(l.take(c, lock))
		}
		stale = append(stale, l.take(l.b, lock))
	}
	master.Kill()
	failover(master)
	for _, lock := range l.locks {
		l.give(l.take(l.a, lock))
	}
	for _, lease := range stale {
		_ = lease.Unlock(l.t.Context()) // lost with its Redis
	}
}

// run does the rounds on the group of servers that serves the locks.
func (l *lagging) run(master func() *redistest.Server, replicas int, failover func(old *redistest.Server)) {
	l.t.Helper()
	var took figures
	for range rounds(3, 50) {
		begun := now()
		l.round(master(), replicas, failover)
		took = append(took, now()-begun)
	}
	l.t.Logf("%d tokens did not rise; %d rounds took %v", l.fell, len(took), took)
}

// Masters are lost with what they counted after their replicas were cut off: tokens rise all the same, because the
// promoted server's clock is ahead of all that was granted.
func TestTokensRiseAcrossLaggingReplicas(t *testing.T) {
	t.Run("Sentinel", func(t *testing.T) {
		begin(t)
		g := redistest.StartSentinel(t)
		l := startLagging(t, g.Client)
		l.run(g.Master, 2, func(old *redistest.Server) { g.Return(old, g.Promote(old)) })
	})
	t.Run("Cluster", func(t *testing.T) {
		begin(t)
		c := redistest.StartCluster(t)
		l := startLagging(t, c.Client)
		l.run(func() *redistest.Server { return c.MasterFor(l.locks[0]) }, 1, func(old *redistest.Server) {
			c.Promote(l.locks[0], old)
			c.Return(old)
		})
	})
}
