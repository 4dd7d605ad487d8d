package interop

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// lingerFor is how long Go keeps a lock that Java shares.
const lingerFor = 30 * time.Millisecond

// TestLingeringLockGoesToJava measures how much longer than the time that Go may keep an idle lock a waiter of
// Redisson's waits for it. It sends no message that it wants the lock, and would sleep for the rest of the lease.
func TestLingeringLockGoesToJava(t *testing.T) {
	server := redistest.Start(t)
	s := singleSite(server)
	s.Linger = lingerFor
	p := pair{t: t, jvm: startJVM(t, current, s.yaml()), kind: "lock", name: "idle", mutex: s.locks(t).Mutex("idle")}
	idle := 0
	requireP99(t, 4*wakeLimit, 300, func() time.Duration {
		eventually(t, "a lock that lingers", func() bool {
			lease := p.lock()
			require.NoError(t, lease.Unlock(t.Context()))
			return p.state().Held
		})
		got := await(t, p.jvm.Go("a", "lock", p.which(), "-1"))
		require.NoError(t, got.err)
		p.java("a", "unlock")
		if took := got.ended.Sub(got.began); took > lingerFor/10 {
			idle++ // it had to wait
			return took - lingerFor
		}
		return 0
	})
	require.Greater(t, idle, 100, "the lock lingered when Java came")
}

// TestFairSharesOfLingeringLocks is TestFairShares where Go keeps its locks.
func TestFairSharesOfLingeringLocks(t *testing.T) {
	server := redistest.Start(t)
	s := singleSite(server)
	s.Linger = 10 * time.Millisecond
	l := load{which: "lock:shares", counter: "n", threads: 10, duration: 10 * time.Second}
	requireFair(t, runLoads(t, s, server, map[string]load{java: l, golang: l}, pairs(t, s)))
}
