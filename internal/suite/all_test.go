package suite_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/drivertest"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// mutexes are n locks of c whose names begin with prefix.
func mutexes(c *relock.Client, prefix string, n int, opts ...relock.Option) (all []relock.Locker) {
	for i := range n {
		all = append(all, c.Mutex(prefix+strconv.Itoa(i), opts...))
	}
	return all
}

// allTaken is the lease that lock gives.
func allTaken(t *testing.T, m *relock.MultiLock) *relock.MultiLease {
	t.Helper()
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	return l
}

// noLocks waits until Redis keeps no lock and no waiter.
func noLocks(t *testing.T, s *redistest.Server) {
	t.Helper()
	require.Eventually(t, func() bool {
		return s.Do("EVAL", `local n = 0
			for _, key in ipairs(redis.call('KEYS', '*')) do
				local is = redis.call('TYPE', key).ok
				if is == 'hash' or is == 'zset' and redis.call('ZCOUNT', key, 0, '+inf') > 0 then n = n + 1 end
			end
			return n`, "0") == "0"
	}, patience, 5*time.Millisecond)
}

// All locks of one kind are taken by one command where they are free, and given back by one. Each is a lock as any other.
func TestAllTakesFreeLocksByOneCommand(t *testing.T) {
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	m := relock.All(mutexes(c, "k", 10)...)
	warmed(t, s, c, m)
	s.ResetCommandCounts()
	l := allTaken(t, m)
	require.EqualValues(t, 1, s.CommandCounts()["evalsha"])
	for i := range 10 {
		name := "k" + strconv.Itoa(i)
		_, err := other.Mutex(name).TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrNotAcquired)
		held, err := c.Mutex(name).Held(l.Context())
		require.NoError(t, err)
		require.Same(t, held, l.Lease(name))
		require.Positive(t, l.Token(name))
		require.Equal(t, held.Token(), l.Token(name))
	}
	require.Nil(t, l.Lease("k"))
	require.Zero(t, l.Token("k"))
	re, err := c.Mutex("k3").Lock(l.Context())
	require.NoError(t, err)
	require.Equal(t, l.Token("k3"), re.Token())
	unlocked(t, re)
	s.ResetCommandCounts()
	unlockedAll(t, l)
	require.EqualValues(t, 1, s.CommandCounts()["evalsha"])
	require.ErrorIs(t, context.Cause(l.Context()), relock.ErrNotHeld)
	require.Equal(t, relock.ErrNotHeld, l.Unlock(t.Context()))
	noLocks(t, s)
}

// warmed waits until two commands take m and give it back. The first ones ask for the user's rights, load scripts
// and tell the size of a semaphore. A client that begins to hear asks whether it still holds what it holds.
func warmed(t *testing.T, s *redistest.Server, c *relock.Client, m *relock.MultiLock) {
	t.Helper()
	require.Eventually(t, func() bool { return clientHears(t, c) }, patience, time.Millisecond)
	require.Eventually(t, func() bool {
		s.ResetCommandCounts()
		unlockedAll(t, allTaken(t, m))
		return s.CommandCounts()["evalsha"] == 2
	}, patience, time.Millisecond)
}

// So are the locks of each kind, and observers hear of them.
func TestAllOfEachKindByOneCommand(t *testing.T) {
	s := redistest.Start(t)
	told := new(seen)
	c, other := newClient(t, s.Client(), relock.WithObserver(told)), newClient(t, s.Client())
	for kind, lock := range map[string]func(c *relock.Client, name string) relock.Locker{
		"write":     func(c *relock.Client, name string) relock.Locker { return c.RWMutex(name) },
		"read":      func(c *relock.Client, name string) relock.Locker { return c.RWMutex(name).Reader() },
		"semaphore": func(c *relock.Client, name string) relock.Locker { return c.Semaphore(name, 3).Locker(2) },
		"mutex":     func(c *relock.Client, name string) relock.Locker { return c.Mutex(name) },
	} {
		name := func(i int) string { return kind + strconv.Itoa(i) }
		var all []relock.Locker
		for i := range 3 {
			all = append(all, lock(c, name(i)))
		}
		warmed(t, s, c, relock.All(all...))
		before := len(told.of(relock.EventAcquired))
		s.ResetCommandCounts()
		l, err := relock.All(all...).TryLock(t.Context())
		require.NoError(t, err)
		for range 3 { // readers join
			unlockedAll(t, l)
			l = allTaken(t, relock.All(all...))
		}
		require.LessOrEqual(t, s.CommandCounts()["evalsha"], int64(7), kind)
		require.Len(t, told.of(relock.EventAcquired), before+12)
		if kind == "read" {
			unlocked(t, taken(t, other.RWMutex(name(1)).RLock))
		} else {
			_, err := lock(other, name(1)).TryLock(t.Context())
			require.ErrorIs(t, err, relock.ErrNotAcquired, kind)
		}
		unlockedAll(t, l)
		var held *relock.Lease
		if kind == "read" {
			held = taken(t, other.RWMutex(name(2)).Lock)
		} else {
			held = taken(t, lock(other, name(2)).Lock)
		}
		abandoned := len(told.of(relock.EventAbandoned))
		_, err = relock.All(all...).TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrNotAcquired, kind)
		gone := told.of(relock.EventAbandoned)
		require.Len(t, gone, abandoned+1)
		require.Equal(t, name(2), gone[abandoned].Lock)
		unlocked(t, held)
	}
	noLocks(t, s)
}

