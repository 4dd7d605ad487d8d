package relocktest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
)

// A Flight runs once in a bubble, until its result expires or is forgotten. Under a run Lose takes the lock away, and Hold has callers
// wait as for another run.
func TestFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := New(t)
		other := relock.FlightOf[int](Beside(t, locks), "k", time.Minute)
		runs := 0
		run := func(context.Context) (int, error) { runs++; return runs, nil }
		for _, want := range []int{1, 1, 2, 2, 3} {
			value, _, err := other.Do(t.Context(), run)
			require.NoError(t, err)
			require.Equal(t, want, value)
			switch time.Sleep(40 * time.Second); want { // of the minute
			case 2:
				require.NoError(t, relock.FlightOf[int](locks, "k", time.Minute).Forget(t.Context()))
				value, ran, err := other.Do(t.Context(), run)
				require.NoError(t, err)
				require.True(t, ran)
				require.Equal(t, 3, value)
				time.Sleep(40 * time.Second)
				require.Equal(t, 3, runs)
				return
			}
		}
	})
}

func TestLoseTheLockOfAFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := New(t)
		flight := relock.FlightOf[int](locks, "k", time.Minute)
		value, ran, err := flight.Do(t.Context(), func(ctx context.Context) (int, error) {
			lease, _ := relock.FromContext(ctx)
			Lose(t, lease)
			return 1, nil
		})
		require.ErrorIs(t, err, relock.ErrLost)
		require.True(t, ran)
		require.Equal(t, 1, value)

		Hold(t, locks, "k")
		_, ran, err = relock.FlightOf[int](locks, "k", time.Minute, relock.WithWait(time.Second)).Do(t.Context(), func(context.Context) (int, error) { return 2, nil })
		require.ErrorIs(t, err, relock.ErrNotAcquired)
		require.False(t, ran)
	})
}
