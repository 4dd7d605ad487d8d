package suite_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/opening"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

func TestRedlockTakesReentersAndReleases(t *testing.T) {
	nodes := masters(t, 5)
	c, d := newRedlock(t, nodes), newRedlock(t, nodes)
	ctx := context.Background()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	inner, err := c.Mutex("k").Lock(l.Context())
	require.NoError(t, err)
	require.Equal(t, 2, l.Count())
	st, err := d.Mutex("k").State(ctx)
	require.NoError(t, err)
	require.True(t, st.Held)
	require.Equal(t, 2, st.Count)
	_, err = d.Mutex("k").TryLock(ctx)
	var held *relock.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, st.Holder, held.Holder)
	require.True(t, strings.HasPrefix(st.Holder, c.ID()+":"))
	var quorum *relock.QuorumError
	require.ErrorAs(t, err, &quorum)
	require.Equal(t, 3, quorum.Need)
	require.NoError(t, inner.Unlock(ctx))
	require.NoError(t, l.Extend(ctx, 20*time.Second))
	require.NoError(t, l.Unlock(ctx))
	second, err := d.Mutex("k").TryLock(ctx)
	require.NoError(t, err)
	require.Greater(t, second.Token(), l.Token())
	require.NoError(t, second.Unlock(ctx))
	for _, s := range nodes {
		require.Eventually(t, func() bool { return s.Do("EXISTS", "k", "relock_queue:{k}") == "0" }, patience, time.Millisecond)
	}
}

func TestRedlockWakesAWaiter(t *testing.T) {
	nodes := masters(t, 3)
	c, d := newRedlock(t, nodes), newRedlock(t, nodes)
	ctx := context.Background()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	granted := waitFor(t, d, "k")
	for _, s := range nodes {
		queued(t, s, "k", 1)
		listening(t, s, d)
	}
	released := time.Now()
	require.NoError(t, l.Unlock(ctx))
	second := within(t, granted)
	require.Less(t, time.Since(released), 5*time.Second, "woken, not by the poll after 10 s")
	require.Greater(t, second.Token(), l.Token())
	require.NoError(t, second.Unlock(ctx))
}

// A waiter whose grants were lost with its Pub/Sub connections looks for itself once it is subscribed again.
func TestRedlockWaiterLooksAfterResubscribing(t *testing.T) {
	nodes := masters(t, 3)
	c, d := newRedlock(t, nodes), newRedlock(t, nodes)
	ctx := context.Background()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	granted := waitFor(t, d, "k")
	for _, s := range nodes {
		queued(t, s, "k", 1)
		listening(t, s, d)
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	}
	require.NoError(t, l.Unlock(ctx))
	require.NoError(t, locktest.Await(t, granted, 5*time.Second).Unlock(ctx))
}

func TestRedlockIsExclusive(t *testing.T) {
	t.Parallel()
	nodes := masters(t, 5)
	var clients []*relock.Client
	for range 4 {
		clients = append(clients, newRedlock(t, nodes))
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	exclusive(ctx, t, "k", clients...)
}

func TestRedlockWithLeastPrivilege(t *testing.T) {
	acl := rights(t, "suite:")
	var nodes []rueidis.Client
	for _, s := range masters(t, 3) {
		nodes = append(nodes, shared(t, s.AddUser("locks", "secret", slices.Concat(acl[0], acl[2])...))())
	}
	c, err := relock.NewRedlock(nodes)
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	exclusive(ctx, t, "suite:k", c)
	l, err := c.Mutex("suite:k").Lock(ctx)
	require.NoError(t, err)
	freed, err := c.Mutex("suite:k").ForceUnlock(ctx)
	require.NoError(t, err)
	require.True(t, freed)
	_, err = c.Mutex("suite:k").State(ctx)
	require.NoError(t, err)
	<-l.Context().Done()
}

// Two nodes of five may be down, or hung, and one after the other.
func TestRedlockOutlivesAMinority(t *testing.T) {
	nodes := masters(t, 5)
	c, d := newRedlock(t, nodes), newRedlock(t, nodes)
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	// One client uses the fresh nodes first. Of two at once, one may ask a node for a vote before the other has declared that
	// it is new: then that node is quarantined, and as good as down.
	exclusive(ctx, t, "first", c)
	exclusive(ctx, t, "k", c, d)
	nodes[0].Pause()
	exclusive(ctx, t, "k", c, d)
	nodes[3].Kill()
	exclusive(ctx, t, "k", c, d)
	nodes[0].Resume()
	exclusive(ctx, t, "k", c, d)
}

func TestRedlockWithoutAQuorumTellsEachNode(t *testing.T) {
	t.Parallel()
	nodes := masters(t, 3)
	c := newRedlock(t, nodes, relock.WithLease(2*time.Second), relock.WithRestartGuard(2*time.Second),
		relock.WithCommandTimeout(600*time.Millisecond)) // a busy machine is no node that is down
	ctx := context.Background()
	l, err := c.Mutex("held").Lock(ctx)
	require.NoError(t, err)
	nodes[0].Kill()
	nodes[1].Kill()
	<-l.Context().Done()
	require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
	_, err = c.Mutex("k").TryLock(ctx)
	var quorum *relock.QuorumError
	require.ErrorAs(t, err, &quorum)
	require.Len(t, quorum.Nodes, 2)
	var node *relock.NodeError
	require.ErrorAs(t, quorum.Nodes[0], &node)
	require.ErrorContains(t, err, "node 1: ")
	wctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = c.Mutex("k").Lock(wctx)
	require.ErrorAs(t, err, &quorum)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, relock.ErrNotAcquired)
	nodes[0].Restart()
	nodes[1].Restart()
	again, err := c.Mutex("held").Lock(ctx)
	require.NoError(t, err, "after their quarantine")
	require.Greater(t, again.Token(), l.Token(), "one node still knew")
	require.NoError(t, again.Unlock(ctx))
}

