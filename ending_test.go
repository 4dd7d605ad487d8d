package relock

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parted is an arbiter that grants everything, and notes how its claims end.
type parted struct {
	scripted
	ends    func(how string)     // called by each end of a claim
	counts  func()               // called by each hold count that is written; nil for nothing
	watched func(w *hub.Watcher) // called for each hold that begins; nil for nothing
}

type partedClaim struct {
	scriptedClaim
	p *parted
}

func (p *parted) Claim(e wire.Entry) claim.Claim {
	return &partedClaim{scriptedClaim{S: &p.scripted, Entry: e}, p}
}

func (p *parted) Silence(op driver.Op, name string, why, cause error) error {
	return &wire.NodeError{Op: op, Name: name, Err: why, Cause: cause}
}

func (c *partedClaim) Abandon() { c.p.ends("abandoned") }
func (c *partedClaim) Forget()  { c.p.ends("forgotten") }

func (c *partedClaim) HandOver(context.Context, string, time.Duration) error {
	c.p.ends("moved")
	return nil
}

func (c *partedClaim) TakeOver(context.Context, string) (node.Grant, error) {
	return node.Grant{}, wire.ErrLost
}

// Release grants the lock to the entry that is queued with it.
func (c *partedClaim) Release(_ context.Context, next claim.Claim) (node.Grant, bool, error) {
	c.p.ends("released")
	if next == nil {
		return node.Grant{}, false, nil
	}
	return node.Grant{Token: 1, Passes: next.Of().Block, Sent: clock.Now()}, true, nil
}

func (c *partedClaim) SetCount(context.Context, int, time.Duration) (clock.Stamp, error) {
	sent := clock.Now()
	if c.p.counts != nil {
		c.p.counts()
	}
	return sent, nil
}

func (c *partedClaim) Watch(w *hub.Watcher) {
	if c.p.watched != nil {
		c.p.watched(w)
	}
}

// whileItParts runs a test with a client over p, in fake time.
func whileItParts(t *testing.T, p *parted, test func(t *testing.T, c *Client), opts ...ClientOption) {
	synctest.Test(t, func(t *testing.T) {
		c := over(t, p, opts...)
		defer c.Close()
		test(t, c)
	})
}

