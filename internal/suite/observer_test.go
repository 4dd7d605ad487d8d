package suite_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime/pprof"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestObserverHearsOfALease(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, o relock.Observer) *relock.Client{
		"one Redis": func(t *testing.T, o relock.Observer) *relock.Client {
			return newClient(t, redistest.Start(t).Client(), relock.WithObserver(o))
		},
		"quorum": func(t *testing.T, o relock.Observer) *relock.Client {
			var nodes []rueidis.Client
			for range 3 {
				nodes = append(nodes, redistest.Start(t).Client())
			}
			c, err := relock.NewRedlock(nodes, relock.WithObserver(o))
			require.NoError(t, err)
			t.Cleanup(c.Close)
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := &seen{}
			c := open(t, o)
			m := c.Mutex("orders", relock.WithLocalHandoff(10, time.Hour))
			l, err := m.Lock(t.Context())
			require.NoError(t, err)
			in, err := m.Lock(l.Context())
			require.NoError(t, err)
			require.NoError(t, in.Unlock(t.Context()))
			_, err = m.TryLock(t.Context())
			require.ErrorIs(t, err, relock.ErrNotAcquired)
			next := waitWith(t.Context(), t, m)
			require.Equal(t, "orders", o.nth(t, 1, relock.EventWaiting).Lock)
			require.NoError(t, l.Unlock(t.Context()))
			require.NoError(t, within(t, next).Unlock(t.Context()))

			got := o.of(relock.EventAcquired, relock.EventReleased, relock.EventAbandoned)
			type brief struct {
				kind relock.EventKind
				how  relock.How
			}
			var told []brief
			for _, e := range got {
				require.Equal(t, "orders", e.Lock)
				require.Equal(t, "mutex", e.LockKind)
				if name == "quorum" && e.How != relock.HowReentered && e.How > 0 {
					e.How = relock.HowFree // tokens may have to be written back first, and be too few to pass on
				}
				told = append(told, brief{e.Kind, e.How})
			}
			passed := relock.HowLocal
			if name == "quorum" {
				passed = relock.HowFree
			}
			require.Equal(t, []brief{
				{relock.EventAcquired, relock.HowFree}, {relock.EventAcquired, relock.HowReentered}, {relock.EventReleased, relock.HowReentered}, {relock.EventAbandoned, 0},
			}, told[:4])
			require.ElementsMatch(t, []brief{
				{relock.EventReleased, relock.HowFree}, {relock.EventAcquired, passed}, {relock.EventReleased, passed},
			}, told[4:])
			requireLinked(t, got, name == "quorum")
			require.Equal(t, l.Token(), got[0].Token)
			require.Positive(t, got[0].Wait)
			require.Positive(t, got[1].Wait, "a re-entry")
			require.Positive(t, got[3].Wait, "TryLock")
			require.Positive(t, got[2].Hold)
			require.ErrorIs(t, got[3].Cause, relock.ErrNotAcquired)
		})
	}
}

// requireLinked checks what the events of TestObserverHearsOfALease say of the calls and leases that they are of: one
// with a re-entry, a TryLock that fails, and one that waits.
func requireLinked(t *testing.T, got []relock.Event, quorum bool) {
	t.Helper()
	first, inner, tried := got[0], got[1], got[3]
	require.NotZero(t, first.Lease)
	require.NotEqual(t, first.Lease, inner.Lease)
	require.Equal(t, inner.Lease, got[2].Lease)
	for _, e := range got[:4] {
		require.False(t, e.Waited && !quorum, "on a quorum nodes may have to be got to know first")
		require.Zero(t, e.From)
		require.NotNil(t, e.Context)
	}
	require.Equal(t, t.Context(), tried.Context)
	for _, e := range got[4:] {
		switch {
		case e.Kind == relock.EventAcquired:
			require.True(t, e.Waited)
			require.Positive(t, e.Wait)
			require.False(t, e.Lease == first.Lease || e.Lease == inner.Lease)
			if !quorum {
				require.Equal(t, first.Lease, e.From)
			}
		case e.Lease == first.Lease:
			require.Equal(t, first.Context, e.Context)
		}
	}
}

