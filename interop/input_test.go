package interop

import (
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// TestOtherRedissonObject has another object of Redisson, or of anybody, stand under the lock's name. A hash that is
// there looks held, since the wire format says nothing else; every other type is refused at once.
func TestOtherRedissonObject(t *testing.T) {
	server := redistest.Start(t)
	s := singleSite(server)
	jvm, locks := startJVM(t, current, s.yaml()), s.locks(t)

	t.Run("read lock", func(t *testing.T) {
		jvm.Do("reader", "readLock", "rw", "-1")
		before := server.Do("HGETALL", "rw")
		_, err := locks.Mutex("rw").TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrWrongKind)
		_, err = locks.Mutex("rw").State(t.Context())
		require.ErrorIs(t, err, relock.ErrWrongKind)
		state, err := locks.RWMutex("rw").State(t.Context())
		require.NoError(t, err)
		require.Equal(t, jvm.id+":"+jvm.Do("reader", "threadId"), state.Holder, "the mode is no holder")
		require.Equal(t, before, server.Do("HGETALL", "rw"))
	})
	t.Run("fair lock", func(t *testing.T) {
		lease, err := locks.Mutex("fair").Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, "false", jvm.Do("fair", "tryLock", "fair:fair", "0", "-1"))
		require.NoError(t, lease.Unlock(t.Context()))
		jvm.Do("fair", "lock", "fair:fair", "-1")
		_, err = locks.Mutex("fair").TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrNotAcquired)
		jvm.Do("fair", "unlock", "fair:fair")
	})
	t.Run("map", func(t *testing.T) {
		server.Do("HSET", "map", "field", "some text", "other", "3")
		before := server.Do("HGETALL", "map")
		mutex := locks.Mutex("map", relock.WithWait(200*time.Millisecond))
		_, err := mutex.Lock(t.Context())
		require.ErrorIs(t, err, relock.ErrNotAcquired)
		_, err = mutex.State(t.Context())
		require.NoError(t, err)
		require.Equal(t, before, server.Do("HGETALL", "map"))
		require.Equal(t, "-1", server.Do("PTTL", "map"), "somebody's map was given an end")
	})
	for kind, command := range map[string]string{
		"bucket": "SET key value", "list": "RPUSH key a", "set": "SADD key a", "sorted set": "ZADD key 1 a",
	} {
		t.Run(kind, func(t *testing.T) {
			name := "as a " + kind
			words := strings.Fields(command)
			words[1] = name
			server.Do(words...)
			requireRefused(t, locks.Mutex(name))
			require.Equal(t, "-1", server.Do("PTTL", name))
		})
	}
}

// requireRefused wants both ways to lock to fail at once, naming the lock and what to do.
func requireRefused(t *testing.T, mutex *relock.Mutex) {
	t.Helper()
	began := time.Now()
	for _, lock := range []func() (*relock.Lease, error){
		func() (*relock.Lease, error) { return mutex.TryLock(t.Context()) },
		func() (*relock.Lease, error) { return mutex.Lock(t.Context()) },
	} {
		_, err := lock()
		var node *relock.NodeError
		require.ErrorAs(t, err, &node)
		require.Equal(t, mutex.Name(), node.Name)
		require.ErrorContains(t, err, "choose another lock name")
	}
	require.Less(t, time.Since(began), time.Second)
}

// TestBadTokenKey has the fencing counter be of another type, or hold no number. Nothing may be held after the refusal.
func TestBadTokenKey(t *testing.T) {
	server := redistest.Start(t)
	locks := singleSite(server).locks(t)
	server.Do("RPUSH", "redisson_lock_token:{list}", "a")
	requireRefused(t, locks.Mutex("list"))
	require.Equal(t, "0", server.Do("EXISTS", "list"))

	server.Do("SET", "redisson_lock_token:{text}", "abc")
	_, err := locks.Mutex("text").TryLock(t.Context())
	var node *relock.NodeError
	require.ErrorAs(t, err, &node)
	require.ErrorContains(t, err, "integer")
	require.Equal(t, "0", server.Do("EXISTS", "text"))
	_, err = locks.Mutex("text", relock.WithWait(5*time.Second)).Lock(t.Context())
	require.NotErrorIs(t, err, relock.ErrNotAcquired, "Lock waited for what no waiting heals")
	require.ErrorAs(t, err, &node)
}

