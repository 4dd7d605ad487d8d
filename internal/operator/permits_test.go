package operator_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/operator"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// permits is a semaphore as relock and Redisson write it.
type permits struct {
	Name    string
	Free    int // the counter
	Held    []permit
	Waiters []string // members of the queue, the first a minute ago
}

// permit is one or several of an entry, whose lease ends so many milliseconds from now.
type permit struct {
	Member string // with N, the entry's id
	N      int
	Ends   int64
}

// seedPermits puts semaphores into Redis. 16 characters are a permit of Redisson's.
func seedPermits(s *redistest.Server, all ...permits) {
	text, _ := json.Marshal(all)
	s.Do("EVAL", `local t = redis.call('TIME')
	local now = t[1] * 1000 + math.floor(t[2] / 1000)
	for _, s in ipairs(cjson.decode(ARGV[1])) do
		local tag = string.find(s.Name, '{', 1, true) and s.Name or '{' .. s.Name .. '}'
		redis.call('SET', s.Name, s.Free)
		for _, p in ipairs(type(s.Held) == 'table' and s.Held or {}) do
			local ends = string.format('%.0f', p.Ends > 9e14 and p.Ends or now + p.Ends)
			for i = 1, math.max(1, p.N) do
				redis.call('ZADD', tag .. ':timeout', ends, p.N > 0 and p.Member .. ':' .. i or p.Member)
			end
		end
		for i, w in ipairs(type(s.Waiters) == 'table' and s.Waiters or {}) do
			redis.call('ZADD', 'relock_permits:' .. tag, string.format('%.0f', (now - 60000 + i) * 1000), w)
		end
	end`, "0", string(text))
}

// entry is the id of an entry of a client.
func entry(client int) string {
	return fmt.Sprintf("%08x-0000-4000-8000-000000000000:1%016d", client, client)
}

// queued is a member of the queue, of a waiter for so many permits.
func queued(permits, client int) string {
	return fmt.Sprintf("30000:%d:%s:", permits, entry(client))
}

const (
	javaPermit  = "\x01\x02:\x03456789abcdef"
	javaShown   = "01023a03343536373839616263646566"
	javaNever   = 922337203685477
	pastLease   = -60_000
	minute      = 60_000
	quarterHour = 900_000
)

// A semaphore is shown with its size, and with the holders of both libraries. Permits past their leases count as free.
func TestSemaphores(t *testing.T) {
	s := redistest.Start(t)
	seedPermits(s, permits{"pool", 1, []permit{{entry(1), 2, minute}, {"\x01abcdefghijklmno", 0, javaNever}, {entry(2), 3, pastLease}},
		[]string{queued(2, 3), queued(1, 4)}})
	s.Do("HSET", wire.ClientKey("00000001-0000-4000-8000-000000000000"), "name", "billing")
	r := readerOf(s)
	for name, seen := range map[string]operator.Sighting{"one": one(t, r, "pool"), "all": all(t, r)["pool"]} {
		require.Equal(t, []any{operator.KindSemaphore, true, entry(1), 3, 2}, []any{seen.Kind, seen.Held, seen.Holder, seen.Count, seen.Waiters}, name)
		require.Equal(t, []int{7, 4}, []int{seen.Permits, seen.Free}, name)
		require.InDelta(t, time.Minute, seen.TTL, float64(30*time.Second), name)
		require.InDelta(t, time.Minute, seen.Longest, float64(30*time.Second), name)
		require.Equal(t, "3 of 7: billing and 1 more", seen.HolderText(), name)
		require.Equal(t, []any{"-", int64(0)}, []any{seen.AgeText(), seen.Token}, name)
	}
	seen := one(t, r, "pool")
	require.Equal(t, []operator.Holding{
		{Owner: entry(1), By: wire.Card{Name: "billing"}, Count: 2, TTL: seen.TTL},
		{Owner: "016162636465666768696a6b6c6d6e6f", Count: 1, TTL: -1},
	}, seen.Holders)
	places, reserved, err := r.Line(t.Context(), seen.Names)
	require.NoError(t, err)
	require.Zero(t, reserved)
	require.Equal(t, []int{2, 1}, []int{places[0].Wants, places[1].Wants})
	require.Equal(t, "00000003-0000-4000-8000-000000000000:1", places[0].Owner)
	again, err := r.These(t.Context(), []*wire.Names{seen.Names})
	require.NoError(t, err)
	require.Equal(t, []int{3, 7}, []int{again[0].Count, again[0].Permits})
}