// slow holds up what it is told of a lease until it ended.
type slow struct {
	seen
	acquired func()
}

func (s *slow) Observe(e relock.Event) {
	if e.Kind == relock.EventAcquired {
		s.acquired()
	}
	s.seen.Observe(e)
}

// A Lock of a writer that an RWMutex refuses by itself ends in an event too.
func TestObserverHearsOfRefusedWriters(t *testing.T) {
	t.Parallel()
	o := &seen{}
	c := newClient(t, redistest.Start(t).Client(), relock.WithObserver(o))
	rw := c.RWMutex("k")
	reader, err := rw.RLock(t.Context())
	require.NoError(t, err)
	_, err = rw.Lock(reader.Context())
	require.ErrorIs(t, err, relock.ErrUpgrade)
	_, err = rw.TryLock(relock.WithOwner(t.Context(), "owner"))
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = rw.ForceUnlock(t.Context())
	require.NoError(t, err)
	<-reader.Context().Done()
	_, err = rw.Lock(reader.Context())
	require.ErrorIs(t, err, relock.ErrLost)
	told := o.of(relock.EventAbandoned)
	require.Len(t, told, 3)
	for i, cause := range []error{relock.ErrUpgrade, errors.ErrUnsupported, relock.ErrLost} {
		require.ErrorIs(t, told[i].Cause, cause)
		require.Equal(t, "k", told[i].Lock)
	}
}

func TestALossIsToldAfterTheLease(t *testing.T) {
	s := redistest.Start(t)
	o := &slow{}
	c := newClient(t, s.Client(), relock.WithObserver(o), relock.WithLease(1500*time.Millisecond), relock.WithCommandTimeout(500*time.Millisecond))
	o.acquired = func() {
		s.Do("DEL", "k")
		kept := func() bool { return watchdogOf(c).Len() > 0 }
		for kept() { // a lost hold is forgotten after all else was told
			time.Sleep(time.Millisecond)
		}
	}
	l, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLost)
	got := o.of(relock.EventAcquired, relock.EventLost, relock.EventReleased)
	require.Len(t, got, 2)
	require.Equal(t, []relock.EventKind{relock.EventAcquired, relock.EventLost}, []relock.EventKind{got[0].Kind, got[1].Kind})
	require.Equal(t, got[0].Lease, got[1].Lease)
	require.ErrorIs(t, got[1].Cause, relock.ErrLost)
}

func TestObserverHearsOfALoss(t *testing.T) {
	s := redistest.Start(t)
	o := &seen{}
	c := newClient(t, s.Client(), relock.WithObserver(o), relock.WithLease(1500*time.Millisecond), relock.WithCommandTimeout(500*time.Millisecond))
	m := c.Mutex("k")
	for range 2 { // noticed by the watchdog, and by Unlock
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		s.Do("DEL", "k")
		if len(o.of(relock.EventLost)) == 1 {
			require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLost)
		}
		<-l.Context().Done()
		lost := o.nth(t, len(o.of(relock.EventAcquired)), relock.EventLost)
		require.Equal(t, l.Token(), lost.Token)
		require.ErrorIs(t, lost.Cause, relock.ErrLost)
	}
	require.Len(t, o.of(relock.EventLost), 2)
	require.Empty(t, o.of(relock.EventReleased))
}

func TestObserverHearsOfAnOutage(t *testing.T) {
	t.Parallel()
	rdb := faulty(redistest.Start(t))
	o := &seen{}
	c := newClient(t, rdb, relock.WithObserver(o), relock.WithLease(3*time.Second), relock.WithCommandTimeout(100*time.Millisecond))
	m := c.Mutex("k")
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	rdb.Filter(faults.All(faults.AnyScript, faults.LoseCall))
	failed := o.nth(t, 1, relock.EventRenewalFailed)
	require.Error(t, failed.Cause)
	require.Error(t, o.nth(t, 1, relock.EventNodeDown).Cause)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	_, err = c.Mutex("other").Lock(ctx)
	require.Error(t, err)
	waited := o.of(relock.EventWaiting)
	require.NotEmpty(t, waited)
	require.Error(t, waited[len(waited)-1].Cause, "it waits for Redis itself")
	rdb.Filter(nil)
	require.NoError(t, o.nth(t, 1, relock.EventRecovered).Cause)
	require.NoError(t, o.nth(t, 1, relock.EventNodeUp).Cause)
	require.NoError(t, l.Unlock(t.Context()))
	require.Len(t, o.of(relock.EventRenewalFailed), 1, "one for each time that they fail in a row")
}

