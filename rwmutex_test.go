package relock

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/drivertest"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// inLine has lock wait in the background until Redis has so many readers and writers in line.
func inLine(t *testing.T, s *redistest.Server, lock func(context.Context) (*Lease, error), readers, writers int) <-chan *Lease {
	t.Helper()
	got := make(chan *Lease, 1)
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

// hearing returns a client whose inbox is subscribed: one that is not yet is taken for dead where it waits, until it asks again.
func hearing(t *testing.T, s *redistest.Server, opts ...Option) *Client {
	t.Helper()
	c := newClient(t, s.Client(), opts...)
	unlocked(t, taken(t, c.RWMutex("first of "+c.ID()).Lock))
	require.Eventually(t, func() bool { return strings.HasSuffix(s.Do("PUBSUB", "NUMSUB", wire.InboxPrefix+c.ID()), "1") }, patience, time.Millisecond)
	return c
}

// taken is the lease that lock gives.
func taken(t *testing.T, lock func(context.Context) (*Lease, error)) *Lease {
	t.Helper()
	l, err := lock(t.Context())
	require.NoError(t, err)
	return l
}

// requireNothingLeft demands that Redis keeps nothing of the lock k but its counter.
func requireNothingLeft(t *testing.T, s *redistest.Server) {
	t.Helper()
	require.Eventually(t, func() bool { return s.Do("KEYS", "*rwlock_timeout*") == "" }, patience, time.Millisecond)
	require.Eventually(t, func() bool {
		return s.Do("EXISTS", "k", "relock_readers:{k}:k", "relock_writers:{k}") == "0"
	}, patience, time.Millisecond)
}

// Readers share the lock; a writer that waits keeps new ones out; its end lets in all readers that wait, and they the next
// writer. Tokens follow that order.
func TestRWMutexIsPhaseFair(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s).RWMutex("k"), hearing(t, s).RWMutex("k")
	c := hearing(t, s, WithLocalHandoff(1, 0)).RWMutex("k") // else the writers of a process come together
	one, two := taken(t, a.RLock), taken(t, b.TryRLock)
	_, err := c.TryLock(t.Context())
	require.ErrorIs(t, err, ErrNotAcquired)
	writer := inLine(t, s, c.Lock, 0, 1)
	within(t, one.Wanted())
	within(t, two.Wanted())
	_, err = b.TryRLock(t.Context())
	require.ErrorIs(t, err, ErrNotAcquired, "past a writer that waits")
	st, err := a.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{true, 2, 1}, []any{st.Held, st.Readers, st.Waiters})
	late := inLine(t, s, b.RLock, 1, 1)
	unlocked(t, one, two)
	w := within(t, writer)
	require.Greater(t, w.Token(), two.Token())
	require.Empty(t, late, "the end of readers lets no other readers in before a writer that waits")

	readers := []<-chan *Lease{late, inLine(t, s, a.RLock, 2, 0)}
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

// The readers of one process share a hold: further ones send no command.
func TestRWMutexReadersOfAProcessShare(t *testing.T) {
	s := redistest.Start(t)
	rw := hearing(t, s, WithLocalHandoff(256, time.Hour)).RWMutex("k")
	unlocked(t, taken(t, rw.RLock)) // it subscribes
	first := taken(t, rw.RLock)
	before := s.Do("INFO", "commandstats")
	count := func(stats string) string { return strings.Join(statsOf(stats, "evalsha", "eval"), " ") }
	var leases []*Lease
	for range 50 {
		leases = append(leases, taken(t, rw.RLock), taken(t, rw.TryRLock))
	}
	require.Equal(t, "2", s.Do("HLEN", "k"), "mode, and one reader")
	for _, l := range leases {
		require.Equal(t, first.Token(), l.Token())
		require.Equal(t, 1, l.Count())
	}
	unlocked(t, leases...)
	require.Equal(t, count(before), count(s.Do("INFO", "commandstats")))
	require.NoError(t, first.Context().Err())
	unlocked(t, first)
	requireNothingLeft(t, s)
}

// A hold is shared for the time of WithLocalHandoff alone, counted from when it was asked for.
func TestRWMutexIsSharedForATime(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s)
	unlocked(t, taken(t, c.RWMutex("k").RLock)) // it subscribes
	long, short := c.RWMutex("k", WithLocalHandoff(256, time.Hour)), c.RWMutex("k", WithLocalHandoff(256, time.Nanosecond))
	one := taken(t, short.RLock)
	two := taken(t, short.RLock)
	require.Equal(t, "3", s.Do("HLEN", "k"))
	unlocked(t, one, two)
	three := taken(t, long.RLock)
	four := taken(t, long.RLock)
	require.Equal(t, "2", s.Do("HLEN", "k"))
	unlocked(t, three, four)
	requireNothingLeft(t, s)
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

