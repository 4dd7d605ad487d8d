package relock

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
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestObserverHearsOfALease(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, o Observer) *Client{
		"one Redis": func(t *testing.T, o Observer) *Client {
			return newClient(t, redistest.Start(t).Client(), WithObserver(o))
		},
		"quorum": func(t *testing.T, o Observer) *Client {
			var nodes []rueidis.Client
			for range 3 {
				nodes = append(nodes, redistest.Start(t).Client())
			}
			c, err := NewRedlock(nodes, WithObserver(o))
			require.NoError(t, err)
			t.Cleanup(c.Close)
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := &seen{}
			c := open(t, o)
			m := c.Mutex("orders", WithLocalHandoff(10, time.Hour))
			l, err := m.Lock(t.Context())
			require.NoError(t, err)
			in, err := m.Lock(l.Context())
			require.NoError(t, err)
			require.NoError(t, in.Unlock(t.Context()))
			_, err = m.TryLock(t.Context())
			require.ErrorIs(t, err, ErrNotAcquired)
			next := waitWith(t.Context(), t, m)
			require.Equal(t, "orders", o.nth(t, 1, EventWaiting).Lock)
			require.NoError(t, l.Unlock(t.Context()))
			require.NoError(t, within(t, next).Unlock(t.Context()))

			got := o.of(EventAcquired, EventReleased, EventAbandoned)
			type brief struct {
				kind EventKind
				how  How
			}
			var told []brief
			for _, e := range got {
				require.Equal(t, "orders", e.Lock)
				require.Equal(t, "mutex", e.LockKind)
				if name == "quorum" && e.How != HowReentered && e.How > 0 {
					e.How = HowFree // tokens may have to be written back first, and be too few to pass on
				}
				told = append(told, brief{e.Kind, e.How})
			}
			passed := HowLocal
			if name == "quorum" {
				passed = HowFree
			}
			require.Equal(t, []brief{
				{EventAcquired, HowFree}, {EventAcquired, HowReentered}, {EventReleased, HowReentered}, {EventAbandoned, 0},
			}, told[:4])
			require.ElementsMatch(t, []brief{
				{EventReleased, HowFree}, {EventAcquired, passed}, {EventReleased, passed},
			}, told[4:])
			requireLinked(t, got, name == "quorum")
			require.Equal(t, l.Token(), got[0].Token)
			require.Positive(t, got[0].Wait)
			require.Positive(t, got[1].Wait, "a re-entry")
			require.Positive(t, got[3].Wait, "TryLock")
			require.Positive(t, got[2].Hold)
			require.ErrorIs(t, got[3].Cause, ErrNotAcquired)
		})
	}
}

