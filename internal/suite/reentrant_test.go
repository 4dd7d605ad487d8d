package suite_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

func TestDoCarriesTheOwnership(t *testing.T) {
	c := newClient(t, ownRedis(t))
	m := c.Mutex("orders")
	ctx := context.Background()
	boom := errors.New("boom")
	err := m.Do(ctx, func(ctx context.Context) error {
		l, err := m.Held(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, l.Count())
		require.NoError(t, m.Do(ctx, func(ctx context.Context) error {
			inner, err := m.Held(ctx)
			require.NoError(t, err)
			require.Equal(t, 2, inner.Count())
			require.Equal(t, l.Token(), inner.Token(), "a hold has one token")
			return nil
		}))
		require.Equal(t, 1, l.Count())
		return boom
	})
	require.ErrorIs(t, err, boom)
	_, err = m.Held(ctx)
	require.ErrorIs(t, err, relock.ErrNotHeld)
	st, err := m.State(ctx)
	require.NoError(t, err)
	require.False(t, st.Held)
}

func TestDoUnlocksOnPanic(t *testing.T) {
	c := newClient(t, ownRedis(t))
	m := c.Mutex("k")
	require.PanicsWithValue(t, "boom", func() {
		_ = m.Do(context.Background(), func(context.Context) error { panic("boom") })
	})
	l, err := m.TryLock(context.Background())
	require.NoError(t, err)
	require.NoError(t, l.Unlock(context.Background()))
}

func TestOwnershipFollowsTheContext(t *testing.T) {
	c := newClient(t, ownRedis(t))
	m := c.Mutex("k")
	ctx := context.Background()
	l, err := m.Lock(ctx)
	require.NoError(t, err)

	_, err = m.TryLock(ctx)
	require.ErrorIs(t, err, relock.ErrNotAcquired, "a context without ownership is another owner")
	_, err = m.TryLock(relock.Detach(l.Context()))
	require.ErrorIs(t, err, relock.ErrNotAcquired, "a detached context is another owner")
	_, err = c.Mutex("other").Held(l.Context())
	require.ErrorIs(t, err, relock.ErrNotHeld)
	other, err := c.Mutex("other").Lock(l.Context())
	require.NoError(t, err)
	inner, err := m.Lock(other.Context())
	require.NoError(t, err, "ownerships nest")
	require.Equal(t, 2, l.Count())

	require.NoError(t, l.Unlock(ctx))
	require.Equal(t, 1, inner.Count(), "leases end in any order")
	require.ErrorIs(t, context.Cause(l.Context()), relock.ErrNotHeld)
	require.ErrorIs(t, inner.Context().Err(), context.Canceled, "it derives from the ended one")
	require.NoError(t, inner.Unlock(ctx))
	require.NoError(t, other.Unlock(ctx))
}

func TestSharedOwnerReentersAcrossClients(t *testing.T) {
	s := redistest.Start(t)
	c, d := newClient(t, s.Client()), newClient(t, s.Client())
	ctx := relock.WithOwner(context.Background(), "workflow-7")
	a, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	b, err := d.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.Equal(t, a.Token(), b.Token())
	st, err := c.Mutex("k").State(ctx)
	require.NoError(t, err)
	require.Equal(t, "workflow-7", st.Holder)
	require.Equal(t, 2, st.Count)
	_, err = d.Mutex("k").TryLock(context.Background())
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	require.NoError(t, a.Unlock(ctx))
	require.NoError(t, b.Context().Err())
	_, err = d.Mutex("k").TryLock(relock.WithOwner(context.Background(), "workflow-8"))
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	require.NoError(t, b.Unlock(ctx))
	require.Equal(t, "0", s.Do("EXISTS", "k"))
}

// Sharers that wait for another owner all enter when one of them is granted the lock.
func TestSharersEnterTogether(t *testing.T) {
	s := redistest.Start(t)
	holder := newClient(t, s.Client())
	l, err := holder.Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	var granted []<-chan *relock.Lease
	ctx := relock.WithOwner(context.Background(), "workflow-7")
	for range 2 {
		c := newClient(t, s.Client())
		for range 2 {
			granted = append(granted, waitWith(ctx, t, c.Mutex("k")))
		}
	}
	queued(t, s, "k", 4)
	require.NoError(t, l.Unlock(context.Background()))
	var all []*relock.Lease
	for _, lease := range granted {
		all = append(all, within(t, lease))
	}
	for _, l := range all {
		require.NoError(t, l.Unlock(context.Background()))
	}
	require.Equal(t, "0", s.Do("EXISTS", "k"))
}

