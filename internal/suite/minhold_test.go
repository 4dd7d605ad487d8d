package suite_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The lock ends when WithMinHold says, to the moment, however long the lease was and whatever its options are. For its caller it
// ends with Unlock.
func TestMinHoldKeepsTheLock(t *testing.T) {
	const least = 55 * time.Second
	for name, c := range map[string]struct {
		opts  []relock.Option
		after time.Duration // of the Unlock
		end   time.Duration // of the lock
	}{
		"at once":                     {end: least},
		"later than a lease":          {after: 40 * time.Second, end: least},
		"just before":                 {after: least - time.Nanosecond, end: least},
		"when it is over":             {after: least, end: least},
		"later":                       {after: time.Minute, end: time.Minute},
		"of a longer fixed lease":     {opts: []relock.Option{relock.WithFixedLease(time.Hour)}, after: time.Second, end: least},
		"with a maximum":              {opts: []relock.Option{relock.WithMaxHold(least)}, after: time.Second, end: least},
		"of one that lingers":         {opts: []relock.Option{relock.WithLinger(time.Hour)}, after: time.Second, end: least},
		"of a long lease":             {opts: []relock.Option{relock.WithLease(time.Hour)}, after: time.Second, end: least},
		"of the client":               {opts: []relock.Option{relock.WithMinHold(10 * time.Second)}, after: time.Second, end: 10 * time.Second},
		"turned off":                  {opts: []relock.Option{relock.WithMinHold(0)}, after: time.Second, end: time.Second},
		"of a lease that is extended": {after: time.Second, end: least},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, k *relock.Client, s *scripted) {
				s.Fresh = true
				m := k.Mutex("k", append([]relock.Option{relock.WithMinHold(least), relock.WithLocalHandoff(10, time.Hour)}, c.opts...)...)
				began := time.Now()
				l, err := m.Lock(t.Context())
				require.NoError(t, err)
				if name == "of a lease that is extended" {
					require.NoError(t, l.Extend(t.Context(), time.Hour))
				}
				time.Sleep(c.after)
				next := waitWith(t.Context(), t, k.Mutex("k"))
				synctest.Wait()
				require.NoError(t, l.Unlock(t.Context()))
				require.Equal(t, relock.ErrNotHeld, context.Cause(l.Context()))
				require.Zero(t, l.Count())
				require.Equal(t, relock.ErrNotHeld, l.Unlock(t.Context()))
				require.Equal(t, relock.ErrNotHeld, l.Extend(t.Context(), time.Hour))
				after := <-next
				require.Equal(t, c.end, time.Since(began))
				require.Equal(t, c.end > c.after, holdOf(l) != holdOf(after), "a lock that was kept is asked for anew")
				require.NoError(t, after.Unlock(t.Context()))
			})
		})
	}
}

// Each lease that is passed on in this process counts from its own start. Of re-entries, the first lease's time counts from its
// start, and the others' options do not matter.
func TestMinHoldCountsFromEachLease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, _ *scripted) {
		m := c.Mutex("k", relock.WithMinHold(time.Minute), relock.WithLocalHandoff(10, time.Hour))
		first, err := m.Lock(t.Context())
		require.NoError(t, err)
		second := waitWith(t.Context(), t, m)
		time.Sleep(time.Minute)
		require.NoError(t, first.Unlock(t.Context()))
		l := <-second
		require.Same(t, holdOf(first), holdOf(l), "passed on in memory")
		began := time.Now()
		inner, err := c.Mutex("k", relock.WithMinHold(time.Hour)).Lock(context.WithoutCancel(l.Context()))
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.NoError(t, l.Unlock(t.Context()))
		time.Sleep(10 * time.Second)
		require.NoError(t, inner.Context().Err())
		require.NoError(t, inner.Unlock(t.Context()))
		again, err := m.Lock(context.WithoutCancel(l.Context()))
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(began), "nor does the old context enter it")
		require.NoError(t, again.Unlock(t.Context()))
	})
}

