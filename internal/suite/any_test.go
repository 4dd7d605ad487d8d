package suite_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Any takes a free lock by one command, and never one of the others too.
func TestAnyTakesOneFreeLock(t *testing.T) {
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	require.Eventually(t, func() bool { return clientHears(t, c) }, patience, time.Millisecond)
	a := relock.Any(mutexes(c, "k", 8)...)
	require.Equal(t, "k0|k1|k2|k3|k4|k5|k6|k7", a.Name())
	unlocked(t, taken(t, a.Lock))
	for i := range 8 {
		if i != 5 {
			taken(t, other.Mutex("k"+strconv.Itoa(i)).Lock)
		}
	}
	s.ResetCommandCounts()
	for _, lock := range []func(context.Context) (*relock.Lease, error){a.Lock, a.TryLock} {
		l := taken(t, lock)
		require.Equal(t, "k5", l.Name())
		found, err := a.Held(l.Context())
		require.NoError(t, err)
		require.Same(t, l, found)
		again, err := a.Lock(l.Context())
		require.NoError(t, err)
		require.Equal(t, "k5", again.Name())
		require.Equal(t, l.Token(), again.Token())
		unlocked(t, again, l)
	}
	require.EqualValues(t, 2+2+4, s.CommandCounts()["evalsha"]) // also two counts of each re-entry
	_, err := a.Held(t.Context())
	require.Equal(t, relock.ErrNotHeld, err)
	_, err = relock.Any(mutexes(c, "k", 5)...).TryLock(t.Context())
	var busy *relock.HeldError
	require.ErrorAs(t, err, &busy)
	require.Contains(t, busy.Holder, other.ID())
}

// Of several free locks Any takes each at some time: callers must not all go for the first.
func TestAnyTakesARandomLock(t *testing.T) {
	c := newClient(t, ownRedis(t))
	names := make(map[string]bool)
	for range 200 {
		l := taken(t, relock.Any(mutexes(c, "k", 3)...).Lock)
		names[l.Name()] = true
		unlocked(t, l)
	}
	require.Len(t, names, 3)
}