func unlockedAll(t *testing.T, l *relock.MultiLease) {
	t.Helper()
	require.NoError(t, l.Unlock(t.Context()))
}

// What is not all free is not taken at all: neither by one command, nor where each takes its own.
func TestAllIsAllOrNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	sem := c.Semaphore("sem", 2)
	for name, m := range map[string]*relock.MultiLock{
		"together": relock.All(mutexes(c, "k", 5)...),
		"each":     relock.All(append(mutexes(c, "k", 5), c.RWMutex("rw"), c.RWMutex("other").Reader(), sem.Locker(2))...),
	} {
		t.Run(name, func(t *testing.T) {
			held := taken(t, other.Mutex("k3").Lock)
			_, err := m.TryLock(t.Context())
			var busy *relock.HeldError
			require.ErrorAs(t, err, &busy)
			require.Equal(t, "k3", busy.Name)
			require.Contains(t, busy.Holder, other.ID())
			for _, name := range []string{"k0", "k1", "k2", "k4"} {
				unlocked(t, taken(t, other.Mutex(name).TryLock))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err = m.Lock(ctx)
			require.ErrorAs(t, err, &busy)
			require.Equal(t, "k3", busy.Name)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			waits := make(chan *relock.MultiLease, 1)
			go func() {
				l, err := m.Lock(t.Context())
				if err != nil {
					t.Error(err)
				}
				waits <- l
			}()
			queued(t, s, "k3", 1)
			unlocked(t, held)
			unlockedAll(t, within(t, waits))
			noLocks(t, s)
		})
	}
}

// A lock that is free behind waiters that are gone is free for All too.
func TestAllTakesWhatDeadWaitersLeave(t *testing.T) {
	s := redistest.Start(t)
	m := relock.All(mutexes(newClient(t, s.Client()), "k", 3)...)
	s.Do("ZADD", "relock_queue:{k1}", "1000", "60000:1:00000000-0000-4000-8000-000000000000:00000000000000001:")
	l, err := m.TryLock(t.Context())
	require.NoError(t, err)
	unlockedAll(t, l)
	noLocks(t, s)
}