// What Redis is asked for by Unlock: all that is left, and a margin, so that the lock ends neither too soon nor before this process
// frees it. No renewal follows then. Under the restart guard a lease is as long as that allows, and renewals go on, up to the end.
func TestMinHoldAsksForWhatIsLeft(t *testing.T) {
	const after = 10*time.Minute + 5*time.Second
	for name, c := range map[string]struct {
		least   time.Duration
		guard   []relock.ClientOption
		want    time.Duration
		renewed bool
	}{
		"longer than the lease": {least: time.Hour, want: time.Hour - after + 2*clock.Margin(time.Hour-after)},
		"shorter":               {least: after + 5*time.Second, want: 5*time.Second + 2*clock.Margin(defaultLease)},
		"longer than the guard": {least: time.Hour, guard: []relock.ClientOption{relock.WithRestartGuard(time.Minute)}, want: time.Minute, renewed: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, s := time.Now(), &scripted{}
				var renewals atomic.Int32 // after Unlock
				s.Answer = func(r claim.Renewal) wire.Result {
					if age := time.Since(began); age >= after {
						renewals.Add(1)
						assert.LessOrEqual(t, r.Lease, c.want)
						assert.LessOrEqual(t, age+r.Lease, c.least+2*clock.Margin(c.want))
					}
					return wire.Renewed
				}
				var asked []time.Duration
				s.Counted = func(count int, lease time.Duration) error {
					assert.Zero(t, count)
					asked = append(asked, lease)
					return nil
				}
				k := over(t, s, c.guard...)
				defer k.Close()
				l, err := k.Mutex("k", relock.WithMinHold(c.least)).Lock(t.Context())
				require.NoError(t, err)
				time.Sleep(after)
				require.NoError(t, l.Unlock(t.Context()))
				require.Equal(t, []time.Duration{c.want}, asked)
				next, err := k.Mutex("k").Lock(t.Context())
				require.NoError(t, err)
				require.Equal(t, c.least, time.Since(began))
				require.Equal(t, c.renewed, renewals.Load() > 0)
				require.NoError(t, next.Unlock(t.Context()))
			})
		})
	}
}

// A lock that no caller got is not kept: one whose fixed lease could not be lengthened.
func TestMinHoldIsTheCallers(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		down := errors.New("down")
		s.Counted = func(int, time.Duration) error { return &wire.NodeError{Op: driver.Recount, Err: down} }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Mutex("k", relock.WithFixedLease(time.Hour), relock.WithMinHold(time.Hour)).Lock(ctx)
		require.ErrorIs(t, err, down)
		s.Counted = nil
		began := time.Now()
		l, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		require.Zero(t, time.Since(began))
		require.NoError(t, l.Unlock(t.Context()))
	})
}

// The time is over while Unlock's command is out: whatever its answer, the lock was kept for long enough.
func TestMinHoldEndsWhileItsCommandIsOut(t *testing.T) {
	for name, answer := range map[string]error{"answered": nil, "not answered": &wire.NodeError{Op: driver.Recount, Err: wire.ErrNoAnswer}} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
				l, err := c.Mutex("k", relock.WithMinHold(time.Second)).Lock(t.Context())
				require.NoError(t, err)
				s.Counted = func(int, time.Duration) error {
					time.Sleep(time.Second)
					return answer
				}
				require.NoError(t, l.Unlock(t.Context()))
				require.Equal(t, relock.ErrNotHeld, context.Cause(l.Context()))
				require.Zero(t, watchdogOf(c).Len())
			})
		})
	}
}

// A client is closed while the command of an Unlock is not answered: observers are told of the end of the lease all the same, once.
func TestCloseDuringAnUnlockIsTold(t *testing.T) {
	o := &seen{}
	inFakeTime(t, func(t *testing.T, c *relock.Client, s *scripted) {
		l, err := c.Mutex("k", relock.WithMinHold(time.Minute)).Lock(t.Context())
		require.NoError(t, err)
		s.Counted = func(int, time.Duration) error {
			go c.Close()
			synctest.Wait()
			return &wire.NodeError{Op: driver.Recount, Err: wire.ErrNoAnswer}
		}
		require.Equal(t, relock.ErrClosed, l.Unlock(t.Context()))
		require.Equal(t, relock.ErrNotHeld, l.Unlock(t.Context()))
		ends := o.of(relock.EventReleased, relock.EventLost)
		require.Len(t, ends, 1)
		require.Equal(t, o.of(relock.EventAcquired)[0].Lease, ends[0].Lease)
		require.Equal(t, relock.EventLost, ends[0].Kind)
		require.Equal(t, relock.ErrClosed, ends[0].Cause)
	}, relock.WithObserver(o))
}

