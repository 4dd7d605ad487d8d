package quorum

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// sharer makes a claim for the owner job.
func sharer(t *testing.T, q *Quorum) *Claim {
	t.Helper()
	c := contender(t, q)
	c.Entry.Owner, c.Entry.Block = "job", 1
	return c
}

// A sharer of an owner gives back a node that another sharer keeps, and stays out of it until the owner may have a quorum.
// Then it is in under a new number: a late copy of the command that gave the node back finds nothing to give back.
func TestYieldBesideASharer(t *testing.T) {
	nodes := masters(t, 3)
	q := prepared(t, nodes)
	one, other := sharer(t, q), sharer(t, q)
	defer one.Abandon()
	defer other.Abandon()
	voteAt(t, other.contest, 0)
	voteAt(t, one.contest, 0)
	v := one.contest.voters[0]
	number := v.Belief.Number
	require.Equal(t, other.contest.voters[0].Belief.Number, number)

	v.yieldGrant(clock.Now())
	require.Equal(t, number, v.yield)
	voteAt(t, one.contest, 0)
	require.Zero(t, v.Belief.Number)
	require.Zero(t, v.yield, "it is not given back again")
	require.Equal(t, "job", v.holder, "the other sharer stays in")
	voteAt(t, one.contest, 0)
	require.Zero(t, v.Belief.Number, "the owner has one node of three")
	require.Equal(t, "1", nodes[0].Do("HGET", "k", "job"))

	voteAt(t, other.contest, 1) // now it has a quorum
	voteAt(t, one.contest, 1)
	one.contest.rejoin(clock.Now())
	require.True(t, v.due.Reached(clock.Now()), "the owner has a quorum")
	voteAt(t, one.contest, 0)
	require.Greater(t, v.Belief.Number, number)
	require.Equal(t, "2", nodes[0].Do("HGET", "k", "job"))

	late, err := v.Vote(context.Background(), wire.Ballot{Ticket: one.contest.ticketText, Yield: number, How: wire.ToWait})
	require.NoError(t, err)
	require.True(t, late.Mine)
	require.Equal(t, v.Belief.Number, late.Number)
	held, _, err := v.Unvote(context.Background(), nil, "")
	require.NoError(t, err)
	require.True(t, held)
	require.Equal(t, "", nodes[0].Do("HGET", "k", "relock:again:"+one.Entry.ID), "nothing is left of it")
}

// Two sharers of an owner have one node, which a stranger lacks whose ticket is lower. Both give it back, so that the
// stranger is granted the lock, though neither of them is ever alone there of its own accord.
func TestSharersGiveBackToAStranger(t *testing.T) {
	nodes := masters(t, 3)
	q := prepared(t, nodes)
	stranger := contender(t, q)
	sharers := []*Claim{sharer(t, q), sharer(t, q)}
	for _, c := range sharers {
		voteAt(t, c.contest, 0)
	}
	voteAt(t, stranger.contest, 1)
	nodes[2].Kill()
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, len(sharers))
	for _, c := range sharers {
		go func() {
			_, err := c.Wait(ctx, nil)
			c.Abandon()
			left <- err
		}()
	}
	won := make(chan error, 1)
	go func() {
		_, err := stranger.Wait(ctx, nil)
		won <- err
	}()
	require.NoError(t, await(t, won, 9*time.Second), "a lease is 30 s")
	cancel()
	for range sharers {
		require.Error(t, within(t, left))
	}
	require.NoError(t, stranger.release(nil))
}
