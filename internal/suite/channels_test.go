package suite_test

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// userOf returns a Client of a user who may do everything but subscribe what the channels rule out.
func userOf(t *testing.T, s *redistest.Server, channels ...string) *relock.Client {
	t.Helper()
	rdb, err := rueidis.NewClient(s.AddUser("app", "secret", append([]string{"~*", "+@all"}, channels...)...))
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	return newClient(t, rdb, relock.WithLease(far))
}

// mayNotHear requires that err names a missing right and where to read about it.
func mayNotHear(t *testing.T, err error, name string) {
	t.Helper()
	var node *relock.NodeError
	require.ErrorAs(t, err, &node)
	require.Equal(t, name, node.Name)
	require.ErrorContains(t, err, "NOPERM")
	require.ErrorContains(t, err, "docs/wire.md")
	require.NotErrorIs(t, err, relock.ErrNotAcquired)
}

// locks calls Lock in the background.
func locks(c *relock.Client, name string) <-chan error {
	got := make(chan error, 1)
	go func() {
		l, err := c.Mutex(name).Lock(context.Background())
		if err == nil {
			err = l.Unlock(context.Background())
		}
		got <- err
	}()
	return got
}

// handsOver requires that a waiter of c is woken when holder's lock is given back.
func handsOver(t *testing.T, s *redistest.Server, holder, c *relock.Client, name string) {
	t.Helper()
	l, err := holder.Mutex(name).Lock(context.Background())
	require.NoError(t, err)
	got := locks(c, name)
	queued(t, s, name, 1)
	settled(t, c, name)
	require.NoError(t, l.Unlock(context.Background()))
	require.NoError(t, within(t, got))
}

// A channel that may not be subscribed concerns those who would wait for that lock, at once, and nobody else.
func TestOneForbiddenChannelConcernsOneLock(t *testing.T) {
	s := redistest.Start(t)
	c := userOf(t, s, "&relock_inbox:*", "&*{good*}")
	holder := newClient(t, s.Client(), relock.WithLease(far))
	ctx := context.Background()
	handsOver(t, s, holder, c, "good1")
	bad, err := holder.Mutex("bad").Lock(ctx)
	require.NoError(t, err)
	mine, err := c.Mutex("good2").Lock(ctx)
	require.NoError(t, err)
	for range 2 {
		mayNotHear(t, within(t, locks(c, "bad")), "bad")
	}
	require.NoError(t, bad.Unlock(ctx))
	handsOver(t, s, holder, c, "good1")
	handsOver(t, s, holder, c, "good3")
	require.NoError(t, mine.Extend(ctx, far), "holders are not concerned")
	require.NoError(t, mine.Unlock(ctx))
}

// A client whose inbox may not be subscribed is told by its first Lock, and nothing is left held.
func TestFirstLockTellsOfAForbiddenInbox(t *testing.T) {
	s := redistest.Start(t)
	c := userOf(t, s, "&redisson_lock__channel:*", "&relock_listen:*")
	mayNotHear(t, within(t, locks(c, "k")), "k")
	require.Eventually(t, func() bool { return s.Do("EXISTS", "k", "relock_queue:{k}") == "0" },
		patience, time.Millisecond)
}

// Rights that are withdrawn are told to those who wait already, and to those who come later; holders keep their locks.
// Once the rights are back locks are handed over again.
func TestRightsWithdrawnAndGivenBack(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := userOf(t, s, "allchannels")
	holder := newClient(t, s.Client(), relock.WithLease(far))
	ctx := context.Background()
	l, err := holder.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	mine, err := c.Mutex("mine").Lock(ctx)
	require.NoError(t, err)
	waiter := locks(c, "k")
	queued(t, s, "k", 1)
	settled(t, c, "k")
	s.Do("ACL", "SETUSER", "app", "resetchannels")
	mayNotHear(t, within(t, waiter), "k")
	mayNotHear(t, within(t, locks(c, "k")), "k")
	require.NoError(t, mine.Extend(ctx, far))
	require.NoError(t, l.Unlock(ctx))

	s.Do("ACL", "SETUSER", "app", "allchannels")
	next, e := new(node.Claim), newEntry(c, wire.Mutex, "k")
	next.Start(arbiterOf(c).Nodes()[0], &e, clock.NewSignal())
	next.Enter()
	require.Eventually(t, func() bool { return next.Ear().Deafness() == nil }, patience, time.Millisecond)
	next.Forget()
	handsOver(t, s, holder, c, "k")
	require.NoError(t, mine.Unlock(ctx))
}

