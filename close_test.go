package relock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Goroutines pass a lock around until their client is closed. Where each Unlock succeeded nobody holds the lock: it is free.
func TestCloseReleasesWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	one := redistest.Start(t)
	nodes := masters(t, 3)
	for name, open := range map[string]func() *Client{
		"one":    func() *Client { return newClient(t, one.Client()) },
		"quorum": func() *Client { return newRedlock(t, nodes) },
	} {
		t.Run(name, func(t *testing.T) {
			other := open()
			for i := range 15 {
				key := fmt.Sprint(name, i)
				if cut := useUntilClosed(t, open(), key); cut {
					continue
				}
				st, err := other.Mutex(key).State(context.Background())
				require.NoError(t, err)
				require.False(t, st.Held, "round %d: it stands though nobody was left with it", i)
			}
		})
	}
}

// useUntilClosed returns whether Close came while somebody held the lock: then it stands until its lease ends.
func useUntilClosed(t *testing.T, c *Client, key string) bool {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		cut   bool
		taken = make(chan struct{}, 1)
	)
	for range 8 {
		wg.Go(func() {
			for {
				l, err := c.Mutex(key).Lock(context.Background())
				if errors.Is(err, ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				select {
				case taken <- struct{}{}:
				default:
				}
				if err := l.Unlock(context.Background()); err != nil {
					mu.Lock()
					cut = true
					mu.Unlock()
				}
			}
		})
	}
	for range 20 {
		<-taken
	}
	c.Close()
	wg.Wait()
	return cut
}

// A hold on its way from one goroutine to the next when the client is closed goes back to Redis.
func TestCloseGivesBackWhatIsPassedOn(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
		l, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		_, _, err = l.h.takeBack(l, clock.Now(), ErrNotHeld) // an Unlock that got so far
		require.NoError(t, err)
		c.Close()
		require.Equal(t, []string{"k"}, s.abandoned)
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
		require.Contains(t, s.abandoned, "k")
	})
}

// A lock with a lease longer than the client's is being lengthened while the client is closed: Lock says so.
func TestLockReturnsWhenClosedWhileItLengthensItsLease(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w, WithLease(2*time.Second))
	w.Filter(faults.All(faults.Script("recount"), faults.Stall))
	got := make(chan error, 1)
	go func() {
		_, err := c.Mutex("k", WithFixedLease(time.Hour)).Lock(context.Background())
		got <- err
	}()
	within(t, w.Told())
	closed := make(chan struct{})
	go func() { c.Close(); close(closed) }()
	require.Eventually(t, func() bool { // the hold is lost
		return c.core.watchdog.Len() == 0
	}, patience, time.Millisecond)
	w.Filter(nil)
	w.Release()
	require.ErrorIs(t, within(t, got), ErrClosed)
	within(t, closed)
	require.Equal(t, "0", s.Do("EXISTS", "k"), "nobody was given it")
}

// Every call on a closed client says so, and begins nothing.
func TestClosedClientRefusesEverything(t *testing.T) {
	nodes := masters(t, 3)
	var rdbs []rueidis.Client
	for _, s := range nodes {
		rdbs = append(rdbs, s.Client())
	}
	quorum, err := NewRedlock(rdbs)
	require.NoError(t, err)
	one, err := New(rdbs[0])
	require.NoError(t, err)
	ctx := context.Background()
	for name, c := range map[string]*Client{"one": one, "quorum": quorum} {
		t.Run(name, func(t *testing.T) {
			m := c.Mutex(name)
			l, err := m.Lock(ctx)
			require.NoError(t, err)
			c.Close()
			_, err = m.Lock(ctx)
			require.ErrorIs(t, err, ErrClosed)
			_, err = m.Lock(l.Context())
			require.ErrorIs(t, err, ErrClosed)
			_, err = m.TryLock(ctx)
			require.ErrorIs(t, err, ErrClosed)
			_, err = m.State(ctx)
			require.ErrorIs(t, err, ErrClosed)
			_, err = m.ForceUnlock(ctx)
			require.ErrorIs(t, err, ErrClosed)
			_, err = m.Held(l.Context())
			require.ErrorIs(t, err, ErrClosed)
			require.ErrorIs(t, m.Do(ctx, func(context.Context) error { return nil }), ErrClosed)
			require.ErrorIs(t, l.Extend(ctx, time.Second), ErrClosed)
			require.ErrorIs(t, l.Unlock(ctx), ErrClosed)
			require.ErrorIs(t, c.TrustNodes(ctx), ErrClosed)
		})
	}
}