// The order does not depend on that in which All was given the locks.
func TestAllNeverDeadlocks(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var wg sync.WaitGroup
	for range 4 {
		c := newClient(t, s.Client())
		for range 4 {
			wg.Go(func() {
				all := mutexes(c, "k", 5)
				for range rounds(20, 200) {
					rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
					err := relock.All(all[:3]...).Do(t.Context(), func(ctx context.Context) error { return ctx.Err() })
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	noLocks(t, s)
}

// Locks without a common order, or that never can be held together, are refused.
func TestAllRefuses(t *testing.T) {
	rdb := ownRedis(t)
	c, other := newClient(t, rdb), newClient(t, rdb)
	rw := c.RWMutex("rw")
	for name, m := range map[string]*relock.MultiLock{
		"none":    relock.All(),
		"twice":   relock.All(c.Mutex("a"), c.Mutex("b"), c.Mutex("a")),
		"sides":   relock.All(rw, rw.Reader()),
		"clients": relock.All(c.Mutex("a"), other.Mutex("b")),
		"nil":     relock.All(c.Mutex("a"), nil),
		"typed":   relock.All(c.Mutex("a"), (*relock.Mutex)(nil)),
		"reader":  relock.All((*relock.Reader)(nil)),
		"permits": relock.All((*relock.Semaphore)(nil).Locker(1)),
		"any":     relock.All(relock.Any(c.Mutex("a"))),
		"zero":    new(relock.MultiLock),
		"absent":  nil,
		"name":    relock.All(c.Mutex("")),
		"option":  relock.All(c.Mutex("a", relock.WithFixedLease(-1))),
		"amount":  relock.All(c.Semaphore("s", 2).Locker(0)),
	} {
		_, err := m.Lock(t.Context())
		require.ErrorIs(t, err, relock.ErrMisuse, name)
		_, err = m.TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrMisuse, name)
		require.ErrorIs(t, m.Do(t.Context(), nothing), relock.ErrMisuse, name)
	}
	_, err := relock.All(c.Semaphore("s", 2).Locker(3)).Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrTooMany)
	var none context.Context
	_, err = relock.All(c.Mutex("a")).Lock(none)
	require.ErrorIs(t, err, relock.ErrMisuse)
	require.Equal(t, relock.ErrNotHeld, (*relock.MultiLease)(nil).Unlock(t.Context()))
	require.Error(t, new(relock.MultiLease).Context().Err())
	require.Nil(t, new(relock.MultiLease).Lease("a"))
}

// own is a program's own Locker.
type own struct{ relock.Locker }

// What All and Any cannot take, each says in its own words. A MultiLock is no Locker, so that All of All does not compile.
func TestAllAndAnyTellWhatTheyCannotTake(t *testing.T) {
	c := newClient(t, ownRedis(t))
	m, either := c.Mutex("m"), relock.Any(c.Mutex("a"), c.Mutex("b"))
	all := func(locks ...relock.Locker) error { _, err := relock.All(locks...).Lock(t.Context()); return err }
	anyOf := func(locks ...relock.Locker) error { _, err := relock.Any(locks...).Lock(t.Context()); return err }
	for text, err := range map[string]error{
		"All of an AnyLock is not possible: All takes its locks in one order, and Any has none": all(m, either),
		"Any of an AnyLock is not possible: give all locks to one Any":                          anyOf(m, either),
		"All of a nil Locker":     all(m, nil),
		"Any of a nil Locker":     anyOf(nil, m),
		"All of no locks":         all(),
		"Any of no locks":         anyOf(),
		"made without All or Any": new(relock.MultiLock).Do(t.Context(), nothing),
		`All of "m" twice`:        all(m, m),
		"All of a suite_test.own is not possible: it is a Locker of the program's own, and only locks that a Client made can be asked for together": all(own{m}),
		"Any of a suite_test.own is not possible: it is a Locker of the program's own, and only locks that a Client made can be asked for together": anyOf(own{m}),
	} {
		require.EqualError(t, err, "relock: misuse: "+text)
		require.ErrorIs(t, err, relock.ErrMisuse)
	}
	require.False(t, reflect.TypeFor[*relock.MultiLock]().Implements(reflect.TypeFor[relock.Locker]()))
}

// A lost lock ends the context of all, and says which it was.
func TestAllSaysWhichLockWasLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithLease(time.Minute))
	for i, m := range []*relock.MultiLock{relock.All(mutexes(c, "k", 3)...), relock.All(append(mutexes(c, "k", 3), c.Semaphore("s", 1).Locker(1))...)} {
		for _, lost := range []string{"k0", "k1", "k2"} {
			l := allTaken(t, m)
			within(t, forced(t, c, s, lost, l.Context()))
			var why *relock.LostError
			require.ErrorAs(t, context.Cause(l.Context()), &why, i)
			require.Equal(t, lost, why.Name)
			require.Equal(t, relock.ErrLost, why.Err)
			require.Equal(t, fmt.Sprintf("relock: lock %q: lock lost", lost), why.Error())
			require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
			_, err := c.Mutex(lost).Held(l.Context())
			requireLost(t, relock.ErrLost, err)
			err = l.Unlock(t.Context())
			why = nil
			require.ErrorAs(t, err, &why)
			require.Equal(t, lost, why.Name)
			noLocks(t, s)
		}
	}
}

// forced frees a lock, and returns what is closed when ctx ends.
func forced(t *testing.T, c *relock.Client, s *redistest.Server, name string, ctx context.Context) <-chan struct{} {
	t.Helper()
	freed, err := c.Mutex(name).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	return ctx.Done()
}

// What is lost while All waits for the next lock is taken anew, and so are all before it.
func TestAllBeginsAnewAfterALoss(t *testing.T) {
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	held := taken(t, other.Mutex("k2").Lock)
	waits := make(chan *relock.MultiLease, 1)
	go func() {
		l, err := relock.All(mutexes(c, "k", 3)...).Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		waits <- l
	}()
	queued(t, s, "k2", 1)
	was := stateOf(t, other.Mutex("k0")).Holder
	freed, err := other.Mutex("k0").ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	require.Eventually(t, func() bool {
		now := stateOf(t, other.Mutex("k0")).Holder
		return now != "" && now != was
	}, patience, time.Millisecond)
	unlocked(t, held)
	l := within(t, waits)
	require.NoError(t, l.Context().Err())
	unlockedAll(t, l)
	noLocks(t, s)
}

// Several locks need the rights of one: those of docs/wire.md for the kind.
func TestAllWithLeastPrivilege(t *testing.T) {
	s := redistest.Start(t)
	client := func(name string, further ...string) *relock.Client {
		user := s.AddUser(name, "secret", append(rights(t, "suite:")[0], further...)...)
		return newClient(t, shared(t, user)())
	}
	c, rw := client("mutexes"), client("sides", drivertest.ReadWriteRights(t, "suite:")...)
	sem := client("permits", drivertest.SemaphoreRights(t, "suite:")...)
	for name, locks := range map[string][]relock.Locker{
		"mutexes": mutexes(c, "suite:k", 3),
		"writers": {rw.RWMutex("suite:a"), rw.RWMutex("suite:b")},
		"readers": {rw.RWMutex("suite:a").Reader(), rw.RWMutex("suite:b").Reader()},
		"permits": {sem.Semaphore("suite:s", 2).Locker(1), sem.Semaphore("suite:t", 2).Locker(2)},
	} {
		for range 2 { // the second time Redis knows the semaphores' numbers
			l, err := relock.All(locks...).TryLock(t.Context())
			require.NoError(t, err, name)
			unlockedAll(t, l)
			unlocked(t, taken(t, relock.Any(locks...).TryLock))
		}
	}
	noLocks(t, s)
}

// The error of TryLock names the lock that failed, also if Redis refuses the whole command.
func TestAllNamesTheLockThatFails(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, shared(t, s.AddUser("app", "secret", "~*", "&*", "+@all"))())
	unlocked(t, taken(t, c.Semaphore("s0", 2).Locker(1).Lock)) // which leaves how many it has
	s.Do("HSET", "s1", "a", "b")
	s.Do("SET", "k1", "no lock")
	s.Do("ACL", "SETUSER", "app", "resetkeys", "~s0", "~s1", "~{s*", "~k0", "~k1", "~relock_*", "~redisson_*")
	for name, locks := range map[string][]relock.Locker{
		"s1":       {c.Semaphore("s0", 2).Locker(1), c.Semaphore("s1", 2).Locker(1)},
		"k1":       mutexes(c, "k", 2),
		"not mine": {c.Mutex("k0"), c.Mutex("not mine")},
	} {
		_, err := relock.All(locks...).TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrRefused, name)
		var failed *relock.NodeError
		require.ErrorAs(t, err, &failed, name)
		require.Equal(t, name, failed.Name)
	}
	require.Eventually(t, func() bool { return s.Do("EXISTS", "k0", "{s0}:timeout") == "0" }, patience, time.Millisecond)
}