// The table at the head of ending.go. Of each end: what becomes of the claim, of which cause the contexts end, and that they have
// ended when Redis is told. The gate is free by then only where the hold lay there, or had opened it.
func TestEndsOfAHold(t *testing.T) {
	lock := func(t *testing.T, c *Client, opts ...Option) *Lease {
		l, err := c.Mutex("k", opts...).Lock(context.Background())
		require.NoError(t, err)
		return l
	}
	for name, end := range map[string]struct {
		do    func(t *testing.T, c *Client, p *parted) []*Lease // returns leases whose contexts are to end
		claim string
		cause error
		free  bool // the gate, when Redis is told
	}{
		"the last share is given back": {claim: "released", cause: ErrNotHeld, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			outer := lock(t, c)
			inner, err := c.Mutex("k").Lock(outer.Context())
			require.NoError(t, err)
			require.NoError(t, outer.Unlock(t.Context()))
			require.Equal(t, 1, inner.Count())
			require.NoError(t, inner.Unlock(t.Context()))
			return []*Lease{outer, inner}
		}},
		"so, and Redis does not answer": {claim: "abandoned", cause: ErrNotHeld, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			l := lock(t, c)
			require.True(t, l.h.ops.TryLock(), "as a re-entry whose command is out")
			require.ErrorIs(t, l.Unlock(t.Context()), wire.ErrNoAnswer)
			return []*Lease{l}
		}},
		"handed over": {claim: "moved", cause: ErrHandedOver, free: true, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			l := lock(t, c)
			_, err := l.HandOver(t.Context(), time.Minute)
			require.NoError(t, err)
			return []*Lease{l}
		}},
		"its maximum": {claim: "abandoned", cause: ErrMaxHold, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			l := lock(t, c, WithMaxHold(time.Minute))
			time.Sleep(time.Minute)
			return []*Lease{l}
		}},
		"Redis has it no more": {claim: "abandoned", cause: ErrLost, do: func(t *testing.T, c *Client, p *parted) []*Lease {
			p.Answer = func(claim.Renewal) wire.Result { return wire.Lost }
			l := lock(t, c)
			time.Sleep(time.Minute)
			requireLost(t, ErrLost, l.Unlock(t.Context()))
			return []*Lease{l}
		}},
		"Close, a caller has it": {claim: "forgotten", cause: ErrClosed, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			l := lock(t, c)
			c.Close()
			return []*Lease{l}
		}},
		"Close, it lies idle": {claim: "abandoned", free: true, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			require.NoError(t, lock(t, c, WithLinger(time.Hour)).Unlock(t.Context()))
			c.Close()
			return nil
		}},
		"Close, its fixed lease is being lengthened": {claim: "abandoned", do: func(t *testing.T, c *Client, p *parted) []*Lease {
			p.counts = func() {
				go c.Close()
				synctest.Wait() // it waits for this call
			}
			_, err := c.Mutex("k", WithFixedLease(time.Hour)).Lock(t.Context())
			require.Equal(t, ErrClosed, err)
			return nil
		}},
		"idle for long": {claim: "abandoned", free: true, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			require.NoError(t, lock(t, c, WithLinger(time.Second)).Unlock(t.Context()))
			time.Sleep(time.Second)
			return nil
		}},
		"idle, and wanted": {claim: "abandoned", free: true, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			l := lock(t, c, WithLinger(time.Hour))
			require.NoError(t, l.Unlock(t.Context()))
			l.h.Wanted(true)
			return nil
		}},
		"WithMinHold is over": {claim: "abandoned", cause: ErrNotHeld, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			l := lock(t, c, WithMinHold(time.Minute))
			require.NoError(t, l.Unlock(t.Context()))
			time.Sleep(time.Minute)
			return []*Lease{l}
		}},
		"WithMinHold keeps it, and renewals are not answered": {claim: "forgotten", cause: ErrNotHeld, do: func(t *testing.T, c *Client, p *parted) []*Lease {
			p.Answer = func(claim.Renewal) wire.Result { return wire.Unanswered }
			l := lock(t, c, WithMinHold(time.Minute))
			require.True(t, l.h.ops.TryLock(), "as a re-entry whose command is out")
			require.ErrorIs(t, l.Unlock(t.Context()), wire.ErrNoAnswer)
			time.Sleep(time.Minute)
			return []*Lease{l}
		}},
		"Close, WithMinHold keeps it": {claim: "forgotten", cause: ErrNotHeld, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			l := lock(t, c, WithMinHold(time.Minute))
			require.NoError(t, l.Unlock(t.Context()))
			c.Close()
			return []*Lease{l}
		}},
		"the last reader's share": {claim: "released", cause: ErrNotHeld, free: true, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			var readers []*Lease
			for range 2 {
				l, err := c.RWMutex("k").RLock(t.Context())
				require.NoError(t, err)
				readers = append(readers, l)
			}
			require.Same(t, readers[0].h, readers[1].h)
			require.NoError(t, readers[0].Unlock(t.Context()))
			require.NoError(t, readers[1].Context().Err())
			require.NoError(t, readers[1].Unlock(t.Context()))
			return readers
		}},
		"a hold of readers is lost": {claim: "abandoned", cause: ErrLost, free: true, do: func(t *testing.T, c *Client, _ *parted) []*Lease {
			l, err := c.RWMutex("k").RLock(t.Context())
			require.NoError(t, err)
			l.h.lose(ErrLost)
			return []*Lease{l}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var (
				p     = &parted{scripted: scripted{Fresh: true}}
				ended []string
				ctxs  []*Lease
				trust = map[*hold]bool{}
			)
			p.watched = func(w *hub.Watcher) { trust[(*w).(*hold)] = true }
			whileItParts(t, p, func(t *testing.T, c *Client) {
				p.ends = func(how string) {
					ended = append(ended, how)
					for h := range trust {
						h.mu.Lock()
						assert.False(t, h.fate.live(), "trust ends before Redis is told")
						assert.Empty(t, h.shares.all)
						if b := h.shares.room[0]; b != nil { // it was lost with this share
							assert.Error(t, b.(*Lease).std.Err(), "and its bearer was told")
						}
						h.mu.Unlock()
					}
					assert.Equal(t, end.free, c.core.gates.Len() == 0)
				}
				ctxs = end.do(t, c, p)
				synctest.Wait()
				require.Equal(t, []string{end.claim}, ended)
				require.Zero(t, c.core.gates.Len())
				require.Zero(t, c.core.watchdog.Len())
				for _, l := range ctxs {
					require.ErrorIs(t, context.Cause(l.Context()), end.cause)
				}
			})
		})
	}
}

// The goroutine for which a release has queued an entry gives up meanwhile, and the hold that Redis grants to that entry is lost at
// once: its loss has left the gate, and no more is done for it.
func TestHoldThatFollowsIsLostBeforeItIsPassedOn(t *testing.T) {
	var ended []string
	holds, p := 0, &parted{}
	whileItParts(t, p, func(t *testing.T, c *Client) {
		m := c.Mutex("k", WithLocalHandoff(1, 0))
		left := make(chan error, 1)
		ctx, leave := context.WithCancel(t.Context())
		p.ends = func(how string) {
			if ended = append(ended, how); how == "released" {
				leave()
				synctest.Wait() // until it has left the line
			}
		}
		p.watched = func(w *hub.Watcher) {
			if holds++; holds == 2 {
				(*w).(*hold).lose(ErrLost)
			}
		}
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		go func() {
			_, err := m.Lock(ctx)
			left <- err
		}()
		synctest.Wait()
		require.NoError(t, l.Unlock(t.Context()))
		require.ErrorIs(t, <-left, context.Canceled)
		require.Equal(t, []string{"released", "abandoned"}, ended)
		require.Zero(t, c.core.gates.Len())
	})
}