// Readers that waited behind a local one while a writer had the lock come in with it.
func TestRWMutexReadersWaitTogether(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s).RWMutex("k"), hearing(t, s).RWMutex("k")
	w := taken(t, b.Lock)
	var readers []<-chan *Lease
	for range 20 {
		readers = append(readers, inLine(t, s, a.RLock, 1, 0))
	}
	require.Eventually(t, func() bool { return a.read.k.gates.Waiting(a.read.names.Gate()) }, patience, time.Millisecond)
	unlocked(t, w)
	var leases []*Lease
	for _, r := range readers {
		leases = append(leases, within(t, r))
	}
	require.Equal(t, "2", s.Do("HLEN", "k"), "mode, and one reader")
	late := taken(t, a.RLock)
	require.Equal(t, "3", s.Do("HLEN", "k"), "what others waited for is shared by those that stood in line alone")
	unlocked(t, append(leases, late)...)
	requireNothingLeft(t, s)
}

// With WithLinger the lock stays for the next reader, and for the next writer, and a process that wants it ends that.
func TestRWMutexLingers(t *testing.T) {
	s := redistest.Start(t)
	a := hearing(t, s, WithLinger(time.Hour), WithLease(time.Hour)).RWMutex("k")
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
	require.ErrorIs(t, err, ErrUpgrade)
	require.ErrorIs(t, err, ErrMisuse)
	_, err = a.TryLock(inner.Context())
	require.ErrorIs(t, err, ErrUpgrade)
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
	require.ErrorIs(t, err, ErrNotAcquired)
	unlocked(t, again, w)
	_, err = a.TryRLock(t.Context())
	require.ErrorIs(t, err, ErrNotAcquired, "a reader inside a writer")
	unlocked(t, reads)
	_, err = a.RLock(WithOwner(t.Context(), "me"))
	require.ErrorIs(t, err, errors.ErrUnsupported)
	requireNothingLeft(t, s)
}

// A downgrade lets readers in, and no writer between.
func TestRWMutexDowngrade(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s).RWMutex("k"), hearing(t, s).RWMutex("k")
	w := taken(t, a.Lock)
	here, there := inLine(t, s, a.Lock, 0, 0), inLine(t, s, b.Lock, 0, 1)
	reader := inLine(t, s, b.RLock, 1, 1)
	r, err := w.Downgrade(w.Context())
	require.NoError(t, err)
	require.ErrorIs(t, context.Cause(w.Context()), ErrNotHeld)
	require.ErrorIs(t, w.Unlock(t.Context()), ErrNotHeld)
	other := within(t, reader)
	require.GreaterOrEqual(t, r.Token(), w.Token())
	require.Empty(t, there)
	require.Empty(t, here)
	_, err = r.Downgrade(t.Context())
	require.ErrorIs(t, err, ErrMisuse)
	unlocked(t, r, other)
	last := within(t, there)
	require.Greater(t, last.Token(), r.Token())
	unlocked(t, last)
	unlocked(t, within(t, here))
	requireNothingLeft(t, s)

	w = taken(t, b.Lock)
	inner, err := b.Lock(w.Context())
	require.NoError(t, err)
	_, err = w.Downgrade(t.Context())
	require.ErrorIs(t, err, ErrMisuse)
	unlocked(t, inner, w)
	_, err = w.Downgrade(t.Context())
	require.ErrorIs(t, err, ErrNotHeld)
	m := taken(t, hearing(t, s).Mutex("m").Lock)
	_, err = m.Downgrade(t.Context())
	require.ErrorIs(t, err, ErrMisuse)
	unlocked(t, m)
}

// A re-entry under a write lease that waits while a Downgrade is out comes after it, and enters nothing. Else the write hold
// would live on beside the reader, and its last Unlock would pass it in memory to a writer of this process.
func TestDowngradeBesideAReentry(t *testing.T) {
	w := faulty(redistest.Start(t))
	rw := newClient(t, w).RWMutex("k")
	writer := taken(t, rw.Lock)
	w.Filter(faults.Next(faults.Script("acquire"), faults.Hold))
	reader, inner := make(chan *Lease, 1), make(chan error, 1)
	go func() {
		l, err := writer.Downgrade(t.Context())
		if err != nil {
			t.Error(err)
		}
		reader <- l
	}()
	within(t, w.Told())
	go func() {
		_, err := rw.Lock(writer.Context())
		inner <- err
	}()
	h := writer.h
	require.Eventually(t, h.ops.Awaited, patience, time.Millisecond)
	h.mu.Lock() // so that Downgrade cannot take the write lease back
	w.Release()
	time.Sleep(50 * time.Millisecond)
	waits := h.ops.Awaited()
	h.mu.Unlock()
	require.True(t, waits, "until the write lease is over")
	require.Error(t, within(t, inner))
	unlocked(t, within(t, reader))
}