// On one Redis and on a quorum: waiters of this process and of others wait until the time is over, and then come at once, in order.
// Callers that do not wait are told what is left.
func TestMinHoldKeepsOthersOut(t *testing.T) {
	t.Parallel()
	const least = 2 * time.Second
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		other := another(t, servers)
		began := time.Now()
		l := taken(t, c.Mutex("k", relock.WithMinHold(least)).Lock)
		theirs := waitFor(t, other, "k")
		onAll(t, servers, "k")
		for _, s := range servers {
			queued(t, s, "k", 1)
			listening(t, s, other)
		}
		ours := waitFor(t, c, "k")
		lined(t, c, "k")
		require.NoError(t, l.Unlock(t.Context()))
		for _, s := range servers { // of a quorum one node may be told later
			require.Eventually(t, func() bool { return s.Do("HGET", "k", entryOf(l).ID) == "0" }, least, time.Millisecond)
		}
		for _, k := range []*relock.Client{c, other} {
			_, err := k.Mutex("k", relock.WithMinHold(least)).TryLock(t.Context())
			var held *relock.HeldError
			require.ErrorAs(t, err, &held)
			left := least - time.Since(began)
			require.Greater(t, held.TTL, left-time.Millisecond)
			require.Less(t, held.TTL, least+2*clock.Margin(defaultLease)+time.Millisecond, "not the lease's 30 seconds")
			require.GreaterOrEqual(t, held.RetryAfter, min(held.TTL, least))
		}
		st := stateOf(t, c.Mutex("k"))
		require.True(t, st.Held)
		require.Zero(t, st.Count)
		require.Contains(t, st.String(), "kept")
		first := within(t, theirs)
		took := time.Since(began)
		require.GreaterOrEqual(t, took, least)
		require.Less(t, took, least+defaultLease/12, "not with its next poll")
		require.Empty(t, ours, "others waited before")
		require.NoError(t, first.Unlock(t.Context()))
		second := within(t, ours)
		require.Greater(t, second.Token(), first.Token())
		require.NoError(t, second.Unlock(t.Context()))
	})
}

// A process that exits right after Unlock leaves a lock that ends on time, with Close and without.
func TestMinHoldOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	const least = time.Second
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, _ *relock.Client) {
		job, other := another(t, servers, relock.WithMinHold(least)), another(t, servers)
		began := time.Now()
		require.NoError(t, job.Mutex("k").Do(t.Context(), nothing))
		job.Close()
		for {
			l, err := other.Mutex("k").TryLock(t.Context())
			if err == nil {
				require.GreaterOrEqual(t, time.Since(began), least)
				require.NoError(t, l.Unlock(t.Context()))
				break
			}
			require.NotErrorIs(t, err, relock.ErrRefused)
			require.Less(t, time.Since(began), patience)
			time.Sleep(time.Millisecond)
		}
	})
}

// Of the command by which Unlock sets the lease, each fault: what Unlock returns, and when the lock ends.
func TestMinHoldsCommandUnderFaults(t *testing.T) {
	t.Parallel()
	const least = time.Second
	for name, c := range map[string]struct {
		fates []faults.Fate
		fails bool
	}{
		"lost":                   {fates: []faults.Fate{faults.LoseCall}},
		"its answer is lost":     {fates: []faults.Fate{faults.LoseReply}},
		"sent twice":             {fates: []faults.Fate{faults.Twice}},
		"late":                   {fates: []faults.Fate{faults.Late}},
		"never answered":         {fates: []faults.Fate{faults.LoseCall.Hanging()}, fails: true},
		"late, and not answered": {fates: []faults.Fate{faults.Late.Hanging()}, fails: true},
		"refused":                {fates: []faults.Fate{faults.Refuse("NOPERM no")}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			w := faulty(s)
			job, other := newClient(t, w, relock.WithCommandTimeout(300*time.Millisecond)), newClient(t, s.Client(), relock.WithLease(far))
			began := time.Now()
			l := taken(t, job.Mutex("k", relock.WithMinHold(least)).Lock)
			ours := waitWith(t.Context(), t, job.Mutex("k", relock.WithLease(far)))
			lined(t, job, "k")
			w.Filter(faults.Next(faults.Script("recount"), c.fates...))
			err := l.Unlock(t.Context())
			require.Equal(t, c.fails, err != nil)
			if c.fails {
				require.True(t, errors.Is(err, relock.ErrUnavailable) || errors.Is(err, relock.ErrRefused), "%v", err)
			} else {
				require.Less(t, stateOf(t, other.Mutex("k")).TTL, least+2*clock.Margin(defaultLease))
			}
			require.Equal(t, relock.ErrNotHeld, context.Cause(l.Context()))
			next := within(t, ours)
			took := time.Since(began)
			require.GreaterOrEqual(t, took, least)
			require.Less(t, took, least+defaultLease/12)
			w.Flush()
			ttl, err := strconv.Atoi(s.Do("PTTL", "k"))
			require.NoError(t, err)
			require.Greater(t, ttl, 500_000, "what comes late does not cut the next holder's lease")
			if err := next.Unlock(t.Context()); err != nil { // the short time-out was too short for a busy machine
				require.ErrorIs(t, err, relock.ErrUnavailable)
			}
		})
	}
}

