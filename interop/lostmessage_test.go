package interop

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// TestLostMessage cuts all subscriptions while a waiter of each language sleeps, and lets the lock go before they are
// back. Go's waiter looks again when its subscription is confirmed. Redisson's sleeps to the end of the lease that it
// last saw: this is what no other client can mend.
func TestLostMessage(t *testing.T) {
	server := redistest.Start(t)
	s := singleSite(server)
	jvm, locks := startJVM(t, current, s.yaml()), s.locks(t)

	admin, err := s.open()
	require.NoError(t, err)
	t.Cleanup(admin.Close)

	t.Run("Go waits", func(t *testing.T) {
		jvm.Do("a", "lock", "lock:ofJava", "-1")
		waiter := wait(locks.Mutex("ofJava"))
		eventually(t, "a Go waiter that listens", func() bool {
			return server.Do("PUBSUB", "NUMSUB", channelOf("ofJava")) == channelOf("ofJava")+"\n1"
		})
		unheard(t, server, admin, func() { jvm.Do("a", "unlock", "lock:ofJava") })
		began := time.Now()
		got := await(t, waiter)
		require.NoError(t, got.err)
		t.Logf("Go had the lock after %v", got.at.Sub(began))
		require.Less(t, got.at.Sub(began), promptly)
		require.NoError(t, got.lease.Unlock(t.Context()))
	})
	t.Run("Java waits", func(t *testing.T) {
		lease, err := locks.Mutex("ofGo", relock.WithLease(3*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		asked := server.CommandCounts()["pttl"]
		waiter := jvm.Go("a", "lock", "lock:ofGo", "-1")
		eventually(t, "a Java waiter that has asked twice", func() bool { return server.CommandCounts()["pttl"] >= asked+2 })
		unheard(t, server, admin, func() { require.NoError(t, lease.Unlock(t.Context())) })
		began := time.Now()
		got := await(t, waiter)
		require.NoError(t, got.err)
		t.Logf("Java had the lock after %v", got.ended.Sub(began))
		require.Less(t, got.ended.Sub(began), crashLimit)
	})
}

// unheard cuts off every subscriber, unlocks, and only then lets anybody connect again.
func unheard(t *testing.T, server *redistest.Server, admin rueidis.Client, unlock func()) {
	t.Helper()
	for _, command := range []string{"CONFIG SET maxclients 1", "CLIENT KILL TYPE pubsub"} {
		require.NoError(t, admin.Do(t.Context(), admin.B().Arbitrary(strings.Fields(command)...).Build()).Error())
	}
	unlock()
	restore := admin.B().Arbitrary("CONFIG", "SET", "maxclients", "10000").Build()
	require.NoError(t, admin.Do(t.Context(), restore).Error())
}