// A caller that finds none free waits in all lines, has the first that is freed, and stands in no other line.
func TestAnyWaitsForTheFirst(t *testing.T) {
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	rw := other.RWMutex("k3")
	held := []*relock.Lease{taken(t, other.Mutex("k0").Lock), taken(t, other.Mutex("k1").Lock), taken(t, other.Mutex("k2").Lock), taken(t, rw.Lock)}
	locks := append(mutexes(c, "k", 3), c.RWMutex("k3").Reader())
	got := make(chan *relock.Lease, 1)
	go func() {
		l, err := relock.Any(locks...).Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	for _, name := range []string{"k0", "k1", "k2"} {
		queued(t, s, name, 1)
	}
	unlocked(t, held[1])
	l := within(t, got)
	require.Equal(t, "k1", l.Name())
	for _, name := range []string{"k0", "k2"} {
		queued(t, s, name, 0)
	}
	require.Eventually(t, func() bool { return s.Do("ZCARD", "relock_readers:{k3}:k3") == "0" }, patience, time.Millisecond)
	require.NoError(t, l.Context().Err())
	unlocked(t, l, held[0], held[2], held[3])
	noLocks(t, s)
}

// Of locks that are freed at one time a caller keeps one, and the others go on.
func TestAnyKeepsOne(t *testing.T) {
	s := redistest.Start(t)
	clients := []*relock.Client{newClient(t, s.Client()), newClient(t, s.Client()), newClient(t, s.Client())}
	var (
		inside [3]atomic.Int32
		wg     sync.WaitGroup
	)
	for _, c := range clients {
		for range 4 {
			wg.Go(func() {
				a := relock.Any(mutexes(c, "k", 3)...)
				for range rounds(50, 1000) {
					l, err := a.Lock(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					at, _ := strconv.Atoi(l.Name()[1:])
					if inside[at].Add(1) != 1 {
						t.Errorf("two in %s", l.Name())
					}
					inside[at].Add(-1)
					if err := l.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	noLocks(t, s)
}

// WithMinHold keeps the lock that the caller had, and not the other one that was granted at the same time.
func TestAnyGivesBackUnderMinHold(t *testing.T) {
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	for i := range rounds(10, 100) {
		name := fmt.Sprintf("k%d.", i)
		held := allTaken(t, relock.All(mutexes(other, name, 2)...))
		won := make(chan *relock.Lease)
		go func() {
			l, err := relock.Any(mutexes(c, name, 2, relock.WithMinHold(time.Hour))...).Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			won <- l
		}()
		queued(t, s, name+"0", 1)
		queued(t, s, name+"1", 1)
		unlockedAll(t, held)
		l := within(t, won)
		had, loser := l.Name(), name+"0"
		if had == loser {
			loser = name + "1"
		}
		unlocked(t, l)
		require.Eventually(t, func() bool {
			_, err := other.Mutex(loser).TryLock(t.Context())
			return err == nil
		}, patience, time.Millisecond)
		_, err := other.Mutex(had).TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrNotAcquired)
	}
}

// TryLock takes permits of which Redis keeps no number yet, beside a lock of another kind and beside one that fails.
func TestAnyTriesUnusedSemaphores(t *testing.T) {
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	s.Do("HSET", "broken", "a", "b")
	held := []*relock.Lease{taken(t, other.Semaphore("busy", 1).Locker(1).Lock), taken(t, other.Mutex("busy mutex").Lock)}
	for i := range 12 {
		name := "unused" + strconv.Itoa(i)
		beside := []relock.Locker{c.Semaphore("busy", 1).Locker(1), c.Mutex("busy mutex"), c.Semaphore("broken", 1).Locker(1)}[i%3]
		l := taken(t, relock.Any(beside, c.Semaphore(name, 1).Locker(1)).TryLock)
		require.Equal(t, name, l.Name())
		unlocked(t, l)
	}
	unlocked(t, held...)
}

// TryLock takes a free lock beside one that fails: in the script, or so that Redis refuses the whole command.
func TestAnyTriesBesideOneThatFails(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, shared(t, s.AddUser("app", "secret", "~*", "&*", "+@all"))())
	s.Do("SET", "text", "no lock")
	s.Do("ACL", "SETUSER", "app", "resetkeys", "~k*", "~text", "~relock_queue:*", "~relock_listen:*", "~redisson_*")
	for _, name := range []string{"text", "forbidden"} {
		a := relock.Any(c.Mutex(name), c.Mutex("k"))
		for i := range 20 {
			l := taken(t, a.TryLock)
			require.Equal(t, "k", l.Name())
			_, err := a.TryLock(t.Context())
			require.ErrorIs(t, err, relock.ErrRefused)
			var failed *relock.NodeError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, name, failed.Name)
			unlocked(t, l)
			first, second := fmt.Sprint("k", name, i), fmt.Sprint("k2", name, i)
			unlocked(t, taken(t, relock.Any(c.Mutex(name), c.Mutex(first), c.Mutex(second)).TryLock))
			require.Equal(t, "1", s.Do("EXISTS", "redisson_lock_token:{"+first+"}", "redisson_lock_token:{"+second+"}"))
		}
	}
	noLocks(t, s)
}

// Under a lease of one of the locks Any re-enters that one or fails, and never takes another.
func TestAnyEntersThatOneOnly(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w)
	l := taken(t, c.Mutex("a").Lock)
	a := relock.Any(c.Mutex("b"), c.Mutex("a"), c.Mutex("c"))
	w.Filter(faults.Next(faults.Script("recount"), faults.LoseCall, faults.LoseCall))
	in, err := a.Lock(l.Context())
	require.NoError(t, err)
	require.Equal(t, "a", in.Name())
	unlocked(t, in)
	w.Filter(faults.All(faults.Script("recount"), faults.LoseCall))
	_, err = a.TryLock(l.Context())
	require.ErrorIs(t, err, relock.ErrUnavailable)
	w.Filter(nil)
	inner, err := c.Mutex("c").Lock(l.Context())
	require.NoError(t, err)
	within(t, forced(t, c, s, "a", l.Context()))
	lost := context.WithoutCancel(l.Context())
	reader := taken(t, c.RWMutex("rw").RLock)
	write := relock.Any(c.RWMutex("rw"), c.RWMutex("free"))
	for _, lock := range []func(context.Context) (*relock.Lease, error){a.Lock, a.TryLock, a.Held} {
		_, err = lock(lost)
		require.ErrorIs(t, err, relock.ErrLost)
	}
	for _, lock := range []func(context.Context) (*relock.Lease, error){write.Lock, write.TryLock} {
		_, err = lock(reader.Context())
		require.ErrorIs(t, err, relock.ErrUpgrade)
	}
	in, err = a.Lock(context.WithoutCancel(inner.Context()))
	require.NoError(t, err)
	require.Equal(t, "c", in.Name(), "it is held, and the other lock is lost")
	unlocked(t, in, inner, reader)
	noLocks(t, s)
}

// A Redis that does not answer keeps Lock from the locks of others for one command at most.
func TestAnyBesideASilentRedis(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	silent, c := newClient(t, w, relock.WithCommandTimeout(30*time.Millisecond)), newClient(t, s.Client())
	var gathers atomic.Int32
	asked := faults.Script("gather")
	w.Filter(faults.All(func(call *faults.Call) bool {
		if asked(call) {
			gathers.Add(1)
		}
		return call.Script != ""
	}, faults.LoseCall.Hanging()))
	rw := silent.RWMutex("b")
	const times = 20
	for range times {
		l := taken(t, relock.Any(silent.Mutex("a"), rw, rw.Reader(), silent.Semaphore("d", 1).Locker(1), c.Mutex("free")).Lock)
		require.Equal(t, "free", l.Name())
		unlocked(t, l)
	}
	require.LessOrEqual(t, gathers.Load(), int32(times))
	w.Filter(nil)
}

// Any says why it returns no lock, also if its context has ended before.
func TestAnyUnderAnEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := relock.Any(mutexes(newClient(t, ownRedis(t)), "k", 2)...)
	for _, lock := range []func(context.Context) (*relock.Lease, error){a.Lock, a.TryLock} {
		l, err := lock(ctx)
		require.Nil(t, l)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, relock.ErrUnavailable)
	}
}

// If its context ends while Redis is asked, Lock says what Redis answered, or that it did not, and observers hear of it.
func TestAnyUnderAContextThatEndsMeanwhile(t *testing.T) {
	asksMeanwhile(t, func(ctx context.Context, c *relock.Client) error {
		_, err := relock.Any(c.Mutex("k0"), c.Mutex("k0")).Lock(ctx)
		return err
	})
}

func TestAllUnderAContextThatEndsMeanwhile(t *testing.T) {
	asksMeanwhile(t, func(ctx context.Context, c *relock.Client) error {
		_, err := relock.All(c.Mutex("k1"), c.Mutex("k0")).Lock(ctx)
		return err
	})
}

// asksMeanwhile ends the context of lock, which asks for k0 and perhaps k1, when Redis has said that k0 is held, and before
// Redis says anything.
func asksMeanwhile(t *testing.T, lock func(context.Context, *relock.Client) error) {
	t.Helper()
	s := redistest.Start(t)
	w := faulty(s)
	events := &seen{}
	c, other := newClient(t, w, relock.WithObserver(events), relock.WithClientName("asks")), newClient(t, s.Client(), relock.WithClientName("holds"))
	held := taken(t, other.Mutex("k0").Lock)
	cause := errors.New("no time left")
	ctx, cancel := context.WithCancelCause(t.Context())
	whois := faults.Script("whois")
	w.Filter(func(call *faults.Call) faults.Fate {
		if whois(call) { // the gather was answered, and the holder's name is asked for
			cancel(cause)
		}
		return faults.Pass
	})
	err := lock(ctx, c)
	var busy *relock.HeldError
	require.ErrorAs(t, err, &busy)
	require.Contains(t, busy.Holder, other.ID())
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	require.ErrorIs(t, err, cause)
	require.NotEmpty(t, events.of(relock.EventAbandoned))

	n := len(events.of(relock.EventAbandoned))
	w.Filter(faults.Next(faults.Script("gather"), faults.Stall))
	ctx, cancel = context.WithCancelCause(t.Context())
	gaveUp := make(chan error, 1)
	go func() { gaveUp <- lock(ctx, c) }()
	within(t, w.Told())
	cancel(cause)
	err = within(t, gaveUp)
	w.Release()
	require.ErrorIs(t, err, relock.ErrUnavailable)
	require.NotErrorIs(t, err, relock.ErrNotAsked)
	require.ErrorIs(t, err, cause)
	require.Greater(t, len(events.of(relock.EventAbandoned)), n)
	unlocked(t, held)
	require.Eventually(t, func() bool { return s.Do("EXISTS", "k0", "k1") == "0" }, patience, time.Millisecond)
}

// A caller that gives up leaves nothing behind.
func TestAnyGivesUp(t *testing.T) {
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	held := []*relock.Lease{taken(t, other.Mutex("k0").Lock), taken(t, other.Mutex("k1").Lock)}
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := relock.Any(mutexes(c, "k", 2)...).Lock(ctx)
		gaveUp <- err
	}()
	queued(t, s, "k0", 1)
	queued(t, s, "k1", 1)
	time.AfterFunc(30*time.Millisecond, cancel) // behind the answers that they wait
	err := within(t, gaveUp)
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	require.ErrorIs(t, err, context.Canceled)
	for _, name := range []string{"k0", "k1"} {
		queued(t, s, name, 0)
	}
	s.Do("SET", "text", "no lock")
	broken := relock.Any(c.Mutex("text"), c.Mutex("k0"))
	_, err = broken.TryLock(t.Context())
	require.ErrorIs(t, err, relock.ErrRefused)
	unlocked(t, held...)
	l := taken(t, broken.Lock)
	require.Equal(t, "k0", l.Name())
	unlocked(t, l)
	noLocks(t, s)
}

