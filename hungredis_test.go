package relock

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// hanging is a Redis that grants, and answers nothing else while it hangs.
type hanging struct {
	scripted
	until    atomic.Pointer[chan struct{}] // closed when it answers again; nil while it does
	released atomic.Int32
	gone     int // so many of the next grants are lost at once
}

type hangingClaim struct {
	scriptedClaim
	r *hanging
}

// hang makes it hang until what is returned is called.
func (r *hanging) hang() (resume func()) {
	until := make(chan struct{})
	r.until.Store(&until)
	return func() {
		r.until.Store(nil)
		close(until)
	}
}

func (r *hanging) Claim(e wire.Entry) claim.Claim {
	return &hangingClaim{scriptedClaim{s: &r.scripted, entry: e}, r}
}

// silence is how a command ends that is not answered.
func (c *hangingClaim) silence(ctx context.Context, op string, limit time.Duration) error {
	until := c.r.until.Load()
	if until == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-*until:
		return nil
	case <-ctx.Done():
	}
	return &wire.NodeError{Op: op, Name: c.entry.Names.Name, Err: context.Cause(ctx)}
}

func (c *hangingClaim) Try(context.Context) (node.Grant, error) {
	return node.Grant{Token: 1, Passes: c.entry.Block, Sent: clock.Now()}, nil
}

// Watch is called when a hold has begun.
func (c *hangingClaim) Watch(w *hub.Watcher) {
	if c.r.gone > 0 {
		c.r.gone--
		(*w).(*hold).lose(ErrLost)
	}
}

func (c *hangingClaim) SetCount(ctx context.Context, _ int, _ time.Duration) (clock.Stamp, error) {
	sent := clock.Now()
	return sent, c.silence(ctx, "set count", c.entry.Timeout)
}

func (c *hangingClaim) Release(ctx context.Context, _ claim.Claim) (node.Grant, bool, error) {
	err := c.silence(ctx, "release", c.entry.Timeout)
	c.r.released.Add(1)
	return node.Grant{}, false, err
}

func (r *hanging) Renew(ctx context.Context, batch []claim.Renewal, settle claim.Settle) {
	if r.until.Load() == nil {
		r.scripted.Renew(ctx, batch, settle)
		return
	}
	<-ctx.Done()
	for i := range batch {
		settle(i, wire.Unanswered, clock.Now(), ctx.Err())
	}
}

// whileItHangs runs a test with a client, in fake time, over a Redis that can be made to hang.
func whileItHangs(t *testing.T, test func(t *testing.T, c *Client, r *hanging), opts ...Option) {
	synctest.Test(t, func(t *testing.T) {
		r := &hanging{}
		cfg, err := defaultConfig().with(opts, true)
		require.NoError(t, err)
		c := newClientOver("c", cfg, r)
		defer c.Close()
		test(t, c, r)
	})
}

// A goroutine is passed the hold in the moment in which its context ends, and Redis hangs: it is back at once, and the hold
// is given back behind it, before Close returns.
func TestLateReceiverOfAHoldIsNotKept(t *testing.T) {
	whileItHangs(t, func(t *testing.T, c *Client, r *hanging) {
		m := c.Mutex("k")
		_, free := c.core.gates.TryEnter(m.names.Gate(1))
		require.True(t, free)
		h := m.newHold(new(hold), m.newClaim(""), node.Grant{Token: 1, Passes: 10, Sent: clock.Now()}, m.cfg, true, clock.Now())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		resume := r.hang()
		began := time.Now()
		a := attempt{lock: &m.lock, ctx: ctx, wctx: ctx}
		_, err := a.accept(h, HowLocal, clock.Now())
		require.ErrorIs(t, outward(err), context.Canceled)
		require.Zero(t, time.Since(began))
		resume()
		c.Close()
		require.Zero(t, c.core.gates.Len())
		require.EqualValues(t, 1, r.released.Load())
	})
}

// A fixed lease that is longer than the client's takes a second command, and Redis hangs in between: Lock returns when its
// context ends, and TryLock after one command's time. Neither tells of the loss of a lock that the caller never had.
func TestFixedLeaseOnAHungRedisKeepsNobody(t *testing.T) {
	lease, timeout := WithLease(3*time.Second), 500*time.Millisecond
	for _, tc := range []struct {
		name  string
		enter func(*Mutex, context.Context) (*Lease, error)
		left  time.Duration // until ctx ends, 0 for never
		back  time.Duration
	}{
		{"Lock", (*Mutex).Lock, 200 * time.Millisecond, 200 * time.Millisecond},
		{"Lock for long", (*Mutex).Lock, 2 * time.Second, 2 * time.Second},
		{"TryLock", (*Mutex).TryLock, 0, timeout},
		{"TryLock and leave", (*Mutex).TryLock, 200 * time.Millisecond, 200 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			whileItHangs(t, func(t *testing.T, c *Client, r *hanging) {
				ctx, cancel := context.WithCancel(context.Background())
				if tc.left > 0 {
					ctx, cancel = context.WithTimeout(context.Background(), tc.left)
				}
				defer cancel()
				resume := r.hang()
				began := time.Now()
				l, err := tc.enter(c.Mutex("k", WithFixedLease(time.Minute)), ctx)
				require.Nil(t, l)
				require.Equal(t, tc.back, time.Since(began))
				var node *NodeError
				require.ErrorAs(t, err, &node)
				require.NotErrorIs(t, err, ErrLost)
				require.NotErrorIs(t, err, ErrNotAcquired)
				if tc.left > 0 {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				resume()
				c.Close()
				require.Zero(t, c.core.gates.Len())
				require.Equal(t, 1, int(r.released.Load())+len(r.abandoned), "it is given back")
			}, lease, WithCommandTimeout(timeout))
		})
	}
}

