package relock

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// Extend never says that a lease lasts for longer than WithMaxHold lets it, and asks Redis for no more.
func TestExtendKeepsToMaxHold(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, _ *scripted) {
		m := c.Mutex("k", WithMaxHold(time.Minute))
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Extend(t.Context(), time.Minute), "what it may last")
		require.Greater(t, time.Until(l.Until()), 59*time.Second)
		time.Sleep(20 * time.Second)
		require.NoError(t, l.Extend(t.Context(), 40*time.Second))
		kept, until := l.h.term.Kept, l.Until()
		err = l.Extend(t.Context(), 50*time.Second)
		require.EqualError(t, err, "relock: invalid option: Extend: 50s is longer than the 40s that WithMaxHold leaves")
		require.ErrorIs(t, err, ErrInvalidOption)
		require.Equal(t, kept, l.h.term.Kept, "Redis was not asked")
		require.Equal(t, until, l.Until())
		time.Sleep(39 * time.Second)
		require.NoError(t, l.Context().Err(), "it goes on as before")
		time.Sleep(time.Second)
		requireLost(t, ErrMaxHold, l.Extend(t.Context(), 50*time.Second))
		require.Zero(t, l.Until(), "it has ended")
	})
}

// A fixed lease that WithMaxHold ends before is asked of Redis for as long as it may last.
func TestFixedLeaseKeepsToMaxHold(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, _ *scripted) {
		l, err := c.Mutex("k", WithFixedLease(time.Hour), WithMaxHold(time.Minute)).Lock(t.Context())
		require.NoError(t, err)
		require.InDelta(t, time.Minute, l.h.term.Kept.Until(clock.Now()), float64(clock.Margin(time.Minute)))
		require.Greater(t, time.Until(l.Until()), 59*time.Second)
		require.ErrorIs(t, l.Extend(t.Context(), time.Hour), ErrInvalidOption)
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// No lease and none of its re-entries lives past when WithMaxHold ends it, counted from when the outermost one began: not for a
// re-entry, by whatever options, nor for the Unlock of one, nor for Extend. Redis is asked for no more than it takes to be trusted
// so long. A lease that follows it, of the same hold, has a time of its own: TestMaxHoldCountsFromEachLease.
func TestNothingOutlivesMaxHold(t *testing.T) {
	const most = time.Minute
	for what, opts := range map[string][]Option{
		"renewed": nil, "fixed": {WithFixedLease(time.Hour)}, "fixed, shorter": {WithFixedLease(45 * time.Second)},
	} {
		for name, inner := range map[string][]Option{
			"the same": append(opts, WithMaxHold(most)), "no cap": nil, "a longer one": {WithMaxHold(time.Hour)}, "fixed": {WithFixedLease(time.Hour)},
		} {
			t.Run(what+"/"+name, func(t *testing.T) {
				inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
					began := clock.Now()
					end := began.Add(most)
					l, err := c.Mutex("k", append(opts, WithMaxHold(most))...).Lock(t.Context())
					require.NoError(t, err)
					leases := []*Lease{l}
					keeps := func() {
						t.Helper()
						now := clock.Now()
						require.LessOrEqual(t, l.h.term.Kept.Until(now), end.Until(now)+2*clock.Margin(most), "Redis was asked for more")
						for _, l := range leases {
							require.False(t, l.Until().After(end.Wall()))
						}
					}
					keeps()
					for range 3 {
						time.Sleep(10 * time.Second)
						over, err := c.Mutex("k", inner...).Lock(l.Context())
						require.NoError(t, err)
						keeps()
						require.NoError(t, over.Unlock(t.Context()))
						keeps()
						held, err := c.Mutex("k", inner...).Lock(l.Context())
						require.NoError(t, err)
						leases = append(leases, held)
						keeps()
					}
					require.ErrorIs(t, l.Extend(t.Context(), 32*time.Second), ErrInvalidOption)
					require.NoError(t, l.Extend(t.Context(), 30*time.Second+300*time.Millisecond), "less its margin")
					keeps()
					time.Sleep(end.Until(clock.Now()) - 2*clock.Margin(most))
					require.NoError(t, l.Context().Err(), "Extend lengthened it")
					keeps()
					time.Sleep(end.Until(clock.Now()))
					for _, l := range leases {
						require.Error(t, l.Context().Err())
						require.ErrorIs(t, context.Cause(l.Context()), ErrLost)
					}
				})
			})
		}
	}
}