// requireLinked checks what the events of TestObserverHearsOfALease say of the calls and leases that they are of: one
// with a re-entry, a TryLock that fails, and one that waits.
func requireLinked(t *testing.T, got []Event, quorum bool) {
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
		case e.Kind == EventAcquired:
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

func (s *slow) Observe(e Event) {
	if e.Kind == EventAcquired {
		s.acquired()
	}
	s.seen.Observe(e)
}

// A Lock of a writer that an RWMutex refuses by itself ends in an event too.
func TestObserverHearsOfRefusedWriters(t *testing.T) {
	o := &seen{}
	c := newClient(t, redistest.Start(t).Client(), WithObserver(o))
	rw := c.RWMutex("k")
	reader, err := rw.RLock(t.Context())
	require.NoError(t, err)
	_, err = rw.Lock(reader.Context())
	require.ErrorIs(t, err, ErrUpgrade)
	_, err = rw.TryLock(WithOwner(t.Context(), "owner"))
	require.ErrorIs(t, err, errors.ErrUnsupported)
	_, err = rw.ForceUnlock(t.Context())
	require.NoError(t, err)
	<-reader.Context().Done()
	_, err = rw.Lock(reader.Context())
	require.ErrorIs(t, err, ErrLost)
	told := o.of(EventAbandoned)
	require.Len(t, told, 3)
	for i, cause := range []error{ErrUpgrade, errors.ErrUnsupported, ErrLost} {
		require.ErrorIs(t, told[i].Cause, cause)
		require.Equal(t, "k", told[i].Lock)
	}
}

func TestALossIsToldAfterTheLease(t *testing.T) {
	s := redistest.Start(t)
	o := &slow{}
	c := newClient(t, s.Client(), WithObserver(o), WithLease(1500*time.Millisecond), WithCommandTimeout(500*time.Millisecond))
	o.acquired = func() {
		s.Do("DEL", "k")
		kept := func() bool { return c.core.watchdog.Len() > 0 }
		for kept() { // a lost hold is forgotten after all else was told
			time.Sleep(time.Millisecond)
		}
	}
	l, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	require.ErrorIs(t, l.Unlock(t.Context()), ErrLost)
	got := o.of(EventAcquired, EventLost, EventReleased)
	require.Len(t, got, 2)
	require.Equal(t, []EventKind{EventAcquired, EventLost}, []EventKind{got[0].Kind, got[1].Kind})
	require.Equal(t, got[0].Lease, got[1].Lease)
	require.ErrorIs(t, got[1].Cause, ErrLost)
}

func TestObserverHearsOfALoss(t *testing.T) {
	s := redistest.Start(t)
	o := &seen{}
	c := newClient(t, s.Client(), WithObserver(o), WithLease(1500*time.Millisecond), WithCommandTimeout(500*time.Millisecond))
	m := c.Mutex("k")
	for range 2 { // noticed by the watchdog, and by Unlock
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		s.Do("DEL", "k")
		if len(o.of(EventLost)) == 1 {
			require.ErrorIs(t, l.Unlock(t.Context()), ErrLost)
		}
		<-l.Context().Done()
		lost := o.nth(t, len(o.of(EventAcquired)), EventLost)
		require.Equal(t, l.Token(), lost.Token)
		require.ErrorIs(t, lost.Cause, ErrLost)
	}
	require.Len(t, o.of(EventLost), 2)
	require.Empty(t, o.of(EventReleased))
}

func TestObserverHearsOfAnOutage(t *testing.T) {
	t.Parallel()
	rdb := faulty(redistest.Start(t))
	o := &seen{}
	c := newClient(t, rdb, WithObserver(o), WithLease(3*time.Second), WithCommandTimeout(100*time.Millisecond))
	m := c.Mutex("k")
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	rdb.Filter(faults.All(faults.AnyScript, faults.LoseCall))
	failed := o.nth(t, 1, EventRenewalFailed)
	require.Error(t, failed.Cause)
	require.Error(t, o.nth(t, 1, EventNodeDown).Cause)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	_, err = c.Mutex("other").Lock(ctx)
	require.Error(t, err)
	waited := o.of(EventWaiting)
	require.NotEmpty(t, waited)
	require.Error(t, waited[len(waited)-1].Cause, "it waits for Redis itself")
	rdb.Filter(nil)
	require.NoError(t, o.nth(t, 1, EventRecovered).Cause)
	require.NoError(t, o.nth(t, 1, EventNodeUp).Cause)
	require.NoError(t, l.Unlock(t.Context()))
	require.Len(t, o.of(EventRenewalFailed), 1, "one for each time that they fail in a row")
}

func TestObserverHearsThatALockIsWanted(t *testing.T) {
	s := redistest.Start(t)
	o := &seen{}
	c, other := newClient(t, s.Client(), WithObserver(o)), newClient(t, s.Client())
	l, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	listening(t, s, c)
	next := waitFor(t, other, "k")
	require.Equal(t, "k", o.nth(t, 1, EventWanted).Lock)
	require.NoError(t, l.Unlock(t.Context()))
	require.NoError(t, within(t, next).Unlock(t.Context()))
}

func TestClosedClientLosesItsLeases(t *testing.T) {
	o := &seen{}
	c, err := New(redistest.Start(t).Client(), WithObserver(o))
	require.NoError(t, err)
	_, err = c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	c.Close()
	require.ErrorIs(t, o.nth(t, 1, EventLost).Cause, ErrClosed)
}

// Goroutines that wait are told apart in profiles.
func TestWaitersAreLabelled(t *testing.T) {
	c := newClient(t, redistest.Start(t).Client(), WithObserver(&seen{}))
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
	c := lingeringClient(t, srv.Client(), time.Hour, WithObserver(o))
	m := c.Mutex("k")
	lockAndUnlock(t, m)
	lockAndUnlock(t, m)
	var waits []time.Duration
	for _, e := range o.of(EventAcquired) {
		if e.Lock == "k" {
			waits = append(waits, e.Wait)
		}
	}
	require.Len(t, waits, 2)
	require.Positive(t, waits[0])
	require.Zero(t, waits[1])
}

func TestKindsHaveNames(t *testing.T) {
	for kind := EventWaiting; kind <= EventNodeMended; kind++ {
		require.NotEmpty(t, kind.String())
	}
	for how := HowFree; how <= HowCached; how++ {
		require.NotEmpty(t, how.String())
	}
	require.Empty(t, (EventNodeMended + 1).String())
	require.Empty(t, (HowCached + 1).String())
}

// How long Redis takes to be told is no part of a hold.
func TestAHoldEndsWithItsUnlock(t *testing.T) {
	const timeout = 100 * time.Millisecond
	rdb := faulty(redistest.Start(t))
	o := &seen{}
	c := newClient(t, rdb, WithObserver(o), WithLease(time.Minute), WithCommandTimeout(timeout))
	before := time.Now()
	l, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	rdb.Filter(faults.All(faults.AnyScript, faults.LoseCall))
	require.Error(t, l.Unlock(t.Context()))
	took := time.Since(before)
	rdb.Filter(nil)
	got := o.nth(t, 1, EventReleased)
	require.Error(t, got.Cause)
	require.Positive(t, got.Hold)
	require.LessOrEqual(t, got.Hold, took-timeout)
}

// stuck is an observer that is stuck in EventWanted until it is let go, as one that takes a mutex of the application's is
// which another goroutine has while it unlocks.
type stuck struct{ in, out chan struct{} }

func (o stuck) Observe(e Event) {
	if e.Kind == EventWanted {
		o.in <- struct{}{}
		<-o.out
	}
}

func TestUnlockPassesAnObserverThatIsStuck(t *testing.T) {
	o := stuck{make(chan struct{}), make(chan struct{})}
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *Client) {
		require.Eventually(t, func() bool { return c.hears(t) }, patience, time.Millisecond)
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
	}, WithObserver(o))
}

