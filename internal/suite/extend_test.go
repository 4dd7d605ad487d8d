package suite_test

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestExtendMovesTheEndOfAFixedLease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		l, err := c.Mutex("k", relock.WithFixedLease(10*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.NoError(t, l.Extend(t.Context(), 20*time.Second))
		time.Sleep(19 * time.Second)
		require.NoError(t, l.Context().Err())
		time.Sleep(time.Second)
		require.Error(t, l.Context().Err())
	})
}

// A lease that was made longer than usual is not left to the next goroutine: if the process died, others would wait for
// all of it.
func TestLengthenedLeaseIsNotPassedOn(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithLocalHandoff(10, time.Hour))
	ctx := context.Background()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	got := waitFor(t, c, "k")
	lined(t, c, "k")
	require.NoError(t, l.Extend(ctx, time.Hour))
	require.NoError(t, l.Unlock(ctx))
	next := within(t, got)
	require.NotEqual(t, l.Token()+1, next.Token(), "it was granted anew")
	require.Less(t, time.Until(next.Until()), time.Minute)
	require.Len(t, s.Do("PTTL", "k"), len("30000"))
	require.NoError(t, next.Unlock(ctx))
}
