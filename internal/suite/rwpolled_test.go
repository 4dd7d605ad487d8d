package suite_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// polling returns a way to make processes on a Cluster whose channels are plain ones: no message grants a lock there.
func polling(t *testing.T) (nodes *redistest.Cluster, open func(...relock.ClientOption) *relock.RWMutex) {
	t.Helper()
	nodes = redistest.StartCluster(t)
	return nodes, func(opts ...relock.ClientOption) *relock.RWMutex {
		rdb, err := rueidis.NewClient(nodes.Option())
		require.NoError(t, err)
		t.Cleanup(rdb.Close)
		rw := newClient(t, rdb, append(opts, relock.WithPlainChannels())...).RWMutex("k")
		unlocked(t, taken(t, rw.RLock)) // so that it knows how to ask
		return rw
	}
}

// Where waiters poll, the order is the same as where they are handed the lock.
func TestRWMutexIsPhaseFairWhereWaitersPoll(t *testing.T) {
	t.Parallel()
	nodes, open := polling(t)
	a, b, c := open(), open(), open()
	s := nodes.MasterFor("k")
	one, two := taken(t, a.RLock), taken(t, b.TryRLock)
	writer := inLine(t, s, c.Lock, 0, 1)
	_, err := b.TryRLock(t.Context())
	require.ErrorIs(t, err, relock.ErrNotAcquired, "past a writer that waits")
	unlocked(t, one, two)
	w := within(t, writer)
	require.Greater(t, w.Token(), two.Token())

	readers := []<-chan *relock.Lease{inLine(t, s, a.RLock, 1, 0)}
	next := inLine(t, s, b.Lock, 1, 1)
	readers = append(readers, inLine(t, s, b.RLock, 2, 1))
	unlocked(t, w)
	first, second := within(t, readers[0]), within(t, readers[1])
	require.Empty(t, next)
	_, err = c.TryRLock(t.Context())
	require.ErrorIs(t, err, relock.ErrNotAcquired, "it is not of the phase")
	late := inLine(t, s, c.RLock, 1, 1)
	unlocked(t, first)
	require.Empty(t, next)
	unlocked(t, second)
	last := within(t, next)
	require.Greater(t, last.Token(), max(first.Token(), second.Token()))
	unlocked(t, last)
	unlocked(t, within(t, late))
	require.Empty(t, s.Do("KEYS", "relock_[rw]*{k}*"), "what keeps a place ends with the wait")
}

// Where waiters poll, neither readers that overlap keep a writer out, nor writers that follow each other a reader.
func TestRWMutexStarvesNoneWhereWaitersPoll(t *testing.T) {
	t.Parallel()
	_, open := polling(t)
	starvesNone(t, func() *relock.RWMutex { return open() })
}

// A waiter that gives up wakes those that it kept out. One that died keeps its place for half of its lease.
func TestRWMutexWaitersLeaveWhereTheyPoll(t *testing.T) {
	t.Parallel()
	nodes, open := polling(t)
	a, b, c := open(), open(), open()
	s := nodes.MasterFor("k")
	r := taken(t, a.RLock)
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := b.Lock(ctx)
		gaveUp <- err
	}()
	require.Eventually(t, func() bool { return s.Do("ZCARD", "relock_writers:{k}") == "1" }, patience, time.Millisecond)
	reader := inLine(t, s, c.RLock, 1, 1)
	began := time.Now()
	cancel()
	require.ErrorIs(t, within(t, gaveUp), context.Canceled)
	unlocked(t, within(t, reader))
	require.Less(t, time.Since(began), 2*time.Second, "its next poll would come later")

	gone := strings.Repeat("0", 8) + "-0000-0000-0000-000000000000:1"
	s.Do("ZADD", "relock_writers:{k}", "1", "2000:256:"+gone+":")
	unlocked(t, taken(t, c.TryRLock))
	require.Equal(t, "0", s.Do("ZCARD", "relock_writers:{k}"))
	s.Do("ZADD", "relock_writers:{k}", "1", "2000:256:"+gone+":")
	s.Do("SET", "relock_writers:{k}:"+gone, "1", "PX", "1000") // which asked a second before
	began = time.Now()
	unlocked(t, taken(t, c.RLock))
	require.Greater(t, time.Since(began), 900*time.Millisecond)
	require.Less(t, time.Since(began), 3*time.Second)
	unlocked(t, r)
}

// Waiters that poll exclude each other, and all come. On a full Redis those that wait already go on waiting.
func TestRWMutexExcludesWhereWaitersPoll(t *testing.T) {
	t.Parallel()
	nodes, open := polling(t)
	excludes(t, 40, func() *relock.RWMutex { return open() })
	s := nodes.MasterFor("k")
	a, b := open(), open(relock.WithLease(2*time.Second)) // which polls soon
	r := taken(t, a.RLock)
	writer := inLine(t, s, b.Lock, 0, 1)
	polled := s.CommandCounts()["evalsha"]
	s.Do("CONFIG", "SET", "maxmemory", "1")
	require.Eventually(t, func() bool { return s.CommandCounts()["evalsha"] > polled+1 || t.Failed() }, patience, time.Millisecond)
	s.Do("CONFIG", "SET", "maxmemory", "0")
	unlocked(t, r)
	unlocked(t, within(t, writer))
}

// A waiter that polls and gives up wakes at once those that it kept out: readers behind a writer, and permits behind a larger wish.
// Their next question would come in minutes.
func TestPollerThatGivesUpWakesThoseItKeptOut(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	open := func() *relock.Client {
		rdb, err := rueidis.NewClient(nodes.Option())
		require.NoError(t, err)
		t.Cleanup(rdb.Close)
		return newClient(t, rdb, relock.WithPlainChannels(), relock.WithLease(time.Hour))
	}
	a, b, c := open(), open(), open()
	s := nodes.MasterFor("k")
	gaveUp := make(chan error, 1)
	call := func(ctx context.Context, lock func(context.Context) error) { gaveUp <- lock(ctx) }
	waits := func(line string) {
		t.Helper()
		require.Eventually(t, func() bool { return s.Do("ZCARD", line) == "1" }, patience, time.Millisecond)
	}

	rw := func(c *relock.Client) *relock.RWMutex { return c.RWMutex("k", relock.WithRedissonWatchdog(time.Hour)) }
	held := taken(t, rw(a).RLock)
	ctx, cancel := context.WithCancel(t.Context())
	go call(ctx, func(ctx context.Context) error { _, err := rw(b).Lock(ctx); return err })
	waits("relock_writers:{k}")
	reader := inLine(t, s, rw(c).RLock, 1, 1)
	settledOn(t, c, namesOf(wire.Read, "k").Unlock)
	cancel()
	require.ErrorIs(t, within(t, gaveUp), context.Canceled)
	unlocked(t, within(t, reader), held)

	s = nodes.MasterFor("permits")
	sem := func(c *relock.Client) *relock.Semaphore { return c.Semaphore("permits", 2) }
	one := permits(t, sem(a), 1)
	ctx, cancel = context.WithCancel(t.Context())
	go call(ctx, func(ctx context.Context) error { _, err := sem(b).Acquire(ctx, 2); return err })
	waits(namesOf(wire.Semaphore, "permits").Queue)
	behind := waitsFor(t, sem(c), s, 1, 2)
	settledOn(t, c, namesOf(wire.Semaphore, "permits").Unlock)
	cancel()
	require.ErrorIs(t, within(t, gaveUp), context.Canceled)
	unlocked(t, within(t, behind), one)
}
