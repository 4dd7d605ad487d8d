package clock_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/stretchr/testify/require"
)

func TestElapsedIsTheLargerOfBothClocks(t *testing.T) {
	start := clock.At(0, 0)
	end := start.Add(30 * time.Second)
	for name, c := range map[string]struct {
		mono, wall time.Duration
		left       time.Duration
	}{
		"both run":               {10 * time.Second, 10 * time.Second, 20 * time.Second},
		"machine slept":          {1 * time.Second, 40 * time.Second, -10 * time.Second},
		"wall clock set back":    {31 * time.Second, -time.Hour, -time.Second},
		"wall clock set forward": {5 * time.Second, 25 * time.Second, 5 * time.Second},
	} {
		now := clock.At(int64(c.mono), int64(c.wall))
		require.Equal(t, c.left, end.Until(now), name)
		require.Equal(t, c.left <= 0, end.Reached(now), name)
		require.Equal(t, 30*time.Second-c.left, now.Since(start), name)
	}
}

func TestSoonerAndLaterCountFromNow(t *testing.T) {
	now := clock.Now()
	a, b := now.Add(time.Second), now.Add(2*time.Second)
	require.Equal(t, a, clock.Sooner(a, b, now))
	require.Equal(t, b, clock.Later(a, b, now))
	require.Equal(t, a, clock.Sooner(a, clock.Never(), now))
	require.Equal(t, clock.Never(), clock.Later(clock.Never(), b, now))
	require.True(t, a.Before(b))
	require.False(t, clock.Never().Reached(now.Add(24*365*time.Hour)))
}

func TestSkewTellsASetClock(t *testing.T) {
	before, after := clock.At(0, 0), clock.At(int64(time.Second), int64(time.Minute))
	require.Equal(t, 59*time.Second, after.Skew()-before.Skew())
	require.True(t, clock.Stamp{}.IsZero())
	require.False(t, clock.Now().IsZero())
	require.WithinDuration(t, time.Now(), clock.Now().Wall(), time.Minute)
}