// Each lease is one of its own. Without one of them the MultiLease is none any more, but the others stay held.
func TestAllOneByItself(t *testing.T) {
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	for i := range 3 {
		l := allTaken(t, relock.All(mutexes(c, "k", 3)...))
		one, next := l.Lease("k"+strconv.Itoa(i)), other.Mutex("k"+strconv.Itoa((i+1)%3))
		require.NoError(t, one.Extend(t.Context(), time.Hour))
		require.Greater(t, stateOf(t, other.Mutex(one.Name())).TTL, 59*time.Minute)
		unlocked(t, one)
		within(t, l.Context().Done())
		require.ErrorIs(t, context.Cause(l.Context()), relock.ErrNotHeld)
		unlocked(t, taken(t, other.Mutex(one.Name()).TryLock))
		_, err := next.TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrNotAcquired)
		require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
		noLocks(t, s)
	}
}

// Each lock has its own wait.
func TestAllWaitsForEachByItsOptions(t *testing.T) {
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	held := taken(t, other.Mutex("b").Lock)
	m := relock.All(c.Mutex("a"), c.Mutex("b", relock.WithWait(30*time.Millisecond)))
	_, err := m.Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	unlocked(t, held)
	unlockedAll(t, allTaken(t, m))
	noLocks(t, s)
}

// All under a lease that was lost says so, and does not begin anew.
func TestAllUnderALostLease(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithLease(time.Minute))
	l := taken(t, c.Mutex("k1").Lock)
	within(t, forced(t, c, s, "k1", l.Context()))
	_, err := relock.All(mutexes(c, "k", 2)...).Lock(context.WithoutCancel(l.Context()))
	require.ErrorIs(t, err, relock.ErrLost)
	noLocks(t, s)
}

var errOfFn = errors.New("of fn")

