package suite_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/drivertest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// inLine has lock wait in the background until Redis has so many readers and writers in line.
func inLine(t *testing.T, s *redistest.Server, lock func(context.Context) (*relock.Lease, error), readers, writers int) <-chan *relock.Lease {
	t.Helper()
	got := make(chan *relock.Lease, 1)
	go func() {
		l, err := lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	want := strconv.Itoa(readers) + " " + strconv.Itoa(writers)
	require.Eventually(t, func() bool {
		return s.Do("ZCARD", "relock_readers:{k}:k")+" "+s.Do("ZCARD", "relock_writers:{k}") == want
	}, patience, time.Millisecond)
	return got
}

// Readers share the lock; a writer that waits keeps new ones out; its end lets in all readers that wait, and they the next
// writer. Tokens follow that order.
func TestRWMutexIsPhaseFair(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s).RWMutex("k"), hearing(t, s).RWMutex("k")
	c := hearing(t, s, relock.WithLocalHandoff(1, 0)).RWMutex("k") // else the writers of a process come together
	one, two := taken(t, a.RLock), taken(t, b.TryRLock)
	_, err := c.TryLock(t.Context())
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	writer := inLine(t, s, c.Lock, 0, 1)
	within(t, one.Wanted())
	within(t, two.Wanted())
	_, err = b.TryRLock(t.Context())
	require.ErrorIs(t, err, relock.ErrNotAcquired, "past a writer that waits")
	st, err := a.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{true, 2, 1}, []any{st.Held, st.Readers, st.Waiters})
	late := inLine(t, s, b.RLock, 1, 1)
	unlocked(t, one, two)
	w := within(t, writer)
	require.Greater(t, w.Token(), two.Token())
	require.Empty(t, late, "the end of readers lets no other readers in before a writer that waits")

	readers := []<-chan *relock.Lease{late, inLine(t, s, a.RLock, 2, 0)}
	next := inLine(t, s, c.Lock, 2, 0) // it waits behind the other writer of its process
	other := inLine(t, s, b.Lock, 2, 1)
	require.Empty(t, next)
	unlocked(t, w)
	first, second := within(t, readers[0]), within(t, readers[1])
	require.Greater(t, first.Token(), w.Token())
	require.Empty(t, other)
	unlocked(t, first)
	require.Empty(t, other)
	unlocked(t, second)
	third := within(t, other)
	require.Greater(t, third.Token(), max(first.Token(), second.Token()))
	unlocked(t, third)
	unlocked(t, within(t, next))
	requireNothingLeft(t, s)
}

// Neither readers of several processes that overlap keep a writer out, nor writers that follow each other a reader.
func TestRWMutexStarvesNone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	starvesNone(t, func() *relock.RWMutex { return hearing(t, s).RWMutex("k") })
}

