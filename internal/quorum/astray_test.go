package quorum

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// firstPause is how long a node that fails is left alone at first.
const firstPause = 20 * time.Millisecond

// A grant of a node whose clock is off does not count, until it is right again; the log is told once.
func TestAstrayNodeGrantsNothing(t *testing.T) {
	var told bytes.Buffer
	q := prepared(t, masters(t, 3), func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&told, nil)) })
	c := contender(t, q)
	defer c.Abandon()
	e := c.contest
	v, off := e.voters[2], q.members[2]
	reads := func(ahead time.Duration) {
		now := clock.Now()
		for i, m := range q.members {
			m.tick(1_800_000_000_000_000+map[bool]int64{i == 2: ahead.Microseconds()}[true], now)
		}
	}
	answers := func() {
		v.pending = true
		e.count(vote{
			voter: v, sent: clock.Now(), Answer: wire.Answer{Mine: true, Number: v.Belief.Counter + 1, Count: 1},
		})
	}
	reads(14 * time.Second)
	require.False(t, q.astray(off))
	for range 3 {
		reads(-time.Hour)
		answers()
		require.Zero(t, v.Belief.Number)
		require.ErrorIs(t, v.err, errAstray)
	}
	for range 3 {
		answers()
	}
	require.Greater(t, v.due.Until(clock.Now()), 6*firstPause, "it is asked less and less often")
	require.Equal(t, 1, strings.Count(told.String(), "level=WARN"), told.String())
	for _, m := range q.members[:2] {
		require.False(t, q.astray(m))
	}
	reads(0)
	answers()
	require.Positive(t, v.Belief.Number)
}

// Of two clocks nobody can tell which is wrong; and where nothing is guarded clocks do not matter.
func TestAstrayTakesAMajority(t *testing.T) {
	for _, q := range []*Quorum{
		prepared(t, masters(t, 2)),
		prepared(t, masters(t, 3), func(c *Config) { c.Guard, c.Auto, c.Longest = false, false, 0 }),
	} {
		q.members[1].tick(1, clock.Now())
		require.False(t, q.astray(q.members[1]))
	}
}

// A ticket is the nodes' time, whatever our wall clock shows meanwhile.
func TestTicketNeedsNoWallClock(t *testing.T) {
	q := prepared(t, masters(t, 1))
	now := clock.Now()
	const there int64 = 1_000_000_000_000_000
	q.members[0].tick(there, clock.At(int64(now.Mono()), now.Wall().Add(-time.Hour).UnixNano()))
	require.InDelta(t, float64(there), float64(q.ticket()), float64(patience.Microseconds()))
}