func TestObserverHearsThatALockIsWanted(t *testing.T) {
	s := redistest.Start(t)
	o := &seen{}
	c, other := newClient(t, s.Client(), relock.WithObserver(o)), newClient(t, s.Client())
	l, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	listening(t, s, c)
	next := waitFor(t, other, "k")
	require.Equal(t, "k", o.nth(t, 1, relock.EventWanted).Lock)
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, within(t, next).Unlock(t.Context()))
}

func TestClosedClientLosesItsLeases(t *testing.T) {
	o := &seen{}
	c, err := relock.New(redistest.Start(t).Client(), relock.WithObserver(o))
	require.NoError(t, err)
	_, err = c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	c.Close()
	require.ErrorIs(t, o.nth(t, 1, relock.EventLost).Cause, relock.ErrClosed)
}

// Goroutines that wait are told apart in profiles.
func TestWaitersAreLabelled(t *testing.T) {
	c := newClient(t, redistest.Start(t).Client(), relock.WithObserver(&seen{}))
	labelled := func(name string) bool {
		var b bytes.Buffer
		require.NoError(t, pprof.Lookup("goroutine").WriteTo(&b, 1))
		return bytes.Contains(b.Bytes(), []byte(`"relock.lock":"`+name+`"`))
	}
	l, err := c.Mutex("orders").Lock(t.Context())
	require.NoError(t, err)
	require.False(t, labelled("orders"))
	next := waitFor(t, c, "orders")
	require.Eventually(t, func() bool { return labelled("orders") }, patience, time.Millisecond)
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, within(t, next).Unlock(t.Context()))
	require.Eventually(t, func() bool { return !labelled("orders") }, patience, time.Millisecond)
}

// What this process has to give is got without reading a clock for its observer.
func TestLockThatIsThereIsNotWaitedFor(t *testing.T) {
	srv, o := redistest.Start(t), &seen{}
	c := lingeringClient(t, srv.Client(), time.Hour, relock.WithObserver(o))
	m := c.Mutex("k")
	lockAndUnlock(t, m)
	lockAndUnlock(t, m)
	var waits []time.Duration
	for _, e := range o.of(relock.EventAcquired) {
		if e.Lock == "k" {
			waits = append(waits, e.Wait)
		}
	}
	require.Len(t, waits, 2)
	require.Positive(t, waits[0])
	require.Zero(t, waits[1])
}

func TestKindsHaveNames(t *testing.T) {
	for kind := relock.EventWaiting; kind <= relock.EventNodeMended; kind++ {
		require.NotEmpty(t, kind.String())
	}
	for how := relock.HowFree; how <= relock.HowCached; how++ {
		require.NotEmpty(t, how.String())
	}
	require.Empty(t, (relock.EventNodeMended + 1).String())
	require.Empty(t, (relock.HowCached + 1).String())
}

// How long Redis takes to be told is no part of a hold.
func TestAHoldEndsWithItsUnlock(t *testing.T) {
	const timeout = 100 * time.Millisecond
	rdb := faulty(redistest.Start(t))
	o := &seen{}
	c := newClient(t, rdb, relock.WithObserver(o), relock.WithLease(time.Minute), relock.WithCommandTimeout(timeout))
	before := time.Now()
	l, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	rdb.Filter(faults.All(faults.AnyScript, faults.LoseCall))
	require.Error(t, l.Unlock(t.Context()))
	took := time.Since(before)
	rdb.Filter(nil)
	got := o.nth(t, 1, relock.EventReleased)
	require.Error(t, got.Cause)
	require.Positive(t, got.Hold)
	require.LessOrEqual(t, got.Hold, took-timeout)
}

