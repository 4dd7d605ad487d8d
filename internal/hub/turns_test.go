package hub

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A turn is over when the lock was unlocked in it, and only then.
func TestTurnIsOverOnceUsed(t *testing.T) {
	var ts turns
	now := time.Now()
	ts.unlocked()
	require.Empty(t, ts.over())
	require.False(t, ts.near(now))
	ts.opened("1", now)
	require.Empty(t, ts.over())
	require.True(t, ts.near(now))
	ts.unlocked()
	require.Equal(t, "1", ts.over())
	ts.opened("2", now)
	require.Empty(t, ts.over())
	require.False(t, ts.near(now.Add(turnMemory)), "a second without a turn")
}

// Eight turns that no waiter uses make them rare, each further one twice as rare, and a used one frequent again.
func TestUnusedTurnsGetRare(t *testing.T) {
	var ts turns
	now := time.Now()
	unused := func() {
		ts.opened("t", now)
		ts.granted(now)
		ts.granted(now) // a turn counts once
	}
	for range unusedAllowed - 1 {
		unused()
		require.True(t, ts.due(now))
	}
	for _, pause := range []time.Duration{10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000, 1000, 1000, 1000} {
		unused()
		require.False(t, ts.due(now.Add(pause*time.Millisecond-1)))
		require.False(t, ts.near(now))
		now = now.Add(pause * time.Millisecond)
		require.True(t, ts.due(now))
	}
	ts.opened("t", now)
	ts.unlocked()
	ts.granted(now)
	require.Zero(t, ts.unused)
	unused()
	require.True(t, ts.due(now))
}
