// Package locks checks what must hold of locks over any driver, on every kind of Redis. Each
// driver's module calls Run from a test.
package locks

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/drivertest"
	"github.com/relock-go/relock/internal/opening"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A Source returns a new driver each time, always over the same client of a library.
type Source func() driver.Redis

// An Opener opens a client of a library, which is closed at the test's end.
type Opener func(t testing.TB, to redistest.Target) Source

// Mode is how waiters hear of their turn.
type Mode string

// The modes.
const (
	Plain   Mode = "plain"   // they are told by plain messages
	Sharded Mode = "sharded" // they are told by sharded messages
	Raced   Mode = "raced"   // they hear that a lock is free, by plain messages, and race for it
)

// patience is how long the checks wait for an expected event. It is no promise of the library.
const patience = 15 * time.Second

// prefix is what the names of locks begin with.
const prefix = "suite:"

// Run runs the suite on every kind of Redis that a user may have.
func Run(t *testing.T, open Opener) {
	t.Run("server", func(t *testing.T) { onServers(t, open) })
	t.Run("sentinel", func(t *testing.T) { Suite(t, open(t, redistest.StartSentinel(t).Target()), Plain) })
	t.Run("cluster", func(t *testing.T) { onCluster(t, open) })
	t.Run("quorum", func(t *testing.T) { onQuorum(t, open) })
	t.Run("outage", func(t *testing.T) { onOutage(t, open) })
	t.Run("refused login", func(t *testing.T) { onRefusedLogin(t, open) })
}

func onServers(t *testing.T, open Opener) {
	s := redistest.Start(t)
	resp2, resp3, database := s.Target(), s.Target(), s.Target()
	resp2.RESP2, database.DB = true, 3
	every, _, _ := drivertest.Rights(t, prefix)
	s.AddUser("locks", "secret", every...)
	for name, to := range map[string]redistest.Target{
		"resp2": resp2, "resp3": resp3, "own database": database, "least privilege": s.Target().As("locks", "secret"),
	} {
		t.Run(name, func(t *testing.T) { Suite(t, open(t, to), Plain) })
	}
	t.Run("tls", func(t *testing.T) {
		s, _ := redistest.StartTLS(t)
		Suite(t, open(t, s.Target()), Plain)
	})
}

func onCluster(t *testing.T, open Opener) {
	cl := redistest.StartCluster(t)
	mode := Sharded
	every, more, _ := drivertest.Rights(t, prefix)
	rights := slices.Concat(every, more)
	if _, err := cl.Nodes()[0].Try("PUBSUB", "SHARDNUMSUB"); err != nil { // before Redis 7
		mode, rights = Raced, append(every, "+cluster")
	} else {
		rights[slices.Index(rights, "&relock_inbox:*")] = "&relock_inbox:{" + prefix + "*" // as docs/wire.md says
	}
	for _, node := range cl.Nodes() {
		node.AddUser("locks", "secret", rights...)
	}
	resp2, replicas := cl.Target(), cl.Target()
	resp2.RESP2, replicas.Replicas = true, true
	for name, to := range map[string]redistest.Target{
		"resp2": resp2, "resp3": cl.Target(), "replicas": replicas, "least privilege": cl.Target().As("locks", "secret"),
	} {
		t.Run(name, func(t *testing.T) { Suite(t, open(t, to), mode) })
	}
	t.Run("plain", func(t *testing.T) {
		Suite(t, open(t, cl.Target()), Raced, relock.WithPlainChannels())
	})
	t.Run("one server alone", func(t *testing.T) { oneServerAlone(t, cl, open) })
	t.Run("failover", func(t *testing.T) {
		// Libraries rest for a second before they look for masters again, closed or not.
		t.Cleanup(func() { time.Sleep(1500 * time.Millisecond) })
		failover(t, cl, open(t, cl.Target()))
	})
}

// oneServerAlone opens clients that know one server of a Cluster each. A lock that another server
// keeps fails at once, and says why: such a client follows no answer that sends it elsewhere. A
// quorum of such servers is refused.
func oneServerAlone(t *testing.T, cl *redistest.Cluster, open Opener) {
	const names = 12
	fails := func(t *testing.T, lock func(context.Context) (*relock.Lease, error)) bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		l, err := lock(ctx)
		if err == nil {
			require.NoError(t, l.Unlock(ctx))
			return false
		}
		require.NoError(t, ctx.Err(), "it must not wait: %v", err)
		require.ErrorContains(t, err, "Redis Cluster")
		return true
	}
	var nodes []driver.Redis
	for _, name := range []string{"a", "b", "c"} {
		source := open(t, cl.MasterFor(name).Target())
		nodes = append(nodes, source())
		if len(nodes) > 1 {
			continue
		}
		made, err := opening.New(source(), []relock.ClientOption{})
		c, failed := opened(t, made, err), 0
		for i := range names {
			name := fmt.Sprint(prefix, "alone", i)
			here := cl.MasterFor(name) == cl.MasterFor("a")
			for _, lock := range []func(context.Context) (*relock.Lease, error){
				c.Mutex(name).Lock, c.Mutex(name).TryLock, c.RWMutex(name + "rw").RLock, c.RWMutex(name + "rw").Lock,
			} {
				if fails(t, lock) {
					failed++
				}
			}
			require.Equal(t, !here, fails(t, c.Mutex(name).Lock), name)
		}
		require.Positive(t, failed)
		require.Less(t, failed, 4*names)
	}
	made, err := opening.NewRedlock(nodes, []relock.ClientOption{})
	c := opened(t, made, err)
	for i := range names {
		require.True(t, fails(t, c.Mutex(fmt.Sprint(prefix, "alone", i)).Lock))
	}
}

