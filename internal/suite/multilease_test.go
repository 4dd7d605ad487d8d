package suite_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// lasts demands that each of the leases lasts about d from now.
func lasts(t *testing.T, l *relock.MultiLease, d time.Duration, names ...string) {
	t.Helper()
	for _, name := range names {
		require.InDelta(t, d, time.Until(l.Lease(name).Until()), float64(d/10), name)
	}
}

// Several leases end when the first of them ends, and are extended together. Once one is lost, that is what all calls tell.
func TestMultiLeaseLastsUntilTheFirstEnds(t *testing.T) {
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		minute := relock.WithLease(time.Minute)
		l := allTaken(t, relock.All(c.Mutex("a", minute), c.Mutex("b", relock.WithLease(30*time.Second)), c.Mutex("c", minute)))
		for _, s := range servers {
			listening(t, s, c)
		}
		lasts(t, l, 30*time.Second, "b")
		require.Equal(t, l.Lease("b").Until(), l.Until())
		for range 2 {
			require.NoError(t, l.Extend(t.Context(), 5*time.Minute))
			lasts(t, l, 5*time.Minute, "a", "b", "c")
			require.NoError(t, l.Extend(t.Context(), time.Minute), "which shortens none")
		}
		require.InDelta(t, 5*time.Minute, time.Until(l.Until()), float64(time.Minute))

		_, err := another(t, servers).Mutex("b").ForceUnlock(t.Context())
		require.NoError(t, err)
		within(t, l.Context().Done())
		require.Zero(t, l.Until())
		var lost *relock.LostError
		require.ErrorAs(t, l.Extend(t.Context(), 9*time.Minute), &lost)
		require.Equal(t, "b", lost.Name)
		lasts(t, l, 9*time.Minute, "a", "c")
		for range 2 {
			lost = nil
			require.ErrorAs(t, l.Unlock(t.Context()), &lost)
			require.Equal(t, "b", lost.Name)
		}
		require.Zero(t, l.Until())

		l = allTaken(t, relock.All(mutexes(c, "k", 2)...))
		unlockedAll(t, l)
		require.Equal(t, relock.ErrNotHeld, l.Unlock(t.Context()))
		require.Equal(t, relock.ErrNotHeld, l.Extend(t.Context(), time.Minute))
		require.Zero(t, l.Until())
	}, relock.WithLease(10*time.Minute))
}

// Extend tells which locks' leases it has not extended, and why. The others are.
func TestExtendOfAllSaysWhichFailed(t *testing.T) {
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w, relock.WithCommandTimeout(500*time.Millisecond))
	l := allTaken(t, relock.All(c.Mutex("a"), c.RWMutex("b"), c.Semaphore("c", 3).Locker(2), c.Mutex("d", relock.WithMaxHold(time.Minute))))
	err := l.Extend(t.Context(), 10*time.Minute)
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	require.ErrorContains(t, err, `lock "d": relock: invalid option: Extend: 10m0s is longer`)
	require.NotContains(t, err.Error(), "\n")
	lasts(t, l, 10*time.Minute, "a", "b", "c")

	w.Filter(faults.All(faults.Carrying("b"), faults.LoseCall))
	err = l.Extend(t.Context(), 20*time.Minute)
	w.Filter(nil)
	require.ErrorIs(t, err, relock.ErrUnavailable)
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	require.ErrorContains(t, err, `"b"`)
	require.ErrorContains(t, err, `lock "d"`)
	lasts(t, l, 20*time.Minute, "a", "c")
	lasts(t, l, 10*time.Minute, "b")

	require.NoError(t, l.Lease("c").Unlock(t.Context()))
	require.ErrorContains(t, l.Extend(t.Context(), time.Second), `lock "c": relock: lock not held`)
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, l.Extend(ended, time.Minute), relock.ErrNotAsked)
	var without context.Context
	require.ErrorIs(t, l.Extend(without, time.Minute), relock.ErrMisuse)
	require.ErrorIs(t, l.Extend(t.Context(), -1), relock.ErrInvalidOption)
	err = l.Unlock(t.Context())
	require.ErrorIs(t, err, relock.ErrNotHeld)
	require.ErrorContains(t, err, `lock "c": `)
	c.Close()
	require.Equal(t, relock.ErrNotHeld, l.Extend(t.Context(), time.Minute))

	var none *relock.MultiLease
	for _, l := range []*relock.MultiLease{none, new(relock.MultiLease)} {
		require.Zero(t, l.Until())
		require.Nil(t, l.Wanted())
		require.Equal(t, relock.ErrNotHeld, l.Extend(t.Context(), time.Minute))
		require.Equal(t, relock.ErrNotHeld, l.Unlock(t.Context()))
	}
}

// open demands that a channel is not closed.
func open(t *testing.T, wanted <-chan struct{}) {
	t.Helper()
	select {
	case <-wanted:
		require.Fail(t, "closed")
	default:
	}
}

// Several leases are wanted once one of them is: until Unlock, whatever becomes of the context that was given to Lock.
func TestMultiLeaseIsWanted(t *testing.T) {
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		other := another(t, servers)
		wants := func(name string) {
			t.Helper()
			_, err := other.Mutex(name).TryLock(t.Context())
			require.ErrorIs(t, err, relock.ErrNotAcquired)
		}
		require.Nil(t, new(relock.MultiLease).Wanted())
		for i, set := range []string{"x", "y", "z"} { // of their own: of a quorum a node may be asked, and tell its holder, late
			ctx, end := context.WithCancel(t.Context())
			l, err := relock.All(mutexes(c, set, 3)...).Lock(ctx)
			require.NoError(t, err)
			for _, s := range servers {
				listening(t, s, c)
			}
			open(t, l.Wanted())
			require.Equal(t, l.Wanted(), l.Wanted())
			end()
			require.Error(t, l.Context().Err())
			name := set + strconv.Itoa(i)
			wants(name)
			within(t, l.Wanted())
			within(t, l.Lease(name).Wanted())
			unlockedAll(t, l)
			within(t, l.Wanted())
		}
		l := allTaken(t, relock.All(mutexes(c, "k", 2)...))
		wants("k0")
		within(t, l.Lease("k0").Wanted())
		within(t, l.Wanted())
		in, err := relock.All(c.Mutex("k0"), c.Mutex("inner")).Lock(l.Context())
		require.NoError(t, err)
		select {
		case <-in.Wanted():
		default:
			require.Fail(t, "it was wanted before")
		}
		unlockedAll(t, in)
		unlockedAll(t, l)

		l = allTaken(t, relock.All(c.Mutex("a"), c.Mutex("b", relock.WithLinger(time.Minute))))
		open(t, l.Wanted())
		unlocked(t, l.Lease("b")) // it lies idle here
		require.Eventually(t, func() bool {
			b, err := other.Mutex("b").TryLock(t.Context())
			return err == nil && b.Unlock(t.Context()) == nil
		}, patience, time.Millisecond)
		open(t, l.Wanted())
		wants("a")
		within(t, l.Wanted())
		require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrNotHeld)
	}, relock.WithLease(far))
}