// A reader that a writer becomes has a token above the writer's, also where that was the last of its block.
func TestDowngradedReaderHasATokenAboveItsWriters(t *testing.T) {
	c := hearing(t, redistest.Start(t))
	for range 3 {
		w := taken(t, c.RWMutex("k", WithLocalHandoff(1, 0)).Lock)
		r, err := w.Downgrade(t.Context())
		require.NoError(t, err)
		require.Greater(t, r.Token(), w.Token())
		unlocked(t, r)
	}
}

// No owner is called mode, but an older client may have let one be: that mutex is no read-write lock.
func TestAFieldNamedModeIsNoMode(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s)
	s.Do("HSET", "k", "mode", "1")
	_, err := c.RWMutex("k").TryRLock(t.Context())
	require.ErrorIs(t, err, ErrWrongKind)
	_, err = c.RWMutex("k").TryLock(t.Context())
	require.ErrorIs(t, err, ErrWrongKind)
}

// A reader that a downgrade makes has the fixed lease that it would have by RLock.
func TestDowngradeKeepsAFixedLease(t *testing.T) {
	rw := hearing(t, redistest.Start(t), WithLease(1500*time.Millisecond), WithCommandTimeout(500*time.Millisecond), WithRedissonWatchdog(0)).RWMutex("k", WithFixedLease(10*time.Second))
	r, err := taken(t, rw.Lock).Downgrade(t.Context())
	require.NoError(t, err)
	require.Greater(t, time.Until(r.Until()), 9*time.Second)
	unlocked(t, r)
}

// WithMaxHold ends a write lease while its Downgrade is out: Downgrade says so, also where the lock was given back by then. An
// observer is told nothing of the reader.
func TestAFailedDowngradeTellsOfNoReader(t *testing.T) {
	for name, swept := range map[string]bool{"before it is given back": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			o, w := &seen{}, faulty(s)
			rw := newClient(t, w, WithObserver(o), WithLease(MaxLease), WithCommandTimeout(patience)).RWMutex("k", WithRedissonWatchdog(0))
			writer := taken(t, rw.Lock)
			w.Filter(faults.Next(faults.Script("acquire"), faults.Hold))
			failed := make(chan error, 1)
			go func() {
				_, err := writer.Downgrade(t.Context())
				failed <- err
			}()
			within(t, w.Told())
			writer.h.lose(ErrMaxHold) // as when its time is up
			if swept {
				require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
			}
			w.Release()
			require.Equal(t, ErrMaxHold, within(t, failed))
			requireNothingLeft(t, s)
			require.Len(t, o.of(EventAcquired), 1)
			require.Len(t, o.of(EventLost), 1)
			require.Empty(t, o.of(EventReleased))
		})
	}
}

// An Extend that an Unlock of the same lease overtakes says that the lease is over: nothing was lost.
func TestExtendBesideUnlockLosesNothing(t *testing.T) {
	for name, side := range map[string]func(*RWMutex) func(context.Context) (*Lease, error){
		"writer": func(rw *RWMutex) func(context.Context) (*Lease, error) { return rw.Lock },
		"reader": func(rw *RWMutex) func(context.Context) (*Lease, error) { return rw.RLock },
	} {
		t.Run(name, func(t *testing.T) {
			w := faulty(redistest.Start(t))
			l := taken(t, side(newClient(t, w).RWMutex("k")))
			w.Filter(faults.Next(faults.Script("recount"), faults.Hold))
			extended, ended := make(chan error, 1), make(chan error, 1)
			go func() { extended <- l.Extend(t.Context(), 20*time.Second) }()
			within(t, w.Told())
			go func() { ended <- l.Unlock(t.Context()) }()
			if name == "reader" {
				require.NoError(t, within(t, ended))
				w.Release()
				require.Equal(t, ErrNotHeld, within(t, extended))
				return
			}
			require.Eventually(t, l.h.ops.Awaited, patience, time.Millisecond)
			w.Release()
			require.NoError(t, within(t, ended))
			require.NoError(t, within(t, extended))
		})
	}
}