func TestRedlockNodesMustBeIndependentMasters(t *testing.T) {
	t.Parallel()
	a := redistest.Start(t)
	ctx := context.Background()
	for _, c := range []struct {
		nodes []rueidis.Client
		opts  []relock.ClientOption
		why   string
	}{
		{nil, nil, "no nodes"},
		{[]rueidis.Client{nil}, nil, "node 1 is nil"},
		{[]rueidis.Client{a.Client()}, []relock.ClientOption{relock.WithQuorum(2)}, "between 1 and 1"},
		{[]rueidis.Client{a.Client(), a.Client()}, []relock.ClientOption{relock.WithQuorum(1)}, "between 2 and 2"},
		{[]rueidis.Client{a.Client()}, []relock.ClientOption{relock.WithLease(time.Second), relock.WithCommandTimeout(time.Second)}, "a third of it"},
		{[]rueidis.Client{a.Client()}, []relock.ClientOption{relock.WithRestartGuard(10 * time.Second)}, "longer than"},
	} {
		_, err := relock.NewRedlock(c.nodes, c.opts...)
		require.ErrorIs(t, err, relock.ErrInvalidOption)
		require.ErrorContains(t, err, c.why)
	}
	twin := a.Client()
	_, err := relock.NewRedlock([]rueidis.Client{twin, twin})
	require.ErrorContains(t, err, "node 2 is node 1 again")

	hooks, err := relock.NewRedlock([]rueidis.Client{hooked{Client: twin}, hooked{Client: twin}})
	require.NoError(t, err, "they cannot be compared: it is the servers that tell")
	hooks.Close()
	_, err = relock.NewRedlock([]rueidis.Client{twin, (*faults.Client)(nil)})
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	require.ErrorContains(t, err, "node 2 is nil")

	twice := newRedlock(t, []*redistest.Server{a, a, redistest.Start(t)})
	_, err = twice.Mutex("k").Lock(ctx)
	require.ErrorIs(t, err, relock.ErrInvalidNodes)
	require.ErrorContains(t, err, "the same server")

	replica := redistest.Start(t, "--replicaof", "127.0.0.1", fmt.Sprint(a.Port()))
	_, err = newRedlock(t, []*redistest.Server{a, replica, redistest.Start(t)}).Mutex("k").TryLock(ctx)
	require.ErrorIs(t, err, relock.ErrInvalidNodes)
	require.ErrorContains(t, err, "is a slave")

	g := redistest.StartCluster(t)
	_, err = relock.NewRedlock([]rueidis.Client{g.Client()})
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	require.ErrorContains(t, err, "Cluster")
	_, err = relock.New(g.Client(), relock.WithRestartGuard(time.Minute))
	require.ErrorIs(t, err, relock.ErrInvalidOption)
}

// hooked is a client's wrapper that cannot be compared.
type hooked struct {
	rueidis.Client
	_ func()
}

