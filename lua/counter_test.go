package lua_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
)

const counterOfK = "redisson_lock_token:{k}"

// clocked runs the rule by which tokens are counted, on a Redis whose clock says what the test says.
type clocked struct {
	t         *testing.T
	s         *redistest.Server
	rdb       rueidis.Client
	retention time.Duration
	origin    int64 // microseconds; the test's clocks count from here
}

func (c *clocked) eval(script string, at int64, args ...string) []int64 {
	c.t.Helper()
	at += c.origin
	stub := fmt.Sprintf("{%d, %d}", at/1_000_000, at%1_000_000)
	text, err := lua.Scripts{Retention: c.retention, Hooks: "-- needs: kept token\n" + script}.Text("kind")
	require.NoError(c.t, err)
	text = strings.ReplaceAll(text, "redis.call('TIME')", stub)
	cmd := c.rdb.B().Eval().Script(text).Numkeys(5).Key("k", "q", counterOfK, "u", "s").Arg(args...).Build()
	got, err := c.rdb.Do(context.Background(), cmd).AsIntSlice()
	require.NoError(c.t, err)
	return got
}

// reserve returns the first token, counted from the origin too, and how many there are.
func (c *clocked) reserve(at int64, block int, whole bool) (int64, int) {
	c.t.Helper()
	got := c.eval(`local first, count = reserve(tonumber(ARGV[1]), ARGV[2] == 'true')
		return { tonumber(first), count }`, at, strconv.Itoa(block), strconv.FormatBool(whole))
	return got[0] - c.origin, int(got[1])
}

// A grant's first token is above the counter and not below the clock, wherever either was; a block that would run ahead
// of the clock is cut, and no grant is refused for it.
func TestTokensAreAHybridClock(t *testing.T) {
	const second, hour = 1_000_000, 3_600_000_000
	type step struct {
		do    string // "", "whole", or what happens to the counter
		at    int64  // the clock; or what the counter is set to
		block int
		first int64
		count int
	}
	for name, steps := range map[string][]step{
		"the clock goes on": {
			{"", 0, 256, 0, 256}, {"", 1000, 256, 1000, 256}, {"", 1001, 256, 1256, 256}, {"", 1512, 1, 1512, 1},
		},
		"blocks faster than the clock": {
			{"", 0, 400_000, 0, 400_000}, {"", 0, 256, 400_000, 256}, {"", 1, 100_000, 400_256, 32},
			{"", 2, 16, 400_288, 16}, {"", second, 100_000, second, 100_000},
		},
		"exactly as far ahead as a block may run": {
			{"set", 499_744, 0, 0, 0}, {"", 0, 256, 499_745, 256},
			{"set", 499_745, 0, 0, 0}, {"", 0, 256, 499_746, 32},
		},
		"a block of one is never cut": {{"set", hour, 0, 0, 0}, {"", 0, 1, hour + 1, 1}},
		"an older client's block is not cut": {
			{"set", hour, 0, 0, 0}, {"whole", 0, 256, hour + 1, 256}, {"", 0, 256, hour + 257, 32},
		},
		"set back": {
			{"", hour, 256, hour, 256}, {"", 0, 256, hour + 256, 32}, {"", 1, 256, hour + 288, 32}, {"", hour + 400, 256, hour + 400, 256},
		},
		"all lost":                   {{"", 0, 256, 0, 256}, {"lose", 0, 0, 0, 0}, {"", 256, 256, 256, 256}},
		"lost too soon, as is known": {{"", 0, 256, 0, 256}, {"lose", 0, 0, 0, 0}, {"", 255, 256, 255, 256}},
		"an older file or a replica that lags": {
			{"", 0, 256, 0, 256}, {"", 1000, 256, 1000, 256}, {"set", 255, 0, 0, 0}, {"", 1256, 256, 1256, 256},
		},
		"lost twice": {
			{"", 0, 1, 0, 1}, {"lose", 0, 0, 0, 0}, {"", 1, 1, 1, 1}, {"set", 0, 0, 0, 0}, {"", 2, 1, 2, 1},
		},
		"Redisson counts on": {{"", 0, 256, 0, 256}, {"incr", 0, 0, 0, 0}, {"", 10, 256, 257, 256}},
		"raised, never lowered": {
			{"raise", 5000, 0, 0, 0}, {"", 0, 256, 5001, 256}, {"raise", 100, 0, 0, 0}, {"", 0, 256, 5257, 256},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, retention := range []time.Duration{0, time.Hour * 48} {
				s := redistest.Start(t)
				c := &clocked{t: t, s: s, rdb: s.Client(), retention: retention, origin: time.Now().Add(24 * time.Hour).UnixMicro()}
				for i, st := range steps {
					at := strconv.FormatInt(c.origin+st.at, 10)
					switch st.do {
					case "lose":
						s.Do("DEL", counterOfK)
					case "set":
						s.Do("SET", counterOfK, at)
					case "incr":
						s.Do("INCR", counterOfK)
					case "raise":
						c.eval("raise(ARGV[1]) return {}", 0, at)
					default:
						first, count := c.reserve(st.at, st.block, st.do == "whole")
						require.Equal(t, st.first, first, "first token of step %d", i)
						require.Equal(t, st.count, count, "tokens of step %d", i)
						require.Equal(t, strconv.FormatInt(c.origin+first+int64(count)-1, 10), s.Do("GET", counterOfK))
					}
				}
			}
		})
	}
}

// span is how long grants share the expiry of their counter, where the retention is more than a minute.
const span = 1 << 24 * time.Microsecond

// atSpan is the beginning of a span that is to come.
func atSpan() int64 { return (time.Now().UnixMicro()/(1<<24) + 1) << 24 }