// Do of All is that of a Mutex.
func TestAllDo(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	m := relock.All(mutexes(c, "k", 2)...)
	err := m.Do(t.Context(), func(ctx context.Context) error {
		return errors.Join(errOfFn, m.Do(ctx, nothing)) // it re-enters both
	})
	require.ErrorIs(t, err, errOfFn)
	err = m.Do(t.Context(), func(ctx context.Context) error {
		within(t, forced(t, c, s, "k1", ctx))
		return errOfFn
	})
	require.ErrorIs(t, err, relock.ErrLost)
	require.ErrorIs(t, err, errOfFn)
	require.Equal(t, fmt.Sprintf("%T", err), "*wire.Undone")
	noLocks(t, s)
}

// WithMinHold does not keep what All gives back itself: no caller had it.
func TestAllGivesBackUnderMinHold(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	first := c.Mutex("a", relock.WithMinHold(time.Hour))
	held := taken(t, other.RWMutex("b").Lock)
	require.ErrorIs(t, inTime(t, func(ctx context.Context) error {
		_, err := relock.All(first, c.RWMutex("b")).TryLock(ctx)
		return err
	}), relock.ErrNotAcquired)
	require.ErrorIs(t, inTime(t, func(ctx context.Context) error {
		_, err := relock.All(first, c.RWMutex("b", relock.WithWait(50*time.Millisecond))).Lock(ctx)
		return err
	}), relock.ErrNotAcquired)
	unlocked(t, held, within(t, waitFor(t, other, "a"))) // it is given back behind a caller whose time is over

	// Nor does it keep what All gives back to begin anew, since it has lost another lock.
	held = taken(t, other.Mutex("c").Lock)
	waits := make(chan *relock.MultiLease)
	go func() {
		l, err := relock.All(first, c.RWMutex("b"), c.Mutex("c")).Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		waits <- l
	}()
	queued(t, s, "c", 1)
	before := s.Do("HGETALL", "a")
	freed, err := other.RWMutex("b").ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	require.Eventually(t, func() bool { return s.Do("HGETALL", "a") != before }, patience, time.Millisecond)
	unlocked(t, held)
	unlockedAll(t, within(t, waits))
	require.ErrorIs(t, inTime(t, func(ctx context.Context) error {
		_, err := other.Mutex("a").TryLock(ctx)
		return err
	}), relock.ErrNotAcquired, "the caller had it")
}

// The context asks the clock for each lock, as that of one lease does for its own: timers may be late.
func TestAllAsksTheClock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := hearing(t, s)
	for _, made := range []bool{false, true} {
		for _, short := range []string{"a", "b", "c"} {
			lease := func(name string) relock.Option {
				if name == short {
					return relock.WithLease(500 * time.Millisecond)
				}
				return relock.WithLease(time.Minute)
			}
			l := allTaken(t, relock.All(c.Mutex("a", lease("a")), c.Mutex("b", lease("b")), c.RWMutex("c", lease("c"))))
			require.NoError(t, l.Context().Err())
			if made {
				require.NotNil(t, l.Context().Done())
			}
			require.Eventually(t, func() bool {
				watchdogOf(c).Remove(holdOf(l.Lease(short))) // as if the process were stopped
				return s.Do("EXISTS", short) == "0"
			}, patience, time.Millisecond)
			if made { // Done tells before Err is asked
				select {
				case <-l.Context().Done():
				default:
					require.Fail(t, "its lock has gone")
				}
			}
			require.Error(t, l.Context().Err())
			var why *relock.LostError
			require.ErrorAs(t, context.Cause(l.Context()), &why)
			require.Equal(t, short, why.Name)
			<-l.Context().Done()
			require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLost)
		}
	}
}

// WithWait bounds the wait for a lock, however often All begins anew, and also while Redis is silent.
func TestAllWaits(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := faulty(s)
	c, other := newClient(t, w), newClient(t, s.Client())
	held := taken(t, other.Mutex("b").Lock)
	began := time.Now()
	err := inTime(t, func(ctx context.Context) error {
		_, err := relock.All(c.Mutex("a", relock.WithFixedLease(200*time.Millisecond)), c.Mutex("b", relock.WithWait(time.Second))).Lock(ctx)
		return err
	})
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	require.NotErrorIs(t, err, relock.ErrLost)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Greater(t, time.Since(began), 900*time.Millisecond)
	require.Less(t, time.Since(began), patience, "it does not begin to wait anew")
	unlocked(t, held)
}

