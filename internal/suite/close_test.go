package suite_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Goroutines pass a lock around until their client is closed. Where each Unlock succeeded nobody holds the lock: it is free.
func TestCloseReleasesWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	one := redistest.Start(t)
	nodes := masters(t, 3)
	for name, open := range map[string]func() *relock.Client{
		"one":    func() *relock.Client { return newClient(t, one.Client()) },
		"quorum": func() *relock.Client { return newRedlock(t, nodes) },
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
func useUntilClosed(t *testing.T, c *relock.Client, key string) bool {
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
				if errors.Is(err, relock.ErrClosed) {
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

// A lock with a lease longer than the client's is being lengthened while the client is closed: Lock says so.
func TestLockReturnsWhenClosedWhileItLengthensItsLease(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w, relock.WithLease(2*time.Second))
	w.Filter(faults.All(faults.Script("recount"), faults.Stall))
	got := make(chan error, 1)
	go func() {
		_, err := c.Mutex("k", relock.WithFixedLease(time.Hour)).Lock(context.Background())
		got <- err
	}()
	within(t, w.Told())
	closed := make(chan struct{})
	go func() { c.Close(); close(closed) }()
	require.Eventually(t, func() bool { // the hold is lost
		return watchdogOf(c).Len() == 0
	}, patience, time.Millisecond)
	w.Filter(nil)
	w.Release()
	require.ErrorIs(t, within(t, got), relock.ErrClosed)
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
	quorum, err := relock.NewRedlock(rdbs)
	require.NoError(t, err)
	one, err := relock.New(rdbs[0])
	require.NoError(t, err)
	ctx := context.Background()
	for name, c := range map[string]*relock.Client{"one": one, "quorum": quorum} {
		t.Run(name, func(t *testing.T) {
			m := c.Mutex(name)
			l, err := m.Lock(ctx)
			require.NoError(t, err)
			c.Close()
			_, err = m.Lock(ctx)
			require.ErrorIs(t, err, relock.ErrClosed)
			_, err = m.Lock(l.Context())
			require.ErrorIs(t, err, relock.ErrClosed)
			_, err = m.TryLock(ctx)
			require.ErrorIs(t, err, relock.ErrClosed)
			_, err = m.State(ctx)
			require.ErrorIs(t, err, relock.ErrClosed)
			_, err = m.ForceUnlock(ctx)
			require.ErrorIs(t, err, relock.ErrClosed)
			_, err = m.Held(l.Context())
			require.ErrorIs(t, err, relock.ErrClosed)
			require.ErrorIs(t, m.Do(ctx, func(context.Context) error { return nil }), relock.ErrClosed)
			require.ErrorIs(t, l.Extend(ctx, time.Second), relock.ErrClosed)
			require.ErrorIs(t, l.Unlock(ctx), relock.ErrClosed)
			require.ErrorIs(t, c.TrustNodes(ctx), relock.ErrClosed)
		})
	}
}

// A command that takes the lock, and is executed only while its client is being closed, behind all that Close sends to end
// what was left undone, is undone when its answer comes.
func TestCloseUndoesWhatComesLate(t *testing.T) {
	for _, tc := range []struct {
		name string
		open func(w rueidis.Client) (*relock.Client, error)
		left func(c *relock.Client) bool // all that was left undone was tried once more
	}{
		{
			"one Redis", func(w rueidis.Client) (*relock.Client, error) { return relock.New(w) },
			func(c *relock.Client) bool { return arbiterOf(c).Nodes()[0].Debug().Draining },
		},
		{
			"quorum", func(w rueidis.Client) (*relock.Client, error) { return relock.NewRedlock([]rueidis.Client{w}) },
			func(c *relock.Client) bool { return arbiterOf(c).Nodes()[0].Debug().Draining },
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
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
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
		require.Eventually(t, func() bool { return callsOf(c).UnderWay() == 10 }, patience, time.Millisecond)
		go func() { ended <- l.Unlock(context.Background()) }()
		go func() { _, err := c.Mutex("held").Lock(held.Context()); ended <- err }()
		go func() { ended <- held.Extend(context.Background(), time.Minute) }()
		began := time.Now()
		c.Close()
		const leisure = 2 * time.Second // of a busy machine
		require.Less(t, time.Since(began), 7*time.Second+leisure)
		for range cap(ended) {
			require.Error(t, within(t, ended))
		}
	}, relock.WithLease(6*time.Second), relock.WithCommandTimeout(time.Second), relock.WithClientName("closing"))
}

func TestCloseEndsEverything(t *testing.T) {
	s := redistest.Start(t)
	c, d := newClient(t, s.Client()), newClient(t, s.Client())
	ctx := context.Background()
	l, err := c.Mutex("k", relock.WithLease(time.Second)).Lock(ctx)
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
	require.ErrorIs(t, within(t, result), relock.ErrClosed)
	require.ErrorIs(t, within(t, result), relock.ErrClosed)
	queued(t, s, "other", 0)
	require.ErrorIs(t, context.Cause(l.Context()), relock.ErrClosed)
	require.ErrorIs(t, l.Unlock(ctx), relock.ErrClosed)
	_, err = c.Mutex("k").Lock(ctx)
	require.ErrorIs(t, err, relock.ErrClosed)
	_, err = c.Mutex("k").TryLock(ctx)
	require.ErrorIs(t, err, relock.ErrClosed)
	_, err = c.Mutex("k").State(ctx)
	require.ErrorIs(t, err, relock.ErrClosed)
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
			call func(c *relock.Client) error
		}{
			"All": {1, func(c *relock.Client) error {
				return leased(relock.All(c.Mutex("a"), c.Mutex("b", relock.WithFixedLease(far/2))).Lock(context.Background()))
			}},
			"Any": {2, func(c *relock.Client) error {
				return leased(relock.Any(c.Mutex("a"), c.Mutex("b", relock.WithFixedLease(far/2))).Lock(context.Background()))
			}},
			"Flight": {1, func(c *relock.Client) error {
				_, _, err := relock.FlightOf[string](c, "a", time.Minute).Do(context.Background(), says("one", new(atomic.Int32)))
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
				c := another(t, servers, relock.WithLease(far), relock.WithCommandTimeout(300*time.Millisecond), relock.WithObserver(observe(func(e relock.Event) {
					if e.Kind == relock.EventWaiting {
						waits <- struct{}{}
					}
					if e.Kind != relock.EventAcquired || told.Load() == of.told {
						return
					}
					if told.Add(1) == of.told {
						close(in)
					}
					<-out
				})))
				other := another(t, servers)
				held := allTaken(t, relock.All(other.Mutex("a"), other.Mutex("b"))) // Any waits, and is granted both
				ended := make(chan error, 1)
				go func() { ended <- of.call(c) }()
				for range of.told {
					within(t, waits)
				}
				unlockedAll(t, held)
				within(t, in)
				c.Close() // which does not wait for an observer that blocks
				close(out)
				require.ErrorIs(t, within(t, ended), relock.ErrClosed)
				require.Eventually(t, func() bool { return len(standing(servers, "a", "b")) == 0 }, patience, time.Millisecond)
			})
		}
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
