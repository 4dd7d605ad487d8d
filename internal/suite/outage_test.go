package suite_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// Callers who give up while Redis is gone, or hangs, are not told that the lock is busy: neither the one who asks Redis
// nor those who wait behind it, nor sharers of an owner.
func TestDownIsNotBusy(t *testing.T) {
	t.Parallel()
	fault := map[string]func(*redistest.Server){"dead": (*redistest.Server).Kill, "hung": (*redistest.Server).Pause}
	for name, strike := range fault {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprint(name, " of ", n), func(t *testing.T) {
				nodes := masters(t, n)
				c := newClient(t, nodes[0].Client())
				if n > 1 {
					c = newRedlock(t, nodes)
				}
				require.NoError(t, c.Mutex("k").Do(context.Background(), func(context.Context) error { return nil }))
				for _, s := range nodes {
					strike(s)
					if name == "hung" {
						defer s.Resume()
					}
				}
				ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
				defer cancel()
				var wg sync.WaitGroup
				for i := range 50 {
					wg.Go(func() {
						ctx := ctx
						if i%10 == 9 {
							ctx = relock.WithOwner(ctx, "workflow")
						}
						_, err := c.Mutex("k").Lock(ctx)
						if why := notDown(err, n > 1); why != "" {
							t.Errorf("%s: %v", why, err)
						}
					})
				}
				wg.Wait()
				_, err := c.Mutex("k", relock.WithWait(50*time.Millisecond)).Lock(context.Background())
				require.ErrorIs(t, err, wire.ErrWaited)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, relock.ErrNotAcquired)
				ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
				defer cancel()
				_, err = c.Mutex("k").TryLock(ctx)
				require.Error(t, err)
				require.NotErrorIs(t, err, relock.ErrNotAcquired)
				var one *relock.NodeError
				var many *relock.QuorumError
				require.True(t, errors.As(err, &one) || errors.As(err, &many), "%v", err)
			})
		}
	}
}

// notDown says what is wrong with err for a caller whose deadline passed while Redis was not there.
func notDown(err error, quorum bool) string {
	var node *relock.NodeError
	var nodes *relock.QuorumError
	switch {
	case errors.Is(err, relock.ErrNotAcquired):
		return "the lock is called busy"
	case !errors.Is(err, context.DeadlineExceeded):
		return "the cause is missing"
	case quorum && !errors.As(err, &nodes), !quorum && !errors.As(err, &node):
		return "the failure is missing"
	}
	return ""
}

// A hold is re-entered while Redis is gone: that it cannot be is Redis's doing.
func TestReentryWithoutRedisIsNotBusy(t *testing.T) {
	s := redistest.Start(t)
	m := newClient(t, s.Client()).Mutex("k")
	l, err := m.Lock(context.Background())
	require.NoError(t, err)
	s.Pause()
	defer s.Resume()
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(l.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := m.Lock(ctx)
			if why := notDown(err, false); why != "" {
				t.Errorf("%s: %v", why, err)
			}
		})
	}
	wg.Wait()
}

// The lock is busy, here or elsewhere, and Redis answers: that is what is told, and whether it is busy here.
func TestBusyIsNotDown(t *testing.T) {
	nodes := masters(t, 3)
	// A caller that leaves while a poll is out is told of silence where the answer before is older than a command may take.
	slow := relock.WithCommandTimeout(defaultLease / 3)
	for name, open := range map[string]func() *relock.Client{
		"one":    func() *relock.Client { return newClient(t, nodes[0].Client(), slow) },
		"quorum": func() *relock.Client { return newRedlock(t, nodes, slow) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, d := open(), open()
			m := c.Mutex(name)
			l, err := m.Lock(context.Background())
			require.NoError(t, err)
			require.NoError(t, d.Mutex("warm").Do(context.Background(), func(context.Context) error { return nil }))
			try := func(c *relock.Client) *relock.HeldError {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second) // enough to be answered in
				defer cancel()
				_, err := c.Mutex(name).Lock(ctx)
				require.ErrorIs(t, err, relock.ErrNotAcquired)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				var held *relock.HeldError
				require.ErrorAs(t, err, &held)
				return held
			}
			require.True(t, try(c).Local)
			require.ErrorContains(t, try(c), "a goroutine of this process")
			elsewhere := try(d)
			require.False(t, elsewhere.Local)
			require.Equal(t, stateOf(t, m).Holder, elsewhere.Holder)
			waiters := func(n int) {
				require.Eventually(t, func() bool {
					st, err := m.State(context.Background())
					return err == nil && st.Waiters == n
				}, patience, time.Millisecond)
			}
			waiters(0) // what waited there has left the queue
			// Behind a contender of this process, who hears that the lock is busy.
			waiting, leave := context.WithCancel(context.Background())
			first := make(chan error, 1)
			go func() {
				_, err := d.Mutex(name).Lock(waiting)
				first <- err
			}()
			waiters(1)
			require.True(t, try(d).Local)
			leave()
			require.ErrorIs(t, within(t, first), relock.ErrNotAcquired)
			require.NoError(t, l.Unlock(context.Background()))
		})
	}
}

