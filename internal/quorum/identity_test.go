package quorum

import (
	"context"
	"testing"

	"github.com/relock-go/relock/internal/faults"
	"github.com/stretchr/testify/require"
)

// born is when a node's incarnation was noticed, "0" where it was declared new, "" where it has no marker.
const born = "relock_incarnation"

// A node that becomes another process while it is being declared new is not: what it forgot may still be relied on.
func TestDeclaresOnlyTheProcessThatItFound(t *testing.T) {
	nodes := masters(t, 3)
	q, taps := tapped(t, nodes)
	taps[0].Filter(faults.Next(faults.Script("declare"), faults.Hold))
	prepared := make(chan error, 1)
	go func() { prepared <- q.prepare(context.Background()) }()
	within(t, taps[0].Told())
	nodes[0].RestartEmpty()
	taps[0].Release()
	require.NoError(t, within(t, prepared))
	require.Empty(t, nodes[0].Do("HGET", born, "born"), "its guard decides")
	require.Equal(t, "0", nodes[1].Do("HGET", born, "born"))
}

// Nodes were found fresh, but by now another client has declared them new, and may hold a lock that one of them forgot
// since: that one is not declared new again.
func TestDeclaresNothingWhereAnotherClientWasFaster(t *testing.T) {
	nodes := masters(t, 3)
	late, taps := tapped(t, nodes)
	taps[2].Filter(faults.Next(faults.Command("TIME"), faults.Pass, faults.Hold)) // the second question to node 3
	done := make(chan error, 1)
	go func() { done <- late.prepare(context.Background()) }()
	within(t, taps[2].Told())
	prepared(t, nodes)
	nodes[0].Do("FLUSHALL")
	taps[2].Release()
	require.NoError(t, within(t, done))
	require.Empty(t, nodes[0].Do("HGET", born, "born"))
}

// A node that does not say who it is was not asked to vote: nothing of that may come late, and nothing is swept.
func TestNodeThatIsNotKnownWasNotAsked(t *testing.T) {
	q, taps := tapped(t, masters(t, 1))
	taps[0].Filter(faults.All(faults.Command("TIME"), faults.LoseCall))
	c := contender(t, q)
	got := sendAt(c.contest, 0)
	require.Error(t, got.err)
	require.False(t, c.contest.voters[0].MayRunLate())
	c.Abandon()
	require.Zero(t, q.members[0].Sweeping())
}