// starvesNone has six goroutines of three processes take turns at one side without a pause, and demands that a process of the other
// side gets its own turn three times, and they theirs after each.
func starvesNone(t *testing.T, open func() *relock.RWMutex) {
	t.Helper()
	for name, sides := range map[string][2]func(*relock.RWMutex, context.Context) (*relock.Lease, error){
		"a writer": {(*relock.RWMutex).RLock, (*relock.RWMutex).Lock},
		"a reader": {(*relock.RWMutex).Lock, (*relock.RWMutex).RLock},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			defer wg.Wait()
			defer cancel()
			var turns atomic.Int64
			for range 3 {
				rw := open()
				for range 2 {
					wg.Go(func() {
						for ctx.Err() == nil {
							l, err := sides[0](rw, ctx)
							if err != nil {
								continue
							}
							turns.Add(1)
							time.Sleep(10 * time.Millisecond)
							if err := l.Unlock(context.Background()); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			require.Eventually(t, func() bool { return turns.Load() > 10 }, patience, time.Millisecond)
			rw := open()
			for range 3 {
				soon, done := context.WithTimeout(t.Context(), patience)
				l, err := sides[1](rw, soon)
				done()
				require.NoError(t, err)
				before := turns.Load()
				require.NoError(t, l.Unlock(t.Context()))
				require.Eventually(t, func() bool { return turns.Load() > before }, patience, time.Millisecond)
			}
		})
	}
}

// statsOf are the calls of some commands.
func statsOf(stats string, commands ...string) (calls []string) {
	for _, c := range commands {
		_, rest, _ := strings.Cut(stats, "cmdstat_"+c+":calls=")
		n, _, _ := strings.Cut(rest, ",")
		calls = append(calls, n)
	}
	return calls
}

// With WithLinger the lock stays for the next reader, and for the next writer, and a process that wants it ends that.
func TestRWMutexLingers(t *testing.T) {
	s := redistest.Start(t)
	a := hearing(t, s, relock.WithLinger(time.Hour), relock.WithLease(time.Hour)).RWMutex("k")
	b := hearing(t, s).RWMutex("k")
	unlocked(t, taken(t, a.RLock)) // it subscribes
	unlocked(t, taken(t, a.RLock))
	before := strings.Join(statsOf(s.Do("INFO", "commandstats"), "evalsha"), "")
	for range 1000 {
		unlocked(t, taken(t, a.RLock))
	}
	require.Equal(t, before, strings.Join(statsOf(s.Do("INFO", "commandstats"), "evalsha"), ""))
	unlocked(t, taken(t, b.RLock))
	unlocked(t, taken(t, b.Lock))
	unlocked(t, taken(t, a.Lock))
	unlocked(t, taken(t, a.Lock))
	require.Equal(t, "1", s.Do("EXISTS", "k"))
	unlocked(t, taken(t, b.RLock))
	requireNothingLeft(t, s)
}

func TestRWMutexReentry(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s).RWMutex("k"), hearing(t, s).RWMutex("k")
	r := taken(t, a.RLock)
	writer := inLine(t, s, b.Lock, 0, 1)
	inner, err := a.RLock(r.Context())
	require.NoError(t, err, "past the writer that waits")
	_, err = a.Lock(r.Context())
	require.ErrorIs(t, err, relock.ErrUpgrade)
	require.ErrorIs(t, err, relock.ErrMisuse)
	_, err = a.TryLock(inner.Context())
	require.ErrorIs(t, err, relock.ErrUpgrade)
	held, err := a.Held(inner.Context())
	require.NoError(t, err)
	require.Same(t, inner, held)
	unlocked(t, inner, r)

	w := within(t, writer)
	again, err := b.Lock(w.Context())
	require.NoError(t, err)
	reads, err := b.RLock(again.Context())
	require.NoError(t, err)
	require.Equal(t, 3, reads.Count())
	require.Equal(t, w.Token(), reads.Token())
	_, err = a.TryRLock(t.Context())
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	unlocked(t, again, w)
	_, err = a.TryRLock(t.Context())
	require.ErrorIs(t, err, relock.ErrNotAcquired, "a reader inside a writer")
	unlocked(t, reads)
	_, err = a.RLock(relock.WithOwner(t.Context(), "me"))
	require.ErrorIs(t, err, errors.ErrUnsupported)
	requireNothingLeft(t, s)
}

// A writer under the context of a read lease that was lost is told that, as under any other lost lease.
func TestWriterUnderALostReadLease(t *testing.T) {
	rw := hearing(t, redistest.Start(t)).RWMutex("k")
	r := taken(t, rw.RLock)
	lose(r)
	_, err := rw.Lock(context.WithoutCancel(r.Context()))
	requireLost(t, relock.ErrLost, err)
}

// Leases of readers and of a writer are renewed past their first end, and what Redis keeps of a reader goes with it.
func TestRWMutexRenewal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := hearing(t, s, relock.WithLease(900*time.Millisecond), relock.WithCommandTimeout(300*time.Millisecond))
	leases := []*relock.Lease{taken(t, c.RWMutex("w").Lock)}
	for i := range 5 {
		leases = append(leases, taken(t, c.RWMutex("k"+strconv.Itoa(i/2)).RLock))
	}
	time.Sleep(2 * time.Second)
	for _, l := range leases {
		require.NoError(t, l.Context().Err())
	}
	s.Do("DEL", "k1")
	for _, l := range leases[3:5] { // readers of one hold are told one after the other
		within(t, l.Context().Done())
		require.ErrorIs(t, context.Cause(l.Context()), relock.ErrLost)
	}
	require.Equal(t, "0", s.Do("EXISTS", "k1"))
	unlocked(t, leases[:3]...)
	unlocked(t, leases[5])
	requireNothingLeft(t, s)
}

// ForceUnlock ends readers or the writer, tells them, and lets in those that wait.
func TestRWMutexForceUnlock(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s).RWMutex("k"), hearing(t, s).RWMutex("k")
	one, two := taken(t, a.RLock), taken(t, b.RLock)
	writer := inLine(t, s, b.Lock, 0, 1)
	freed, err := a.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	within(t, one.Context().Done())
	within(t, two.Context().Done())
	w := within(t, writer)
	readers := []<-chan *relock.Lease{inLine(t, s, a.RLock, 1, 0), inLine(t, s, b.RLock, 2, 0)}
	freed, err = a.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	within(t, w.Context().Done())
	unlocked(t, within(t, readers[0]), within(t, readers[1]))
	requireNothingLeft(t, s)
}

