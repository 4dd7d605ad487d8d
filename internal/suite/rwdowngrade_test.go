package suite_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// A downgrade lets readers in, and no writer between.
func TestRWMutexDowngrade(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s).RWMutex("k"), hearing(t, s).RWMutex("k")
	w := taken(t, a.Lock)
	here, there := inLine(t, s, a.Lock, 0, 0), inLine(t, s, b.Lock, 0, 1)
	reader := inLine(t, s, b.RLock, 1, 1)
	r, err := w.Downgrade(w.Context())
	require.NoError(t, err)
	require.ErrorIs(t, context.Cause(w.Context()), relock.ErrNotHeld)
	require.ErrorIs(t, w.Unlock(t.Context()), relock.ErrNotHeld)
	other := within(t, reader)
	require.GreaterOrEqual(t, r.Token(), w.Token())
	require.Empty(t, there)
	require.Empty(t, here)
	_, err = r.Downgrade(t.Context())
	require.ErrorIs(t, err, errors.ErrUnsupported)
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
	require.ErrorIs(t, err, relock.ErrMisuse)
	unlocked(t, inner, w)
	_, err = w.Downgrade(t.Context())
	require.ErrorIs(t, err, relock.ErrNotHeld)
	m := taken(t, hearing(t, s).Mutex("m").Lock)
	_, err = m.Downgrade(t.Context())
	require.ErrorIs(t, err, errors.ErrUnsupported)
	unlocked(t, m)
}

// A reader that a writer becomes has a token above the writer's, also where that was the last of its block.
func TestDowngradedReaderHasATokenAboveItsWriters(t *testing.T) {
	c := hearing(t, redistest.Start(t))
	for range 3 {
		w := taken(t, c.RWMutex("k", relock.WithLocalHandoff(1, 0)).Lock)
		r, err := w.Downgrade(t.Context())
		require.NoError(t, err)
		require.Greater(t, r.Token(), w.Token())
		unlocked(t, r)
	}
}

// A reader that a downgrade makes has the fixed lease that it would have by RLock.
func TestDowngradeKeepsAFixedLease(t *testing.T) {
	rw := hearing(t, redistest.Start(t), relock.WithLease(1500*time.Millisecond), relock.WithCommandTimeout(500*time.Millisecond), relock.WithRedissonWatchdog(0)).RWMutex("k", relock.WithFixedLease(10*time.Second))
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
			rw := newClient(t, w, relock.WithObserver(o), relock.WithLease(wire.MaxLease), relock.WithCommandTimeout(patience)).RWMutex("k", relock.WithRedissonWatchdog(0))
			writer := taken(t, rw.Lock)
			w.Filter(faults.Next(faults.Script("acquire"), faults.Hold))
			failed := make(chan error, 1)
			go func() {
				_, err := writer.Downgrade(t.Context())
				failed <- err
			}()
			within(t, w.Told())
			lose(writer)
			if swept {
				require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
			}
			w.Release()
			requireLost(t, relock.ErrLost, within(t, failed))
			requireNothingLeft(t, s)
			require.Len(t, o.of(relock.EventAcquired), 1)
			require.Len(t, o.of(relock.EventLost), 1)
			require.Empty(t, o.of(relock.EventReleased))
		})
	}
}

// The time of WithMaxHold begins anew by a Downgrade.
func TestDowngradeBeginsMaxHoldAnew(t *testing.T) {
	t.Parallel()
	const most = 2 * time.Second
	c := hearing(t, redistest.Start(t))
	writer := taken(t, c.RWMutex("k", relock.WithMaxHold(most)).Lock)
	time.Sleep(most / 2)
	began := time.Now()
	reader, err := writer.Downgrade(t.Context())
	require.NoError(t, err)
	within(t, reader.Context().Done())
	requireLost(t, relock.ErrMaxHold, context.Cause(reader.Context()))
	require.GreaterOrEqual(t, time.Since(began), most-most/50)
}

// A lock that a downgrade leaves to a reader ends with that reader, for Redisson too, however long its writer had it.
func TestDowngradeLeavesTheReadersLeaseAlone(t *testing.T) {
	s := redistest.Start(t)
	a, b := hearing(t, s, relock.WithLease(10*time.Second)).RWMutex("k"), hearing(t, s, relock.WithLease(20*time.Second)).RWMutex("k")
	left := func() time.Duration {
		ms, err := strconv.Atoi(s.Do("PTTL", "k"))
		require.NoError(t, err)
		return time.Duration(ms) * time.Millisecond
	}
	w := taken(t, a.Lock)
	require.NoError(t, w.Extend(t.Context(), time.Hour))
	r, err := w.Downgrade(t.Context())
	require.NoError(t, err)
	require.LessOrEqual(t, left(), 10*time.Second)
	require.Greater(t, left(), 5*time.Second, "the reader relies on it")
	other := taken(t, b.RLock)
	require.Greater(t, left(), 18*time.Second)
	unlocked(t, r)
	require.Greater(t, left(), 18*time.Second, "another reads on")
	unlocked(t, other)
	requireNothingLeft(t, s)
}

// What a write lease is downgraded to is a reader's: it relies on no more than WithRedissonWatchdog says, whatever the writer's
// lease was, now and when it was renewed.
func TestDowngradeGoesByTheReadersLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rw := hearing(t, s, relock.WithLease(30*time.Second), relock.WithRedissonWatchdog(time.Second)).RWMutex("k")
	w := taken(t, rw.Lock)
	require.Greater(t, time.Until(w.Until()), 20*time.Second)
	var r *relock.Lease
	require.Eventually(t, func() (done bool) { // a sixth of a second is little on a busy machine; what fails changes nothing
		var err error
		r, err = w.Downgrade(t.Context())
		return err == nil
	}, patience, time.Millisecond)
	first := r.Until()
	require.Eventually(t, func() bool {
		until := r.Until()
		require.LessOrEqual(t, time.Until(until), time.Second)
		return until.After(first) || until.IsZero() // renewed, or lost on a machine that has stood still for so long
	}, patience, time.Millisecond)
	_ = r.Unlock(t.Context())
	requireNothingLeft(t, s)
}
