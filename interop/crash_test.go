package interop

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

const (
	crashLease = 3 * time.Second
	crashYAML  = "lockWatchdogTimeout: 3000"
	// crashLimit is a lease and a second, from the crash.
	crashLimit = crashLease + time.Second
)

func TestJavaCrashes(t *testing.T) {
	s := singleSite(redistest.Start(t))
	jvm, mutex := startJVM(t, current, s.yaml(crashYAML)), s.locks(t, relock.WithLease(crashLease)).Mutex("crash")
	jvm.Do("a", "lock", "lock:crash", "-1")
	waiter := wait(mutex)
	jvm.Kill()
	began := time.Now()
	got := await(t, waiter)
	require.NoError(t, got.err)
	t.Logf("Go had the lock %v after the JVM was killed", got.at.Sub(began))
	require.Less(t, got.at.Sub(began), crashLimit)
	require.NoError(t, got.lease.Unlock(t.Context()))
}

func TestGoCrashes(t *testing.T) {
	s := singleSite(redistest.Start(t))
	jvm, process := startJVM(t, current, s.yaml(crashYAML)), startGo(t, s, crashLease)
	process.Do("a", "lock", "crash")
	waiter := jvm.Go("a", "lock", "lock:crash", "-1")
	process.Kill()
	began := time.Now()
	got := await(t, waiter)
	require.NoError(t, got.err)
	t.Logf("Java had the lock %v after the Go process was killed", got.ended.Sub(began))
	require.Less(t, got.ended.Sub(began), crashLimit)
}

// TestCrashedWaiters kills waiters of both languages: the lock goes to those that live.
func TestCrashedWaiters(t *testing.T) {
	server := redistest.Start(t)
	s := singleSite(server)
	dying, process := startJVM(t, current, s.yaml(crashYAML)), startGo(t, s, crashLease)
	jvm, locks := startJVM(t, current, s.yaml(crashYAML)), s.locks(t, relock.WithLease(crashLease))
	lease, err := locks.Mutex("crash").Lock(t.Context())
	require.NoError(t, err)
	dying.Go("a", "lock", "lock:crash", "-1")
	process.Go("a", "lock", "crash")
	eventually(t, "a waiter of each language", func() bool {
		return server.Do("PUBSUB", "NUMSUB", channelOf("crash")) == channelOf("crash")+"\n2"
	})
	dying.Kill()
	process.Kill()
	waiter := jvm.Go("a", "lock", "lock:crash", "-1")
	eventually(t, "the Java waiter", func() bool {
		return server.Do("PUBSUB", "NUMSUB", channelOf("crash")) == channelOf("crash")+"\n1"
	})
	began := time.Now()
	require.NoError(t, lease.Unlock(t.Context()))
	got := await(t, waiter)
	require.NoError(t, got.err)
	require.Less(t, got.ended.Sub(began), crashLimit)
}

// TestJavaLosesLease lets a lease of Java run out under its holder. What the holder does then must not harm Go.
func TestJavaLosesLease(t *testing.T) {
	s := singleSite(redistest.Start(t))
	jvm, mutex := startJVM(t, current, s.yaml()), s.locks(t).Mutex("lapse")
	began := time.Now()
	jvm.Do("a", "lock", "lock:lapse", "1000")
	got := await(t, wait(mutex))
	require.NoError(t, got.err)
	require.Less(t, got.at.Sub(began), 2*time.Second)
	require.ErrorContains(t, jvm.Try("a", "unlock", "lock:lapse").err, "IllegalMonitorStateException")
	require.NoError(t, got.lease.Context().Err())
	require.NoError(t, got.lease.Unlock(t.Context()))
}

// TestGoLosesLease lets a fixed lease of Go run out under its holder. What the holder does then must not harm Java.
func TestGoLosesLease(t *testing.T) {
	s := singleSite(redistest.Start(t))
	jvm := startJVM(t, current, s.yaml())
	began := time.Now()
	lease, err := s.locks(t).Mutex("lapse", relock.WithFixedLease(time.Second)).Lock(t.Context())
	require.NoError(t, err)
	got := jvm.Try("a", "lock", "lock:lapse", "-1")
	require.NoError(t, got.err)
	require.Less(t, got.ended.Sub(began), 2*time.Second)
	await(t, lease.Context().Done())
	require.ErrorIs(t, context.Cause(lease.Context()), relock.ErrLost)
	require.ErrorIs(t, lease.Unlock(t.Context()), relock.ErrLost)
	require.Equal(t, "1", jvm.Do("a", "getHoldCount", "lock:lapse"))
}

// TestForcedOpenByJava wants a Go holder told at the latest by its next renewal, a third of its lease away.
func TestForcedOpenByJava(t *testing.T) {
	s := singleSite(redistest.Start(t))
	jvm, locks := startJVM(t, current, s.yaml()), s.locks(t, relock.WithLease(crashLease))
	lease, err := locks.Mutex("forced").Lock(t.Context())
	require.NoError(t, err)
	requireTold(t, jvm, lease, crashLease/3+500*time.Millisecond)
}

// requireTold has Java force the lock open, and its holder in Go hear of it within limit.
func requireTold(t *testing.T, jvm *peer, lease *relock.Lease, limit time.Duration) {
	t.Helper()
	forced := jvm.Try("a", "forceUnlock", "lock:forced")
	require.Equal(t, "true", forced.value)
	await(t, lease.Context().Done())
	told := time.Since(forced.began)
	t.Logf("told after %v", told)
	require.ErrorIs(t, context.Cause(lease.Context()), relock.ErrLost)
	require.Less(t, told, limit)
}

// TestForcedOpenByJavaIsHeard wants a holder that listens, because it had waited, told at once.
func TestForcedOpenByJavaIsHeard(t *testing.T) {
	s := singleSite(redistest.Start(t))
	jvm, locks := startJVM(t, current, s.yaml()), s.locks(t)
	jvm.Do("a", "lock", "lock:forced", "-1")
	waiter := wait(locks.Mutex("forced"))
	eventually(t, "a Go waiter", func() bool {
		state, err := locks.Mutex("forced").State(t.Context())
		return err == nil && state.Waiters == 1
	})
	jvm.Do("a", "unlock", "lock:forced")
	lease := await(t, waiter).lease
	require.NotNil(t, lease)
	requireTold(t, jvm, lease, time.Second)
}