// What Redisson could count down from must be a hold count: else its read unlock would stop Redis.
func TestRWMutexWritesNoLargeNumbers(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s, relock.WithLinger(time.Second)).RWMutex("k"), hearing(t, s).RWMutex("k")
	requireSmall := func() {
		t.Helper()
		for _, value := range strings.Fields(s.Do("HVALS", "k")) {
			n, err := strconv.ParseFloat(value, 64)
			require.True(t, err != nil || n <= 1000, value)
		}
	}
	w := taken(t, a.Lock)
	requireSmall()
	inner, err := a.Lock(w.Context())
	require.NoError(t, err)
	requireSmall()
	unlocked(t, inner)
	requireSmall()
	r, err := w.Downgrade(t.Context())
	require.NoError(t, err)
	requireSmall()
	other := taken(t, b.RLock)
	requireSmall()
	unlocked(t, r, other)
}

// A process that dies as a reader, or as a writer that waits, costs a lease.
func TestRWMutexDeadProcesses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	lease := relock.WithLease(2 * time.Second)
	dead, b := hearing(t, s, lease), hearing(t, s, lease).RWMutex("k")
	gone := taken(t, dead.RWMutex("k").RLock)
	staying := taken(t, b.RLock)
	line := "2000:256:" + strings.Repeat("0", 8) + "-0000-0000-0000-000000000000:1:"
	s.Do("ZADD", "relock_writers:{k}", "1", line) // of a client that listens no more
	third := hearing(t, s, lease).RWMutex("k")
	unlocked(t, taken(t, third.TryRLock))
	require.Equal(t, "0", s.Do("ZCARD", "relock_writers:{k}"))
	dead.Close() // what is held stays for its lease
	writer := inLine(t, s, third.Lock, 0, 1)
	unlocked(t, staying)
	w := within(t, writer)
	require.NoError(t, w.Context().Err())
	require.ErrorIs(t, context.Cause(gone.Context()), relock.ErrClosed)
	unlocked(t, w)
}

// Sixteen goroutines of four processes read and write: no writer is beside anybody, and all come.
func TestRWMutexExcludes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, opts := range [][]relock.ClientOption{{}, {relock.WithLinger(50 * time.Millisecond)}, {relock.WithLocalHandoff(1, 0)}} {
		excludes(t, 150, func() *relock.RWMutex { return hearing(t, s, opts...).RWMutex("k") })
	}
}