// Another operation of the hold is out to a Redis that hangs: TryLock and Extend wait a command's time for it and for their
// own command together.
func TestOperationsOfAHoldAreBoundedTogether(t *testing.T) {
	for name, operate := range map[string]func(*Mutex, *Lease) error{
		"TryLock": func(m *Mutex, l *Lease) error { _, err := m.TryLock(l.Context()); return err },
		"Extend":  func(_ *Mutex, l *Lease) error { return l.Extend(context.Background(), time.Minute) },
	} {
		for _, left := range []time.Duration{500 * time.Millisecond, time.Hour} { // after which the other one is answered
			t.Run(name, func(t *testing.T) {
				whileItHangs(t, func(t *testing.T, c *Client, r *hanging) {
					m := c.Mutex("k")
					l, err := m.Lock(context.Background())
					require.NoError(t, err)
					require.NoError(t, l.h.ops.Lock(context.Background()))
					resume := r.hang()
					other := time.AfterFunc(left, func() { l.h.ops.Unlock() })
					began := time.Now()
					err = operate(m, l)
					require.Equal(t, c.core.cfg.commandTimeout, time.Since(began))
					var node *NodeError
					require.ErrorAs(t, err, &node)
					require.NoError(t, node.Cause, "the caller has not given up")
					require.NotErrorIs(t, err, ErrNotAcquired)
					require.ErrorIs(t, err, wire.ErrNoAnswer)
					if other.Stop() {
						l.h.ops.Unlock()
					}
					resume()
					require.NoError(t, l.Unlock(context.Background()))
				}, WithLease(time.Hour))
			})
		}
	}
}