// A reader that joins a hold does not let it be extended beyond what Redisson's watchdog may cut short for the others.
func TestReadersKeepTheStrictestBound(t *testing.T) {
	c := hearing(t, redistest.Start(t), WithLocalHandoff(256, time.Minute))
	first := taken(t, c.RWMutex("k").RLock)
	second := taken(t, c.RWMutex("k", WithRedissonWatchdog(0)).RLock)
	require.Same(t, first.h, second.h)
	require.ErrorIs(t, second.Extend(t.Context(), time.Minute), ErrInvalidOption)
	unlocked(t, first, second)
}

// A reader that may rely on its lease for ten seconds joins no hold that may come to rely on an hour, as it was asked for, as a
// renewal asks for it, or by an Extend that is out: it has a hold of its own, which all may join.
func TestNoReaderReliesOnMoreThanItsWatchdog(t *testing.T) {
	const dog = 10 * time.Second
	s := redistest.Start(t)
	w := faulty(s)
	c := lingeringClient(t, w, time.Hour)
	for name, hold := range map[string]struct {
		opts []Option
		then func(t *testing.T, long *Lease) (after func())
	}{
		"asked for": {opts: []Option{WithLease(time.Hour)}},
		"idle": {[]Option{WithLease(time.Hour)}, func(t *testing.T, long *Lease) func() {
			unlocked(t, long)
			return func() {}
		}},
		"renewed": {[]Option{WithLease(dog + time.Second)}, func(t *testing.T, long *Lease) func() {
			long.h.mu.Lock()
			long.h.term.Kept = clock.Now().Add(dog / 2)
			long.h.mu.Unlock()
			return func() {}
		}},
		"extended": {[]Option{WithLease(dog)}, func(t *testing.T, long *Lease) func() {
			w.Filter(faults.Next(faults.Script("recount"), faults.Hold))
			extended := make(chan error, 1)
			go func() { extended <- long.Extend(context.Background(), time.Hour) }()
			within(t, w.Told())
			return func() {
				w.Release()
				require.NoError(t, within(t, extended))
			}
		}},
	} {
		for way, lock := range map[string]func(*RWMutex, context.Context) (*Lease, error){"RLock": (*RWMutex).RLock, "TryRLock": (*RWMutex).TryRLock} {
			t.Run(name+" "+way, func(t *testing.T) {
				key := name + way
				long := taken(t, c.RWMutex(key, append(hold.opts, WithRedissonWatchdog(0))...).RLock)
				after := func() {}
				if hold.then != nil {
					after = hold.then(t, long)
				}
				short, err := lock(c.RWMutex(key, WithRedissonWatchdog(dog)), t.Context())
				require.NoError(t, err)
				require.NotSame(t, long.h, short.h)
				after()
				require.LessOrEqual(t, time.Until(short.Until()), dog)
				third := taken(t, c.RWMutex(key, WithRedissonWatchdog(0), WithLease(time.Hour)).RLock)
				require.Same(t, short.h, third.h, "what is shorter than it has to be may be shared")
				require.ErrorIs(t, third.Extend(t.Context(), time.Minute), ErrInvalidOption)
				unlocked(t, short, third)
				if name != "idle" {
					unlocked(t, long)
				}
			})
		}
	}
}

// Readers that were let in at a grant, and may not rely on so much, keep no hold: it is over with its last lease.
func TestHoldThatNoneLetInMayJoinEnds(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s)
	writer := taken(t, hearing(t, s).RWMutex("k").Lock)
	long := inLine(t, s, c.RWMutex("k", WithRedissonWatchdog(0), WithLease(time.Hour)).RLock, 1, 0)
	var short [3]chan *Lease
	for i := range short {
		short[i] = make(chan *Lease, 1)
		go func() {
			l, err := c.RWMutex("k", WithRedissonWatchdog(10*time.Second)).RLock(context.Background())
			if err != nil {
				t.Error(err)
			}
			short[i] <- l
		}()
	}
	gate := c.RWMutex("k").read.names.Gate()
	require.Eventually(t, func() bool { return c.core.gates.Waiting(gate) && c.core.underWay() == int64(1+len(short)) }, patience, time.Millisecond)
	unlocked(t, writer)
	unlocked(t, within(t, long))
	for i := range short {
		l := within(t, short[i])
		require.NotNil(t, l)
		require.LessOrEqual(t, time.Until(l.Until()), 10*time.Second)
		unlocked(t, l)
	}
	requireNothingLeft(t, s)
}