// excludes has four goroutines of each of four processes take so many turns, and demands that no writer is beside anybody.
func excludes(t *testing.T, turns int, open func() *relock.RWMutex) {
	t.Helper()
	var mu sync.Mutex
	readers, writers := 0, 0
	change := func(r, w int) (int, int) {
		mu.Lock()
		defer mu.Unlock()
		readers, writers = readers+r, writers+w
		return readers, writers
	}
	var wg sync.WaitGroup
	for range 4 {
		rw := open()
		for g := range 4 {
			wg.Go(func() {
				for i := range turns {
					if (g+i)%4 == 0 {
						l, err := rw.Lock(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						if r, w := change(0, 1); r != 0 || w != 1 {
							t.Errorf("a writer beside %d readers, %d writers", r, w-1)
						}
						change(0, -1)
						_ = l.Unlock(t.Context())
						continue
					}
					l, err := rw.RLock(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if _, w := change(1, 0); w != 0 {
						t.Errorf("a reader beside a writer")
					}
					change(-1, 0)
					_ = l.Unlock(t.Context())
				}
			})
		}
	}
	wg.Wait()
}

// A full Redis renews readers and writers, and takes unlocks; a re-entry that it refuses lengthens the lease all the same.
func TestRWMutexOnAFullRedis(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s, relock.WithLease(900*time.Millisecond), relock.WithCommandTimeout(300*time.Millisecond))
	r, w := taken(t, c.RWMutex("k").RLock), taken(t, c.RWMutex("w").Lock)
	s.Do("CONFIG", "SET", "maxmemory", "1")
	time.Sleep(1500 * time.Millisecond)
	require.NoError(t, r.Context().Err())
	require.NoError(t, w.Context().Err())
	_, err := c.RWMutex("w").Lock(w.Context())
	require.ErrorContains(t, err, "OOM")
	require.NoError(t, w.Context().Err())
	unlocked(t, r, w)
	s.Do("CONFIG", "SET", "maxmemory", "0")
	require.Equal(t, "0", s.Do("EXISTS", "w"))
	requireNothingLeft(t, s)
}

// A renewal that comes after the end writes no key again.
func TestRWMutexLateRenewal(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s)
	rw := c.RWMutex("k")
	for _, lock := range []func(context.Context) (*relock.Lease, error){rw.RLock, rw.Lock} {
		l := taken(t, lock)
		unlocked(t, l)
		late := []claim.Renewal{{Claim: claimOf(l), Lease: time.Minute, Timeout: time.Second}}
		arbiterOf(c).Renew(t.Context(), late, func(_ int, got wire.Result, _ clock.Stamp, err error) {
			require.NoError(t, err)
			require.Equal(t, wire.Lost, got)
		})
		requireNothingLeft(t, s)
	}
}

// What lingers for the readers of a process gives way to its own writer at once, and the other way round.
func TestRWMutexLingersForOneSide(t *testing.T) {
	s := redistest.Start(t)
	rw := hearing(t, s, relock.WithLinger(time.Hour), relock.WithLease(time.Hour)).RWMutex("k")
	for range 3 {
		unlocked(t, taken(t, rw.RLock), taken(t, rw.RLock))
		unlocked(t, taken(t, rw.Lock))
	}
}

// The rights of docs/wire.md are enough for read-write locks, and without one of them a lock is refused before it is held.
func TestRWMutexWithLeastPrivilege(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	every := append(rights(t, "suite:")[0], drivertest.ReadWriteRights(t, "suite:")...)
	short := []relock.ClientOption{relock.WithLease(900 * time.Millisecond), relock.WithCommandTimeout(300 * time.Millisecond)}
	a := newClient(t, shared(t, s.AddUser("a", "secret", every...))(), short...).RWMutex("suite:k")
	b := newClient(t, shared(t, s.AddUser("b", "secret", every...))(), short...).RWMutex("suite:k")
	one, two := taken(t, a.RLock), taken(t, b.RLock)
	got := make(chan *relock.Lease, 1)
	go func() {
		l, err := a.Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- l
	}()
	within(t, two.Wanted())
	unlocked(t, one, two)
	w := within(t, got)
	time.Sleep(time.Second) // it is renewed
	r, err := w.Downgrade(t.Context())
	require.NoError(t, err)
	_, err = b.State(t.Context())
	require.NoError(t, err)
	freed, err := b.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	within(t, r.Context().Done())
	if major, _, valkey := s.Version(); major < 7 && !valkey {
		return // scripts cannot ask for rights
	}
	for _, missing := range []string{"+hlen", "+hsetnx", "+zrangebyscore", "~relock_phase:{suite:*", "~{suite:*", "~relock_readers:{suite:*"} {
		less := slices.DeleteFunc(slices.Clone(every), func(rule string) bool { return rule == missing })
		c := newClient(t, shared(t, s.AddUser("less"+missing, "secret", less...))())
		unlocked(t, taken(t, c.Mutex("suite:k").Lock)) // which takes none of them
		_, err := c.RWMutex("suite:k").RLock(t.Context())
		require.ErrorContains(t, err, "NOPERM", missing)
	}
	require.Equal(t, "0", s.Do("EXISTS", "suite:k"))
}