// While Redis is silent, the command for all locks takes no longer than the shortest WithWait says.
func TestSeveralWaitForASilentRedis(t *testing.T) {
	t.Parallel()
	w := faulty(redistest.Start(t))
	c := newClient(t, w, relock.WithWait(100*time.Millisecond))
	long := relock.WithWait(time.Hour)
	w.Filter(faults.All(faults.AnyScript, faults.LoseCall.Hanging()))
	lock := func(m *relock.MultiLock) func(ctx context.Context) error {
		return func(ctx context.Context) error { _, err := m.Lock(ctx); return err }
	}
	for name, call := range map[string]func(ctx context.Context) error{
		"three":         lock(relock.All(mutexes(c, "k", 3)...)),
		"of two kinds":  lock(relock.All(c.Mutex("a"), c.RWMutex("b"))),
		"the last long": lock(relock.All(c.Mutex("a"), c.Mutex("b", long))),
		"any":           func(ctx context.Context) error { _, err := relock.Any(mutexes(c, "k", 3)...).Lock(ctx); return err },
	} {
		began := time.Now()
		require.ErrorIs(t, inTime(t, call), relock.ErrUnavailable, name)
		require.Less(t, time.Since(began), 1500*time.Millisecond, "%s: a command has 2 s", name)
	}
	w.Filter(nil)
}

// A TryLock that has lost what it had by the time of the last answer tries anew: its caller has lost nothing. It may find that
// Redis was not yet told that it gave up what the last answer brought.
func TestAllTriesAnew(t *testing.T) {
	s := redistest.Start(t)
	w, told := faulty(s), new(seen)
	c, other := newClient(t, w, relock.WithObserver(told)), newClient(t, s.Client())
	done := make(chan error, 1)
	w.Filter(faults.Next(func(call *faults.Call) bool { return call.Has("b") }, faults.Stall))
	go func() {
		l, err := relock.All(c.Mutex("a"), c.RWMutex("b")).TryLock(t.Context())
		if err == nil {
			_ = l.Unlock(t.Context()) // observers hear of a loss a moment before TryLock can know
		}
		done <- err
	}()
	within(t, w.Told())
	freed, err := other.Mutex("a").ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	require.Eventually(t, func() bool { return len(told.of(relock.EventLost)) == 1 }, patience, time.Millisecond)
	w.Release()
	if err := within(t, done); err != nil {
		require.ErrorIs(t, err, relock.ErrNotAcquired)
		require.NotErrorIs(t, err, relock.ErrLost)
	}
}

// Do tells of the lock that was lost, and not of another one that could not be given back.
func TestAllDoTellsOfTheLoss(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w, relock.WithLease(6*time.Second), relock.WithCommandTimeout(500*time.Millisecond))
	other := newClient(t, s.Client())
	err := relock.All(c.Mutex("a"), c.Mutex("b")).Do(t.Context(), func(ctx context.Context) error {
		_, err := other.Mutex("a").ForceUnlock(t.Context())
		require.NoError(t, err)
		<-ctx.Done()
		w.Filter(faults.All(faults.AnyScript, faults.LoseCall))
		return nil
	})
	w.Filter(nil)
	require.ErrorIs(t, err, relock.ErrLost)
	require.NotErrorIs(t, err, relock.ErrUnavailable)
}

// Close gives back what All has taken while it waits for the next lock: no caller was given it yet. So it does on a quorum.
func TestCloseGivesBackWhatAllHas(t *testing.T) {
	t.Parallel()
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		other := another(t, servers)
		held, failed := taken(t, other.Mutex("c").Lock), make(chan error, 1)
		go func() {
			_, err := relock.All(c.Mutex("a"), c.Mutex("b", relock.WithMinHold(time.Hour)), c.Mutex("c")).Lock(context.Background())
			failed <- err
		}()
		require.Eventually(t, func() bool { return stateOf(t, other.Mutex("c")).Waiters == 1 }, patience, time.Millisecond)
		c.Close()
		require.ErrorIs(t, within(t, failed), relock.ErrClosed)
		for _, name := range []string{"a", "b"} {
			for _, s := range servers {
				require.Eventually(t, func() bool { return s.Do("EXISTS", name) == "0" }, patience, time.Millisecond)
			}
		}
		unlocked(t, held)
	}, relock.WithLease(far))
}

// What the caller of All was given stays for its lease, as what any caller has: the code under it may run on.
func TestCloseLeavesWhatACallerOfAllHas(t *testing.T) {
	s := redistest.Start(t)
	for name, locks := range map[string]func(c *relock.Client) []relock.Locker{
		"together":   func(c *relock.Client) []relock.Locker { return mutexes(c, "k", 2) },
		"one by one": func(c *relock.Client) []relock.Locker { return []relock.Locker{c.Mutex("k0"), c.RWMutex("k1")} },
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, s.Client())
			l := allTaken(t, relock.All(locks(c)...))
			c.Close()
			require.ErrorIs(t, context.Cause(l.Context()), relock.ErrClosed)
			require.Equal(t, "2", s.Do("EXISTS", "k0", "k1"))
			s.Do("DEL", "k0", "k1")
		})
	}
}