// stuck is an observer that is stuck in EventWanted until it is let go, as one that takes a mutex of the application's is
// which another goroutine has while it unlocks.
type stuck struct{ in, out chan struct{} }

func (o stuck) Observe(e relock.Event) {
	if e.Kind == relock.EventWanted {
		o.in <- struct{}{}
		<-o.out
	}
}

func TestUnlockPassesAnObserverThatIsStuck(t *testing.T) {
	o := stuck{make(chan struct{}), make(chan struct{})}
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		require.Eventually(t, func() bool { return clientHears(t, c) }, patience, time.Millisecond)
		l, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		onAll(t, servers, "k")
		next := waitFor(t, another(t, servers), "k")
		within(t, o.in)
		unlocked := make(chan error, 1)
		go func() { unlocked <- l.Unlock(context.Background()) }()
		select {
		case err := <-unlocked:
			require.NoError(t, err)
		case <-time.After(patience):
			t.Error("Unlock waits for the observer")
		}
		o.out <- struct{}{}
		require.NoError(t, within(t, next).Unlock(t.Context()))
	}, relock.WithObserver(o))
}

// holdUp is an observer that takes its time over the first lease.
type holdUp struct {
	seen
	in, out chan struct{}
}

func (o *holdUp) Observe(e relock.Event) {
	if e.Kind == relock.EventAcquired {
		close(o.in)
		<-o.out
	}
	o.seen.Observe(e)
}

// Close returns when all is told.
func TestCloseWaitsForWhatIsTold(t *testing.T) {
	for name, enter := range map[string]func(*relock.Mutex, context.Context) (*relock.Lease, error){"Lock": (*relock.Mutex).Lock, "TryLock": (*relock.Mutex).TryLock} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &holdUp{in: make(chan struct{}), out: make(chan struct{})}
				c := over(t, &hanging{}, relock.WithObserver(o))
				go func() { _, _ = enter(c.Mutex("k"), context.Background()) }()
				<-o.in
				closed := make(chan struct{})
				go func() {
					c.Close()
					close(closed)
				}()
				synctest.Wait()
				select {
				case <-closed:
					t.Error("Close returned while an observer is told")
				default:
				}
				close(o.out)
				<-closed
				told := o.of(relock.EventAcquired, relock.EventLost)
				require.Len(t, told, 2)
				require.Equal(t, relock.ErrClosed, told[1].Cause)
			})
		})
	}
}

// everyCall uses each kind of lock in each way that tells of events, and fails as the first of them does.
func everyCall(ctx context.Context, c *relock.Client) error {
	return errors.Join(
		c.Mutex("a").Do(ctx, func(ctx context.Context) error { return c.Mutex("a").Do(ctx, nothing) }),
		c.RWMutex("w").Do(ctx, nothing), c.RWMutex("w").RDo(ctx, nothing),
		c.Semaphore("s", 1).Do(ctx, nothing),
		relock.All(c.Mutex("a"), c.Mutex("b"), c.Mutex("d")).Do(ctx, nothing),
		relock.All(c.Mutex("a"), c.Semaphore("s", 1).Locker(1), c.Mutex("x", relock.WithFixedLease(time.Hour))).Do(ctx, nothing),
		relock.Any(c.Mutex("a"), c.Mutex("b")).Do(ctx, nothing),
		relock.Any(c.Mutex("a"), c.RWMutex("w")).Do(ctx, nothing),
		func() error {
			_, _, err := c.Flight("o", time.Minute).Do(ctx, func(context.Context) ([]byte, error) { return nil, nil })
			return errors.Join(err, c.Flight("o", time.Minute).Forget(ctx))
		}(),
	)
}

