package quorum

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// standing is what a contest thinks of one node.
type standing struct {
	number, counter int64
	yield           int64
	last            lastYield
	counted         int64
}

func (s standing) give(v *voter, sent clock.Stamp) {
	v.Belief = node.Belief{Number: s.number, Count: 10, Sent: sent, Base: sent, Counter: s.counter}
	v.yield, v.lastYield, v.counted = s.yield, s.last, s.counted
}

func standingOf(v *voter) standing {
	return standing{v.Belief.Number, v.Belief.Counter, v.yield, v.lastYield, v.counted}
}

// granted is a node's answer that the lock is ours there by the grant of a number, which has ten tokens.
func granted(number int64) wire.Answer { return wire.Answer{Mine: true, Number: number, Count: 10} }

// taken is a node's answer that the lock is another client's there, and how far it has counted.
func taken(counter int64) wire.Answer {
	return wire.Answer{Number: counter, Holder: "another", TTL: time.Minute}
}

// What an answered vote changes, by what was believed, what was given back, and what the vote itself gave back.
func TestCount(t *testing.T) {
	for name, tc := range map[string]struct {
		before standing
		yields int64 // what the vote gave back
		answer wire.Answer
		after  standing
		again  bool // it is voted again at once
		dated  bool // the belief is from the vote on, else from where it was
	}{
		"a grant": {
			before: standing{counter: 50}, answer: granted(51),
			after: standing{number: 51, counter: 50, counted: 60}, dated: true,
		},
		"the first answer is a grant": {
			before: standing{counter: -1}, answer: granted(51),
			after: standing{number: 51, counter: -1, counted: 60}, dated: true,
		},
		"the same grant again": {
			before: standing{number: 51, counter: 50, counted: 90}, answer: granted(51),
			after: standing{number: 51, counter: 50, counted: 90}, dated: true,
		},
		"a new grant in the place of another": {
			before: standing{number: 51, counter: 50, counted: 90}, answer: granted(71),
			after: standing{number: 71, counter: 50, counted: 80}, dated: true,
		},
		"a yield left us the node": {
			before: standing{counter: 51, yield: 51}, yields: 51, answer: granted(61),
			after: standing{number: 61, counter: 51, last: regranted, counted: 70}, dated: true,
		},
		"the yield was lost": {
			before: standing{counter: 51}, answer: granted(51),
			after: standing{counter: 51, yield: 51}, again: true,
		},
		"the yield of a grant that is below one given back later was lost": {
			before: standing{counter: 61, yield: 61}, yields: 61, answer: granted(51),
			after: standing{counter: 61, yield: 51}, again: true,
		},
		"a grant at the counter beside a newer one": {
			before: standing{number: 61, counter: 51, counted: 70}, answer: granted(51),
			after: standing{number: 61, counter: 51, counted: 70},
		},
		"a grant below the counter beside a newer one": {
			before: standing{number: 61, counter: 51, counted: 70}, answer: granted(41),
			after: standing{number: 61, counter: 51, counted: 70},
		},
		"refused": {
			before: standing{counter: -1}, answer: taken(80), after: standing{counter: 80},
		},
		"refused by a node that counted less than it did": {
			before: standing{counter: 80}, answer: taken(30), after: standing{counter: 80},
		},
		"refused after the grant": {
			before: standing{number: 51, counter: 50, last: regranted}, answer: taken(60), after: standing{counter: 60},
		},
		"refused as far as the grant counted": {
			before: standing{number: 51, counter: 50, last: regranted}, answer: taken(51), after: standing{counter: 51},
		},
		"refused before a grant that a message told of": {
			before: standing{number: 51, counter: 40}, answer: taken(50),
			after: standing{number: 51, counter: 50},
		},
		"refused as the yield wanted": {
			before: standing{counter: 51, yield: 51}, yields: 51, answer: taken(60), after: standing{counter: 60, last: gaveBack},
		},
		"a sharer stays out": {
			before: standing{counter: 60, last: gaveBack}, yields: wire.Apart, answer: taken(70),
			after: standing{counter: 70, last: staysOut},
		},
		"a sharer is refused though it asks again": {
			before: standing{counter: 60, last: staysOut}, yields: wire.Again, answer: taken(70),
			after: standing{counter: 70, last: gaveBack},
		},
		"a sharer is in again": {
			before: standing{counter: 60, last: staysOut}, yields: wire.Again, answer: granted(71),
			after: standing{number: 71, counter: 60, counted: 80}, dated: true,
		},
		"a grant beside a newer one, to a sharer that stays out": {
			before: standing{number: 61, counter: 51, last: gaveBack, counted: 70}, yields: wire.Apart, answer: granted(51),
			after: standing{number: 61, counter: 51, last: staysOut, counted: 70},
		},
		"the node is kept": {
			before: standing{number: 51, counter: 50, last: regranted, counted: 60}, answer: granted(51),
			after: standing{number: 51, counter: 50, last: regranted, counted: 60}, dated: true,
		},
		"refused while a yield was decided on": {
			before: standing{counter: 61, yield: 61}, yields: 51, answer: taken(60),
			after: standing{counter: 61, yield: 61}, again: true,
		},
		"refused while the first yield was decided on": {
			before: standing{counter: 61, yield: 61}, answer: taken(60),
			after: standing{counter: 61, yield: 61}, again: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := contender(t, stubs(t, 3, unsaid)).contest
			v, now := e.voters[0], clock.Now()
			was := now.Add(-time.Second)
			tc.before.give(v, was)
			v.beginVote(now)
			e.takeVote(vote{voter: v, sent: now, yield: tc.yields, Answer: tc.answer})
			require.NoError(t, v.err)
			require.Equal(t, tc.after, standingOf(v))
			require.Equal(t, tc.again, v.due.Reached(clock.Now()))
			require.False(t, v.pending())
			switch {
			case tc.dated:
				require.Equal(t, now, v.Belief.Sent)
			case v.Belief.Number > 0:
				require.Equal(t, was, v.Belief.Sent)
			}
		})
	}
}

