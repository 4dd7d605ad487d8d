package interop

import (
	"fmt"
	"strconv"
	"testing"
	"time"

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

// TestFairSharesInCluster is the same on a Cluster with sharded channels, and with nothing to do under the lock. A JVM that
// gets no processor for some time uses none of its turns, and is given fewer. A busy machine does not do that thrice.
func TestFairSharesInCluster(t *testing.T) {
	group := redistest.StartCluster(t)
	s := clusterSite(group)
	l := load{which: "lock:shares", threads: 10, duration: 10 * time.Second}
	peers, why := pairs(t, s), "untried"
	for try := 0; why != "" && try < 3; try++ {
		why = unfair(t, runLoads(t, s, group.MasterFor("shares"), map[string]load{java: l, golang: l}, peers))
	}
	require.Empty(t, why)
}

// requireFair fails the test where the holdings are unfair.
func requireFair(t testing.TB, entries []entry) {
	t.Helper()
	require.Empty(t, unfair(t, entries))
}

// unfair says what is wrong when one language had more than four times the other's holdings, or anybody waited too long; ""
// when nothing is. It fails the test when two held the lock at once.
func unfair(t testing.TB, entries []entry) string {
	t.Helper()
	requireExclusive(t, entries)
	return unequal(t, entries, 4)
}

// unequal says what is wrong when one language had more than most times the other's holdings, or anybody waited more than 10
// seconds.
func unequal(t testing.TB, entries []entry, most int) string {
	t.Helper()
	holdings, worst := make(map[string]int), make(map[string]time.Duration)
	for _, e := range entries {
		holdings[e.who]++
		worst[e.who] = max(worst[e.who], e.wait())
	}
	t.Logf("holdings %v, longest wait %v", holdings, worst)
	if holdings[golang] > most*holdings[java] || holdings[java] > most*holdings[golang] {
		return fmt.Sprintf("unfair shares: %v", holdings)
	}
	for who, wait := range worst {
		if wait >= 10*time.Second {
			return fmt.Sprintf("%v of waiting in %s", wait, who)
		}
	}
	return ""
}