// An observer, or a handler of the logger, that panics at every event changes nothing for locks: those that are free, those that
// are waited for, and those that are lost. It is written, with its stack, once in ten seconds.
func TestPanicsOfObserversStayThere(t *testing.T) {
	t.Parallel()
	bad := observe(func(relock.Event) { panic("a bad observer") })
	for name, panics := range map[string]func(log *slog.Logger) []relock.ClientOption{
		"an observer": func(log *slog.Logger) []relock.ClientOption {
			return []relock.ClientOption{relock.WithObserver(bad), relock.WithLogger(log)}
		},
		"a handler": func(*slog.Logger) []relock.ClientOption {
			return []relock.ClientOption{relock.WithLogger(slog.New(badHandler{}))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			var written page
			log := slog.New(slog.NewTextHandler(&written, nil))
			c, other := newClient(t, s.Client(), panics(log)...), newClient(t, s.Client())
			require.NoError(t, inTime(t, func(ctx context.Context) error { return everyCall(ctx, c) }))

			// Each lock is waited for, and then gives up or gets it.
			hold := func() *relock.MultiLease {
				return allTaken(t, relock.All(other.Mutex("a"), other.Mutex("b"), other.Mutex("d"), other.RWMutex("w"), other.Semaphore("s", 1).Locker(1)))
			}
			held := hold()
			soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			require.Error(t, everyCall(soon, c))
			waits := make(chan error, 1)
			go func() { waits <- everyCall(t.Context(), c) }()
			queued(t, s, "a", 1)
			unlockedAll(t, held)
			require.NoError(t, within(t, waits))

			// A loss ends the contexts of the other leases too.
			one, two := taken(t, c.Mutex("a").Lock), allTaken(t, relock.All(c.Mutex("b"), c.RWMutex("w")))
			for _, m := range []string{"a", "b"} {
				freed, err := other.Mutex(m).ForceUnlock(t.Context())
				require.NoError(t, err)
				require.True(t, freed)
			}
			within(t, one.Context().Done())
			within(t, two.Context().Done())
			require.ErrorIs(t, two.Unlock(t.Context()), relock.ErrLost)
			for _, c := range []*relock.Client{c, other} {
				require.NoError(t, inTime(t, func(ctx context.Context) error { return everyCall(ctx, c) }))
			}
			c.Close()
			noLocks(t, s)
			if name == "an observer" {
				text := strings.Join(written.with(""), "")
				require.Equal(t, 1, strings.Count(text, "level=ERROR"), text)
				require.Contains(t, text, "an observer panicked")
				require.Contains(t, text, "a bad observer")
				require.Contains(t, text, "observer_test.go", "the stack")
			}
		})
	}
}

// badHandler is a handler of slog that panics.
type badHandler struct{}

func (badHandler) Enabled(context.Context, slog.Level) bool  { return true }
func (badHandler) Handle(context.Context, slog.Record) error { panic("a bad handler") }
func (h badHandler) WithAttrs([]slog.Attr) slog.Handler      { return h }
func (h badHandler) WithGroup(string) slog.Handler           { return h }

// Close leaves an observer behind that blocks, and ends the other leases.
func TestCloseIsBoundedBehindAnObserverThatBlocks(t *testing.T) {
	t.Parallel()
	for what, blocks := range map[string]relock.EventKind{"of a loss": relock.EventLost, "of a wish": relock.EventWanted} {
		t.Run(what, func(t *testing.T) {
			s := redistest.Start(t)
			in, out := make(chan struct{}, 1), make(chan struct{})
			defer close(out)
			other := newClient(t, s.Client())
			c := hearing(t, s, relock.WithCommandTimeout(200*time.Millisecond), relock.WithObserver(observe(func(e relock.Event) {
				if e.Kind == blocks && e.Lock == "x" {
					in <- struct{}{}
					<-out
				}
			})))
			_, keeps := taken(t, c.Mutex("x").Lock), taken(t, c.Mutex("keeps").Lock)
			if blocks == relock.EventLost {
				_, err := other.Mutex("x").ForceUnlock(t.Context())
				require.NoError(t, err)
			} else {
				waitFor(t, other, "x")
			}
			within(t, in)
			closed := make(chan struct{})
			began := time.Now()
			go func() { defer close(closed); c.Close() }()
			within(t, keeps.Context().Done())
			require.ErrorIs(t, context.Cause(keeps.Context()), relock.ErrClosed)
			within(t, closed)
			require.Less(t, time.Since(began), 8*200*time.Millisecond+leisure)
		})
	}
}