// Semaphores are found by what is held, and by what is waited for.
func TestSemaphoresAreFound(t *testing.T) {
	s := redistest.Start(t)
	held := []permit{{javaPermit, 0, minute}}
	seedPermits(s, permits{Name: "held", Held: held}, permits{Name: "waited", Waiters: []string{queued(1, 1)}},
		permits{Name: "a{tag}b", Held: held, Waiters: []string{queued(1, 1)}}, permits{Name: "free", Free: 3},
		permits{Name: "ended", Held: []permit{{entry(1), 1, pastLease}}}, permits{Name: "lessened", Free: -1, Held: []permit{{entry(1), 2, minute}}},
		permits{Name: "tenant:pool", Held: held}, permits{Name: "orphan", Held: held}, permits{Name: "orphan2", Waiters: []string{queued(1, 1)}})
	s.Do("DEL", "orphan", "orphan2")
	r := readerOf(s)
	require.Equal(t, []int{1, -1}, []int{one(t, r, "orphan").Count, one(t, r, "orphan").Permits})
	require.Equal(t, 1, one(t, r, "orphan2").Waiters)
	found := make(map[string]string)
	for name, seen := range all(t, r) {
		require.Equal(t, operator.KindSemaphore, seen.Kind, name)
		found[name] = fmt.Sprintf("%s %d/%d free %d waiting %d", seen.HolderText(), seen.Count, seen.Permits, seen.Free, seen.Waiters)
	}
	require.Equal(t, map[string]string{
		"held":        "1 of 1: " + javaShown + " 1/1 free 0 waiting 0",
		"waited":      "nobody 0/0 free 0 waiting 1",
		"a{tag}b":     "1 of 1: " + javaShown + " 1/1 free 0 waiting 1",
		"ended":       "nobody 0/1 free 1 waiting 0",
		"lessened":    "2 of 1: " + entry(1) + " 2/1 free -1 waiting 0",
		"tenant:pool": "1 of 1: " + javaShown + " 1/1 free 0 waiting 0",
		"orphan":      "1: " + javaShown + " 1/-1 free 0 waiting 0",
		"orphan2":     "nobody 0/-1 free 0 waiting 1",
	}, found)
	free := one(t, r, "free")
	require.Equal(t, []any{operator.KindSemaphore, false, 3, 3}, []any{free.Kind, free.Held, free.Permits, free.Free})

	seedPermits(s, permits{Name: "h", Held: held}, permits{Name: `back\`, Held: held})
	for pattern, want := range map[string]int{"held": 1, "*a*": 6, "orphan?": 1, "[hw]*": 3, `a\{tag}?`: 1, "tenant:*": 1, "none*": 0, "[he": 1, `back\`: 1} {
		got, err := r.All(t.Context(), pattern)
		require.NoError(t, err)
		require.Len(t, got, want, pattern)
	}
	tenant := operator.NewReader(nodes(s), "tenant:")
	require.Equal(t, []int{1}, []int{len(all(t, tenant))})
	require.Equal(t, 1, one(t, tenant, "pool").Count)
}

// Keys that other programs have under such names are no semaphores, and fail no look.
func TestOthersKeysAreNoSemaphores(t *testing.T) {
	s := redistest.Start(t)
	seedPermits(s, permits{Name: "pool", Held: []permit{{entry(1), 1, minute}}})
	s.Do("HSET", "orders", "owner", "1", "relock:first", "1800000000000000:1:owner")
	s.Do("SET", "text", "an answer "+strings.Repeat("x", 100))
	s.Do("ZADD", "{text}:timeout", "9e14", entry(1)+":1")
	s.Do("ZADD", "session:timeout", "9e14", "user")
	s.Do("ZADD", "{session}:timeout", "9e14", "user")
	s.Do("SET", "blob", "x")
	s.Do("RPUSH", "list", "x")
	s.Do("ZADD", "{list}:timeout", "9e14", entry(1)+":1")
	s.Do("SET", "number", "1")
	s.Do("SET", "{number}:timeout", "x")
	s.Do("HSET", "{a}", "owner", "1", "relock:first", "1800000000000000:1:owner")
	s.Do("HSET", "both", "owner", "1", "relock:first", "1800000000000000:1:owner")
	s.Do("ZADD", "{both}:timeout", "9e14", entry(1)+":1")
	r := readerOf(s)
	kinds := make(map[string]string)
	for name, seen := range all(t, r) {
		kinds[name] = seen.Kind
	}
	require.Equal(t, map[string]string{"pool": "semaphore", "orders": "relock", "{a}": "relock", "both": "relock"}, kinds)
	for _, name := range []string{"text", "blob", "list", "number", "session", "none"} {
		seen := one(t, r, name)
		require.Equal(t, []any{"", false}, []any{seen.Kind, seen.Held}, name)
		_, _, err := r.Line(t.Context(), seen.Names)
		require.NoError(t, err)
	}
	require.True(t, one(t, r, "{a}").Held)
}

// Redis is asked no more about a key that begins as no semaphore's does.
func TestOthersTimeoutsCostNothing(t *testing.T) {
	s := redistest.Start(t)
	s.Do("ZADD", "session:timeout", "9e14", entry(1)+":1")
	r := readerOf(s)
	s.ResetCommandCounts()
	require.Empty(t, all(t, r))
	require.NotContains(t, s.CommandCounts(), "zcard")
}

// A name that has become one of another kind since it was seen is shown as that.
func TestANameChangesItsKind(t *testing.T) {
	s := redistest.Start(t)
	r := readerOf(s)
	names := one(t, r, "pool").Names
	look := func() (kind string, held bool) {
		seen, err := r.These(t.Context(), []*wire.Names{names})
		require.NoError(t, err)
		names = seen[0].Names
		return seen[0].Kind, seen[0].Held
	}
	for range 2 {
		s.Do("HSET", "pool", "owner", "1", "relock:first", "1800000000000000:1:owner")
		kind, held := look()
		require.Equal(t, []any{operator.KindRelock, true}, []any{kind, held})
		s.Do("DEL", "pool")
		seedPermits(s, permits{Name: "pool", Free: 1, Held: []permit{{entry(1), 1, minute}}})
		kind, held = look()
		require.Equal(t, []any{operator.KindSemaphore, true}, []any{kind, held})
		s.Do("DEL", "pool", "{pool}:timeout")
	}
	kind, held := look()
	require.Equal(t, []any{"", false}, []any{kind, held})
}

// However many permits are held, a look reads some of them only, in two round trips, and no command fails.
func TestManyPermitsAreCounted(t *testing.T) {
	s := redistest.Start(t)
	const each, holders = 10, 1000
	pool := permits{Name: "pool", Free: 5}
	for i := range holders {
		pool.Held = append(pool.Held, permit{entry(i), each, quarterHour + int64(i)})
	}
	seedPermits(s, pool)
	s.Do("CONFIG", "RESETSTAT")
	rdb := &counting{Client: s.Client()}
	seen := one(t, over(rdb), "pool")
	require.Equal(t, []int{each * holders, each*holders + 5, 5}, []int{seen.Count, seen.Permits, seen.Free})
	require.NotEmpty(t, seen.Holders)
	require.Less(t, len(seen.Holders), 20)
	require.Equal(t, "10000 of 10005: "+entry(0)+" and others", seen.HolderText())
	require.Zero(t, seen.Fresh(&operator.Sighting{Kind: operator.KindSemaphore}))
	require.NotContains(t, s.Do("INFO", "errorstats"), "WRONGTYPE")
	require.Less(t, rdb.trips.Load(), int64(6))
}

// Fresh counts the grants that are new.
func TestFreshGrants(t *testing.T) {
	hold := func(owners ...string) *operator.Sighting {
		s := &operator.Sighting{Kind: operator.KindSemaphore, Held: len(owners) > 0, Count: len(owners)}
		for _, o := range owners {
			s.Holders = append(s.Holders, operator.Holding{Owner: o, Count: 1})
		}
		return s
	}
	require.Equal(t, 0, hold("a", "b").Fresh(hold("b", "a")), "a lease that was renewed is no grant")
	require.Equal(t, 2, hold("a", "c", "d").Fresh(hold("b", "a")))
	require.Equal(t, 0, hold().Fresh(hold("a")))
	mutex := &operator.Sighting{Kind: operator.KindRelock, Held: true, Holder: "a", Token: 2}
	require.Equal(t, 0, mutex.Fresh(mutex))
	require.Equal(t, 1, mutex.Fresh(&operator.Sighting{Kind: operator.KindRelock, Held: true, Holder: "a", Token: 1}))
}

// On a Cluster each master is asked for semaphores too. A quorum has none.
func TestSemaphoresOnSeveralServers(t *testing.T) {
	g := redistest.StartCluster(t)
	for i := range 20 {
		name := fmt.Sprintf("pool%d", i)
		require.NoError(t, g.Client().Do(t.Context(), g.Client().B().Set().Key(name).Value("1").Build()).Error())
		require.NoError(t, g.Client().Do(t.Context(), g.Client().B().Zadd().Key("{"+name+"}:timeout").ScoreMember().
			ScoreMember(9e14, entry(i)+":1").Build()).Error())
	}
	seen := all(t, over(g.Client()))
	require.Len(t, seen, 20)
	for name, s := range seen {
		require.Equal(t, []any{operator.KindSemaphore, 1, 2}, []any{s.Kind, s.Count, s.Permits}, name)
	}
	three := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	for _, s := range three {
		seedPermits(s, permits{Name: "pool", Held: []permit{{entry(1), 1, minute}}})
	}
	quorum := operator.NewReader(nodes(three...), "")
	three[0].ResetCommandCounts()
	require.Empty(t, all(t, quorum))
	require.Equal(t, int64(1), three[0].CommandCounts()["scan"])
	require.False(t, one(t, quorum, "pool").Held)
}