// A caller of All whose context ends while it waits is back at once, though Redis hangs: the first locks are given back behind it.
func TestAllIsBackAtOnceWhereRedisHangs(t *testing.T) {
	t.Parallel()
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		other := another(t, servers)
		held, failed := taken(t, other.Mutex("c").Lock), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := relock.All(mutexes(c, "a", 2)[0], c.Mutex("b"), c.Mutex("c")).Lock(ctx)
			failed <- err
		}()
		require.Eventually(t, func() bool { return stateOf(t, other.Mutex("c")).Waiters == 1 }, patience, time.Millisecond)
		for _, s := range servers {
			s.Pause()
		}
		began := time.Now()
		cancel()
		err := within(t, failed)
		took := time.Since(began)
		for _, s := range servers {
			s.Resume()
		}
		require.ErrorIs(t, err, context.Canceled)
		require.Less(t, took, leisure)
		for _, name := range []string{"a0", "b"} {
			unlocked(t, within(t, waitFor(t, other, name)))
		}
		unlocked(t, held)
	}, relock.WithLease(far), relock.WithCommandTimeout(5*time.Second))
}

// ways take a lock of some options in each way of All and Any: by one command, one by one, and after a wait.
func ways(t *testing.T, c, other *relock.Client, opts ...relock.Option) (leases map[string]func() *relock.Lease) {
	of := func(l *relock.MultiLease) *relock.Lease { return l.Lease("k") }
	waited := func(take func() *relock.Lease) *relock.Lease {
		held := taken(t, other.Mutex("k").Lock)
		got := make(chan *relock.Lease, 1)
		go func() { got <- take() }()
		require.Eventually(t, func() bool { return stateOf(t, other.Mutex("k")).Waiters == 1 }, patience, time.Millisecond)
		unlocked(t, held)
		return within(t, got)
	}
	k, by := c.Mutex("k", opts...), c.Mutex("l")
	all := func() *relock.Lease { return of(allTaken(t, relock.All(k, by))) }
	kinds := func() *relock.Lease { return of(allTaken(t, relock.All(k, c.RWMutex("w")))) }
	only := func() *relock.Lease { return taken(t, relock.Any(k).Lock) }
	return map[string]func() *relock.Lease{
		"All": all, "All one by one": kinds, "Any": only,
		"All that waits": func() *relock.Lease { return waited(all) }, "All one by one that waits": func() *relock.Lease { return waited(kinds) },
		"Any that waits": func() *relock.Lease { return waited(only) },
	}
}

// Each option of a lock holds inside All and Any as for the lock alone.
func TestOptionsHoldInAllAndAny(t *testing.T) {
	t.Parallel()
	const lease, off = 10 * time.Second, 2 * time.Second
	about := func(t *testing.T, want, is time.Duration) {
		require.LessOrEqual(t, is, want)
		require.Greater(t, is, want-off)
	}
	for option, of := range map[string]struct {
		opts []relock.Option
		is   func(t *testing.T, s *redistest.Server, l *relock.Lease, kept func() bool, again func() *relock.Lease)
	}{
		"a fixed lease that is longer": {[]relock.Option{relock.WithFixedLease(time.Hour)}, func(t *testing.T, s *redistest.Server, l *relock.Lease, _ func() bool, _ func() *relock.Lease) {
			require.Greater(t, time.Until(l.Until()), 58*time.Minute)
			about(t, time.Hour, ttlOf(t, s, "k"))
		}},
		"a fixed lease that is shorter": {[]relock.Option{relock.WithFixedLease(3 * time.Second)}, func(t *testing.T, s *redistest.Server, l *relock.Lease, _ func() bool, _ func() *relock.Lease) {
			about(t, 3*time.Second, time.Until(l.Until()))
			about(t, 3*time.Second, ttlOf(t, s, "k"))
		}},
		"a maximum": {[]relock.Option{relock.WithMaxHold(100 * time.Millisecond)}, func(t *testing.T, _ *redistest.Server, l *relock.Lease, _ func() bool, again func() *relock.Lease) {
			for ; ; l = again() { // a machine may be too slow to renew so short a lease until its maximum
				require.LessOrEqual(t, time.Until(l.Until()), 100*time.Millisecond)
				within(t, l.Context().Done())
				cause := context.Cause(l.Context())
				if errors.Is(cause, relock.ErrMaxHold) {
					return
				}
				require.ErrorIs(t, cause, relock.ErrLost)
			}
		}},
		"a minimum": {[]relock.Option{relock.WithMinHold(time.Hour)}, func(t *testing.T, s *redistest.Server, l *relock.Lease, kept func() bool, _ func() *relock.Lease) {
			unlocked(t, l)
			require.True(t, kept())
		}},
		"none": {nil, func(t *testing.T, s *redistest.Server, l *relock.Lease, kept func() bool, _ func() *relock.Lease) {
			about(t, lease, ttlOf(t, s, "k"))
			unlocked(t, l)
			require.False(t, kept())
		}},
	} {
		t.Run(option, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			for way := range ways(t, nil, nil) {
				t.Log(way)
				take := func() *relock.Lease {
					s.Do("FLUSHALL")
					c, other := newClient(t, s.Client(), relock.WithLease(lease)), newClient(t, s.Client())
					return ways(t, c, other, of.opts...)[way]()
				}
				of.is(t, s, take(), func() bool { return s.Do("EXISTS", "k") == "1" }, take)
			}
		})
	}
}