// A quorum waits while enough nodes can tell of their grants, and says which ones may not once they cannot.
func TestForbiddenInboxesOfAQuorum(t *testing.T) {
	var servers []*redistest.Server
	var mine, theirs []rueidis.Client
	for range 3 {
		s := redistest.Start(t)
		rdb, err := rueidis.NewClient(s.AddUser("app", "secret", "~*", "+@all", "allchannels"))
		require.NoError(t, err)
		t.Cleanup(rdb.Close)
		servers, mine, theirs = append(servers, s), append(mine, rdb), append(theirs, s.Client())
	}
	ofNodes := func(nodes []rueidis.Client) *relock.Client {
		c, err := relock.NewRedlock(nodes, relock.WithLease(far), relock.WithRestartGuard(far))
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	c, holder := ofNodes(mine), ofNodes(theirs)
	ctx := context.Background()
	require.NoError(t, c.Mutex("warm").Do(ctx, func(context.Context) error { return nil }))
	silence := func(s *redistest.Server) {
		s.Do("ACL", "SETUSER", "app", "-subscribe")
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	}
	silence(servers[0])
	l, err := holder.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	for _, s := range servers { // a node that the waiter won would need to tell it nothing
		require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "1" }, patience, time.Millisecond)
	}
	waiter := locks(c, "k")
	for _, s := range servers {
		queued(t, s, "k", 1)
	}
	silence(servers[1])
	err = within(t, waiter)
	var quorum *relock.QuorumError
	require.ErrorAs(t, err, &quorum)
	require.ErrorContains(t, err, "node 1: subscribe")
	require.ErrorContains(t, err, "node 2: subscribe")
	require.ErrorContains(t, err, "docs/wire.md")
	require.NoError(t, l.Unlock(ctx))
}

// onCluster returns a Client of a Cluster whose options are changed first.
func onCluster(t *testing.T, cl *redistest.Cluster, change func(*rueidis.ClientOption)) *relock.Client {
	t.Helper()
	opt := cl.Option()
	change(&opt)
	rdb, err := rueidis.NewClient(opt)
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	return newClient(t, rdb, relock.WithLease(far))
}

// A client that reads from replicas would subscribe there too, where the master does not count it. It is handed locks all
// the same.
func TestReadingFromReplicasHearsTheMaster(t *testing.T) {
	t.Parallel()
	cl := redistest.StartCluster(t)
	major, _, _ := cl.Nodes()[0].Version()
	if major < 7 {
		t.Skip("no sharded channels")
	}
	var clients []*relock.Client
	for range 2 {
		clients = append(clients, onCluster(t, cl, func(opt *rueidis.ClientOption) {
			opt.SendToReplicas = func(cmd rueidis.Completed) bool { return cmd.IsReadOnly() }
		}))
	}
	ctx := context.Background()
	for _, name := range []string{"a", "b", "c"} {
		l, err := clients[0].Mutex(name).Lock(ctx)
		require.NoError(t, err)
		got := locks(clients[1], name)
		master := cl.MasterFor(name)
		for _, ch := range []string{"redisson_lock__channel:{" + name + "}", "relock_inbox:{" + name + "}:" + clients[1].ID()} {
			require.Eventually(t, func() bool {
				return strings.HasSuffix(master.Do("PUBSUB", "SHARDNUMSUB", ch), "\n1")
			}, patience, time.Millisecond, ch)
		}
		require.NoError(t, l.Unlock(ctx))
		require.NoError(t, within(t, got))
	}
}

// A lock whose sharded channels may not be subscribed tells its waiters at once; others are not concerned.
func TestForbiddenShardedChannel(t *testing.T) {
	t.Parallel()
	cl := redistest.StartCluster(t)
	for _, s := range cl.Nodes() {
		s.AddUser("app", "secret", "~*", "+@all", "&*{good}*")
	}
	c := onCluster(t, cl, func(opt *rueidis.ClientOption) { opt.Username, opt.Password = "app", "secret" })
	holder := onCluster(t, cl, func(*rueidis.ClientOption) {})
	ctx := context.Background()
	bad, err := holder.Mutex("bad").Lock(ctx)
	require.NoError(t, err)
	for range 2 {
		mayNotHear(t, within(t, locks(c, "bad")), "bad")
	}
	good, err := holder.Mutex("good").Lock(ctx)
	require.NoError(t, err)
	got := locks(c, "good")
	settled(t, c, "good")
	require.NoError(t, good.Unlock(ctx))
	require.NoError(t, within(t, got))
	require.NoError(t, bad.Unlock(ctx))
}