// failover kills the master of a lock. The lock works again seconds after the replica was promoted,
// however seldom the library looks for masters of its own accord.
func failover(t *testing.T, cl *redistest.Cluster, source Source) {
	made, err := opening.New(source(), []relock.ClientOption{})
	c, name := opened(t, made, err), prefix+"failover"
	lockAndUnlock := func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		lease, err := c.Mutex(name).Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
	}
	lockAndUnlock()
	cl.WaitFailover(name, cl.KillMasterFor(name))
	lockAndUnlock()
}

// onQuorum checks a quorum, whole and with one node down.
func onQuorum(t *testing.T, open Opener) {
	var nodes []*redistest.Server
	var sources []Source
	every, _, quorum := drivertest.Rights(t, prefix)
	for range 3 {
		s := redistest.Start(t)
		s.AddUser("locks", "secret", slices.Concat(every, quorum)...)
		nodes, sources = append(nodes, s), append(sources, open(t, s.Target().As("locks", "secret")))
	}
	client := func() *relock.Client {
		var rdbs []driver.Redis
		for _, source := range sources {
			rdbs = append(rdbs, source())
		}
		c, err := opening.NewRedlock(rdbs, []relock.ClientOption{})
		return opened(t, c, err)
	}
	c, d := client(), client()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	Exclusive(ctx, t, prefix+"whole", c, d)
	nodes[0].Kill()
	Exclusive(ctx, t, prefix+"one down", c, d)
}

// opened returns a client that was just opened, and closes it at the test's end.
func opened(t *testing.T, made any, err error) *relock.Client {
	t.Helper()
	require.NoError(t, err)
	c := made.(*relock.Client)
	t.Cleanup(c.Close)
	return c
}

// Suite checks what must hold of any client, with two clients of relock over one client of a
// library.
func Suite(t *testing.T, source Source, mode Mode, opts ...relock.ClientOption) {
	seen := &watched{Redis: source()}
	made, err := opening.New(source(), opts)
	c := opened(t, made, err)
	made, err = opening.New(seen, opts)
	d := opened(t, made, err)
	name := func(t *testing.T) string { return prefix + fmt.Sprint(t.Name(), time.Now().UnixNano()) }
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()

	t.Run("re-enters", func(t *testing.T) {
		m := c.Mutex(name(t))
		l, err := m.Lock(ctx)
		require.NoError(t, err)
		inner, err := m.TryLock(l.Context())
		require.NoError(t, err)
		st, err := m.State(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, st.Count)
		_, err = d.Mutex(m.Name()).TryLock(ctx)
		require.ErrorIs(t, err, relock.ErrNotAcquired)
		require.NoError(t, inner.Unlock(ctx))
		require.NoError(t, l.Extend(ctx, time.Minute))
		require.NoError(t, l.Unlock(ctx))
		st, err = m.State(ctx)
		require.NoError(t, err)
		require.False(t, st.Held)
	})
	t.Run("wakes a waiter", func(t *testing.T) {
		key := name(t)
		l, err := c.Mutex(key).Lock(ctx)
		require.NoError(t, err)
		granted, failed := make(chan *relock.Lease, 1), make(chan error, 1)
		go func() {
			l, err := d.Mutex(key, relock.WithLease(3*time.Minute)).Lock(ctx) // polls after a twelfth of that
			granted <- l
			failed <- err
		}()
		require.Eventually(t, func() bool { return seen.settled(key) }, patience, time.Millisecond)
		require.Eventually(t, func() bool { return seen.mode() == mode }, patience, time.Millisecond)
		released := time.Now()
		require.NoError(t, l.Unlock(ctx))
		second := <-granted
		require.NoError(t, <-failed)
		require.Less(t, time.Since(released), 5*time.Second, "woken, not by the poll after 15 s")
		require.Greater(t, second.Token(), l.Token())
		require.NoError(t, second.Unlock(ctx))
		require.Equal(t, mode, seen.mode())
	})
	t.Run("is exclusive", func(t *testing.T) { Exclusive(ctx, t, name(t), c, d) })
	t.Run("tells the deposed", func(t *testing.T) {
		m := c.Mutex(name(t))
		l, err := m.Lock(ctx)
		require.NoError(t, err)
		freed, err := d.Mutex(m.Name()).ForceUnlock(ctx)
		require.NoError(t, err)
		require.True(t, freed)
		if mode != Plain {
			require.ErrorIs(t, l.Extend(ctx, time.Second), relock.ErrLost, "no channel is subscribed; the next command tells")
		}
		select {
		case <-l.Context().Done():
		case <-ctx.Done():
			require.Fail(t, "the holder is not told")
		}
		require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
	})
}

// Exclusive requires that the lock excludes: goroutines of all clients do a read-modify-write that
// nothing else guards.
func Exclusive(ctx context.Context, t *testing.T, key string, clients ...*relock.Client) {
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
