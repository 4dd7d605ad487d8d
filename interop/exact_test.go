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
	s := clusterSite(group)
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
	requireRising(t, clusterSite(group), group.MasterFor("tokens"), 50)
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

// TestCountersThatRedissonMadeStay has Java count first, then Go with the default retention, then Java again. Redisson makes
// a counter without an expiry, and begins at 1 again where it is gone: Go must give it none.
func TestCountersThatRedissonMadeStay(t *testing.T) {
	for _, version := range []string{current, oldest} {
		t.Run(version, func(t *testing.T) {
			server := redistest.Start(t)
			s := singleSite(server)
			p := pair{t: t, jvm: startJVM(t, version, s.yaml()), kind: "fenced", name: "orders", mutex: s.locks(t).Mutex("orders")}
			require.Equal(t, int64(1), p.javasToken())
			p.risesFrom(1)
			require.Equal(t, "-1", server.Do("PTTL", "redisson_lock_token:{orders}"))
		})
	}
}

// TestCountersThatBothUse has Go count first, and Java go on: with WithTokenRetention(0) for ever, as docs/redisson.md wants
// it, and by default only as long as Go locks too.
func TestCountersThatBothUse(t *testing.T) {
	server := redistest.Start(t)
	s := singleSite(server)
	p := pair{t: t, jvm: startJVM(t, current, s.yaml()), kind: "fenced", name: "kept"}
	p.mutex = s.locks(t, relock.WithTokenRetention(0)).Mutex("kept")
	p.risesFrom(0)
	require.Equal(t, "-1", server.Do("PTTL", "redisson_lock_token:{kept}"))

	p.name, p.mutex = "forgotten", s.locks(t).Mutex("forgotten")
	p.risesFrom(0)
	left, err := strconv.Atoi(server.Do("PTTL", "redisson_lock_token:{forgotten}"))
	require.NoError(t, err)
	require.Greater(t, left, 0)
	server.Do("PEXPIRE", "redisson_lock_token:{forgotten}", "1")
	eventually(t, "a counter that is forgotten", func() bool {
		return server.Do("EXISTS", "redisson_lock_token:{forgotten}") == "0"
	})
	require.Equal(t, int64(1), p.javasToken(), "else docs/redisson.md warns of it in vain")
}

// javasToken locks and unlocks in Java, and returns the token.
func (p pair) javasToken() int64 {
	p.t.Helper()
	token, err := strconv.ParseInt(p.java("a", "lockAndGetToken"), 10, 64)
	require.NoError(p.t, err)
	p.java("a", "unlock")
	return token
}

// risesFrom locks in Go and in Java by turns, and wants every token above the one before.
func (p pair) risesFrom(last int64) {
	p.t.Helper()
	for range 3 {
		lease := p.lock()
		require.Greater(p.t, lease.Token(), last)
		last = lease.Token()
		require.NoError(p.t, lease.Unlock(p.t.Context()))
		token := p.javasToken()
		require.Greater(p.t, token, last)
		last = token
	}
}