// A command that takes the lock, and is executed only while its client is being closed, behind all that Close sends to end
// what was left undone, is undone when its answer comes.
func TestCloseUndoesWhatComesLate(t *testing.T) {
	for _, tc := range []struct {
		name string
		open func(w rueidis.Client) (*Client, error)
		left func(c *Client) bool // all that was left undone was tried once more
	}{
		{
			"one Redis", func(w rueidis.Client) (*Client, error) { return New(w) },
			func(c *Client) bool { return c.core.arbiter.Nodes()[0].Debug().Draining },
		},
		{
			"quorum", func(w rueidis.Client) (*Client, error) { return NewRedlock([]rueidis.Client{w}) },
			func(c *Client) bool { return c.core.arbiter.Nodes()[0].Debug().Draining },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := redistest.Start(t)
			w := faulty(s)
			c, err := tc.open(w)
			require.NoError(t, err)
			warm(t, c)
			w.Filter(faults.Next(faults.Carrying("slow"), faults.Hold)) // the first command is what takes the lock
			ctx, cancel := context.WithCancel(context.Background())
			failed := make(chan error, 1)
			go func() {
				_, err := c.Mutex("slow").Lock(ctx)
				failed <- err
			}()
			within(t, w.Told())
			cancel()
			require.Error(t, within(t, failed))
			closed := make(chan struct{})
			go func() {
				c.Close()
				close(closed)
			}()
			require.Eventually(t, func() bool { return tc.left(c) }, patience, time.Millisecond)
			w.Release()
			within(t, closed)
			require.Equal(t, "0", s.Do("EXISTS", "slow"))
		})
	}
}

// Close is done in the time that it says, whatever is out to a Redis that hangs.
func TestCloseOnAHungRedisIsBounded(t *testing.T) {
	t.Parallel()
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *Client) {
		l, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		held, err := c.Mutex("held").Lock(t.Context())
		require.NoError(t, err)
		for _, s := range servers {
			s.Pause()
			defer s.Resume()
		}
		ended := make(chan error, 13)
		for i := range 10 {
			go func() {
				_, err := c.Mutex(fmt.Sprint("k", i%2)).Lock(context.Background())
				ended <- err
			}()
		}
		require.Eventually(t, func() bool { return c.core.calls.UnderWay() == 10 }, patience, time.Millisecond)
		go func() { ended <- l.Unlock(context.Background()) }()
		go func() { _, err := c.Mutex("held").Lock(held.Context()); ended <- err }()
		go func() { ended <- held.Extend(context.Background(), time.Minute) }()
		began := time.Now()
		c.Close()
		const leisure = 2 * time.Second // of a busy machine
		require.Less(t, time.Since(began), 7*c.core.cfg.commandTimeout+leisure)
		for range cap(ended) {
			require.Error(t, within(t, ended))
		}
	}, WithLease(6*time.Second), WithCommandTimeout(time.Second), WithClientName("closing"))
}