// In one process goroutines pass locks on as those of a Mutex do, and a cached lock is taken without a command.
func TestAnyInOneProcess(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s, relock.WithLinger(time.Minute), relock.WithLease(far))
	a := relock.Any(mutexes(c, "k", 4)...)
	unlockedAll(t, allTaken(t, relock.All(mutexes(c, "k", 4)...)))
	s.ResetCommandCounts()
	unlocked(t, taken(t, a.Lock))
	unlockedAll(t, allTaken(t, relock.All(mutexes(c, "k", 4)...)))
	require.Zero(t, s.CommandCounts()["evalsha"])
}

// The function of Any's Do learns which permits it has: FromContext and Held find their lease, without a token. The token of a
// lock further out is not shown beside them. They are not re-entered: a Lock under them takes more, of any.
func TestAnyShowsItsPermits(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	a, b := c.Semaphore("a", 1).Locker(1), c.Semaphore("b", 1).Locker(1)
	of := map[string]relock.Locker{"a": a, "b": b}
	either := relock.Any(a, b)
	for _, p := range of { // else a Lock waits for both, and gives one back
		require.NoError(t, c.Semaphore(p.Name(), 1).SetPermits(t.Context(), 1))
	}
	m := c.Mutex("m")
	for _, ctx := range []context.Context{t.Context(), taken(t, m.Lock).Context()} {
		require.NoError(t, either.Do(ctx, func(in context.Context) error {
			l, ok := relock.FromContext(in)
			require.True(t, ok)
			require.Contains(t, of, l.Name())
			require.Zero(t, relock.Token(in))
			for _, held := range []func(context.Context) (*relock.Lease, error){either.Held, of[l.Name()].Held} {
				same, err := held(in)
				require.NoError(t, err)
				require.Same(t, l, same)
			}
			_, err := c.Semaphore(l.Name(), 1).Locker(1).Held(relock.Detach(in))
			require.Equal(t, relock.ErrNotHeld, err)
			_, ok = relock.FromContext(relock.Detach(in))
			require.False(t, ok)
			delete(of, l.Name())
			for _, other := range of {
				_, err = other.Held(in)
				require.Equal(t, relock.ErrNotHeld, err)
			}
			of[l.Name()] = map[string]relock.Locker{"a": a, "b": b}[l.Name()]
			more, err := either.TryLock(in)
			require.NoError(t, err)
			require.NotEqual(t, l.Name(), more.Name())
			require.NoError(t, more.Unlock(in))
			_, ok = relock.FromContext(more.Context())
			require.False(t, ok, "never another lock's")
			require.NoError(t, c.Mutex("inner").Do(in, func(inner context.Context) error {
				require.Positive(t, relock.Token(inner))
				_, err := of[l.Name()].Held(inner)
				return err
			}))
			return nil
		}))
	}
	_, err := either.Held(t.Context())
	require.Equal(t, relock.ErrNotHeld, err)
	p, err := either.Lock(t.Context())
	require.NoError(t, err)
	lose(p)
	_, err = either.Held(p.Context())
	require.ErrorIs(t, err, relock.ErrLost)
	_, ok := relock.FromContext(p.Context())
	require.True(t, ok)
}