// The time of WithMaxHold begins anew by a Downgrade.
func TestDowngradeBeginsMaxHoldAnew(t *testing.T) {
	t.Parallel()
	const most = 2 * time.Second
	c := hearing(t, redistest.Start(t))
	writer := taken(t, c.RWMutex("k", WithMaxHold(most)).Lock)
	time.Sleep(most / 2)
	began := time.Now()
	reader, err := writer.Downgrade(t.Context())
	require.NoError(t, err)
	within(t, reader.Context().Done())
	require.Equal(t, ErrMaxHold, context.Cause(reader.Context()))
	require.GreaterOrEqual(t, time.Since(began), most-most/50)
}

// A writer under the context of a read lease that was lost is told that, as under any other lost lease.
func TestWriterUnderALostReadLease(t *testing.T) {
	rw := hearing(t, redistest.Start(t)).RWMutex("k")
	r := taken(t, rw.RLock)
	r.h.lose(ErrLost)
	_, err := rw.Lock(context.WithoutCancel(r.Context()))
	require.Equal(t, ErrLost, err)
}

// Leases of readers and of a writer are renewed past their first end, and what Redis keeps of a reader goes with it.
func TestRWMutexRenewal(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := hearing(t, s, WithLease(900*time.Millisecond), WithCommandTimeout(300*time.Millisecond))
	leases := []*Lease{taken(t, c.RWMutex("w").Lock)}
	for i := range 5 {
		leases = append(leases, taken(t, c.RWMutex("k"+strconv.Itoa(i/2)).RLock))
	}
	time.Sleep(2 * time.Second)
	for _, l := range leases {
		require.NoError(t, l.Context().Err())
	}
	s.Do("DEL", "k1")
	within(t, leases[3].Context().Done())
	require.ErrorIs(t, context.Cause(leases[4].Context()), ErrLost)
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
	readers := []<-chan *Lease{inLine(t, s, a.RLock, 1, 0), inLine(t, s, b.RLock, 2, 0)}
	freed, err = a.ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	within(t, w.Context().Done())
	unlocked(t, within(t, readers[0]), within(t, readers[1]))
	requireNothingLeft(t, s)
}

// A name has one kind of lock.
func TestKindsDoNotMix(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s)
	rw, m := c.RWMutex("k"), c.Mutex("k")
	requireWrong := func(lock func(context.Context) (*Lease, error), says string) {
		t.Helper()
		_, err := lock(t.Context())
		require.ErrorIs(t, err, ErrWrongKind)
		require.ErrorContains(t, err, says)
	}
	l := taken(t, m.Lock)
	for _, lock := range []func(context.Context) (*Lease, error){rw.Lock, rw.TryLock, rw.RLock, rw.TryRLock} {
		requireWrong(lock, "what is held by that name is no read-write lock")
	}
	unlocked(t, l)
	for _, lock := range []func(context.Context) (*Lease, error){rw.RLock, rw.Lock} {
		l := taken(t, lock)
		requireWrong(m.Lock, "a read-write lock is held by that name")
		requireWrong(m.TryLock, "one name has one kind of lock")
		unlocked(t, l)
	}
	s.Do("SET", "k", "1")
	requireWrong(rw.Lock, "WRONGTYPE")
	requireWrong(m.Lock, "WRONGTYPE")
	s.Do("DEL", "k")
	requireNothingLeft(t, s)
}

// A mutex is refused where a writer of the same name holds, also by a client that has made many entries: the field of its writer
// is longer than 64 bytes, and Redis does not keep such a hash in the order in which it was written.
func TestKindsDoNotMixInAnyOrder(t *testing.T) {
	c := hearing(t, redistest.Start(t))
	c.core.count.Store(100_000)
	for i := range 20 {
		name := "k" + strconv.Itoa(i)
		w := taken(t, c.RWMutex(name).Lock)
		_, err := c.Mutex(name).TryLock(t.Context())
		require.ErrorIs(t, err, ErrWrongKind)
		unlocked(t, w)
	}
}

// A Mutex neither frees a read-write lock of its name, whose writer would not be told, nor says that it is free.
func TestAMutexRefusesToForceAReadWriteLock(t *testing.T) {
	s := redistest.Start(t)
	w := taken(t, hearing(t, s).RWMutex("k").Lock)
	m := newClient(t, s.Client()).Mutex("k")
	_, err := m.State(t.Context())
	require.ErrorIs(t, err, ErrWrongKind)
	_, err = m.ForceUnlock(t.Context())
	require.ErrorIs(t, err, ErrWrongKind)
	require.NoError(t, w.Context().Err())
	unlocked(t, w)
}

