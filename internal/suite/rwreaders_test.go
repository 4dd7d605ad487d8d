package suite_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// Redis looks at a few readers first, drawn by chance. Where those are dead it goes on to look at the others: one that lives
// keeps writers out.
func TestOneReaderAmongTheDeadKeepsWritersOut(t *testing.T) {
	s := redistest.Start(t)
	// An hour: none of the dead may be renewed, which would let it live again.
	readers, writers := hearing(t, s, relock.WithLocalHandoff(1, 0), relock.WithLease(time.Hour)), hearing(t, s)
	for _, name := range []string{"a", "b", "c", "d"} {
		rw := readers.RWMutex(name) // without hand-offs each reader has a hold of its own
		alive := taken(t, rw.RLock)
		for range 40 {
			dead := taken(t, rw.RLock)
			s.Do("DEL", "{"+name+"}:"+entryOf(dead).ID+":rwlock_timeout:1")
		}
		for range 3 {
			_, err := writers.RWMutex(name).TryLock(t.Context())
			require.ErrorIs(t, err, relock.ErrNotAcquired)
		}
		require.NoError(t, alive.Context().Err())
		unlocked(t, alive)
		unlocked(t, taken(t, writers.RWMutex(name).Lock))
	}
}

// The readers of one process share a hold: further ones send no command.
func TestRWMutexReadersOfAProcessShare(t *testing.T) {
	s := redistest.Start(t)
	rw := hearing(t, s, relock.WithLocalHandoff(256, time.Hour)).RWMutex("k")
	unlocked(t, taken(t, rw.RLock)) // it subscribes
	first := taken(t, rw.RLock)
	before := s.Do("INFO", "commandstats")
	count := func(stats string) string { return strings.Join(statsOf(stats, "evalsha", "eval"), " ") }
	var leases []*relock.Lease
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
	long, short := c.RWMutex("k", relock.WithLocalHandoff(256, time.Hour)), c.RWMutex("k", relock.WithLocalHandoff(256, time.Nanosecond))
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

// Readers that waited behind a local one while a writer had the lock come in with it.
func TestRWMutexReadersWaitTogether(t *testing.T) {
	s := redistest.Start(t)
	c, b := hearing(t, s), hearing(t, s).RWMutex("k")
	a := c.RWMutex("k")
	w := taken(t, b.Lock)
	var readers []<-chan *relock.Lease
	for range 20 {
		readers = append(readers, inLine(t, s, a.RLock, 1, 0))
	}
	require.Eventually(t, func() bool { return gatesOf(c).Waiting(namesOf(wire.Read, "k").Gate(1)) }, patience, time.Millisecond)
	unlocked(t, w)
	var leases []*relock.Lease
	for _, r := range readers {
		leases = append(leases, within(t, r))
	}
	require.Equal(t, "2", s.Do("HLEN", "k"), "mode, and one reader")
	late := taken(t, a.RLock)
	require.Equal(t, "3", s.Do("HLEN", "k"), "what others waited for is shared by those that stood in line alone")
	unlocked(t, append(leases, late)...)
	requireNothingLeft(t, s)
}

// A reader that joins a hold does not let it be extended beyond what Redisson's watchdog may cut short for the others.
func TestReadersKeepTheStrictestBound(t *testing.T) {
	c := hearing(t, redistest.Start(t), relock.WithLocalHandoff(256, time.Minute))
	first := taken(t, c.RWMutex("k").RLock)
	second := taken(t, c.RWMutex("k", relock.WithRedissonWatchdog(0)).RLock)
	require.Same(t, holdOf(first), holdOf(second))
	require.ErrorIs(t, second.Extend(t.Context(), time.Minute), relock.ErrInvalidOption)
	unlocked(t, first, second)
}

// Readers that were invited at a grant, and may not rely on so much, keep no hold: it is over with its last lease.
func TestHoldThatNoneLetInMayJoinEnds(t *testing.T) {
	s := redistest.Start(t)
	c := hearing(t, s)
	writer := taken(t, hearing(t, s).RWMutex("k").Lock)
	long := inLine(t, s, c.RWMutex("k", relock.WithRedissonWatchdog(0), relock.WithLease(time.Hour)).RLock, 1, 0)
	var short [3]chan *relock.Lease
	for i := range short {
		short[i] = make(chan *relock.Lease, 1)
		go func() {
			l, err := c.RWMutex("k", relock.WithRedissonWatchdog(10*time.Second)).RLock(context.Background())
			if err != nil {
				t.Error(err)
			}
			short[i] <- l
		}()
	}
	gate := namesOf(wire.Read, "k").Gate(1)
	require.Eventually(t, func() bool { return gatesOf(c).Waiting(gate) && callsOf(c).UnderWay() == int64(1+len(short)) }, patience, time.Millisecond)
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

// Of thousands of readers with holds of their own, Redis tells a part with each question of a writer, and in the end all.
func TestRWMutexTellsManyReadersByParts(t *testing.T) {
	const n = 500
	s := redistest.Start(t)
	readers, writer := hearing(t, s).RWMutex("k", relock.WithMaxHold(time.Hour)), hearing(t, s).RWMutex("k")
	var held []*relock.Lease
	for range n {
		held = append(held, taken(t, readers.RLock))
	}
	published := s.CommandCounts()["publish"]
	_, err := writer.TryLock(t.Context())
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	require.LessOrEqual(t, s.CommandCounts()["publish"]-published, int64(130), "for one question")
	require.Eventually(t, func() bool {
		_, err := writer.TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrNotAcquired)
		return !slices.ContainsFunc(held, func(l *relock.Lease) bool {
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
	t.Parallel()
	const n = 400
	s := redistest.Start(t)
	readers := hearing(t, s).RWMutex("k", relock.WithMaxHold(time.Hour)) // a hold for each
	slow := relock.WithLease(time.Hour)                                  // whose polls are five minutes apart
	writer, behind := hearing(t, s, slow).RWMutex("k"), hearing(t, s, slow).RWMutex("k")
	var held []*relock.Lease
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

// What a reader that died has left goes with the next end of another.
func TestRWMutexDeadReadersAreTakenOut(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s).RWMutex("k"), hearing(t, s).RWMutex("k")
	dead := taken(t, hearing(t, s).RWMutex("k").RLock)
	one, two := taken(t, a.RLock), taken(t, b.RLock)
	for _, key := range strings.Fields(s.Do("KEYS", "*rwlock_timeout*")) {
		if strings.Contains(key, entryOf(dead).ID) {
			s.Do("DEL", key)
		}
	}
	require.Equal(t, "4", s.Do("HLEN", "k"))
	unlocked(t, one)
	require.Equal(t, "2", s.Do("HLEN", "k"))
	require.NoError(t, two.Context().Err())
	unlocked(t, two)
	require.ErrorIs(t, dead.Unlock(t.Context()), relock.ErrLost)
	requireNothingLeft(t, s)
}

// State counts the readers that live, and a lock whose readers have all died is free.
func TestStateTellsOfNoDeadReader(t *testing.T) {
	s := redistest.Start(t)
	live := hearing(t, s).RWMutex("k")
	reader := taken(t, live.RLock)
	for range 3 {
		dead := taken(t, hearing(t, s).RWMutex("k").RLock)
		s.Do("DEL", "{k}:"+entryOf(dead).ID+":rwlock_timeout:1") // as its lease would end it
	}
	require.Equal(t, "5", s.Do("HLEN", "k"))
	st, err := live.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{true, 1, entryOf(reader).ID}, []any{st.Held, st.Readers, st.Holder})
	s.Do("DEL", "{k}:"+entryOf(reader).ID+":rwlock_timeout:1")
	st, err = live.State(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{false, 0, "", time.Duration(0)}, []any{st.Held, st.Readers, st.Holder, st.TTL})
	unlocked(t, taken(t, live.TryLock))
}
