package interop

import (
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

const (
	java   = "Java"
	golang = "Go"
)

// pairs starts two processes of each language on a site.
func pairs(t testing.TB, s site) map[string][]*peer {
	t.Helper()
	return map[string][]*peer{
		java:   {startJVM(t, current, s.yaml()), startJVM(t, current, s.yaml())},
		golang: {startGo(t, s, 30*time.Second), startGo(t, s, 30*time.Second)},
	}
}

// TestFairShares lets 20 threads of Java and 20 goroutines take one lock as fast as they can for half a minute, then
// the 20 threads and 2 goroutines for a while.
func TestFairShares(t *testing.T) {
	server := redistest.Start(t)
	s := singleSite(server)
	for _, tc := range []struct {
		goroutines int
		duration   time.Duration
	}{{20, 30 * time.Second}, {2, 10 * time.Second}} {
		name := strconv.Itoa(tc.goroutines)
		t.Run(name, func(t *testing.T) {
			l := load{which: "lock:shares-" + name, counter: "n", threads: 10, duration: tc.duration}
			few := l
			few.threads = tc.goroutines / 2
			requireFair(t, runLoads(t, s, server, map[string]load{java: l, golang: few}, pairs(t, s)))
		})
	}
}

// TestFairSharesInCluster is the same on a Cluster with sharded channels, and with nothing to do under the lock.
func TestFairSharesInCluster(t *testing.T) {
	group := redistest.StartCluster(t)
	s := clusterSite(group, relock.PubSubAuto)
	l := load{which: "lock:shares", threads: 10, duration: 10 * time.Second}
	requireFair(t, runLoads(t, s, group.MasterFor("shares"), map[string]load{java: l, golang: l}, pairs(t, s)))
}

// requireFair fails the test when one language had more than four times the other's holdings, or anybody waited more
// than 10 seconds.
func requireFair(t testing.TB, entries []entry) {
	t.Helper()
	requireExclusive(t, entries)
	holdings, worst := make(map[string]int), make(map[string]time.Duration)
	for _, e := range entries {
		holdings[e.who]++
		worst[e.who] = max(worst[e.who], e.wait())
	}
	t.Logf("holdings %v, longest wait %v", holdings, worst)
	require.LessOrEqual(t, holdings[golang], 4*holdings[java], "Java's share")
	require.LessOrEqual(t, holdings[java], 4*holdings[golang], "Go's share")
	for who, wait := range worst {
		require.Less(t, wait, 10*time.Second, "longest wait in %s", who)
	}
}
