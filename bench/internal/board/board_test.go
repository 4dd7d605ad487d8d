//go:build unix

package board

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTwoHoldersAreSeenThroughTwoMappings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "board")
	a, err := Create(path, 4)
	require.NoError(t, err)
	defer a.Close()
	b, err := Open(path)
	require.NoError(t, err)
	defer b.Close()

	require.True(t, a.Enter(2, 7))
	require.True(t, b.Enter(1, 8), "another lock")
	require.False(t, b.Enter(2, 8), "the same lock")
	require.False(t, a.Exit(2, 7), "somebody came in meanwhile")
	require.True(t, b.Exit(2, 8))
	require.True(t, a.Enter(2, 7))
	require.True(t, a.Exit(2, 7))
	require.InDelta(t, Now(), b.LastExit(2), float64(time.Second))

	require.True(t, a.Enter(3, 7))
	b.Clear(3)
	require.True(t, a.Enter(3, 9), "the holder was killed")
}

func TestPermitsAreCountedThroughTwoMappings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "board")
	a, err := Create(path, 2)
	require.NoError(t, err)
	defer a.Close()
	b, err := Open(path)
	require.NoError(t, err)
	defer b.Close()

	require.True(t, a.Acquire(1, 3, 1))
	require.True(t, b.Acquire(1, 3, 2))
	require.False(t, a.Acquire(1, 3, 1))
	a.Release(1, 1)
	b.Release(1, 2)
	require.True(t, b.Acquire(1, 3, 2))
	b.Clear(1)
	require.True(t, a.Acquire(1, 3, 3), "the holder was killed")
}

func TestClockIsTheWallClock(t *testing.T) {
	before := time.Now()
	now := Now()
	took := time.Since(before) // however long the test was stopped
	require.InDelta(t, before.UnixNano(), now, float64(took+50*time.Millisecond))
	require.InDelta(t, now, Time(now).UnixNano(), 1000)
}

func TestOpenOfNothingFails(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "none"))
	require.Error(t, err)
}