func TestCloseEndsEverything(t *testing.T) {
	s := redistest.Start(t)
	c, d := newClient(t, s.Client()), newClient(t, s.Client())
	ctx := context.Background()
	l, err := c.Mutex("k", WithLease(time.Second)).Lock(ctx)
	require.NoError(t, err)
	other, err := d.Mutex("other").Lock(ctx)
	require.NoError(t, err)
	result := make(chan error, 2)
	for range 2 { // one contends, one waits at the gate
		go func() {
			_, err := c.Mutex("other").Lock(ctx)
			result <- err
		}()
	}
	queued(t, s, "other", 1)
	lined(t, c, "other")
	c.Close()
	require.ErrorIs(t, within(t, result), ErrClosed)
	require.ErrorIs(t, within(t, result), ErrClosed)
	queued(t, s, "other", 0)
	require.ErrorIs(t, context.Cause(l.Context()), ErrClosed)
	require.ErrorIs(t, l.Unlock(ctx), ErrClosed)
	_, err = c.Mutex("k").Lock(ctx)
	require.ErrorIs(t, err, ErrClosed)
	_, err = c.Mutex("k").TryLock(ctx)
	require.ErrorIs(t, err, ErrClosed)
	_, err = c.Mutex("k").State(ctx)
	require.ErrorIs(t, err, ErrClosed)
	c.Close()
	require.Equal(t, "1", s.Do("EXISTS", "k"), "the code under the lock may still run")
	second, err := d.Mutex("k").Lock(ctx)
	require.NoError(t, err, "it ends with its lease")
	require.NoError(t, second.Unlock(ctx))
	require.NoError(t, other.Unlock(ctx))
}

// Close comes while observers hear of a lock that All, Any or a Flight has taken and given to no caller yet: it gives that back too.
func TestCloseGivesBackALockOnItsWay(t *testing.T) {
	t.Parallel()
	for topology, n := range map[string]int{"one": 1, "quorum": 3} {
		for name, of := range map[string]struct {
			told int32 // the locks of which observers hear before Close comes
			call func(c *Client) error
		}{
			"All": {1, func(c *Client) error {
				return leased(All(c.Mutex("a"), c.Mutex("b", WithFixedLease(far/2))).Lock(context.Background()))
			}},
			"Any": {2, func(c *Client) error {
				return leased(Any(c.Mutex("a"), c.Mutex("b", WithFixedLease(far/2))).Lock(context.Background()))
			}},
			"Flight": {1, func(c *Client) error {
				_, _, err := FlightOf[string](c, "a", time.Minute).Do(context.Background(), says("one", new(atomic.Int32)))
				return err
			}},
		} {
			if n > 1 && name == "Flight" {
				continue
			}
			t.Run(topology+", "+name, func(t *testing.T) {
				t.Parallel()
				servers := masters(t, n)
				var told atomic.Int32
				waits, in, out := make(chan struct{}, 4), make(chan struct{}), make(chan struct{})
				c := another(t, servers, WithLease(far), WithCommandTimeout(300*time.Millisecond), WithObserver(observe(func(e Event) {
					if e.Kind == EventWaiting {
						waits <- struct{}{}
					}
					if e.Kind != EventAcquired || told.Load() == of.told {
						return
					}
					if told.Add(1) == of.told {
						close(in)
					}
					<-out
				})))
				other := another(t, servers)
				held := allTaken(t, All(other.Mutex("a"), other.Mutex("b"))) // Any waits, and is granted both
				ended := make(chan error, 1)
				go func() { ended <- of.call(c) }()
				for range of.told {
					within(t, waits)
				}
				unlockedAll(t, held)
				within(t, in)
				c.Close() // which does not wait for an observer that blocks
				close(out)
				require.ErrorIs(t, within(t, ended), ErrClosed)
				require.Eventually(t, func() bool { return len(standing(servers, "a", "b")) == 0 }, patience, time.Millisecond)
			})
		}
	}
}

// Close comes before All gives its caller the leases or after it, never between two of them.
func TestCloseComesBeforeOrAfterAllReturns(t *testing.T) {
	cfg, err := defaultConfig().with(nil, true)
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
			require.Len(t, arb.left, maxTogether)
			continue
		}
		before++
		require.ErrorIs(t, err, ErrClosed)
		require.Empty(t, arb.left)
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

// standing returns the names that a server has a lock of.
func standing(servers []*redistest.Server, names ...string) (all []string) {
	for _, name := range names {
		for _, s := range servers {
			if s.Do("EXISTS", name) == "1" {
				all = append(all, name)
				break
			}
		}
	}
	return all
}
