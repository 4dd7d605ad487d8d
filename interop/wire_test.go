package interop

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
)

// TestWire replays what Redisson sent against relock. It needs no Java, so a change of relock's side is noticed
// anywhere.
func TestWire(t *testing.T) {
	for _, version := range []string{current, oldest} {
		for name, test := range map[string]func(*testing.T, replay){
			"Redisson holds": wireRedissonHolds,
			"relock holds":   wireRelockHolds,
			"wake-up":        wireWakeUp,
			"force":          wireForce,
			"fencing":        wireFencing,
		} {
			t.Run(version+" "+name, func(t *testing.T) { test(t, startReplay(t, "lock", version)) })
		}
	}
}

func wireRedissonHolds(t *testing.T, r replay) {
	mutex := singleSite(r.server).locks(t).Mutex("orders")
	require.Nil(t, r.play("lock"))
	require.Nil(t, r.play("re-entry"))
	state, err := mutex.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, threadA, state.Holder)
	require.Equal(t, 2, state.Count)
	require.InDelta(t, 60, state.TTL.Seconds(), 5)
	_, err = mutex.TryLock(t.Context())
	var held *relock.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, threadA, held.Holder)

	waiter := wait(mutex)
	eventually(t, "a waiter", func() bool { return r.server.Do("ZCARD", "relock_queue:{orders}") == "1" })
	require.Equal(t, int64(0), r.play("inner unlock"))
	require.Empty(t, waiter)
	began := time.Now()
	require.Equal(t, int64(1), r.play("unlock"))
	got := await(t, waiter)
	require.NoError(t, got.err)
	require.Less(t, got.at.Sub(began), promptly)
	require.NoError(t, got.lease.Unlock(t.Context()))
}

func wireRelockHolds(t *testing.T, r replay) {
	locks := singleSite(r.server).locks(t)
	lease, err := locks.Mutex("orders").Lock(t.Context())
	require.NoError(t, err)
	inner, err := locks.Mutex("orders").Lock(lease.Context())
	require.NoError(t, err)
	require.Equal(t, "hash", r.server.Do("TYPE", "orders"))
	require.Regexp(t, `^`+locks.ID()+`:\d+\n2\nrelock:first\n\d+:\d+$`, r.server.Do("HGETALL", "orders"))

	ttl, ok := r.play("lock").(int64)
	require.True(t, ok, "Redisson got the lock")
	require.InDelta(t, 30_000, ttl, 5000)
	require.Nil(t, r.play("unlock"), "Redisson unlocked what is not its own")
	require.Equal(t, int64(1), r.play("isLocked"))
	require.Nil(t, r.play("getHoldCount"))
	require.InDelta(t, 30_000, r.play("remainTimeToLive"), 5000)
	require.NoError(t, inner.Unlock(t.Context()))
	require.NoError(t, lease.Unlock(t.Context()))
	require.Equal(t, int64(0), r.play("isLocked"))
	require.Nil(t, r.play("lock"), "Redisson did not get the free lock")
}

// wireWakeUp listens where Redisson listens.
func wireWakeUp(t *testing.T, r replay) {
	messages := listen(t, r)
	lease, err := singleSite(r.server).locks(t).Mutex("orders").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	require.Equal(t, "0", await(t, messages))
	r.server.Do("PUBLISH", r.steps.channel(t), "the end")
	require.Equal(t, "the end", await(t, messages), "relock told of one unlock twice")
}

// listen subscribes Redisson's channel of the lock.
func listen(t *testing.T, r replay) <-chan string {
	t.Helper()
	rdb, err := singleSite(r.server).open()
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	ctx, cancel := context.WithCancel(t.Context())
	messages, subscribed, done := make(chan string, 10), make(chan struct{}, 1), make(chan struct{})
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { subscribed <- struct{}{} })
	go func() {
		defer close(done)
		_ = rdb.Receive(hooked, rdb.B().Subscribe().Channel(r.steps.channel(t)).Build(), func(m rueidis.PubSubMessage) {
			messages <- m.Message
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	await(t, subscribed)
	return messages
}

func wireForce(t *testing.T, r replay) {
	s := singleSite(r.server)
	lease, err := s.locks(t, relock.WithLease(time.Second)).Mutex("orders").Lock(t.Context())
	require.NoError(t, err)
	waiter := wait(s.locks(t).Mutex("orders"))
	eventually(t, "a waiter that listens", func() bool {
		return r.server.Do("ZCARD", "relock_queue:{orders}") == "1" &&
			r.server.Do("PUBSUB", "NUMSUB", r.steps.channel(t)) == r.steps.channel(t)+"\n1"
	})
	began := time.Now()
	require.Equal(t, int64(1), r.play("forceUnlock"))
	got := await(t, waiter)
	require.NoError(t, got.err)
	require.Less(t, got.at.Sub(began), promptly)
	await(t, lease.Context().Done())
	require.ErrorIs(t, context.Cause(lease.Context()), relock.ErrLost)
	require.ErrorIs(t, lease.Unlock(t.Context()), relock.ErrLost)
	require.NoError(t, got.lease.Unlock(t.Context()))
	require.Equal(t, int64(0), r.play("forceUnlock"))
}

func wireFencing(t *testing.T, r replay) {
	mutex := singleSite(r.server).locks(t).Mutex("orders")
	last := int64(0)
	for range 3 {
		lease, err := mutex.Lock(t.Context())
		require.NoError(t, err)
		require.Greater(t, lease.Token(), last)
		refused, ok := r.play("fenced lock").([]any)
		require.True(t, ok)
		require.Equal(t, int64(-1), refused[1])
		require.NoError(t, lease.Unlock(t.Context()))

		granted, ok := r.play("fenced lock").([]any)
		require.True(t, ok)
		require.Equal(t, int64(-1), granted[0])
		require.Greater(t, granted[1], lease.Token())
		last, _ = granted[1].(int64)
		require.Equal(t, strconv.FormatInt(last, 10), r.play("fenced getToken"))
		require.Equal(t, int64(1), r.play("fenced unlock"))
	}
}