func TestLockerIsASyncLocker(t *testing.T) {
	c := newClient(t, ownRedis(t))
	var (
		wg sync.WaitGroup
		n  int
	)
	cond := sync.NewCond(c.Mutex("k").SyncLocker(context.Background()))
	for range 10 {
		wg.Go(func() {
			cond.L.Lock()
			defer cond.L.Unlock()
			n++
		})
	}
	wg.Wait()
	require.Equal(t, 10, n)
	require.PanicsWithValue(t, relock.ErrNotHeld, cond.L.Unlock)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	require.Panics(t, c.Mutex("k").SyncLocker(ended).Lock)
}

// Thousands may share an owner: State names the owner, and who waits does not read them all at each poll.
func TestManySharers(t *testing.T) {
	t.Parallel()
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		const sharers = 4000
		ctx := relock.WithOwner(t.Context(), "job")
		l, err := c.Mutex("k").Lock(ctx)
		require.NoError(t, err)
		onAll(t, servers, "k")
		for _, s := range servers {
			s.Do("EVAL", "for i = 1, tonumber(ARGV[1]) do redis.call('HSET', 'k', ARGV[2] .. i, 1) end "+
				"return redis.call('HINCRBY', 'k', 'job', ARGV[1])", "0", strconv.Itoa(sharers), "00000000-0000-4000-8000-000000000000:")
			s.ResetCommandCounts()
		}
		st, err := c.Mutex("k").State(t.Context())
		require.NoError(t, err)
		require.Equal(t, "job", st.Holder)
		require.Equal(t, sharers+1, st.Count)
		if len(servers) == 1 {
			require.Equal(t, l.Token(), st.HolderToken)
		}
		_, err = c.Mutex("k").TryLock(t.Context())
		var held *relock.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, "job", held.Holder)
		for _, s := range servers {
			require.Zero(t, s.CommandCounts()["hkeys"])
		}
	})
}

// The innermost lease of a context is over, one around it is not: the lock is held, and re-entered.
func TestUnlockedLeaseHidesNoOuterOne(t *testing.T) {
	s := redistest.Start(t)
	m := newClient(t, s.Client()).Mutex("k")
	ctx := context.Background()
	outer, err := m.Lock(ctx)
	require.NoError(t, err)
	inner, err := m.Lock(outer.Context())
	require.NoError(t, err)
	inside, cancel := context.WithTimeout(context.WithoutCancel(inner.Context()), patience)
	defer cancel()
	require.NoError(t, inner.Unlock(ctx))
	held, err := m.Held(inside)
	require.NoError(t, err)
	require.Same(t, outer, held)
	again, err := m.Lock(inside)
	require.NoError(t, err)
	require.Equal(t, 2, again.Count())
	require.NoError(t, again.Unlock(ctx))
	require.NoError(t, outer.Unlock(ctx))
	_, err = m.Held(inside)
	require.ErrorIs(t, err, relock.ErrNotHeld)
	l, err := m.Lock(inside)
	require.NoError(t, err, "nothing around it is held any more: it is a contender like others")
	require.Greater(t, l.Token(), outer.Token())
	require.NoError(t, l.Unlock(ctx))
}

// The time to wait bounds a re-entry too.
func TestWaitBoundsReentry(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithLease(time.Hour), relock.WithCommandTimeout(time.Minute))
	m := c.Mutex("k", relock.WithWait(50*time.Millisecond))
	l, err := c.Mutex("k").Lock(context.Background())
	require.NoError(t, err)
	s.Pause()
	_, err = m.Lock(l.Context())
	require.ErrorIs(t, err, wire.ErrWaited)
	s.Resume()
	require.NoError(t, l.Context().Err(), "the wait is over, not the lease")
	require.NoError(t, l.Unlock(context.Background()))
}

// A hand-over to a shared owner wakes the waiters of that owner, and none of the others: each would ask, with each hand-over.
func TestAHandOverWakesSharersAlone(t *testing.T) {
	const n = 30
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithLease(10*time.Minute)) // so that no one polls meanwhile
	var wg sync.WaitGroup
	locked := func(owner string, together func()) {
		wg.Go(func() {
			l, err := c.Mutex("k").Lock(relock.WithOwner(context.Background(), owner))
			if err == nil {
				together()
				err = l.Unlock(context.Background())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	first, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	var sharers sync.WaitGroup
	sharers.Add(2)
	both := func() { sharers.Done(); sharers.Wait() }
	locked("shared", both)
	waiting := func(n int) {
		require.Eventually(t, func() bool { return stateOf(t, c.Mutex("k")).Waiters == n }, patience, time.Millisecond)
	}
	waiting(1)
	for i := range n {
		locked("owner "+strconv.Itoa(i), func() {})
		waiting(i + 2)
	}
	locked("shared", both) // behind all others, and let in with the first
	waiting(n + 2)
	asked := s.CommandCounts()["zscore"]
	require.NoError(t, first.Unlock(t.Context()))
	wg.Wait()
	require.Less(t, s.CommandCounts()["zscore"]-asked, int64(3*n), "each question asks for its place in the queue")
}