// A hold is lost while the observer is told of its lease, or while it goes to the next: each lease is told of once, and its end is.
// One that was passed on names the one before.
func TestObserverOfHandOversThatAreLost(t *testing.T) {
	const rounds = 300
	o, p := &seen{}, &parted{ends: func(string) {}}
	var losers sync.WaitGroup
	n := 0 // of holds: their makers take turns at the gate
	p.watched = func(w *hub.Watcher) {
		if n++; n%3 == 0 {
			h := (*w).(*hold)
			losers.Go(func() { h.lose(ErrLost) })
		}
	}
	whileItParts(t, p, func(t *testing.T, c *Client) {
		m := c.Mutex("k", WithLocalHandoff(3, time.Hour))
		var holders sync.WaitGroup
		for range 4 {
			holders.Go(func() {
				for range rounds {
					if l, err := m.Lock(context.Background()); err == nil {
						time.Sleep(time.Microsecond) // others wait for it meanwhile
						_ = l.Unlock(context.Background())
					}
				}
			})
		}
		holders.Wait()
		losers.Wait()
	}, WithObserver(o))
	told, passed := map[uint64]bool{0: true}, 0
	for _, e := range o.of(EventAcquired) {
		require.True(t, told[e.From], "told before, and followed by no other")
		if told[e.Lease] = true; e.From != 0 {
			delete(told, e.From)
			passed++
		}
	}
	require.Positive(t, passed)
	over := make(map[uint64]int)
	for _, e := range o.of(EventLost, EventReleased) {
		over[e.Lease]++
	}
	for _, e := range o.of(EventAcquired) {
		require.Equal(t, 1, over[e.Lease])
	}
}

// What was unlocked is answered at once, whatever the one who has the hold now waits for.
func TestSecondUnlockWaitsForNobody(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, _ *scripted) {
		m := c.Mutex("k")
		first, err := m.Lock(t.Context())
		require.NoError(t, err)
		second := waitFor(t, c, "k")
		synctest.Wait()
		require.NoError(t, first.Unlock(t.Context()))
		stranger := <-second
		require.Same(t, first.h, stranger.h)
		require.NoError(t, stranger.h.ops.Lock(t.Context())) // its command is not answered
		began := time.Now()
		require.ErrorIs(t, first.Unlock(t.Context()), ErrNotHeld)
		require.ErrorIs(t, first.Extend(t.Context(), time.Minute), ErrNotHeld)
		require.Zero(t, time.Since(began))
		stranger.h.ops.Unlock()
		require.NoError(t, stranger.Unlock(t.Context()))
	})
}

// A hold on its way from one goroutine to the next when the client is closed goes back to Redis.
func TestCloseGivesBackWhatIsPassedOn(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
		l, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		_, _, err = l.h.takeBack(l, clock.Now(), ErrNotHeld) // an Unlock that got so far
		require.NoError(t, err)
		c.Close()
		require.Equal(t, []string{"k"}, s.Abandoned)
		require.NoError(t, l.h.finish(t.Context(), clock.Now(), toNext), "it was unlocked in time")
	})
}

// A grant that arrives while the client is being closed goes to nobody.
func TestCloseGivesBackALateGrant(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
		m := c.Mutex("k")
		h := m.newHold(new(hold), m.newClaim(""), node.Grant{Token: 1}, m.cfg, false, clock.Now())
		c.Close()
		_, err := m.start(t.Context(), h, new(Lease), HowLocal, clock.Now())
		require.ErrorIs(t, err, ErrClosed)
		require.Contains(t, s.Abandoned, "k")
	})
}

// Close comes before All gives its caller the leases or after it, never between two of them.
func TestCloseComesBeforeOrAfterAllReturns(t *testing.T) {
	t.Parallel()
	cfg, err := with[ClientOption](defaultConfig(), nil, "")
	require.NoError(t, err)
	var before, after int
	for range 500 {
		arb := &scripted{}
		c := newClientOver("c", cfg, arb)
		leases, _, err := All(mutexes(c, "k", maxTogether)...).each(context.Background(), waiting, make([]time.Duration, maxTogether))
		require.NoError(t, err)
		var both sync.WaitGroup
		both.Go(func() {
			while(leases[0])
			_, err = given(context.Background(), leases)
		})
		both.Go(func() {
			while(leases[0])
			c.Close()
		})
		both.Wait()
		if err == nil {
			after++
			require.Len(t, arb.Left, maxTogether)
			continue
		}
		before++
		require.ErrorIs(t, err, ErrClosed)
		require.Empty(t, arb.Left)
	}
	require.Positive(t, before)
	require.Positive(t, after)
}

// while lasts for up to as long as it takes to give some leases.
func while(l *Lease) {
	for range rand.N(4 * maxTogether) {
		_ = l.Count()
	}
}

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
			m := newClient(t, w, WithLease(wire.MaxLease), WithCommandTimeout(patience)).Mutex("k")
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