// The table of docs/wire.md has what locks take whose whole names are a hash tag, where other names take a queue's.
func TestRightsToNamesThatAreTags(t *testing.T) {
	s := redistest.Start(t)
	every := drivertest.TagRights(t, "suite:", append(rights(t, "suite:")[0], drivertest.ReadWriteRights(t, "suite:")...))
	a, b := newClient(t, shared(t, s.AddUser("a", "secret", every...))()), newClient(t, shared(t, s.AddUser("b", "secret", every...))())
	inTurn := func(first, second func(context.Context) (*relock.Lease, error), queue string) {
		t.Helper()
		l := taken(t, first)
		got := make(chan *relock.Lease, 1)
		go func() {
			l, err := second(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		require.Eventually(t, func() bool { return s.Do("ZCARD", queue) == "1" || t.Failed() }, patience, time.Millisecond)
		require.False(t, t.Failed())
		unlocked(t, l)
		unlocked(t, within(t, got))
	}
	inTurn(a.Mutex("{suite:m}").Lock, b.Mutex("{suite:m}").Lock, "relock_line:{suite:m}")
	inTurn(a.RWMutex("{suite:k}").RLock, b.RWMutex("{suite:k}").Lock, "relock_writer_line:{suite:k}")
	inTurn(a.RWMutex("{suite:k}").Lock, b.RWMutex("{suite:k}").RLock, "relock_readers:{suite:k}:{suite:k}")
}

// A new ticket is above the phase and above both lines, although the server's clock was set back since: no reader that comes
// passes a writer that waits. A phase has readers whose tickets are ahead of the clock.
func TestRWMutexTicketsOutliveTheClock(t *testing.T) {
	s := redistest.Start(t)
	a, b, c, d := hearing(t, s).RWMutex("k"), hearing(t, s).RWMutex("k"), hearing(t, s).RWMutex("k"), hearing(t, s).RWMutex("k")
	r := taken(t, a.RLock)
	writer := inLine(t, s, b.Lock, 0, 1)
	next := inLine(t, s, d.Lock, 0, 2)
	later := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	s.Do("SET", "relock_phase:{k}:k", later, "PX", "60000") // as a clock wrote it that was an hour ahead
	reader := inLine(t, s, c.RLock, 1, 2)
	require.Greater(t, strings.Fields(s.Do("ZRANGE", "relock_readers:{k}:k", "0", "0", "WITHSCORES"))[1], later)
	unlocked(t, r)
	w := within(t, writer)
	require.Empty(t, reader)
	unlocked(t, w)
	r = within(t, reader)
	require.Empty(t, next)
	unlocked(t, r)
	unlocked(t, within(t, next))
	requireNothingLeft(t, s)
}

// On a Cluster the keys of a read-write lock are of one slot, with sharded channels and with plain ones, where waiters race.
func TestRWMutexOnACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	for name, channels := range map[string][]relock.ClientOption{"sharded": nil, "plain": {relock.WithPlainChannels()}} {
		open := func() (*relock.Client, *relock.RWMutex) {
			rdb, err := rueidis.NewClient(nodes.Option())
			require.NoError(t, err)
			t.Cleanup(rdb.Close)
			c := newClient(t, rdb, append(channels, relock.WithLease(2*time.Second), relock.WithCommandTimeout(600*time.Millisecond),
				relock.WithLinger(50*time.Millisecond))...)
			return c, c.RWMutex(name)
		}
		c, a := open()
		_, b := open()
		one, two := taken(t, a.RLock), taken(t, b.RLock)
		_, err := a.TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrNotAcquired)
		unlocked(t, one, two)
		unlocked(t, taken(t, b.Lock))
		e := newEntry(c, wire.Read, name) // what is left of a downgrade takes nothing once its writer is gone
		e.Owner = "gone:1"
		_, err = arbiterOf(c).Claim(e).Try(t.Context())
		var held *wire.HeldError
		require.ErrorAs(t, err, &held)
		for range 10 {
			w := taken(t, a.Lock)
			_, err = b.TryRLock(t.Context())
			require.ErrorIs(t, err, relock.ErrNotAcquired)
			r, err := w.Downgrade(t.Context())
			require.NoError(t, err)
			unlocked(t, taken(t, b.RLock), r)
			unlocked(t, taken(t, b.Lock))
		}
	}
}