// Redis answered, and goes away while the lock is waited for: the last poll failed, which is what is told. Once it answers
// again the lock is busy.
func TestTheLastPollCounts(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	holder, c := newClient(t, s.Client()), newClient(t, w, relock.WithLease(time.Second))
	l, err := holder.Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	for _, down := range []bool{true, false} {
		w.Filter(nil)
		if down {
			w.Filter(faults.All(faults.Script("acquire"), faults.LoseCall.Telling()))
		}
		ctx, cancel := context.WithCancel(context.Background())
		got := make(chan error, 1)
		go func() {
			_, err := c.Mutex("k").Lock(ctx)
			got <- err
		}()
		if down {
			within(t, w.Told())
			within(t, w.Told())
		} else {
			settled(t, c, "k")
		}
		cancel()
		err := within(t, got)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, down, !errors.Is(err, relock.ErrNotAcquired), "%v", err)
	}
	require.NoError(t, l.Unlock(context.Background()))
}

// A report at a gate reaches the waiters that give up, also when another goroutine came to the gate since.
func TestReportOutlivesItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate.New[int]()
		_, free := g.TryEnter("k")
		require.True(t, free)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errs := make(chan error, 3)
		for range 2 {
			go func() {
				_, err := g.Enter(ctx, "k", nil)
				if err == nil {
					time.Sleep(time.Hour)
				}
				errs <- err
			}()
			synctest.Wait()
		}
		gone := errors.New("gone")
		require.True(t, g.Report("k", gone))
		require.True(t, g.Pass("k", 1))
		var left *gate.Left
		require.ErrorAs(t, <-errs, &left)
		require.ErrorIs(t, left, context.DeadlineExceeded)
		require.Equal(t, gone, left.Report)
		require.Equal(t, time.Second, left.Stood)
		require.Equal(t, time.Second, left.Waited)
		require.False(t, g.Report("k", nil))
		g.Leave("k")
		<-errs
	})
}

// A Lock that waits for Redis itself is told of with a Cause: after a second, where Redis is gone, and with its first
// command that is not answered for longer, where it hangs.
func TestWaitingForRedisIsToldWithItsCause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nodes int
		stop  func(*redistest.Server)
		most  time.Duration
	}{
		"one Redis that is gone": {1, (*redistest.Server).Kill, 0},
		"one Redis that hangs":   {1, (*redistest.Server).Pause, 2 * time.Second},
		"a quorum that is gone":  {3, (*redistest.Server).Kill, 0},
		"a quorum that hangs":    {3, (*redistest.Server).Pause, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			servers, o := masters(t, c.nodes), &seen{}
			var client *relock.Client
			if c.nodes == 1 {
				client = newClient(t, servers[0].Client(), relock.WithObserver(o))
			} else {
				client = newRedlock(t, servers, relock.WithObserver(o))
			}
			lockAndUnlock(t, client.Mutex("warm"))
			for _, s := range servers {
				c.stop(s)
				if c.most > 0 {
					defer s.Resume()
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			failed := make(chan error, 1)
			go func() {
				_, err := client.Mutex("k").Lock(ctx)
				failed <- err
			}()
			var told relock.Event
			require.Eventually(t, func() bool {
				for _, e := range o.of(relock.EventWaiting) {
					if e.Cause != nil {
						told = e
					}
				}
				return told.Cause != nil
			}, patience, time.Millisecond)
			require.GreaterOrEqual(t, told.Wait, time.Second)
			if c.most > 0 {
				require.Less(t, told.Wait, c.most+time.Second)
			}
			require.Equal(t, "k", told.Lock)
			cancel()
			require.ErrorIs(t, <-failed, context.Canceled)
		})
	}
}