// The counter outlives the later of clock and counter by the retention, counted from the end of a span, whatever wrote it
// last. A counter that is refreshed only when the clock passes it would expire too early, and so would one whose expiry
// is kept though it does not reach to the end of the span.
func TestCounterExpiresAfterTheRetention(t *testing.T) {
	const second = 1_000_000
	s := redistest.Start(t)
	c := &clocked{t: t, s: s, rdb: s.Client(), retention: time.Hour, origin: atSpan()}
	expires := func(want time.Duration) {
		t.Helper()
		ttl, err := strconv.ParseInt(s.Do("PTTL", counterOfK), 10, 64)
		require.NoError(t, err)
		since := time.Since(time.UnixMicro(c.origin))
		require.InDelta(t, want.Milliseconds(), ttl+since.Milliseconds(), 2000)
	}
	c.reserve(0, 256, false)
	expires(time.Hour + span)
	c.reserve(16*second, 256, false)
	expires(time.Hour + span) // 16.8 s: the same
	c.reserve(100*second, 256, false)
	expires(time.Hour + 6*span)
	c.reserve(0, 256, false) // set back: the counter is later
	expires(time.Hour + 6*span)
	c.eval("raise(ARGV[1]) return {}", 0, strconv.FormatInt(c.origin+200*second, 10))
	expires(time.Hour + 12*span)
	s.Do("DEL", counterOfK)
	c.eval("raise(ARGV[1]) return {}", 300*second, "5") // of before it was forgotten: the clock is later
	expires(time.Hour + 18*span)
	c.retention = time.Minute
	c.reserve(400*second, 256, false)
	quarter := int64(15 * second) // of a minute
	ends := (c.origin+400*second)/quarter*quarter + quarter
	expires(time.Minute + time.Duration(ends-c.origin)*time.Microsecond)
	c.retention = 0
	c.reserve(400*second, 1, false)
	require.Equal(t, "-1", s.Do("PTTL", counterOfK))
}

// A counter without an expiry keeps none, whatever writes it: Redisson made it, which begins at 1 where it is gone, or an
// operator wants it to stay. One with an expiry that Redisson counts on has it still.
func TestCounterWithoutExpiryKeepsNone(t *testing.T) {
	const second = 1_000_000
	s := redistest.Start(t)
	c := &clocked{t: t, s: s, rdb: s.Client(), retention: time.Hour, origin: atSpan()}
	for name, before := range map[string]func(){
		"Redisson's": func() { s.Do("INCR", counterOfK) },
		"persistent": func() { c.reserve(0, 256, false); s.Do("PERSIST", counterOfK) },
		"retention 0": func() {
			c.retention = 0
			c.reserve(0, 256, false)
			c.retention = time.Hour
		},
	} {
		t.Run(name, func(t *testing.T) {
			s.Do("FLUSHALL")
			before()
			last := int64(0)
			for i := range int64(40) { // some of a span, some of the next
				first, count := c.reserve(i*second, 256, false)
				require.Greater(t, first, last-1)
				last = first + int64(count)
				require.Equal(t, "-1", s.Do("PTTL", counterOfK))
				s.Do("INCR", counterOfK)
			}
			c.eval("raise(ARGV[1]) return {}", 0, strconv.FormatInt(c.origin+100*second, 10))
			require.Equal(t, "-1", s.Do("PTTL", counterOfK))
		})
	}
	s.Do("FLUSHALL")
	c.reserve(0, 256, false)
	s.Do("INCR", counterOfK)
	require.Greater(t, s.Do("PTTL", counterOfK), "0")
}

// The scripts' texts for the most frequent case leave it so too: one lock at a time and many together, and on a quorum.
func TestGrantsGiveNoCounterAnExpiry(t *testing.T) {
	locktest.BothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		const names = 200
		key := func(i int) string { return fmt.Sprintf("redisson_lock_token:{name %d}", i) }
		for i := range names {
			for _, s := range servers {
				s.Do("SET", key(i), "41") // Redisson's
			}
		}
		lock := func(i int) {
			err := c.Mutex(fmt.Sprintf("name %d", i)).Do(t.Context(), func(context.Context) error { return nil })
			if err != nil {
				t.Error(err)
			}
		}
		lock(0)
		var all sync.WaitGroup
		for i := range names {
			all.Go(func() { lock(i); lock(i) })
		}
		all.Wait()
		for i := range names {
			for _, s := range servers {
				counter := s.Do("GET", key(i))
				require.Contains(t, []int{2, 16}, len(counter)) // a minority of a quorum may be late
				require.Equal(t, "-1", s.Do("PTTL", key(i)), "%s of name %d", counter, i)
			}
		}
	})
}

// What is no number, or too great for exact reckoning, is refused before anything is written.
func TestUnusableCounters(t *testing.T) {
	s := redistest.Start(t)
	c := locktest.Client(t, s.Client())
	for value, why := range map[string]string{
		"x": "not an integer", "0x10": "not an integer", "1e3": "not an integer", "1.5": "not an integer",
		"9007199254740990": "beyond 2^53", "9223372036854775000": "beyond 2^53",
	} {
		s.Do("SET", counterOfK, value)
		_, err := c.Mutex("k").TryLock(context.Background())
		require.ErrorContains(t, err, why, value)
		require.Equal(t, "0", s.Do("EXISTS", "k"))
		require.Equal(t, value, s.Do("GET", counterOfK))
	}
	s.Do("SET", counterOfK, "9007199254740000") // the year 2255
	l, err := c.Mutex("k").TryLock(context.Background())
	require.NoError(t, err)
	require.EqualValues(t, int64(9007199254740001), l.Token())
	require.NoError(t, l.Unlock(context.Background()))
}
