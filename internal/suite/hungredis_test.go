package suite_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// whileItHangs runs a test with a client, in fake time, over a Redis that can be made to hang.
func whileItHangs(t *testing.T, test func(t *testing.T, c *relock.Client, r *hanging), opts ...relock.ClientOption) {
	synctest.Test(t, func(t *testing.T) {
		r := &hanging{}
		c := over(t, r, opts...)
		defer c.Close()
		test(t, c, r)
	})
}

// A fixed lease that is longer than the client's takes a second command, and Redis hangs in between: Lock returns when its
// context ends, and TryLock after one command's time. Neither tells of the loss of a lock that the caller never had.
func TestFixedLeaseOnAHungRedisKeepsNobody(t *testing.T) {
	lease, timeout := relock.WithLease(3*time.Second), 500*time.Millisecond
	for _, tc := range []struct {
		name  string
		enter func(*relock.Mutex, context.Context) (*relock.Lease, error)
		left  time.Duration // until ctx ends, 0 for never
		back  time.Duration
	}{
		{"Lock", (*relock.Mutex).Lock, 200 * time.Millisecond, 200 * time.Millisecond},
		{"Lock for long", (*relock.Mutex).Lock, 2 * time.Second, 2 * time.Second},
		{"TryLock", (*relock.Mutex).TryLock, 0, timeout},
		{"TryLock and leave", (*relock.Mutex).TryLock, 200 * time.Millisecond, 200 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			whileItHangs(t, func(t *testing.T, c *relock.Client, r *hanging) {
				ctx, cancel := context.WithCancel(context.Background())
				if tc.left > 0 {
					ctx, cancel = context.WithTimeout(context.Background(), tc.left)
				}
				defer cancel()
				resume := r.Hang()
				began := time.Now()
				l, err := tc.enter(c.Mutex("k", relock.WithFixedLease(time.Minute)), ctx)
				require.Nil(t, l)
				require.Equal(t, tc.back, time.Since(began))
				var node *relock.NodeError
				require.ErrorAs(t, err, &node)
				require.NotErrorIs(t, err, relock.ErrLost)
				require.NotErrorIs(t, err, relock.ErrNotAcquired)
				if tc.left > 0 {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				resume()
				c.Close()
				require.Zero(t, gatesOf(c).Len())
				require.Equal(t, 1, int(r.Released.Load())+len(r.Abandoned), "it is given back")
			}, lease, relock.WithCommandTimeout(timeout))
		})
	}
}