// Of thousands of readers with holds of their own, Redis tells a part with each question of a writer, and in the end all.
func TestRWMutexTellsManyReadersByParts(t *testing.T) {
	const n = 500
	s := redistest.Start(t)
	readers, writer := hearing(t, s).RWMutex("k", WithMaxHold(time.Hour)), hearing(t, s).RWMutex("k")
	var held []*Lease
	for range n {
		held = append(held, taken(t, readers.RLock))
	}
	published := s.CommandCounts()["publish"]
	_, err := writer.TryLock(t.Context())
	require.ErrorIs(t, err, ErrNotAcquired)
	require.LessOrEqual(t, s.CommandCounts()["publish"]-published, int64(130), "for one question")
	require.Eventually(t, func() bool {
		_, err := writer.TryLock(t.Context())
		require.ErrorIs(t, err, ErrNotAcquired)
		return !slices.ContainsFunc(held, func(l *Lease) bool {
			select {
			case <-l.Wanted():
				return false
			default:
				return true
			}
		})
	}, patience, time.Millisecond)
	looked := s.CommandCounts()["hgetall"]
	unlocked(t, held[:n/2]...)
	require.Equal(t, looked, s.CommandCounts()["hgetall"], "a reader that leaves looks at a few others")
	unlocked(t, held[n/2:]...)
	requireNothingLeft(t, s)
}

// A writer that waits for a crowd which gives way asks until all were told, and no longer than for its first poll's pause where
// they do not. Those that wait behind it ask as they would for one holder.
func TestRWMutexTellsACrowdSoon(t *testing.T) {
	const n = 400
	s := redistest.Start(t)
	readers := hearing(t, s).RWMutex("k", WithMaxHold(time.Hour)) // a hold for each
	slow := WithLease(time.Hour)                                  // whose polls are five minutes apart
	writer, behind := hearing(t, s, slow).RWMutex("k"), hearing(t, s, slow).RWMutex("k")
	var held []*Lease
	for range n {
		held = append(held, taken(t, readers.RLock))
	}
	first := inLine(t, s, writer.Lock, 0, 1)
	drawn := s.CommandCounts()["hrandfield"] // twice by each question
	second := inLine(t, s, behind.Lock, 0, 2)
	require.Eventually(t, func() bool { return s.CommandCounts()["hrandfield"]-drawn > 12 }, patience, time.Millisecond, "it asks soon")
	time.Sleep(500 * time.Millisecond)
	require.Less(t, s.CommandCounts()["hrandfield"]-drawn, int64(60), "the pauses double where none gives way")
	for _, l := range held {
		go func() {
			<-l.Wanted()
			if err := l.Unlock(context.Background()); err != nil {
				t.Error(err)
			}
		}()
	}
	unlocked(t, within(t, first))
	unlocked(t, within(t, second))
	requireNothingLeft(t, s)
}

// What Redisson could count down from must be a hold count: else its read unlock would stop Redis.
func TestRWMutexWritesNoLargeNumbers(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s, WithLinger(time.Second)).RWMutex("k"), hearing(t, s).RWMutex("k")
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
	lease := WithLease(2 * time.Second)
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
	require.ErrorIs(t, context.Cause(gone.Context()), ErrClosed)
	unlocked(t, w)
}

// Sixteen goroutines of four processes read and write: no writer is beside anybody, and all come.
func TestRWMutexExcludes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, opts := range [][]Option{{}, {WithLinger(50 * time.Millisecond)}, {WithLocalHandoff(1, 0)}} {
		excludes(t, 150, func() *RWMutex { return hearing(t, s, opts...).RWMutex("k") })
	}
}

// excludes has four goroutines of each of four processes take so many turns, and demands that no writer is beside anybody.
func excludes(t *testing.T, turns int, open func() *RWMutex) {
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
	c := hearing(t, s, WithLease(900*time.Millisecond), WithCommandTimeout(300*time.Millisecond))
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

// What a reader that died has left goes with the next end of another.
func TestRWMutexDeadReadersAreTakenOut(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s).RWMutex("k"), hearing(t, s).RWMutex("k")
	dead := taken(t, hearing(t, s).RWMutex("k").RLock)
	one, two := taken(t, a.RLock), taken(t, b.RLock)
	for _, key := range strings.Fields(s.Do("KEYS", "*rwlock_timeout*")) {
		if strings.Contains(key, dead.h.entry.ID) {
			s.Do("DEL", key)
		}
	}
	require.Equal(t, "4", s.Do("HLEN", "k"))
	unlocked(t, one)
	require.Equal(t, "2", s.Do("HLEN", "k"))
	require.NoError(t, two.Context().Err())
	unlocked(t, two)
	require.ErrorIs(t, dead.Unlock(t.Context()), ErrLost)
	requireNothingLeft(t, s)
}

