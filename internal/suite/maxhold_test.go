package suite_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// The end of a hold that WithMaxHold capped is told apart from a loss, and matches it.
func TestMaxHoldIsToldApart(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		m := c.Mutex("k", relock.WithMaxHold(time.Minute))
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		<-l.Context().Done()
		requireLost(t, relock.ErrMaxHold, context.Cause(l.Context()))
		require.ErrorIs(t, relock.ErrMaxHold, relock.ErrLost)
		requireLost(t, relock.ErrMaxHold, l.Unlock(t.Context()))
		requireLost(t, relock.ErrMaxHold, l.Extend(t.Context(), time.Second))

		s.Answer = func(claim.Renewal) wire.Result { return wire.Unanswered }
		l, err = m.Lock(t.Context())
		require.NoError(t, err)
		<-l.Context().Done()
		requireLost(t, relock.ErrLost, context.Cause(l.Context()), "its renewals went unanswered first")
		synctest.Wait()
	})
	inFakeTime(t, func(t *testing.T, c *relock.Client, _ *scripted) {
		l, err := c.Mutex("k", relock.WithMaxHold(time.Minute), relock.WithFixedLease(20*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		<-l.Context().Done()
		requireLost(t, relock.ErrLost, context.Cause(l.Context()), "the fixed lease was over first")
	})
}

func TestMaxHoldCapsARenewedLease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		began := time.Now()
		l, err := c.Mutex("k", relock.WithMaxHold(100*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		<-l.Context().Done()
		require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
		require.Equal(t, 100*time.Second, time.Since(began))
		synctest.Wait()
		require.Equal(t, []string{"k"}, s.Abandoned)
	})
}

// A lease that follows another of the same grant counts from its own begin, whether it is passed on in memory or taken from the
// cache, and whatever the options of the lease before were.
func TestMaxHoldCountsFromEachLease(t *testing.T) {
	const most = time.Minute
	for name, before := range map[string][]relock.Option{
		"the same": {relock.WithMaxHold(most)}, "no cap": nil, "a longer one": {relock.WithMaxHold(time.Hour)}, "fixed": {relock.WithFixedLease(20 * time.Second)},
	} {
		capped := func(t *testing.T, first, second *relock.Lease) {
			t.Helper()
			require.True(t, holdOf(first) == holdOf(second), "it is of another grant")
			require.Equal(t, first.Token()+1, second.Token())
			require.False(t, second.Until().After(time.Now().Add(most)))
			time.Sleep(most - time.Nanosecond)
			require.NoError(t, second.Context().Err())
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			requireLost(t, relock.ErrMaxHold, context.Cause(second.Context()))
		}
		t.Run(name+"/passed on", func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, c *relock.Client, _ *scripted) {
				often := relock.WithLocalHandoff(10, time.Hour)
				first, err := c.Mutex("k", append(before, often)...).Lock(t.Context())
				require.NoError(t, err)
				go func() {
					time.Sleep(15 * time.Second)
					if err := first.Unlock(context.Background()); err != nil {
						t.Error(err)
					}
				}()
				second, err := c.Mutex("k", relock.WithMaxHold(most), often).Lock(t.Context())
				require.NoError(t, err)
				capped(t, first, second)
			})
		})
		if name == "fixed" { // which never lingers
			continue
		}
		t.Run(name+"/cached", func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
				s.Fresh = true
				kept := relock.WithLinger(time.Hour)
				first, err := c.Mutex("k", append(before, kept)...).Lock(t.Context())
				require.NoError(t, err)
				require.NoError(t, first.Unlock(t.Context()))
				time.Sleep(5 * time.Second)
				second, err := c.Mutex("k", relock.WithMaxHold(most), kept).Lock(t.Context())
				require.NoError(t, err)
				capped(t, first, second)
			})
		})
	}
}