// A TryLock whose grant is lost before it looks tries again: what the caller never had cannot be lost.
func TestTryLockNeverLoses(t *testing.T) {
	whileItHangs(t, func(t *testing.T, c *relock.Client, r *hanging) {
		r.Gone = 2
		l, err := c.Mutex("k").TryLock(t.Context())
		require.NoError(t, err)
		require.Zero(t, r.Gone)
		require.NoError(t, l.Context().Err())
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// A reader's lease is as short as WithRedissonWatchdog says: its commands give up in time for another renewal, though the
// client's command timeout is longer than all of it. What WithCommandTimeout says is kept where the lease allows that.
func TestReadersCommandsFitTheirLease(t *testing.T) {
	dog := relock.WithRedissonWatchdog(time.Second)
	for name, tc := range map[string]struct {
		client []relock.ClientOption
		lock   []relock.Option
		want   time.Duration
	}{
		"default":           {want: 2 * time.Second},
		"longer lease":      {client: []relock.ClientOption{relock.WithLease(10 * time.Minute)}, want: 2 * time.Second},
		"longer timeout":    {client: []relock.ClientOption{relock.WithLease(10 * time.Minute), relock.WithCommandTimeout(3 * time.Minute)}, want: 10 * time.Second},
		"as long as it may": {client: []relock.ClientOption{relock.WithCommandTimeout(10 * time.Second)}, want: 10 * time.Second},
		"short watchdog":    {client: []relock.ClientOption{relock.WithCommandTimeout(2 * time.Second), dog}, want: time.Second / 3},
		"the lock's":        {client: []relock.ClientOption{relock.WithCommandTimeout(2 * time.Second)}, lock: []relock.Option{dog}, want: time.Second / 3},
		"no watchdog":       {client: []relock.ClientOption{relock.WithCommandTimeout(2 * time.Second)}, lock: []relock.Option{relock.WithRedissonWatchdog(0)}, want: 2 * time.Second},
		"fixed":             {client: []relock.ClientOption{relock.WithCommandTimeout(300 * time.Millisecond), dog}, lock: []relock.Option{relock.WithFixedLease(time.Second)}, want: 300 * time.Millisecond},
		"capped":            {client: []relock.ClientOption{relock.WithCommandTimeout(time.Second), dog}, lock: []relock.Option{relock.WithMaxHold(time.Minute)}, want: time.Second / 3},
		"shorter than that": {client: []relock.ClientOption{relock.WithCommandTimeout(100 * time.Millisecond), dog}, want: 100 * time.Millisecond},
		"derived":           {client: []relock.ClientOption{dog}, want: time.Second / 6},
	} {
		t.Run(name, func(t *testing.T) {
			whileItHangs(t, func(t *testing.T, c *relock.Client, r *hanging) {
				rw := c.RWMutex("k", tc.lock...)
				l, err := rw.RLock(t.Context())
				require.NoError(t, err)
				require.Equal(t, tc.want, entryOf(l).Timeout)
				if name == "fixed" {
					return // it is not renewed
				}
				lease := entryOf(l).Lease
				resume := r.Hang()
				time.Sleep(lease/3 + time.Millisecond) // one renewal is not answered
				resume()
				time.Sleep(5 * lease)
				require.NoError(t, context.Cause(l.Context()))
				require.NoError(t, l.Unlock(t.Context()))
			}, tc.client...)
		})
	}
}

const (
	hungTimeout = time.Second             // of a command, in these tests
	leisure     = 1500 * time.Millisecond // of a busy machine
)

// outcome is an Unlock, or what else gives a lock back, on a Redis that hangs.
type outcome struct {
	what string
	err  error
	took time.Duration
}

// endings begins each of those calls, and returns what became of them.
func endings(t *testing.T, calls map[string]func() error) map[string]outcome {
	t.Helper()
	ended, all := make(chan outcome, len(calls)), map[string]outcome{}
	for what, call := range calls {
		go func() {
			began := time.Now()
			err := call()
			ended <- outcome{what, err, time.Since(began)}
		}()
	}
	for range calls {
		e := within(t, ended)
		all[e.what] = e
	}
	return all
}

// Redis hangs when the work under a lock is done: Unlock and Do return after one command timeout, whatever else of their hold
// is out. The release goes on behind them: once Redis answers, the goroutine that waits has the lock, here or elsewhere.
func TestUnlockOnAHungRedisTakesOneCommandTimeout(t *testing.T) {
	t.Parallel()
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		ctx, other := t.Context(), another(t, servers, relock.WithLease(20*time.Second))
		locked := func(ctx context.Context, name string) *relock.Lease {
			l, err := c.Mutex(name).Lock(ctx)
			require.NoError(t, err)
			return l
		}
		plain, outer := locked(ctx, "plain"), locked(ctx, "entered")
		inner := locked(outer.Context(), "entered")
		owned := locked(relock.WithOwner(ctx, "workflow"), "owned")
		step := locked(owned.Context(), "owned")
		working, worked, done := make(chan struct{}), make(chan struct{}), make(chan outcome, 1)
		go func() {
			var over time.Time
			err := c.Mutex("do").Do(ctx, func(context.Context) error {
				close(working)
				<-worked
				over = time.Now()
				return nil
			})
			done <- outcome{"Do", err, time.Since(over)}
		}()
		within(t, working)
		var waiting []<-chan *relock.Lease
		for _, name := range []string{"plain", "entered", "owned", "do"} {
			waiting = append(waiting, waitFor(t, other, name))
			require.Eventually(t, func() bool { return stateOf(t, other.Mutex(name)).Waiters == 1 }, patience, time.Millisecond)
			if name != "owned" { // a shared owner's lock does not keep the gate
				waiting = append(waiting, waitFor(t, c, name))
				lined(t, c, name)
			}
		}
		for _, s := range servers {
			s.Pause()
		}
		close(worked)
		got := endings(t, map[string]func() error{
			"plain": func() error { return plain.Unlock(ctx) },
			"inner": func() error { return inner.Unlock(ctx) },
			"outer": func() error { return outer.Unlock(ctx) }, // it waits for the inner one's command
			"step":  func() error { return step.Unlock(ctx) },
			"owned": func() error { return owned.Unlock(ctx) },
		})
		got["Do"] = within(t, done)
		for _, s := range servers {
			s.Resume()
		}
		for what, e := range got {
			require.Less(t, e.took, hungTimeout+leisure, what)
			require.NotErrorIs(t, e.err, relock.ErrLost, what)
		}
		require.Error(t, got["plain"].err)
		require.NoError(t, got["Do"].err, "the work is done")
		for _, granted := range waiting {
			l := within(t, granted)
			require.NotNil(t, l)
			unlocked(t, l)
		}
	}, relock.WithLease(20*time.Second), relock.WithCommandTimeout(hungTimeout), relock.WithLocalHandoff(1, 0))
}

// The same of both sides of a read-write lock, of a write lease that was entered again, and of Downgrade.
func TestRWMutexOnAHungRedisTakesOneCommandTimeout(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lease := relock.WithLease(20 * time.Second)
	c, other := hearing(t, s, lease, relock.WithCommandTimeout(hungTimeout)), hearing(t, s, lease)
	writer, reader := taken(t, c.RWMutex("w").Lock), taken(t, c.RWMutex("r").RLock)
	outer, down := taken(t, c.RWMutex("entered").Lock), taken(t, c.RWMutex("d").Lock)
	inner, err := c.RWMutex("entered").RLock(outer.Context())
	require.NoError(t, err)
	waiting := make(chan *relock.Lease, 3)
	for i, name := range []string{"w", "r", "entered"} {
		go func() {
			l, err := other.RWMutex(name).Lock(context.Background())
			if err != nil {
				t.Error(err)
			}
			waiting <- l
		}()
		require.Eventually(t, func() bool { return s.Do("ZCARD", "relock_writers:{"+name+"}") == "1" }, patience, time.Millisecond, i)
	}
	s.Pause()
	for what, e := range endings(t, map[string]func() error{
		"writer": func() error { return writer.Unlock(context.Background()) },
		"reader": func() error { return reader.Unlock(context.Background()) },
		"inner":  func() error { return inner.Unlock(context.Background()) },
		"outer":  func() error { return outer.Unlock(context.Background()) },
		"down":   func() error { _, err := down.Downgrade(context.Background()); return err },
	}) {
		require.Less(t, e.took, hungTimeout+leisure, what)
		require.NotErrorIs(t, e.err, relock.ErrLost, what)
	}
	s.Resume()
	for range 3 {
		l := within(t, waiting)
		require.NotNil(t, l)
		unlocked(t, l)
	}
	unlocked(t, down)
}

// A Downgrade let the reader in, and then Redis hangs: it takes one command timeout in all, and the reader holds. The write
// lease is given back behind it.
func TestDowngradeOnARedisThatBeginsToHang(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := faulty(s)
	c := hearing(t, s)
	writer := taken(t, newClient(t, w, relock.WithLease(20*time.Second), relock.WithCommandTimeout(hungTimeout)).RWMutex("k").Lock)
	w.Filter(faults.All(faults.Script("release"), faults.LoseCall.Hanging()))
	began := time.Now()
	reader, err := writer.Downgrade(t.Context())
	require.NoError(t, err)
	require.Less(t, time.Since(began), hungTimeout+leisure)
	require.NoError(t, reader.Context().Err())
	require.ErrorIs(t, context.Cause(writer.Context()), relock.ErrNotHeld)
	w.Filter(nil)
	beside := taken(t, c.RWMutex("k").RLock) // once the sweeper has given the write lease back
	unlocked(t, beside, reader)
	requireNothingLeft(t, s)
}

// What an answer of Redis's would tell is told too: a connection that is refused is tried again for one command timeout.
func TestUnlockWhereRedisIsGone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithLease(20*time.Second), relock.WithCommandTimeout(hungTimeout))
	l := taken(t, c.Mutex("k").Lock)
	s.Kill()
	got := endings(t, map[string]func() error{"Unlock": func() error { return l.Unlock(context.Background()) }})["Unlock"]
	var node *relock.NodeError
	require.ErrorAs(t, got.err, &node)
	require.NoError(t, node.Cause, "the caller has not given up")
	require.Less(t, got.took, hungTimeout+leisure)
	require.EqualValues(t, "release", node.Op, fmt.Sprint(got.err))
}