// Clients over one rueidis client share its connection, and so at the server the subscriptions to a lock's own channels.
// Where one of them leaves it takes those from the other, which subscribes anew. When both have left nothing stays, whatever
// the moment in which they leave.
func TestSharersOfAConnectionLeaveNoSubscription(t *testing.T) {
	t.Parallel()
	cl := redistest.StartCluster(t)
	major, _, _ := cl.Nodes()[0].Version()
	if major < 7 {
		t.Skip("no sharded channels")
	}
	rdb, err := rueidis.NewClient(cl.Option())
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	master := cl.MasterFor("k")
	for range rounds(20, 200) {
		var clients []*relock.Client
		for range 2 {
			c, err := relock.New(rdb, relock.WithLease(far), relock.WithLinger(time.Hour))
			require.NoError(t, err)
			lockAndUnlock(t, c.Mutex("k"))
			clients = append(clients, c)
		}
		got := locks(clients[0], "k")
		require.NoError(t, within(t, got))
		var left sync.WaitGroup
		for _, c := range clients {
			left.Go(c.Close)
		}
		left.Wait()
		require.Eventually(t, func() bool { return master.Do("PUBSUB", "SHARDCHANNELS") == "" }, patience, time.Millisecond)
	}
}

// crowded returns a client of s whose pool of dedicated connections has one, which is in use until give is called.
func crowded(t *testing.T, s *redistest.Server) (rdb rueidis.Client, give func()) {
	t.Helper()
	opt := s.Option()
	opt.BlockingPoolSize = 1
	rdb, err := rueidis.NewClient(opt)
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	_, release := rdb.Dedicate()
	give = sync.OnceFunc(release)
	t.Cleanup(give)
	return rdb, give
}

// closes requires that Close returns.
func closes(t *testing.T, c *relock.Client) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		c.Close()
		close(closed)
	}()
	within(t, closed)
}

// Close does not wait for a connection that the user's pool does not hand out. One that comes later is given back.
func TestCloseWithoutAConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb, give := crowded(t, s)
	c, err := relock.New(rdb)
	require.NoError(t, err)
	require.NoError(t, c.Mutex("k").Do(context.Background(), func(context.Context) error { return nil }))
	closes(t, c)
	give()
	_, release := rdb.Dedicate()
	release()
}

// Close does not wait for a connection that takes long to close, as the client library's does where a server hangs.
func TestCloseBesideAConnectionThatHangs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := faulty(s)
	rdb.Filter(faults.All(faults.Command("CLOSE"), faults.Hold))
	c, err := relock.New(rdb)
	require.NoError(t, err)
	require.NoError(t, c.Mutex("k").Do(context.Background(), func(context.Context) error { return nil }))
	listening(t, s, c)
	closes(t, c)
	rdb.Release()
}

// guarded is a buffer for a logger.
type guarded struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (g *guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.Write(p)
}

func (g *guarded) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.String()
}

// Where no connection is to be had for messages, logger and observer are told, and everything is heard once there is one.
func TestMissingConnectionIsLogged(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb, give := crowded(t, s)
	var out guarded
	o := &seen{}
	c := newClient(t, rdb, relock.WithLease(far), relock.WithLogger(slog.New(slog.NewTextHandler(&out, nil))), relock.WithObserver(o))
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "BlockingPoolSize") },
		patience, 10*time.Millisecond)
	give()
	handsOver(t, s, newClient(t, s.Client(), relock.WithLease(far)), c, "k")
	impaired := o.of(relock.EventNodeImpaired)
	require.Len(t, impaired, 1)
	require.ErrorContains(t, impaired[0].Cause, "hears no messages")
	require.Eventually(t, func() bool { return len(o.of(relock.EventNodeMended)) > 0 }, patience, time.Millisecond)
	require.Equal(t, impaired[0].Cause, o.of(relock.EventNodeMended)[0].Cause)
	require.Empty(t, o.of(relock.EventNodeDown, relock.EventNodeUp), "Redis answers all the while")
	require.Contains(t, out.String(), `"relock: Redis works as it should again" cause="hears no messages`)
	require.Equal(t, 2, strings.Count(out.String(), "level=WARN"))
}