// A lock that is kept and then lost, or freed by force, is free for this process and for others.
func TestMinHoldGivesWayToForce(t *testing.T) {
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	l := taken(t, c.Mutex("k", relock.WithMinHold(far)).Lock)
	ours := waitFor(t, c, "k")
	lined(t, c, "k")
	require.NoError(t, l.Unlock(t.Context()))
	for _, m := range []*relock.Mutex{other.Mutex("k", relock.WithMinHold(far)), c.Mutex("k")} { // by the option, and by what was seen
		_, err := m.TryLock(t.Context())
		var held *relock.HeldError
		require.ErrorAs(t, err, &held)
		require.Greater(t, held.RetryAfter, far-patience)
	}
	freed, err := other.Mutex("k").ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	require.NoError(t, within(t, ours).Unlock(t.Context()))
}

// Callers of one WithOwner enter a lock that is kept for another of them, and keep their lease.
func TestMinHoldCutsNoOwnersLease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := newClient(t, s.Client()), newClient(t, s.Client())
	ctx := relock.WithOwner(t.Context(), "flow")
	first, err := c.Mutex("k", relock.WithMinHold(time.Second)).Lock(ctx)
	require.NoError(t, err)
	second, err := other.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, first.Unlock(ctx))
	require.Greater(t, stateOf(t, c.Mutex("k")).TTL, defaultLease/2)
	third, err := other.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	for _, l := range []*relock.Lease{second, third} {
		require.NoError(t, l.Unlock(ctx))
	}
	require.True(t, stateOf(t, c.Mutex("k")).Held, "it is kept")
	require.Eventually(t, func() bool { return !stateOf(t, c.Mutex("k")).Held }, patience, time.Millisecond)
}

// Unlock, the end of the time, Close, messages and waiters meet in any order: no lock stays, and no goroutine.
func TestMinHoldRaces(t *testing.T) {
	for range rounds(200, 5_000) {
		synctest.Test(t, func(t *testing.T) {
			c := over(t, &scripted{}, relock.WithMinHold(time.Second))
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					l, err := c.Mutex("k").Lock(context.Background())
					if err != nil {
						return
					}
					all.Go(func() { _ = l.Unlock(context.Background()) })
					all.Go(func() { holdOf(l).Tick(clock.Now()) })
					all.Go(func() { holdOf(l).Doubt() })
					time.Sleep(time.Second)
				})
			}
			time.Sleep(2 * time.Second)
			all.Go(c.Close)
			all.Wait()
			require.Zero(t, gatesOf(c).Len())
			require.Zero(t, watchdogOf(c).Len())
		})
	}
}

func TestMinHoldOptions(t *testing.T) {
	c := newClient(t, redistest.Start(t).Client())
	for text, opts := range map[string][]relock.Option{
		"relock: invalid option: WithMinHold: -1s is out of range, between 0s and 8784h0m0s are possible":                           {relock.WithMinHold(-time.Second)},
		"relock: invalid option: WithMinHold: 8784h0m0.000000001s is out of range, between 0s and 8784h0m0s are possible":           {relock.WithMinHold(wire.MaxLease + 1)},
		"relock: invalid option: WithMinHold: 2s is longer than the 1s for which WithFixedLease and WithMaxHold let a lock be held": {relock.WithMinHold(2 * time.Second), relock.WithFixedLease(time.Second)},
		"relock: invalid option: WithMinHold: 3s is longer than the 1s for which WithFixedLease and WithMaxHold let a lock be held": {relock.WithMaxHold(time.Second), relock.WithMinHold(3 * time.Second)},
		"relock: invalid option: WithMinHold: 4s is longer than the 1s for which WithFixedLease and WithMaxHold let a lock be held": {relock.WithMaxHold(time.Second), relock.WithMinHold(4 * time.Second), relock.WithFixedLease(time.Hour)},
	} {
		_, err := c.Mutex("k", opts...).Lock(t.Context())
		require.EqualError(t, err, text)
		require.ErrorIs(t, err, relock.ErrInvalidOption)
	}
	rw := c.RWMutex("k", relock.WithMinHold(time.Second))
	_, err := rw.Lock(t.Context())
	require.EqualError(t, err, "relock: invalid option: WithMinHold: not for an RWMutex")
	_, err = rw.RLock(t.Context())
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	of := newClient(t, redistest.Start(t).Client(), relock.WithMinHold(time.Second))
	_, err = of.RWMutex("k").Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	require.NoError(t, of.RWMutex("k", relock.WithMinHold(0)).Do(t.Context(), nothing))
	require.NoError(t, c.Mutex("k", relock.WithMinHold(time.Second), relock.WithMaxHold(time.Second)).Do(t.Context(), nothing))
}