// A renewal that comes after the end writes no key again.
func TestRWMutexLateRenewal(t *testing.T) {
	s := redistest.Start(t)
	rw := hearing(t, s).RWMutex("k")
	for _, lock := range []func(context.Context) (*Lease, error){rw.RLock, rw.Lock} {
		l := taken(t, lock)
		unlocked(t, l)
		late := []claim.Renewal{{Claim: l.h.claim, Lease: time.Minute, Timeout: time.Second}}
		rw.read.k.arbiter.Renew(t.Context(), late, func(_ int, got wire.Result, _ clock.Stamp, err error) {
			require.NoError(t, err)
			require.Equal(t, wire.Lost, got)
		})
		requireNothingLeft(t, s)
	}
}

// What lingers for the readers of a process gives way to its own writer at once, and the other way round.
func TestRWMutexLingersForOneSide(t *testing.T) {
	s := redistest.Start(t)
	rw := hearing(t, s, WithLinger(time.Hour), WithLease(time.Hour)).RWMutex("k")
	for range 3 {
		unlocked(t, taken(t, rw.RLock), taken(t, rw.RLock))
		unlocked(t, taken(t, rw.Lock))
	}
}

// The rights of docs/wire.md are enough for read-write locks, and without one of them a lock is refused before it is held.
func TestRWMutexWithLeastPrivilege(t *testing.T) {
	s := redistest.Start(t)
	every := append(rights(t, "suite:")[0], drivertest.ReadWriteRights(t, "suite:")...)
	short := []Option{WithLease(900 * time.Millisecond), WithCommandTimeout(300 * time.Millisecond)}
	a := newClient(t, shared(t, s.AddUser("a", "secret", every...))(), short...).RWMutex("suite:k")
	b := newClient(t, shared(t, s.AddUser("b", "secret", every...))(), short...).RWMutex("suite:k")
	one, two := taken(t, a.RLock), taken(t, b.RLock)
	got := make(chan *Lease, 1)
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
	inTurn := func(first, second func(context.Context) (*Lease, error), queue string) {
		t.Helper()
		l := taken(t, first)
		got := make(chan *Lease, 1)
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

// State counts the readers that live, and a lock whose readers have all died is free.
func TestStateTellsOfNoDeadReader(t *testing.T) {
	s := redistest.Start(t)
	live := hearing(t, s).RWMutex("k")
	reader := taken(t, live.RLock)
	for range 3 {
		dead := taken(t, hearing(t, s).RWMutex("k").RLock)
		s.Do("DEL", "{k}:"+dead.h.entry.ID+":rwlock_timeout:1") // as its lease would end it
	}
	require.Equal(t, "5", s.Do("HLEN", "k"))
	st, err := live.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{true, 1, reader.h.entry.ID}, []any{st.Held, st.Readers, st.Holder})
	s.Do("DEL", "{k}:"+reader.h.entry.ID+":rwlock_timeout:1")
	st, err = live.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{false, 0, "", time.Duration(0)}, []any{st.Held, st.Readers, st.Holder, st.TTL})
	unlocked(t, taken(t, live.TryLock))
}

// A lock that a downgrade leaves to a reader ends with that reader, for Redisson too, however long its writer had it.
func TestDowngradeLeavesTheReadersLeaseAlone(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s, WithLease(2*time.Second)).RWMutex("k"), hearing(t, s, WithLease(20*time.Second)).RWMutex("k")
	left := func() time.Duration {
		ms, err := strconv.Atoi(s.Do("PTTL", "k"))
		require.NoError(t, err)
		return time.Duration(ms) * time.Millisecond
	}
	w := taken(t, a.Lock)
	require.NoError(t, w.Extend(t.Context(), time.Hour))
	r, err := w.Downgrade(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, left(), 2*time.Second)
	require.Positive(t, left())
	other := taken(t, b.RLock)
	require.Greater(t, left(), 18*time.Second)
	unlocked(t, r)
	require.Greater(t, left(), 18*time.Second, "another reads on")
	unlocked(t, other)
	requireNothingLeft(t, s)
}

// A new ticket is above the phase and above both lines, although the server's clock was set back since: no reader that comes
// passes a writer that waits.
func TestRWMutexTicketsOutliveTheClock(t *testing.T) {
	s := redistest.Start(t)
	a, b, c := hearing(t, s).RWMutex("k"), hearing(t, s).RWMutex("k"), hearing(t, s).RWMutex("k")
	r := taken(t, a.RLock)
	writer := inLine(t, s, b.Lock, 0, 1)
	later := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
	s.Do("SET", "relock_phase:{k}:k", later, "PX", "60000") // as a clock wrote it that was an hour ahead
	reader := inLine(t, s, c.RLock, 1, 1)
	require.Greater(t, strings.Fields(s.Do("ZRANGE", "relock_readers:{k}:k", "0", "0", "WITHSCORES"))[1], later)
	unlocked(t, r)
	w := within(t, writer)
	require.Empty(t, reader)
	unlocked(t, w)
	unlocked(t, within(t, reader))
	requireNothingLeft(t, s)
}

