package relock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

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