// What caps a lease ends no other one: neither a hold that has no lease in force, nor one that an Unlock passed on meanwhile.
func TestCapEndsItsOwnLeaseOnly(t *testing.T) {
	begun := func(c *Client) *Lease {
		m := c.Mutex("k", WithMaxHold(time.Minute))
		h := m.newHold(new(hold), m.newClaim(""), node.Grant{Token: 1, Passes: 1000, Sent: clock.Now()}, m.cfg, false, clock.Now())
		l, err := m.start(t.Context(), h, new(Lease), HowFree, clock.Now())
		require.NoError(t, err)
		return l
	}
	inFakeTime(t, func(t *testing.T, c *Client, _ *scripted) {
		l, now := begun(c), clock.Now()
		_, _, err := l.h.takeBack(l, now, ErrNotHeld)
		require.NoError(t, err)
		late := now.Add(time.Minute)
		l.h.term.Until = late.Add(time.Minute) // it was renewed
		require.False(t, l.h.expire(late))
		_, err = c.Mutex("k").start(t.Context(), l.h, new(Lease), HowLocal, late)
		require.NoError(t, err, "it goes to the next")
	})
	inFakeTime(t, func(t *testing.T, c *Client, _ *scripted) {
		for range rounds(5_000, 200_000) {
			l, now := begun(c), clock.Now()
			late := now.Add(time.Minute)
			l.h.term.Until = late.Add(time.Minute)
			var all sync.WaitGroup
			for range 4 { // who else wants the mutex makes both wait for it in between
				all.Go(func() {
					for l.h.why() == ErrNotHeld && !l.unlocked() {
						runtime.Gosched()
					}
				})
			}
			all.Go(func() { l.h.expire(late) })
			all.Go(func() {
				runtime.Gosched()
				_, _, _ = l.h.takeBack(l, now, ErrNotHeld)
			})
			all.Wait()
			if l.unlocked() {
				require.Equal(t, ErrNotHeld, l.h.why(), "it came first, and the hold is lost")
			}
			require.NotErrorIs(t, l.h.finish(context.Background(), now, toNext), ErrClosed)
		}
	})
}