// On a Cluster the keys of a read-write lock are of one slot, with sharded channels and with plain ones, where waiters race.
func TestRWMutexOnACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	for _, mode := range []PubSubMode{PubSubAuto, PubSubPlain} {
		open := func() *RWMutex {
			rdb, err := redistest.Open(nodes.Option())
			require.NoError(t, err)
			t.Cleanup(rdb.Close)
			return newClient(t, rdb, WithPubSub(mode), WithLease(2*time.Second), WithCommandTimeout(600*time.Millisecond), WithLinger(50*time.Millisecond)).RWMutex("k" + strconv.Itoa(int(mode)))
		}
		a, b := open(), open()
		one, two := taken(t, a.RLock), taken(t, b.RLock)
		_, err := a.TryLock(t.Context())
		require.ErrorIs(t, err, ErrNotAcquired)
		unlocked(t, one, two)
		unlocked(t, taken(t, b.Lock))
		read := a.read // what is left of a downgrade takes nothing once its writer is gone
		_, err = read.k.arbiter.Claim(read.newEntry("gone:1", read.cfg)).Try(t.Context())
		var held *wire.HeldError
		require.ErrorAs(t, err, &held)
		for range 10 {
			w := taken(t, a.Lock)
			_, err = b.TryRLock(t.Context())
			require.ErrorIs(t, err, ErrNotAcquired)
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
		require.ErrorIs(t, err, ErrNotAcquired)
		return nil
	}))
	for _, r := range []*Reader{nil, {}, (*RWMutex)(nil).Reader()} {
		for _, lock := range []func(context.Context) (*Lease, error){r.Lock, r.TryLock, r.Held} {
			_, err := lock(t.Context())
			require.ErrorIs(t, err, ErrMisuse)
		}
		require.ErrorIs(t, r.Do(t.Context(), nil), ErrMisuse)
		require.Empty(t, r.Name())
	}
}

// A quorum has no read-write locks, and neither has what was not made by a client.
func TestRWMutexThatCannotBe(t *testing.T) {
	rw := newRedlock(t, masters(t, 3)).RWMutex("k")
	for _, lock := range []func(context.Context) (*Lease, error){rw.Lock, rw.TryLock, rw.RLock, rw.TryRLock, rw.Held} {
		_, err := lock(t.Context())
		require.ErrorIs(t, err, errors.ErrUnsupported)
	}
	for _, rw := range []*RWMutex{nil, {}, (*Client)(nil).RWMutex("k"), new(Client).RWMutex("k")} {
		for _, lock := range []func(context.Context) (*Lease, error){rw.Lock, rw.TryLock, rw.RLock, rw.TryRLock, rw.Held} {
			_, err := lock(t.Context())
			require.ErrorIs(t, err, ErrMisuse)
		}
		_, err := rw.State(t.Context())
		require.ErrorIs(t, err, ErrMisuse)
		_, err = rw.ForceUnlock(t.Context())
		require.ErrorIs(t, err, ErrMisuse)
		require.ErrorIs(t, rw.Do(t.Context(), nil), ErrMisuse)
		require.Empty(t, rw.Name())
	}
	c := newClient(t, redistest.Start(t).Client())
	_, err := c.RWMutex("").RLock(t.Context())
	require.ErrorIs(t, err, ErrInvalidName)
	_, err = c.RWMutex("k", WithFixedLease(time.Minute)).RLock(t.Context())
	require.ErrorIs(t, err, ErrInvalidOption, "longer than Redisson's watchdog")
	_, err = c.RWMutex("k", WithRedissonWatchdog(-1)).Lock(t.Context())
	require.ErrorIs(t, err, ErrInvalidOption)
	l := taken(t, c.RWMutex("k", WithFixedLease(time.Minute), WithRedissonWatchdog(0)).RLock)
	unlocked(t, l)
	l = taken(t, c.RWMutex("k").RLock)
	require.ErrorIs(t, l.Extend(t.Context(), time.Minute), ErrInvalidOption)
	require.NoError(t, l.Extend(t.Context(), 20*time.Second))
	unlocked(t, l)
	_, err = (*Lease)(nil).Downgrade(t.Context())
	require.ErrorIs(t, err, ErrNotHeld)
}