// TestTokenKeyBreaksUnderWaiters breaks the fencing counter while one side holds and a Go waiter sleeps: the unlock
// still frees the lock, and the waiter is told.
func TestTokenKeyBreaksUnderWaiters(t *testing.T) {
	server := redistest.Start(t)
	s := singleSite(server)
	jvm, holder, locks := startJVM(t, current, s.yaml()), s.locks(t), s.locks(t)
	t.Run("Java unlocks", func(t *testing.T) {
		jvm.Do("a", "lock", "lock:broken1", "-1")
		requireToldOfBadToken(t, server, locks.Mutex("broken1"), func() { jvm.Do("a", "unlock", "lock:broken1") })
	})
	t.Run("Go unlocks", func(t *testing.T) {
		lease, err := holder.Mutex("broken2").Lock(t.Context())
		require.NoError(t, err)
		requireToldOfBadToken(t, server, locks.Mutex("broken2"), func() { _ = lease.Unlock(t.Context()) })
	})
}

func requireToldOfBadToken(t *testing.T, server *redistest.Server, mutex *relock.Mutex, unlock func()) {
	t.Helper()
	waiter := wait(mutex)
	eventually(t, "a Go waiter that listens", func() bool {
		return server.Do("ZCARD", "relock_queue:{"+mutex.Name()+"}") == "1" &&
			strings.HasSuffix(server.Do("PUBSUB", "NUMSUB", channelOf(mutex.Name())), "\n1")
	})
	server.Do("DEL", "redisson_lock_token:{"+mutex.Name()+"}")
	server.Do("RPUSH", "redisson_lock_token:{"+mutex.Name()+"}", "a")
	began := time.Now()
	unlock()
	got := await(t, waiter)
	var node *relock.NodeError
	require.ErrorAs(t, got.err, &node)
	require.Less(t, got.at.Sub(began), promptly, "the waiter slept until its poll")
	require.Equal(t, "0", server.Do("EXISTS", mutex.Name()))
}

// TestStrangeMessages publishes on the unlock channel what is no number or no unlock. The waiters sleep on, nothing is
// freed, and the next unlock still wakes them.
func TestStrangeMessages(t *testing.T) {
	server := redistest.Start(t)
	s := singleSite(server)
	jvm, mutex := startJVM(t, current, s.yaml()), s.locks(t).Mutex("noise")
	jvm.Do("a", "lock", "lock:noise", "-1")
	waiter := wait(mutex)
	eventually(t, "a Go waiter that listens", func() bool {
		return server.Do("ZCARD", "relock_queue:{noise}") == "1" &&
			server.Do("PUBSUB", "NUMSUB", channelOf("noise")) == channelOf("noise")+"\n1"
	})
	nines := strings.Repeat("9", 1<<16)
	for _, message := range []string{"", "hello", "00x", "-1", "7", "99999999999999999999", "\x00\xff", nines} {
		require.Equal(t, "1", server.Do("PUBLISH", channelOf("noise"), message))
	}
	require.Equal(t, "1", jvm.Do("a", "getHoldCount", "lock:noise"))
	require.Empty(t, waiter)
	unlock := jvm.Try("a", "unlock", "lock:noise")
	require.NoError(t, unlock.err)
	got := await(t, waiter)
	require.NoError(t, got.err)
	require.Less(t, got.at.Sub(unlock.began), promptly)
	require.NoError(t, got.lease.Unlock(t.Context()))
}