// The end of a hold that WithMaxHold capped is told apart from a loss, and matches it.
func TestMaxHoldIsToldApart(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
		m := c.Mutex("k", WithMaxHold(time.Minute))
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		<-l.Context().Done()
		requireLost(t, ErrMaxHold, context.Cause(l.Context()))
		require.ErrorIs(t, ErrMaxHold, ErrLost)
		requireLost(t, ErrMaxHold, l.Unlock(t.Context()))
		requireLost(t, ErrMaxHold, l.Extend(t.Context(), time.Second))

		s.answer = func(claim.Renewal) wire.Result { return wire.Unanswered }
		l, err = m.Lock(t.Context())
		require.NoError(t, err)
		<-l.Context().Done()
		requireLost(t, ErrLost, context.Cause(l.Context()), "its renewals went unanswered first")
		synctest.Wait()
	})
	inFakeTime(t, func(t *testing.T, c *Client, _ *scripted) {
		l, err := c.Mutex("k", WithMaxHold(time.Minute), WithFixedLease(20*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		<-l.Context().Done()
		requireLost(t, ErrLost, context.Cause(l.Context()), "the fixed lease was over first")
	})
}

// WithMaxHold ends a hold while one of its commands is out, and Redis then answers that the lock is gone: what is told is what
// ended the hold.
func TestMaxHoldIsToldByWhatIsOut(t *testing.T) {
	for name, call := range map[string]func(m *Mutex, outer, inner *Lease) error{
		"Lock": func(m *Mutex, outer, _ *Lease) error {
			_, err := m.Lock(context.WithoutCancel(outer.Context()))
			return err
		},
		"Unlock": func(_ *Mutex, _, inner *Lease) error { return inner.Unlock(context.Background()) },
		"Extend": func(_ *Mutex, outer, _ *Lease) error { return outer.Extend(context.Background(), time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			w := faulty(s)
			m := newClient(t, w, WithLease(MaxLease), WithCommandTimeout(patience)).Mutex("k")
			outer := taken(t, m.Lock)
			inner, err := m.Lock(outer.Context())
			require.NoError(t, err)
			w.Filter(faults.Next(faults.Script("recount"), faults.Hold))
			failed := make(chan error, 1)
			go func() { failed <- call(m, outer, inner) }()
			within(t, w.Told())
			outer.h.lose(ErrMaxHold) // as when its time is up
			require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
			w.Release()
			requireLost(t, ErrMaxHold, within(t, failed))
		})
	}
	t.Run("renewal", func(t *testing.T) { // of a process that stood still until the lock had run out
		inFakeTime(t, func(t *testing.T, c *Client, _ *scripted) {
			m, now := c.Mutex("k", WithMaxHold(time.Minute)), clock.Now()
			h := m.newHold(new(hold), m.newClaim(""), node.Grant{Token: 1, Sent: now}, m.cfg, false, clock.Now())
			h.term.Begin(&m.cfg.rules, now)
			h.term.Extended(now, time.Hour, now)
			time.Sleep(time.Minute) // no timer finds out: the watchdog does not know the hold
			h.Settle(claim.Renewal{}, wire.Lost, now, nil)
			requireLost(t, ErrMaxHold, h.why())
		})
	})
}

func TestMaxHoldCapsARenewedLease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
		began := time.Now()
		l, err := c.Mutex("k", WithMaxHold(100*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		<-l.Context().Done()
		require.ErrorIs(t, context.Cause(l.Context()), ErrLost)
		require.Equal(t, 100*time.Second, time.Since(began))
		synctest.Wait()
		require.Equal(t, []string{"k"}, s.abandoned)
	})
}

// A lease that follows another of the same grant counts from its own begin, whether it is passed on in memory or taken from the
// cache, and whatever the options of the lease before were.
func TestMaxHoldCountsFromEachLease(t *testing.T) {
	const most = time.Minute
	for name, before := range map[string][]Option{
		"the same": {WithMaxHold(most)}, "no cap": nil, "a longer one": {WithMaxHold(time.Hour)}, "fixed": {WithFixedLease(20 * time.Second)},
	} {
		capped := func(t *testing.T, first, second *Lease) {
			t.Helper()
			require.True(t, first.h == second.h, "it is of another grant")
			require.Equal(t, first.Token()+1, second.Token())
			require.False(t, second.Until().After(time.Now().Add(most)))
			time.Sleep(most - time.Nanosecond)
			require.NoError(t, second.Context().Err())
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			requireLost(t, ErrMaxHold, context.Cause(second.Context()))
		}
		t.Run(name+"/passed on", func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, c *Client, _ *scripted) {
				often := WithLocalHandoff(10, time.Hour)
				first, err := c.Mutex("k", append(before, often)...).Lock(t.Context())
				require.NoError(t, err)
				go func() {
					time.Sleep(15 * time.Second)
					if err := first.Unlock(context.Background()); err != nil {
						t.Error(err)
					}
				}()
				second, err := c.Mutex("k", WithMaxHold(most), often).Lock(t.Context())
				require.NoError(t, err)
				capped(t, first, second)
			})
		})
		if name == "fixed" { // which never lingers
			continue
		}
		t.Run(name+"/cached", func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
				s.fresh = true
				kept := WithLinger(time.Hour)
				first, err := c.Mutex("k", append(before, kept)...).Lock(t.Context())
				require.NoError(t, err)
				require.NoError(t, first.Unlock(t.Context()))
				time.Sleep(5 * time.Second)
				second, err := c.Mutex("k", WithMaxHold(most), kept).Lock(t.Context())
				require.NoError(t, err)
				capped(t, first, second)
			})
		})
	}
}