// A node whose clock is off, or that fails or refuses, proves nothing. What was believed of one that is off ends, and
// what it grants meanwhile never counts.
func TestCountOfNodesThatProveNothing(t *testing.T) {
	mine := standing{number: 51, counter: 50, last: regranted, counted: 60}
	for name, tc := range map[string]struct {
		off    bool
		answer wire.Answer
		err    error
		after  standing
		least  time.Duration // until the next vote
	}{
		"an astray grant":             {off: true, answer: granted(61), after: standing{counter: 61, counted: 60}},
		"the believed grant, astray":  {off: true, answer: granted(51), after: standing{counter: 51, counted: 60}},
		"an astray refusal":           {off: true, answer: taken(70), after: standing{counter: 70, counted: 60}},
		"an astray node counted less": {off: true, answer: taken(7), after: standing{counter: 50, counted: 60}},
		"no answer":                   {err: faults.ErrNoAnswer, after: mine},
		"no memory":                   {err: &driver.ReplyError{Text: "OOM command not allowed"}, after: mine},
		"quarantine": {
			err: &driver.ReplyError{Text: "QUARANTINED 1 4000"}, after: mine, least: 3900 * time.Millisecond,
		},
		"a quarantine that a wrong clock makes long": {
			err: &driver.ReplyError{Text: "QUARANTINED 1 4000000"}, after: mine, least: 9900 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := stubs(t, 3, unsaid)
			e := contender(t, q).contest
			v, now := e.voters[0], clock.Now()
			for i, m := range q.members {
				m.readClock(1_800_000_000_000_000+map[bool]int64{tc.off && i == 0: time.Hour.Microseconds()}[true], now)
			}
			mine.give(v, now)
			v.beginVote(now)
			began := clock.Now()
			e.takeVote(vote{voter: v, sent: now, Answer: tc.answer, err: tc.err})
			require.Equal(t, tc.after, standingOf(v))
			if tc.off {
				require.ErrorIs(t, v.err, errClockOff)
			} else {
				require.Equal(t, tc.err, v.err)
			}
			require.GreaterOrEqual(t, v.due.Until(began), max(tc.least, e.voteTimeout), "it is put off")
			require.LessOrEqual(t, v.due.Until(clock.Now()), v.Entry.Lease/3)
		})
	}
}

// A grant that was given back, by a vote that was lost, is given back again until the node confirms.
func TestLostYieldIsSentAgain(t *testing.T) {
	nodes := masters(t, 1)
	q, taps := tapped(t, nodes)
	require.NoError(t, q.prepare(context.Background()))
	c := contender(t, q)
	t.Cleanup(c.Abandon)
	e, v := c.contest, c.contest.voters[0]
	voteAt(t, e, 0)
	mine := v.Belief.Number
	require.Positive(t, mine)
	v.yieldGrant(clock.Now())
	taps[0].Filter(faults.Next(faults.Script("vote"), faults.LoseCall))
	e.ask(wire.ToWait)
	e.takeVote(within(t, e.votes))
	require.ErrorIs(t, v.err, faults.ErrNoAnswer)
	require.Equal(t, mine, v.yield, "nobody knows whether it ran")
	require.Zero(t, v.Belief.Number)

	require.Eventually(t, func() bool { // a node that did not answer is left alone for a while
		v.due = clock.Now()
		e.ask(wire.ToWait)
		return v.pending()
	}, patience, time.Millisecond)
	e.takeVote(within(t, e.votes))
	require.NoError(t, v.err)
	require.Greater(t, v.Belief.Number, mine, "nobody else waits there: it is granted anew")
	require.Zero(t, v.yield)
	require.Equal(t, regranted, v.lastYield)
}
