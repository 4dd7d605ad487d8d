package suite_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/tenure"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLeaseIsRenewedEveryThird(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		l, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)
		require.NoError(t, l.Context().Err())
		synctest.Wait()
		require.InDelta(t, 60, s.Renewed, 2)
		require.Greater(t, time.Until(l.Until()), 19*time.Second)
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.InDelta(t, 60, s.Renewed, 2, "none after Unlock")
	})
}

func TestRenewalsAreBatched(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		for i := range 5000 {
			_, err := c.Mutex(fmt.Sprint(i)).Lock(t.Context())
			require.NoError(t, err)
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.GreaterOrEqual(t, s.Renewed, 5*5000)
		require.Less(t, len(s.Renewals), 50, "about three a renewal of all")
	})
}

// Many locks that linger end with their time.
func TestWhatLingersEndsInTime(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		const locks, linger = 1000, time.Second
		s.Fresh = true
		for i := range locks {
			l, err := c.Mutex(fmt.Sprint(i), relock.WithLinger(linger)).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
			time.Sleep(time.Millisecond / 2)
		}
		synctest.Wait()
		require.Equal(t, locks, idleAt(c))
		time.Sleep(linger/2 - 2*time.Millisecond)
		synctest.Wait()
		require.Equal(t, locks, idleAt(c), "the time of none is up")
		time.Sleep(locks/2*time.Millisecond + 3*tenure.Grain)
		synctest.Wait()
		require.Zero(t, idleAt(c))
		s.Mu.Lock()
		defer s.Mu.Unlock()
		require.Len(t, s.Abandoned, locks)
	})
}

// A lock lingers from when it was asked for, however long its lease was.
func TestLingeringCountsFromTheQuestion(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		const linger = time.Second
		s.Fresh = true
		l, err := c.Mutex("k", relock.WithLinger(linger)).Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(linger / 2)
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(linger/2 - 2*tenure.Grain)
		synctest.Wait()
		require.Equal(t, 1, idleAt(c))
		time.Sleep(3 * tenure.Grain)
		synctest.Wait()
		require.Zero(t, idleAt(c))
	})
}

func TestUnansweredRenewalsDoNotMoveTheDeadline(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		s.Answer = func(claim.Renewal) wire.Result { return wire.Unanswered }
		began := time.Now()
		l, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		<-l.Context().Done()
		require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
		require.Equal(t, defaultLease-clock.Margin(defaultLease), time.Since(began))
		synctest.Wait()
		require.Greater(t, s.Renewed, 15, "tried again every thirtieth of the lease")
		require.Equal(t, []string{"k"}, s.Abandoned, "Redis may have lengthened the lease: it is given back")
		require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLost)
	})
}

// News that the lock may be lost, heard while Redis is being asked, is asked about once more: the answer may be older.
func TestDoubtDuringARenewalIsNotLost(t *testing.T) {
	for name, opts := range map[string][]relock.Option{"kept": nil, "fixed": {relock.WithFixedLease(time.Minute)}} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
				l, err := c.Mutex("k", opts...).Lock(t.Context())
				require.NoError(t, err)
				asked := 0
				s.Answer = func(claim.Renewal) wire.Result {
					if asked++; asked > 1 {
						return wire.Lost
					}
					holdOf(l).Doubt()
					return wire.Renewed
				}
				holdOf(l).Doubt()
				began := time.Now()
				<-l.Context().Done()
				require.Less(t, time.Since(began), time.Second)
				require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
			})
		})
	}
}

func TestLossIsToldToEveryLeaseOnce(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		s.Answer = func(claim.Renewal) wire.Result { return wire.Lost }
		m := c.Mutex("k")
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		inner, err := m.Lock(l.Context())
		require.NoError(t, err)
		began := time.Now()
		<-inner.Context().Done()
		require.Less(t, time.Since(began), defaultLease/3+time.Second)
		require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
		require.ErrorIs(t, context.Cause(inner.Context()), relock.ErrLost)
		require.Zero(t, l.Count())
		_, err = m.Held(l.Context())
		require.ErrorIs(t, err, relock.ErrLost)
		_, err = m.Lock(l.Context())
		require.ErrorIs(t, err, relock.ErrLost)
		require.ErrorIs(t, inner.Unlock(t.Context()), relock.ErrLost)
		require.ErrorIs(t, l.Extend(t.Context(), time.Minute), relock.ErrLost)
		synctest.Wait()
		require.Len(t, s.Abandoned, 1)
		s.Answer = nil
		again, err := m.Lock(t.Context())
		require.NoError(t, err, "the gate is free again")
		require.NoError(t, again.Unlock(t.Context()))
	})
}

// A confirmation that is looked at after the deadline revives nothing: on a quorum somebody may have held the lock since.
func TestLateConfirmationRevivesNothing(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		l, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		watchdogOf(c).Remove(holdOf(l)) // a watchdog that is not run in time
		sent := clock.Now()
		time.Sleep(defaultLease)
		holdOf(l).Settle(claim.Renewal{Claim: claimOf(l), Lease: defaultLease}, wire.Renewed, sent.Add(time.Second), nil)
		require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
	})
}

// So are the tries after a renewal that was not answered, and so is what a try is given to be answered in.
func TestUnansweredRenewalsKeepToAShorterLease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		tries := 0
		s.Answer = func(r claim.Renewal) wire.Result {
			assert.LessOrEqual(t, r.Timeout, max(r.Lease/6, time.Millisecond))
			if tries++; tries%2 == 0 {
				return wire.Unanswered
			}
			return wire.Renewed
		}
		long, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		next := make(chan *relock.Lease, 1)
		go func() {
			l, err := c.Mutex("k", relock.WithLease(600*time.Millisecond)).Lock(t.Context())
			assert.NoError(t, err)
			next <- l
		}()
		synctest.Wait()
		require.NoError(t, long.Unlock(t.Context()))
		l := <-next
		time.Sleep(5 * time.Minute)
		require.NoError(t, l.Context().Err())
	})
}

func TestRenewalThatAnswersAgainSavesTheLease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		began := time.Now()
		s.Answer = func(claim.Renewal) wire.Result {
			if time.Since(began) < 25*time.Second {
				return wire.Unanswered
			}
			return wire.Renewed
		}
		l, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(5 * time.Minute)
		require.NoError(t, l.Context().Err())
	})
}

func TestFixedLeaseEnds(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		began := time.Now()
		l, err := c.Mutex("k", relock.WithFixedLease(90*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		<-l.Context().Done()
		require.Equal(t, 90*time.Second-clock.Margin(90*time.Second), time.Since(began))
		synctest.Wait()
		require.Zero(t, s.Renewed)
	})
}
