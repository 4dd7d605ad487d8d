package quorum

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// believed makes a quorum take its nodes' clocks to be so far ahead of what they are.
func believed(q *Quorum, ahead time.Duration) {
	now := clock.Now()
	for _, m := range q.members {
		m.clock.Store(&reading{ahead: time.Now().Add(ahead).UnixMicro() - now.Mono().Microseconds()})
	}
}

// numbers are those of the grants that a contest has once its votes are answered.
func numbers(t *testing.T, e *contest) (first []int64) {
	t.Helper()
	for range e.voters {
		e.takeVote(within(t, e.votes))
	}
	for _, v := range e.voters {
		first = append(first, v.Belief.Number)
	}
	return first
}

// alike reports whether nodes have granted under one number.
func alike(first []int64) bool {
	for _, number := range first {
		if number != first[0] {
			return false
		}
	}
	return true
}

// Nodes that are asked at one time grant the same tokens, idle and by a hand-over: nothing is to be written back. What is
// proposed lies 0.4 s ahead of their clocks here, so a busy machine has as long to ask them.
func TestNodesGrantTheSameTokens(t *testing.T) {
	nodes := masters(t, 3)
	for range 20 { // one at which no node was late is enough
		q, taps := tapped(t, nodes)
		require.NoError(t, q.prepare(context.Background()))
		for _, tap := range taps {
			tap.Filter(faults.All(faults.Script("fence"), faults.Tell))
		}
		believed(q, 400*time.Millisecond)
		c := contender(t, q)
		c.contest.ask(wire.ToWait)
		idle := numbers(t, c.contest)
		g, won := c.contest.win()

		believed(q, 400*time.Millisecond)
		next := q.newClaim(entry(t, q))
		require.NoError(t, c.release(next))
		handed := numbers(t, next.contest)
		then, wins := next.contest.win()
		require.NoError(t, next.release(nil))
		if !alike(idle) || !alike(handed) {
			continue
		}
		require.True(t, won && wins)
		require.Equal(t, [2]int64{idle[0], handed[0]}, [2]int64{g.Token, then.Token})
		require.Greater(t, then.Token, g.Token)
		for _, tap := range taps {
			require.Empty(t, tap.Told(), "a write-back")
		}
		return
	}
	require.Fail(t, "nodes never granted the same tokens")
}

// A node takes up nothing that is further ahead of its clock than a whole block may be.
func TestFarProposalsAreNotTakenUp(t *testing.T) {
	nodes := masters(t, 1)
	q := prepared(t, nodes)
	believed(q, 10*time.Second)
	c := contender(t, q)
	c.contest.ask(wire.ToWait)
	first := numbers(t, c.contest)[0]
	require.Less(t, first, time.Now().Add(5*time.Second).UnixMicro())
	believed(q, 10*time.Second)
	next := q.newClaim(entry(t, q))
	require.NoError(t, c.release(next))
	require.Less(t, numbers(t, next.contest)[0], time.Now().Add(5*time.Second).UnixMicro())
	require.NoError(t, next.release(nil))
}

// One clock that is far ahead of the others makes nobody propose that.
func TestProposalsFollowTheMedian(t *testing.T) {
	q := prepared(t, masters(t, 3))
	believed(q, 0)
	near := q.members[1].clock.Load().ahead + 1000 // a millisecond ahead
	q.members[1].clock.Store(&reading{ahead: near})
	rtt := time.Duration(q.rtt.Load()).Microseconds()
	now := clock.Now().Mono().Microseconds()
	require.GreaterOrEqual(t, q.proposedToken(), now+near+rtt)
	q.members[2].clock.Store(&reading{ahead: near + 5_000_000})
	least, after := q.proposedToken(), clock.Now().Mono().Microseconds()
	require.LessOrEqual(t, least, after+near+rtt, "it is left out")
	q.rtt.Store(int64(time.Minute))
	least, after = q.proposedToken(), clock.Now().Mono().Microseconds()
	require.LessOrEqual(t, least, after+near+maxLead.Microseconds(), "however slow the nodes are")
}