// Reader is the readers' side, as a lock like any other.
func TestRWMutexReader(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s).RWMutex("k"), hearing(t, s).RWMutex("k")
	require.Equal(t, "k", a.Reader().Name())
	one, two := taken(t, a.Reader().Lock), taken(t, b.Reader().TryLock)
	state, err := a.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, state.Readers)
	unlocked(t, one, two)
	require.NoError(t, a.Reader().Do(t.Context(), func(ctx context.Context) error {
		held, err := a.Reader().Held(ctx)
		require.NoError(t, err)
		require.Equal(t, "k", held.Name())
		_, err = b.TryLock(ctx)
		require.ErrorIs(t, err, relock.ErrNotAcquired)
		return nil
	}))
	for _, r := range []*relock.Reader{nil, {}, (*relock.RWMutex)(nil).Reader()} {
		for _, lock := range []func(context.Context) (*relock.Lease, error){r.Lock, r.TryLock, r.Held} {
			_, err := lock(t.Context())
			require.ErrorIs(t, err, relock.ErrMisuse)
		}
		require.ErrorIs(t, r.Do(t.Context(), nil), relock.ErrMisuse)
		require.Empty(t, r.Name())
	}
}

// A quorum has no read-write locks, and neither has what was not made by a client.
func TestRWMutexThatCannotBe(t *testing.T) {
	rw := newRedlock(t, masters(t, 3)).RWMutex("k")
	for _, lock := range []func(context.Context) (*relock.Lease, error){rw.Lock, rw.TryLock, rw.RLock, rw.TryRLock, rw.Held} {
		_, err := lock(t.Context())
		require.ErrorIs(t, err, errors.ErrUnsupported)
	}
	for _, rw := range []*relock.RWMutex{nil, {}, (*relock.Client)(nil).RWMutex("k"), new(relock.Client).RWMutex("k")} {
		for _, lock := range []func(context.Context) (*relock.Lease, error){rw.Lock, rw.TryLock, rw.RLock, rw.TryRLock, rw.Held} {
			_, err := lock(t.Context())
			require.ErrorIs(t, err, relock.ErrMisuse)
		}
		_, err := rw.State(t.Context())
		require.ErrorIs(t, err, relock.ErrMisuse)
		_, err = rw.ForceUnlock(t.Context())
		require.ErrorIs(t, err, relock.ErrMisuse)
		require.ErrorIs(t, rw.Do(t.Context(), nil), relock.ErrMisuse)
		require.Empty(t, rw.Name())
	}
	c := newClient(t, redistest.Start(t).Client())
	_, err := c.RWMutex("").RLock(t.Context())
	require.ErrorIs(t, err, relock.ErrInvalidName)
	_, err = c.RWMutex("k", relock.WithFixedLease(time.Minute)).RLock(t.Context())
	require.ErrorIs(t, err, relock.ErrInvalidOption, "longer than Redisson's watchdog")
	_, err = c.RWMutex("k", relock.WithRedissonWatchdog(-1)).Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	l := taken(t, c.RWMutex("k", relock.WithFixedLease(time.Minute), relock.WithRedissonWatchdog(0)).RLock)
	unlocked(t, l)
	l = taken(t, c.RWMutex("k").RLock)
	require.ErrorIs(t, l.Extend(t.Context(), time.Minute), relock.ErrInvalidOption)
	require.NoError(t, l.Extend(t.Context(), 20*time.Second))
	unlocked(t, l)
	_, err = (*relock.Lease)(nil).Downgrade(t.Context())
	require.ErrorIs(t, err, relock.ErrNotHeld)
}