// Whatever is nested, a context carries the innermost lease that has a token or that Any took: below All's and a Semaphore's own
// permits it is that of the lock further out, and below Any's it never is. Held finds permits, whoever took them.
func TestPermitsInNestedContexts(t *testing.T) {
	c := newClient(t, ownRedis(t))
	sem, other := c.Semaphore("s", 9), c.Semaphore("t", 9)
	m, n := c.Mutex("m"), c.Mutex("n")
	run := func(ctx context.Context, do func(context.Context, func(context.Context) error) error, want func(in context.Context)) {
		t.Helper()
		require.NoError(t, do(ctx, func(in context.Context) error { want(in); return nil }))
	}
	carries := func(ctx context.Context, name string) {
		t.Helper()
		l, ok := relock.FromContext(ctx)
		require.Equal(t, name != "", ok)
		require.Equal(t, name, l.Name())
		require.Equal(t, name == "m" || name == "n", relock.Token(ctx) > 0)
		require.Equal(t, l.Token(), relock.Token(ctx))
	}
	holds := func(ctx context.Context, locks ...relock.Locker) {
		t.Helper()
		for _, lock := range locks {
			l, err := lock.Held(ctx)
			require.NoError(t, err)
			require.Equal(t, lock.Name(), l.Name())
		}
	}
	either := relock.Any(sem.Locker(2))
	run(t.Context(), sem.Do, func(in context.Context) {
		carries(in, "")
		holds(in, sem.Locker(1), sem.Locker(2), either)
		_, err := other.Locker(1).Held(in)
		require.Equal(t, relock.ErrNotHeld, err)
	})
	run(t.Context(), m.Do, func(in context.Context) {
		run(in, sem.Locker(3).Do, func(in context.Context) {
			carries(in, "m")
			holds(in, m, sem.Locker(1))
		})
		run(in, either.Do, func(in context.Context) {
			carries(in, "s")
			holds(in, m, either)
			run(in, other.Do, func(in context.Context) { carries(in, "s") })
			run(in, relock.All(other.Locker(1), sem.Locker(1)).Do, func(in context.Context) {
				carries(in, "s")
				holds(in, m, sem.Locker(1), other.Locker(1))
			})
			run(in, relock.All(n, other.Locker(1)).Do, func(in context.Context) { carries(in, "n") })
			run(in, n.Do, func(in context.Context) { carries(in, "n") })
		})
	})
	run(t.Context(), relock.All(m, other.Locker(1)).Do, func(in context.Context) {
		carries(in, "m")
		run(in, either.Do, func(in context.Context) {
			carries(in, "s")
			holds(in, m, other.Locker(1), sem.Locker(1))
		})
	})
	l := taken(t, sem.Locker(1).Lock)
	unlocked(t, l)
	_, err := sem.Locker(1).Held(l.Context())
	require.Equal(t, relock.ErrNotHeld, err)
}

// If none of its locks can be had, the error of Any is that of one that failed, rather than of one that is busy, in whatever order
// their Redises answered.
func TestAnyTellsTheFailure(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	refused, busy := newClient(t, w), newClient(t, s.Client())
	taken(t, newClient(t, s.Client()).Mutex("busy").Lock)
	w.Filter(faults.All(faults.AnyScript, faults.Refuse("NOPERM no right to do this")))
	for range 20 { // the order is drawn
		_, err := relock.Any(refused.Mutex("refused"), busy.Mutex("busy")).TryLock(t.Context())
		requireClass(t, relock.ErrRefused, err)
	}
}
