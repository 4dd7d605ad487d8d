package quorum

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// firstPause is how long a node that fails is left alone at first.
const firstPause = 20 * time.Millisecond

// A grant of a node whose clock is off does not count, until it is right again; the user is told of both once.
func TestAstrayNodeGrantsNothing(t *testing.T) {
	var told, mended []string
	q := prepared(t, masters(t, 3), func(c *setup) {
		c.Impaired = func(node int, cause error) { told = append(told, fmt.Sprint(node, cause)) }
		c.Mended = func(node int, cause error) { mended = append(mended, fmt.Sprint(node)) }
	})
	c := contender(t, q)
	defer c.Abandon()
	e := c.contest
	v, off := e.voters[2], q.members[2]
	reads := func(ahead time.Duration) {
		now := clock.Now()
		for i, m := range q.members {
			m.readClock(1_800_000_000_000_000+map[bool]int64{i == 2: ahead.Microseconds()}[true], now)
		}
	}
	answers := func() {
		v.phase = voting
		e.takeVote(vote{
			voter: v, sent: clock.Now(), Answer: wire.Answer{Mine: true, Number: v.Belief.Counter + 1, Count: 1},
		})
	}
	reads(14 * time.Second)
	require.False(t, q.clockOff(off))
	for range 3 {
		reads(-time.Hour)
		answers()
		require.Zero(t, v.Belief.Number)
		require.ErrorIs(t, v.err, errClockOff)
	}
	for range 3 {
		answers()
	}
	require.Greater(t, v.due.Until(clock.Now()), 6*firstPause, "it is asked less and less often")
	require.Len(t, told, 1, told)
	for _, m := range q.members[:2] {
		require.False(t, q.clockOff(m))
	}
	require.Empty(t, mended)
	reads(0)
	answers()
	require.Positive(t, v.Belief.Number)
	require.Equal(t, []string{"3"}, mended)
}

// A message tells of no grant that counts, either, while the node's clock is off.
func TestAstrayNodeGrantsNothingByMessage(t *testing.T) {
	for off, want := range map[time.Duration]int64{0: 61, time.Hour: 0, -time.Hour: 0} {
		q := stubs(t, 3, unsaid)
		c := contender(t, q)
		v, now := c.contest.voters[0], clock.Now()
		for i, m := range q.members {
			m.readClock(1_800_000_000_000_000+map[bool]int64{i == 0: off.Microseconds()}[true], now)
		}
		standing{counter: 50}.give(v, now)
		v.member.Debug().Hub.Message(wire.InboxPrefix+clientOf(q), "61:10 30000 "+c.Entry.ID+" 0 k")
		c.contest.takeMessages(clock.Now())
		require.Equal(t, want, v.Belief.Number, off)
	}
}

// Each vote's answer tells the node's clock: one that is set while the client runs is noticed, ahead or behind, and so is
// that it is right again.
func TestEachVoteTellsTheClock(t *testing.T) {
	var off atomic.Int64 // of the last node, in microseconds
	q := stubs(t, 3, func(i int, c *faults.Call) (driver.Value, error) {
		if c.ScriptName() != "vote" {
			return unsaid(i, c)
		}
		now := clock.Now().Mono().Microseconds() + 1_800_000_000_000_000
		if i == 2 {
			now += off.Load()
		}
		return driver.List(driver.Int(0), driver.Int(7), driver.Int(1), driver.Int(5000), driver.String("another"),
			driver.Int(now), driver.Int(0)), nil
	}, func(c *setup) { c.Timeout = 4 * patience })
	e := contender(t, q).contest
	for _, hour := range []int64{0, 1, 0, -1, 0} {
		off.Store(hour * time.Hour.Microseconds())
		for i := range e.voters {
			got := sendAt(e, i)
			require.NoError(t, got.err)
			e.takeVote(got)
		}
		for i, v := range e.voters {
			if i == 2 && hour != 0 {
				require.ErrorIs(t, v.err, errClockOff)
			} else {
				require.NoError(t, v.err)
			}
		}
	}
}

// An answer that took long tells little of the clock: a node is not off for that.
func TestSlowAnswerTellsOfNoWrongClock(t *testing.T) {
	q := stubs(t, 3, unsaid)
	now := clock.Now()
	for i, m := range q.members {
		sent := now
		if i == 2 {
			sent = now.Add(-2 * time.Minute)
		}
		m.readClock(1_800_000_000_000_000, sent)
	}
	for _, m := range q.members {
		require.False(t, q.clockOff(m))
	}
	q.members[2].readClock(1_800_000_000_000_000+5*time.Minute.Microseconds(), now.Add(-2*time.Minute))
	require.True(t, q.clockOff(q.members[2]), "it is off by more than the answer took")
}

// Of two clocks nobody can tell which is wrong; and where nothing is guarded clocks do not matter.
func TestAstrayTakesAMajority(t *testing.T) {
	for _, q := range []*Quorum{
		prepared(t, masters(t, 2)),
		prepared(t, masters(t, 3), func(c *setup) { c.Guard, c.Auto, c.Longest = false, false, 0 }),
	} {
		q.members[1].readClock(1, clock.Now())
		require.False(t, q.clockOff(q.members[1]))
	}
}

// A ticket is the nodes' time, whatever our wall clock shows meanwhile.
func TestTicketNeedsNoWallClock(t *testing.T) {
	q := prepared(t, masters(t, 1))
	now := clock.Now()
	const there int64 = 1_000_000_000_000_000
	q.members[0].readClock(there, clock.At(int64(now.Mono()), now.Wall().Add(-time.Hour).UnixNano()))
	require.InDelta(t, float64(there), float64(q.ticket()), float64(patience.Microseconds()))
}

// Goroutines of one client that begin to contend in the same microsecond have tickets of their own. Only a clock that was set
// back by more than a moment has them begin anew: else this client would wait behind all others.
func TestTicketsOfOneClientRise(t *testing.T) {
	q := stubs(t, 1, unsaid)
	synctest.Test(t, func(t *testing.T) { // where time stands still while they ask
		read := func(there int64) { q.members[0].readClock(there, clock.Now()) }
		const there int64 = 1_800_000_000_000_000
		read(there)
		var wg sync.WaitGroup
		tickets := make([]int64, 64)
		for i := range tickets {
			wg.Go(func() { tickets[i] = q.ticket() })
		}
		wg.Wait()
		slices.Sort(tickets)
		for i, ticket := range tickets {
			require.Equal(t, there+int64(i), ticket)
		}
		read(there - maxLead.Microseconds()/2)
		require.Equal(t, there+64, q.ticket(), "a reading that is a little off")
		read(there - time.Hour.Microseconds())
		require.Equal(t, there-time.Hour.Microseconds(), q.ticket(), "a clock that was set back")
	})
}
