package relock

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// far is a lease whose polls, a third of it apart, no test waits for: what is noticed, a message told of.
const far = 10 * time.Minute

// userOf returns a Client of a user who may do everything but subscribe what the channels rule out.
func userOf(t *testing.T, s *redistest.Server, channels ...string) *Client {
	t.Helper()
	rdb, err := redistest.Open(s.AddUser("app", "secret", append([]string{"~*", "+@all"}, channels...)...))
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	return newClient(t, rdb, WithLease(far))
}

// mayNotHear requires that err names a missing right and where to read about it.
func mayNotHear(t *testing.T, err error, name string) {
	t.Helper()
	var node *NodeError
	require.ErrorAs(t, err, &node)
	require.Equal(t, name, node.Name)
	require.ErrorContains(t, err, "NOPERM")
	require.ErrorContains(t, err, "docs/wire.md")
	require.NotErrorIs(t, err, ErrNotAcquired)
}

// locks calls Lock in the background.
func locks(c *Client, name string) <-chan error {
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
func handsOver(t *testing.T, s *redistest.Server, holder, c *Client, name string) {
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
	holder := newClient(t, s.Client(), WithLease(far))
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
	s := redistest.Start(t)
	c := userOf(t, s, "allchannels")
	holder := newClient(t, s.Client(), WithLease(far))
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
	next := contenderOf(t, c.core.arbiter.(*single), "k", c.ID(), 1<<60, far)
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
		rdb, err := redistest.Open(s.AddUser("app", "secret", "~*", "+@all", "allchannels"))
		require.NoError(t, err)
		t.Cleanup(rdb.Close)
		servers, mine, theirs = append(servers, s), append(mine, rdb), append(theirs, s.Client())
	}
	ofNodes := func(nodes []rueidis.Client) *Client {
		c, err := NewRedlock(nodes, WithLease(far), WithRestartGuard(GuardAuto, far))
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
	var quorum *QuorumError
	require.ErrorAs(t, err, &quorum)
	require.ErrorContains(t, err, "node 1: relock: subscribe")
	require.ErrorContains(t, err, "node 2: relock: subscribe")
	require.ErrorContains(t, err, "docs/wire.md")
	require.NoError(t, l.Unlock(ctx))
}