// A node that was restarted empty grants nothing until every lease it may have forgotten is over.
func TestRestartedNodeStaysOut(t *testing.T) {
	t.Parallel()
	nodes := masters(t, 3)
	const lease = 2 * time.Second
	// A machine that is busy for a moment is no node that is down: with node 1 empty, node 3 is needed to unlock.
	opts := []relock.ClientOption{relock.WithLease(lease), relock.WithRestartGuard(lease), relock.WithCommandTimeout(lease / 4)}
	c, d := newRedlock(t, nodes, opts...), newRedlock(t, nodes, opts...)
	ctx := context.Background()
	require.NoError(t, c.Mutex("k").Do(ctx, func(context.Context) error { return nil }))
	nodes[2].Pause()
	l, err := c.Mutex("k").Lock(ctx) // on nodes 1 and 2 alone
	require.NoError(t, err)
	nodes[2].Resume()
	nodes[0].RestartEmpty()
	wctx, cancel := context.WithTimeout(ctx, lease/2)
	defer cancel()
	_, err = d.Mutex("k").Lock(wctx)
	require.ErrorIs(t, err, context.DeadlineExceeded, "nodes 1 and 3 would be a quorum")
	require.NoError(t, l.Context().Err())
	require.NoError(t, l.Unlock(ctx))
	second, err := d.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.Greater(t, second.Token(), l.Token())
	require.NoError(t, second.Unlock(ctx))
}

// Once that is over it takes part again, however steadily the lock passes from hand to hand meanwhile.
func TestRestartedNodeComesBackUnderContention(t *testing.T) {
	t.Parallel()
	nodes := masters(t, 3)
	const lease = time.Second
	c := newRedlock(t, nodes, relock.WithLease(lease), relock.WithRestartGuard(lease), relock.WithLocalHandoff(1, time.Second),
		relock.WithCommandTimeout(lease/3))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var wg sync.WaitGroup
	var stop atomic.Bool
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				if err := c.Mutex("k").Do(ctx, func(context.Context) error { return nil }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	require.Eventually(t, func() bool { return nodes[0].Do("EXISTS", "k") == "1" }, patience, time.Millisecond)
	nodes[0].RestartEmpty()
	// A poll, which would tell as well, is only sent by who waits for a third of a lease.
	require.Eventually(t, func() bool { return nodes[0].Do("EXISTS", "k") == "1" }, patience, time.Millisecond)
	stop.Store(true)
	wg.Wait()
}

// The same with the guard off finds the violation that the guard prevents.
func TestRestartedNodeWithoutTheGuardBreaksExclusion(t *testing.T) {
	servers := masters(t, 3)
	c, taps := tapped(t, servers, relock.WithoutRestartGuard())
	d := newRedlock(t, servers, relock.WithoutRestartGuard())
	ctx := context.Background()
	servers[2].Pause()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	for _, w := range taps { // else it may hear of its loss early, when it subscribes again at the first node
		w.Filter(faults.All(faults.AnyScript, faults.LoseCall))
	}
	servers[2].Resume()
	servers[0].RestartEmpty()
	second, err := d.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, l.Context().Err(), "two holders")
	require.NoError(t, second.Unlock(ctx))
}

func TestStrictGuardWaitsForTrustNodes(t *testing.T) {
	nodes := masters(t, 3)
	c := newRedlock(t, nodes, relock.WithStrictRestartGuard(time.Minute))
	ctx := context.Background()
	_, err := c.Mutex("k").TryLock(ctx)
	require.ErrorContains(t, err, "QUARANTINED")
	require.NoError(t, c.TrustNodes(ctx))
	l, err := c.Mutex("k").TryLock(ctx)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
}

// Without the guard TrustNodes does nothing: another client's guard would take the nodes for such that forgot no lock.
func TestTrustNodesDoesNothingWithoutTheGuard(t *testing.T) {
	nodes := masters(t, 3)
	c := newRedlock(t, nodes, relock.WithoutRestartGuard())
	require.NoError(t, c.TrustNodes(context.Background()))
	for _, s := range nodes {
		require.Equal(t, "0", s.Do("EXISTS", wire.IncarnationKey))
	}
}

