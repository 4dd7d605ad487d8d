package interop

import (
	"strconv"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// TestExactIncrements counts to 20,000 by reading and writing back: 20 threads in two JVMs, 20 goroutines in two
// processes.
func TestExactIncrements(t *testing.T) {
	server := redistest.Start(t)
	s := singleSite(server)
	requireExact(t, s, server, 250, 750)
}

func TestExactIncrementsInCluster(t *testing.T) {
	group := redistest.StartCluster(t)
	s := clusterSite(group, relock.PubSubAuto)
	requireExact(t, s, group.MasterFor("{exact}"), 50, 50)
}

// requireExact lets ten threads of each process increment so many times and fails the test unless the sum is right.
func requireExact(t *testing.T, s site, server *redistest.Server, inJava, inGo int) {
	t.Helper()
	ofJava := load{which: "lock:{exact}", counter: "{exact}:n", threads: 10, rounds: inJava}
	ofGo := ofJava
	ofGo.rounds = inGo
	entries := runLoads(t, s, server, map[string]load{java: ofJava, golang: ofGo}, pairs(t, s))
	requireExclusive(t, entries)
	require.Len(t, entries, 2*10*(inJava+inGo))
	require.Equal(t, strconv.Itoa(len(entries)), server.Do("GET", "{exact}:n"))
}

// TestFencingTokens takes the lock 5,000 times in both languages and wants every token above the one before.
func TestFencingTokens(t *testing.T) {
	server := redistest.Start(t)
	requireRising(t, singleSite(server), server, 250)
}

func TestFencingTokensInCluster(t *testing.T) {
	group := redistest.StartCluster(t)
	requireRising(t, clusterSite(group, relock.PubSubAuto), group.MasterFor("tokens"), 50)
}

func requireRising(t *testing.T, s site, server *redistest.Server, rounds int) {
	t.Helper()
	l := load{which: "fenced:tokens", threads: 5, rounds: rounds}
	entries := runLoads(t, s, server, map[string]load{java: l, golang: l}, pairs(t, s))
	require.Len(t, entries, 4*5*rounds)
	requireExclusive(t, entries)
	turns := 0
	for i := 1; i < len(entries); i++ {
		require.Less(t, entries[i-1].token, entries[i].token, "%+v before %+v", entries[i-1], entries[i])
		if entries[i-1].who != entries[i].who {
			turns++
		}
	}
	t.Logf("the lock went from one language to the other %d times", turns)
	require.Greater(t, turns, len(entries)/10, "the two languages did not interleave")
}