// Channels that may not be subscribed are told of once, and once more when none is left that may not: over plain channels,
// and over those of a Cluster.
func TestRightsGivenBackAreTold(t *testing.T) {
	t.Parallel()
	one, cluster := redistest.Start(t), redistest.StartCluster(t)
	for name, c := range map[string]struct {
		at      redistest.Target
		servers []*redistest.Server
	}{
		"one Redis": {one.Target(), []*redistest.Server{one}},
		"cluster":   {cluster.Target(), cluster.Nodes()},
	} {
		t.Run(name, func(t *testing.T) {
			rights := func(channels string) {
				for _, s := range c.servers {
					s.AddUser("app", "secret", "~*", "+@all", "resetchannels", channels)
				}
			}
			open := func(at redistest.Target, opts ...relock.ClientOption) *relock.Client {
				rdb, err := rueidis.NewClient(at.Rueidis())
				require.NoError(t, err)
				t.Cleanup(rdb.Close)
				return newClient(t, rdb, append(opts, relock.WithLease(far))...)
			}
			rights("allchannels")
			o := &seen{}
			c, holder := open(c.at.As("app", "secret"), relock.WithObserver(o)), open(c.at)
			l, err := holder.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			waits := locks(c, "k")
			settled(t, c, "k")
			rights("&other")
			mayNotHear(t, within(t, waits), "k")
			impaired := o.nth(t, 1, relock.EventNodeImpaired)
			rights("allchannels")
			require.Equal(t, impaired.Cause, o.nth(t, 1, relock.EventNodeMended).Cause)
			got := locks(c, "k")
			require.NoError(t, l.Unlock(t.Context()))
			require.NoError(t, within(t, got))
			require.Len(t, o.of(relock.EventNodeImpaired, relock.EventNodeMended), 2)
		})
	}
}

// askedForShards picks the question for sharded channels, which a test answers as an older Cluster does.
var askedForShards = faults.Command("PUBSUB", "SHARDNUMSUB")

const unknownShards = "ERR Unknown subcommand or wrong number of arguments for 'SHARDNUMSUB'. Try PUBSUB HELP."

// The question which channels a Cluster has is asked once, and nobody waits for its answer longer than their context.
func TestModeIsAskedOnceAndWaitedForByOwnContext(t *testing.T) {
	t.Parallel()
	rdb := faults.NewClient(redistest.StartCluster(t).Client())
	rdb.Filter(faults.All(askedForShards, faults.Refuse(unknownShards).Held()))
	c := newClient(t, rdb)
	tried := make(chan error)
	for i := range 5 {
		go func() {
			l, err := c.Mutex(strconv.Itoa(i)).Lock(context.Background())
			if err == nil {
				err = l.Unlock(context.Background())
			}
			tried <- err
		}()
	}
	within(t, rdb.Told())
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error)
	go func() {
		_, err := c.Mutex("other").Lock(ctx)
		gone <- err
	}()
	require.Eventually(t, func() bool { return callsOf(c).UnderWay() == 6 }, patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, within(t, gone), context.Canceled)
	rdb.Release()
	for range 5 {
		require.NoError(t, within(t, tried))
	}
	require.Empty(t, rdb.Told())
	require.Equal(t, "raced", arbiterOf(c).Nodes()[0].Debug().Channels)
}

// Only an answer that sharded channels are unknown decides against them: not one of a Cluster in trouble, nor a missing
// right, which is told.
func TestModeIsNotDecidedByTrouble(t *testing.T) {
	t.Parallel()
	rdb := faults.NewClient(redistest.StartCluster(t).Client())
	rdb.Filter(faults.Each(faults.Next(askedForShards,
		faults.Refuse("LOADING Redis is loading the dataset in memory"),
		faults.Refuse("CLUSTERDOWN The cluster is down"),
		faults.Refuse("NOPERM User app has no permissions to run the 'pubsub|shardnumsub' command")),
		faults.All(askedForShards, faults.Refuse(unknownShards))))
	c := newClient(t, rdb)
	_, err := c.Mutex("k").Lock(context.Background())
	mayNotHear(t, err, "k")
	l, err := c.Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	require.NoError(t, l.Unlock(context.Background()))
	require.Equal(t, "raced", arbiterOf(c).Nodes()[0].Debug().Channels)
}
