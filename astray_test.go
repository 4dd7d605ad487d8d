package relock

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/stretchr/testify/require"
)

// A grant of a node whose clock is off does not count, until it is right again; the log is told once.
func TestAstrayNodeGrantsNothing(t *testing.T) {
	var told bytes.Buffer
	c := newRedlock(t, masters(t, 3), WithLogger(slog.New(slog.NewTextHandler(&told, nil))))
	q := c.arb.(*quorum)
	require.NoError(t, q.prepare(context.Background()))
	a := contender(t, c)
	defer c.arb.abandon(a)
	e := a.election
	l, off := e.legs[2], q.seats[2]
	reads := func(ahead time.Duration) {
		now := clock.Now()
		for i, s := range q.seats {
			s.tick(1_800_000_000_000_000+map[bool]int64{i == 2: ahead.Microseconds()}[true], now)
		}
	}
	answers := func() {
		l.pending = true
		e.count(vote{leg: l, sent: clock.Now(), ballot: ballot{mine: true, number: l.counter + 1, tokens: 1}})
	}
	reads(14 * time.Second)
	require.False(t, q.astray(off))
	for range 3 {
		reads(-time.Hour)
		answers()
		require.Zero(t, l.own)
		require.ErrorIs(t, l.err, errAstray)
	}
	require.Equal(t, 1, strings.Count(told.String(), "level=WARN"), told.String())
	for _, s := range q.seats[:2] {
		require.False(t, q.astray(s))
	}
	reads(0)
	answers()
	require.Positive(t, l.own)
}

// Of two clocks nobody can tell which is wrong; and where nothing is guarded clocks do not matter.
func TestAstrayTakesAMajority(t *testing.T) {
	for _, c := range []*Client{
		newRedlock(t, masters(t, 2)), newRedlock(t, masters(t, 3), WithRestartGuard(GuardOff, 0)),
	} {
		q := c.arb.(*quorum)
		require.NoError(t, q.prepare(context.Background()))
		q.seats[1].tick(1, clock.Now())
		require.False(t, q.astray(q.seats[1]))
	}
}