// A TryLock whose grant is lost before it looks tries again: what the caller never had cannot be lost.
func TestTryLockNeverLoses(t *testing.T) {
	whileItHangs(t, func(t *testing.T, c *Client, r *hanging) {
		r.gone = 2
		l, err := c.Mutex("k").TryLock(t.Context())
		require.NoError(t, err)
		require.Zero(t, r.gone)
		require.NoError(t, l.Context().Err())
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// A reader's lease is as short as WithRedissonWatchdog says: its commands give up in time for another renewal, though the
// client's command timeout is longer than all of it. What WithCommandTimeout says is kept where the lease allows that.
func TestReadersCommandsFitTheirLease(t *testing.T) {
	dog := WithRedissonWatchdog(time.Second)
	for name, tc := range map[string]struct {
		client, lock []Option
		want         time.Duration
	}{
		"default":           {want: 2 * time.Second},
		"longer lease":      {client: []Option{WithLease(10 * time.Minute)}, want: 2 * time.Second},
		"longer timeout":    {client: []Option{WithLease(10 * time.Minute), WithCommandTimeout(3 * time.Minute)}, want: 10 * time.Second},
		"as long as it may": {client: []Option{WithCommandTimeout(10 * time.Second)}, want: 10 * time.Second},
		"short watchdog":    {client: []Option{WithCommandTimeout(2 * time.Second), dog}, want: time.Second / 3},
		"the lock's":        {client: []Option{WithCommandTimeout(2 * time.Second)}, lock: []Option{dog}, want: time.Second / 3},
		"no watchdog":       {client: []Option{WithCommandTimeout(2 * time.Second)}, lock: []Option{WithRedissonWatchdog(0)}, want: 2 * time.Second},
		"fixed":             {client: []Option{WithCommandTimeout(300 * time.Millisecond), dog}, lock: []Option{WithFixedLease(time.Second)}, want: 300 * time.Millisecond},
		"capped":            {client: []Option{WithCommandTimeout(time.Second), dog}, lock: []Option{WithMaxHold(time.Minute)}, want: time.Second / 3},
		"shorter than that": {client: []Option{WithCommandTimeout(100 * time.Millisecond), dog}, want: 100 * time.Millisecond},
		"derived":           {client: []Option{dog}, want: time.Second / 6},
	} {
		t.Run(name, func(t *testing.T) {
			whileItHangs(t, func(t *testing.T, c *Client, r *hanging) {
				rw := c.RWMutex("k", tc.lock...)
				l, err := rw.RLock(t.Context())
				require.NoError(t, err)
				require.Equal(t, tc.want, l.h.entry.Timeout)
				if l.lock.cfg.fixed > 0 {
					return // it is not renewed
				}
				lease := l.h.entry.Lease
				resume := r.hang()
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
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *Client) {
		ctx, other := t.Context(), another(t, servers, WithLease(20*time.Second))
		locked := func(ctx context.Context, name string) *Lease {
			l, err := c.Mutex(name).Lock(ctx)
			require.NoError(t, err)
			return l
		}
		plain, outer := locked(ctx, "plain"), locked(ctx, "entered")
		inner := locked(outer.Context(), "entered")
		owned := locked(WithOwner(ctx, "workflow"), "owned")
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
		var waiting []<-chan *Lease
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
			require.NotErrorIs(t, e.err, ErrLost, what)
		}
		require.Error(t, got["plain"].err)
		require.NoError(t, got["Do"].err, "the work is done")
		for _, granted := range waiting {
			l := within(t, granted)
			require.NotNil(t, l)
			unlocked(t, l)
		}
	}, WithLease(20*time.Second), WithCommandTimeout(hungTimeout), WithLocalHandoff(1, 0))
}

// The same of both sides of a read-write lock, of a write lease that was entered again, and of Downgrade.
func TestRWMutexOnAHungRedisTakesOneCommandTimeout(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lease := WithLease(20 * time.Second)
	c, other := hearing(t, s, lease, WithCommandTimeout(hungTimeout)), hearing(t, s, lease)
	writer, reader := taken(t, c.RWMutex("w").Lock), taken(t, c.RWMutex("r").RLock)
	outer, down := taken(t, c.RWMutex("entered").Lock), taken(t, c.RWMutex("d").Lock)
	inner, err := c.RWMutex("entered").RLock(outer.Context())
	require.NoError(t, err)
	waiting := make(chan *Lease, 3)
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
		require.NotErrorIs(t, e.err, ErrLost, what)
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
	writer := taken(t, newClient(t, w, WithLease(20*time.Second), WithCommandTimeout(hungTimeout)).RWMutex("k").Lock)
	w.Filter(faults.All(faults.Script("release"), faults.LoseCall.Hanging()))
	began := time.Now()
	reader, err := writer.Downgrade(t.Context())
	require.NoError(t, err)
	require.Less(t, time.Since(began), hungTimeout+leisure)
	require.NoError(t, reader.Context().Err())
	require.ErrorIs(t, context.Cause(writer.Context()), ErrNotHeld)
	w.Filter(nil)
	beside := taken(t, c.RWMutex("k").RLock) // once the sweeper has given the write lease back
	unlocked(t, beside, reader)
	requireNothingLeft(t, s)
}

// What an answer of Redis's would tell is told too: a connection that is refused is tried again for one command timeout.
func TestUnlockWhereRedisIsGone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client(), WithLease(20*time.Second), WithCommandTimeout(hungTimeout))
	l := taken(t, c.Mutex("k").Lock)
	s.Kill()
	got := endings(t, map[string]func() error{"Unlock": func() error { return l.Unlock(context.Background()) }})["Unlock"]
	var node *NodeError
	require.ErrorAs(t, got.err, &node)
	require.NoError(t, node.Cause, "the caller has not given up")
	require.Less(t, got.took, hungTimeout+leisure)
	require.Equal(t, "release", node.Op, fmt.Sprint(got.err))
}

// While Redis answers nothing that was asked before, Unlock and Extend come back within their limits.
func TestUnlockAndExtendAreBounded(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
		m := c.Mutex("k", WithLease(time.Hour), WithCommandTimeout(time.Second))
		outer, err := m.Lock(t.Context())
		require.NoError(t, err)
		inner, err := m.Lock(outer.Context())
		require.NoError(t, err)
		require.NoError(t, outer.h.ops.Lock(t.Context()))
		var node *NodeError
		began := time.Now()
		require.ErrorAs(t, outer.Extend(t.Context(), time.Minute), &node)
		require.Equal(t, time.Second, time.Since(began))
		began = time.Now()
		require.NoError(t, inner.Unlock(t.Context()), "renewals repair the count")
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, 1, outer.Count())
		require.True(t, outer.h.count.Unsure())
		next := make(chan error, 1)
		go func() {
			l, err := m.Lock(context.Background())
			if err == nil {
				err = l.Unlock(context.Background())
			}
			next <- err
		}()
		synctest.Wait()
		require.Empty(t, next)
		began = time.Now()
		err = outer.Unlock(t.Context())
		require.ErrorAs(t, err, &node)
		require.NotErrorIs(t, err, ErrLost)
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, []string{"k"}, s.abandoned)
		require.NoError(t, <-next, "the gate is free")
		outer.h.ops.Unlock()
		require.ErrorIs(t, outer.Unlock(t.Context()), ErrNotHeld)
	})
}
