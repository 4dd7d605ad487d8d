package lua_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
)

// sized is one semaphore on a Redis, of which each test runs the scripts by hand.
type sized struct {
	t    *testing.T
	s    *redistest.Server
	from lua.Scripts
}

// runs runs a script for the semaphore k, and returns its answer or its error.
func (p *sized) runs(script string, args ...string) string {
	p.t.Helper()
	text, err := p.from.Text(script)
	require.NoError(p.t, err)
	keys := []string{"EVAL", text, "5", "k", "relock_permits:{k}", "relock_permit_grants:{k}", "redisson_sc:{k}", "relock_sclisten:{k}"}
	answer, err := p.s.Try(append(keys, args...)...)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(answer)
}

// left is how long the number lasts, in ms.
func (p *sized) left() int64 {
	ms, err := strconv.ParseInt(p.s.Do("PTTL", "k"), 10, 64)
	require.NoError(p.t, err)
	return ms
}

// java has Redisson take a permit for a minute.
func (p *sized) java() {
	require.Equal(p.t, "OK", p.s.Do("EVAL", `redis.call('DECRBY', KEYS[1], 1)
redis.call('ZADD', KEYS[2], ARGV[1], ARGV[2])
local ttl = redis.call('PTTL', KEYS[1])
if ttl > 0 then redis.call('PEXPIRE', KEYS[2], ttl) end
return 'OK'`, "2", "k", "{k}:timeout", strconv.FormatInt(time.Now().Add(time.Minute).UnixMilli(), 10), "0123456789abcdef"))
}

// newSized returns a semaphore of which the scripts have that retention.
func newSized(t *testing.T, retention time.Duration) *sized {
	return &sized{t, redistest.Start(t), lua.Scripts{Kind: "semaphore", Retention: retention}}
}

const (
	minute = 60_000
	lease  = "30000"
)

// A number that a client told lasts for a retention, and from each use on anew: a grant, a refusal, a waiter's question, a
// renewal, an Extend. A longer lease is outlasted. Within a span, of 15 s, nothing is written.
func TestToldNumberIsKeptByEachUse(t *testing.T) {
	p := newSized(t, time.Minute)
	require.Equal(t, "1", p.runs("resize", "2", "", "PUBLISH"))
	require.InDelta(t, minute, p.left(), 5000)
	for _, use := range []struct {
		name  string
		run   func() string
		lasts int
	}{
		{"a grant", func() string { return p.runs("acquire", lease, "2", "c:1") }, minute + 45_000},
		{"a refusal", func() string { return p.runs("acquire", lease, "1", "c:2", "", "-") }, minute + 45_000},
		{"a waiter", func() string { return p.runs("acquire", lease, "1", "d:3") }, minute + 45_000},
		{"its question", func() string { return p.runs("acquire", lease, "1", "d:3") }, minute + 45_000},
		{"a renewal", func() string { return p.runs("renew", "c:1", "1", lease) }, minute + 45_000},
		{"an Extend", func() string { return p.runs("recount", "c:1", "1", "600000") }, minute + 615_000},
	} {
		for _, left := range []string{"1000", "45000"} {
			p.s.Do("PEXPIRE", "k", left)
			use.run()
			require.InDelta(t, use.lasts, p.left(), 5000, "%s, %s ms before the end", use.name, left)
		}
	}
	p.s.Do("PEXPIRE", "k", "95000")
	p.runs("acquire", lease, "1", "c:2", "", "-")
	require.Less(t, p.left(), int64(95_001), "not written anew within a span")
	require.Equal(t, "-1", p.s.Do("PTTL", "{k}:timeout"))
}