// holdUp is an observer that takes its time over the first lease.
type holdUp struct {
	seen
	in, out chan struct{}
}

func (o *holdUp) Observe(e Event) {
	if e.Kind == EventAcquired {
		close(o.in)
		<-o.out
	}
	o.seen.Observe(e)
}

// Close returns when all is told.
func TestCloseWaitsForWhatIsTold(t *testing.T) {
	for name, enter := range map[string]func(*Mutex, context.Context) (*Lease, error){"Lock": (*Mutex).Lock, "TryLock": (*Mutex).TryLock} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &holdUp{in: make(chan struct{}), out: make(chan struct{})}
				cfg, err := defaultConfig().with([]Option{WithObserver(o)}, true)
				require.NoError(t, err)
				c := newClientOver("c", cfg, &hanging{})
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
				told := o.of(EventAcquired, EventLost)
				require.Len(t, told, 2)
				require.Equal(t, ErrClosed, told[1].Cause)
			})
		})
	}
}

// everyCall uses each kind of lock in each way that tells of events, and fails as the first of them does.
func everyCall(ctx context.Context, c *Client) error {
	return errors.Join(
		c.Mutex("a").Do(ctx, func(ctx context.Context) error { return c.Mutex("a").Do(ctx, nothing) }),
		c.RWMutex("w").Do(ctx, nothing), c.RWMutex("w").RDo(ctx, nothing),
		c.Semaphore("s", 1).Do(ctx, nothing),
		All(c.Mutex("a"), c.Mutex("b"), c.Mutex("d")).Do(ctx, nothing),
		All(c.Mutex("a"), c.Semaphore("s", 1).Permits(1), c.Mutex("x", WithFixedLease(time.Hour))).Do(ctx, nothing),
		Any(c.Mutex("a"), c.Mutex("b")).Do(ctx, nothing),
		Any(c.Mutex("a"), c.RWMutex("w")).Do(ctx, nothing),
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
	bad := observe(func(Event) { panic("a bad observer") })
	for name, panics := range map[string]func(log *slog.Logger) []Option{
		"an observer": func(log *slog.Logger) []Option { return []Option{WithObserver(bad), WithLogger(log)} },
		"a handler":   func(*slog.Logger) []Option { return []Option{WithLogger(slog.New(badHandler{}))} },
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			var written page
			log := slog.New(slog.NewTextHandler(&written, nil))
			c, other := newClient(t, s.Client(), panics(log)...), newClient(t, s.Client())
			require.NoError(t, inTime(t, func(ctx context.Context) error { return everyCall(ctx, c) }))

			// Each lock is waited for, and then gives up or gets it.
			hold := func() *MultiLease {
				return allTaken(t, All(other.Mutex("a"), other.Mutex("b"), other.Mutex("d"), other.RWMutex("w"), other.Semaphore("s", 1).Permits(1)))
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
			one, two := taken(t, c.Mutex("a").Lock), allTaken(t, All(c.Mutex("b"), c.RWMutex("w")))
			for _, m := range []string{"a", "b"} {
				freed, err := other.Mutex(m).ForceUnlock(t.Context())
				require.NoError(t, err)
				require.True(t, freed)
			}
			within(t, one.Context().Done())
			within(t, two.Context().Done())
			require.ErrorIs(t, two.Unlock(t.Context()), ErrLost)
			for _, c := range []*Client{c, other} {
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
	for what, blocks := range map[string]EventKind{"of a loss": EventLost, "of a wish": EventWanted} {
		t.Run(what, func(t *testing.T) {
			s := redistest.Start(t)
			in, out := make(chan struct{}, 1), make(chan struct{})
			defer close(out)
			other := newClient(t, s.Client())
			c := hearing(t, s, WithCommandTimeout(200*time.Millisecond), WithObserver(observe(func(e Event) {
				if e.Kind == blocks && e.Lock == "x" {
					in <- struct{}{}
					<-out
				}
			})))
			_, keeps := taken(t, c.Mutex("x").Lock), taken(t, c.Mutex("keeps").Lock)
			if blocks == EventLost {
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
			require.ErrorIs(t, context.Cause(keeps.Context()), ErrClosed)
			within(t, closed)
			require.Less(t, time.Since(began), 8*200*time.Millisecond+leisure)
		})
	}
}
