package quorum

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// A sharer of an owner gives back a node that another sharer keeps. It is told that the node is the owner's under a new
// number: else it would believe in it no more, ask without end, and a late copy of the command could free the node.
func TestYieldBesideASharer(t *testing.T) {
	q := prepared(t, masters(t, 1))
	var voters []*voter
	for range 2 {
		c := contender(t, q)
		c.Entry.Owner, c.Entry.Block = "job", 1
		voteAt(t, c.contest, 0)
		voters = append(voters, c.contest.voters[0])
		defer c.Abandon()
	}
	first := voters[0]
	number := first.Belief.Number
	require.Equal(t, number, voters[1].Belief.Number)

	first.give(clock.Now())
	require.Equal(t, number, first.yield)
	yielded := sendAt(first.contest, 0)
	first.contest.count(yielded)
	require.Zero(t, first.yield, "it is not given back again")
	require.True(t, first.owns(clock.Now()))
	require.Greater(t, first.Belief.Number, number)

	voters[1].End(true)
	require.Eventually(t, func() bool { return q.members[0].Sweeping() == 0 }, patience, time.Millisecond)
	late, err := first.Vote(context.Background(), first.contest.written, number, wire.ToWait)
	require.NoError(t, err)
	require.True(t, late.Mine)
	require.Equal(t, first.Belief.Number, late.Number, "a copy of the command finds nothing to give back")
}