// A number that SetPermits or Redisson set stays, and those that a client told too once SetPermits has set it. Redisson's permits
// held would expire with the number that it was then.
func TestNumberThatWasSetStays(t *testing.T) {
	p := newSized(t, time.Minute)
	p.runs("resize", "2", "", "PUBLISH")
	p.java()
	require.Positive(t, p.left())
	require.Equal(t, "1", p.runs("resize", "3", "1", "PUBLISH"))
	require.Equal(t, "2", p.s.Do("GET", "k"))
	p.runs("acquire", lease, "1", "c:1")
	require.EqualValues(t, -1, p.left())
	require.Equal(t, "0", p.runs("resize", "5", "", "PUBLISH"), "a late command of a client that told it")
	require.EqualValues(t, -1, p.left())
	held, err := strconv.ParseInt(p.s.Do("PTTL", "{k}:timeout"), 10, 64)
	require.NoError(t, err)
	require.True(t, held == -1 || held > 1e14, held)

	p.s.Do("FLUSHALL")
	p.s.Do("SET", "k", "4") // trySetPermits
	require.Equal(t, "0", p.runs("resize", "5", "", "PUBLISH"))
	p.runs("acquire", lease, "1", "c:1")
	p.runs("renew", "c:1", "1", lease)
	require.EqualValues(t, -1, p.left())
}

// Redisson lengthens no number. Once a client of relock's sees its permits, number and permits stay: else Redisson's holder, and
// relock's with it, would lose them with the number. A number that is told while Redisson holds a permit stays too.
func TestNumberStaysWhereRedissonHolds(t *testing.T) {
	const ages int64 = 100_000_000_000_000
	p := newSized(t, time.Minute)
	p.runs("resize", "3", "", "PUBLISH")
	p.s.Do("PEXPIRE", "k", "30000")
	p.java()
	p.runs("acquire", lease, "1", "c:1")
	held, _ := strconv.ParseInt(p.s.Do("PTTL", "{k}:timeout"), 10, 64)
	require.Greater(t, held, ages)
	require.Greater(t, p.left(), ages)
	p.runs("renew", "c:1", "1", lease)
	require.Greater(t, p.left(), ages)

	p.s.Do("DEL", "k")
	require.Equal(t, "1", p.runs("resize", "3", "", "PUBLISH"))
	require.EqualValues(t, -1, p.left())
	require.Equal(t, "1", p.s.Do("GET", "k"))
}

// Clients that keep counters for ever keep the number for ever, also one that a client with a retention told.
func TestNumberIsKeptForEverWithoutARetention(t *testing.T) {
	p := newSized(t, 0)
	p.runs("resize", "2", "", "PUBLISH")
	require.EqualValues(t, -1, p.left())
	p.s.Do("PEXPIRE", "k", "30000")
	p.runs("acquire", lease, "1", "c:1")
	require.Greater(t, p.left(), int64(100_000_000_000_000))
}

// Two clients differ in the number, and each one's first question found none. Whoever's answer comes first sets it, and the other,
// whose command comes late, or twice since its answer was lost, leaves it. So does one behind SetPermits. Once it has expired,
// the next one sets it.
func TestNumberIsToldOnce(t *testing.T) {
	p := newSized(t, time.Minute)
	for _, id := range []string{"a:1", "b:1"} {
		require.Contains(t, p.runs("acquire", lease, "1", id, "", "-"), "NOSIZE")
	}
	require.Equal(t, "1", p.runs("resize", "2", "", "PUBLISH")) // of a, and its answer is lost
	require.Equal(t, "0", p.runs("resize", "7", "", "PUBLISH")) // of b, late
	require.Equal(t, "0", p.runs("resize", "2", "", "PUBLISH")) // of a, once more
	p.runs("acquire", lease, "2", "a:2")
	require.Equal(t, "0", p.runs("resize", "7", "", "PUBLISH"))
	require.Equal(t, "0", p.s.Do("GET", "k"))

	require.Equal(t, "1", p.runs("resize", "4", "1", "PUBLISH")) // SetPermits
	require.Equal(t, "0", p.runs("resize", "2", "", "PUBLISH"))
	require.Equal(t, "2", p.s.Do("GET", "k"))

	p.runs("release", "a:2", lease, "2")
	p.s.Do("DEL", "k") // as it expires
	require.Equal(t, "1", p.runs("resize", "7", "", "PUBLISH"))
	require.Equal(t, "0", p.runs("resize", "2", "", "PUBLISH"))
	require.Equal(t, "7", p.s.Do("GET", "k"))
}