// ttlOf is how long Redis keeps a key.
func ttlOf(t *testing.T, s *redistest.Server, key string) time.Duration {
	ms, err := time.ParseDuration(s.Do("PTTL", key) + "ms")
	require.NoError(t, err)
	return ms
}

// The wait of each lock ends as its own options say, inside All and Any too.
func TestWaitsHoldInAllAndAny(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	for what, lock := range map[string]func(m, by relock.Locker) error{
		"All": func(m, by relock.Locker) error { return leased(relock.All(m, by).Lock(t.Context())) },
		"Any": func(m, by relock.Locker) error { return leased(relock.Any(m, by).Lock(t.Context())) },
	} {
		held := allTaken(t, relock.All(other.Mutex("k"), other.Mutex("l")))
		began := time.Now()
		err := inTime(t, func(context.Context) error {
			return lock(c.Mutex("k", relock.WithWait(100*time.Millisecond)), c.Mutex("l", relock.WithWait(300*time.Millisecond)))
		})
		require.ErrorIs(t, err, relock.ErrNotAcquired)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		want := 100 * time.Millisecond
		if what == "Any" {
			want = 300 * time.Millisecond // as long as one of them waits
		}
		require.GreaterOrEqual(t, time.Since(began), want)
		require.Less(t, time.Since(began), want+leisure)
		unlockedAll(t, held)
		noLocks(t, s)
	}
}

// A lease that is over before its Unlock is lost, whatever its kind, though no timer has run: so the process finds it that was stopped.
func TestUnlockAfterAStop(t *testing.T) {
	for kind, lock := range map[string]func(c *relock.Client) relock.Locker{
		"mutex":   func(c *relock.Client) relock.Locker { return c.Mutex("k") },
		"writer":  func(c *relock.Client) relock.Locker { return c.RWMutex("k") },
		"reader":  func(c *relock.Client) relock.Locker { return c.RWMutex("k").Reader() },
		"permits": func(c *relock.Client) relock.Locker { return c.Semaphore("k", 3).Locker(2) },
	} {
		for over, want := range map[time.Duration]error{-time.Millisecond: nil, 0: relock.ErrLost, time.Hour: relock.ErrLost} {
			t.Run(fmt.Sprintf("%s, %v", kind, over), func(t *testing.T) {
				inFakeTime(t, func(t *testing.T, c *relock.Client, _ *scripted) {
					l := taken(t, lock(c).Lock)
					watchdogOf(c).Remove(holdOf(l)) // as if the process were stopped
					time.Sleep(time.Until(l.Until()) + over)
					require.ErrorIs(t, l.Unlock(t.Context()), want)
				})
			})
		}
	}

	// Of a MultiLease the lost one is told, whatever became of the others.
	for others, before := range map[string]func(*relock.MultiLease) error{
		"held":              func(*relock.MultiLease) error { return nil },
		"one is given back": func(l *relock.MultiLease) error { return l.Lease("a").Unlock(context.Background()) },
		"all are given back": func(l *relock.MultiLease) error {
			return errors.Join(l.Lease("a").Unlock(context.Background()), l.Lease("c").Unlock(context.Background()))
		},
	} {
		t.Run(others, func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, c *relock.Client, _ *scripted) {
				l := allTaken(t, relock.All(c.Mutex("a"), c.Mutex("b", relock.WithFixedLease(10*time.Second)), c.Mutex("c")))
				watchdogOf(c).Remove(holdOf(l.Lease("b")))
				require.NoError(t, before(l))
				time.Sleep(10 * time.Second)
				err := l.Unlock(t.Context())
				require.ErrorIs(t, err, relock.ErrLost)
				var lost *relock.LostError
				require.ErrorAs(t, err, &lost)
				require.Equal(t, "b", lost.Name)
			})
		})
	}
}