// Where more nodes forgot than a quorum survives, nobody can tell them how far they counted: their clocks can.
func TestTokensRiseThoughAMajorityForgot(t *testing.T) {
	t.Parallel()
	for _, guard := range []relock.ClientOption{relock.WithRestartGuard(time.Second), relock.WithStrictRestartGuard(time.Second)} {
		nodes := masters(t, 3)
		c := newRedlock(t, nodes, relock.WithLease(time.Second), guard, relock.WithCommandTimeout(300*time.Millisecond))
		ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
		defer cancel()
		require.Eventually(t, func() bool { return c.TrustNodes(ctx) == nil }, patience, time.Millisecond)
		var last int64
		for forgetful := range 4 {
			for _, s := range nodes[:forgetful] {
				s.RestartEmpty()
			}
			l, err := c.Mutex("k").Lock(ctx)
			require.NoError(t, err)
			require.Greater(t, l.Token(), last, "%d forgot", forgetful)
			last = l.Token()
			_ = l.Unlock(ctx) // a machine that stalls may leave it unanswered: it is swept
		}
	}
}

// The guard serves a single Redis too: after a restart nobody is granted what somebody may still hold.
func TestGuardOnASingleRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes")
	c := newClient(t, s.Client(), relock.WithLease(time.Second), relock.WithRestartGuard(time.Second), relock.WithCommandTimeout(300*time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	s.Restart()
	_, err = c.Mutex("other").TryLock(ctx)
	require.Error(t, err)
	within(t, l.Context().Done()) // which renewals would put off without the guard
	require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
	second, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.Greater(t, second.Token(), l.Token())
	require.NoError(t, second.Unlock(ctx))
}

// Many arrive at once at a free lock, from clients of their own: the vote splits, and is resolved.
func TestSplitVotesAreResolved(t *testing.T) {
	nodes := masters(t, 5)
	var clients []*relock.Client
	for range 8 {
		clients = append(clients, newRedlock(t, nodes))
	}
	for round := range 20 {
		var wg sync.WaitGroup
		key := fmt.Sprint("round ", round)
		began := time.Now()
		for _, c := range clients {
			wg.Go(func() {
				if err := c.Mutex(key).Do(context.Background(), func(context.Context) error { return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		require.Less(t, time.Since(began), 8*time.Second, "none waited for a poll, every 10 s")
	}
}

// Fresh nodes of which one does not answer are not taken for new, since that one may have been used. They serve once their
// quarantine is over, all the same: they are too many that know nothing for the last to tell them.
func TestFreshNodesServeWithoutOneThatHangs(t *testing.T) {
	t.Parallel()
	var nodes []rueidis.Client
	var servers []*redistest.Server
	for range 3 {
		servers = append(servers, redistest.Start(t))
		nodes = append(nodes, servers[len(servers)-1].Client())
	}
	servers[2].Pause()
	t.Cleanup(servers[2].Resume)
	const quarantine = 3 * time.Second
	events := &seen{}
	c, err := relock.NewRedlock(nodes, relock.WithLease(quarantine), relock.WithRestartGuard(quarantine), relock.WithObserver(events))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, name := range []string{"k", "other"} {
		l, err := c.Mutex(name).Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, l.Unlock(ctx))
	}
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(events.of(relock.EventNodeDown), func(e relock.Event) bool { return e.Node == 3 })
	}, patience, time.Millisecond, "that is told, too")
}

// A driver of another module is checked as a client at the front door is, and its client as well.
func TestOpeningChecksDrivers(t *testing.T) {
	a, b := new(faults.Stub), new(faults.Stub)
	for why, nodes := range map[string][]driver.Redis{
		"no nodes":                  {},
		"node 1 is nil":             {overrueidis.New(nil), b},
		"node 2 is nil":             {a, nil},
		"node 3 is node 1 again":    {a, b, faults.NewRedis(a)},
		"node 2 is a Cluster; a qu": {a, &faults.Stub{Slots: true}},
	} {
		c, err := opening.NewRedlock(nodes, []relock.ClientOption{})
		require.ErrorIs(t, err, relock.ErrInvalidOption, why)
		require.ErrorContains(t, err, why)
		require.Nil(t, c.(*relock.Client))
	}
	for _, rdb := range []driver.Redis{nil, overrueidis.New(nil), &faults.Stub{Slots: true}} {
		c, err := opening.New(rdb, []relock.ClientOption{relock.WithRestartGuard(time.Minute)})
		require.ErrorIs(t, err, relock.ErrInvalidOption)
		require.Nil(t, c.(*relock.Client))
	}
	c, err := opening.NewRedlock([]driver.Redis{a, b, new(faults.Stub)}, []relock.ClientOption{relock.WithQuorum(2)})
	require.NoError(t, err)
	c.(*relock.Client).Close()
	_, err = opening.New(a, []relock.ClientOption{relock.WithLease(-1)})
	require.ErrorIs(t, err, relock.ErrInvalidOption)
}
