package suite_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// sweeping is how many claims c still has to end.
func sweeping(c *relock.Client) int { return arbiterOf(c).Nodes()[0].Debug().Sweeping }

// scriptCount is how many scripts a server ran since its counts were reset.
func scriptCount(s *redistest.Server) int64 {
	n := s.CommandCounts()
	return n["evalsha"] + n["eval"]
}

// giveUp has many callers try to lock a name of their own each, for a moment.
func giveUp(t *testing.T, c *relock.Client, calls int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			if _, err := c.Mutex("k" + strconv.Itoa(i)).Lock(ctx); err == nil {
				t.Error("locked on a Redis that does not answer")
			}
		})
	}
	wg.Wait()
}

// While Redis hangs, those who give up must not pile up work that is tried for ever.
func TestSweepingEnds(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithLease(200*time.Millisecond))
	warm(t, c)
	s.Pause()
	giveUp(t, c, 20)
	require.Positive(t, sweeping(c))
	require.Eventually(t, func() bool { return sweeping(c) == 0 }, patience, 10*time.Millisecond)
	s.Resume()
}

// A connection that was refused carried no command, so there is nothing to end but what the broken ones carried.
func TestRefusedConnectionLeavesNothingToSweep(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	warm(t, c)
	s.Kill()
	giveUp(t, c, 30)
	left := sweeping(c)
	giveUp(t, c, 300)
	require.Eventually(t, func() bool { return sweeping(c) <= left }, patience, time.Millisecond)
}

// What many callers left undone in a hiccup is ended by few commands, once Redis answers.
func TestSweepsGoTogether(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client(), relock.WithLease(3*time.Second))
	warm(t, c)
	s.ResetCommandCounts()
	s.Pause()
	const calls = 200
	giveUp(t, c, calls)
	s.Resume()
	require.Eventually(t, func() bool { return sweeping(c) == 0 }, patience, 10*time.Millisecond)
	for i := range calls {
		require.Equal(t, "0", s.Do("EXISTS", "k"+strconv.Itoa(i), "relock_queue:{k"+strconv.Itoa(i)+"}"))
	}
	require.LessOrEqual(t, scriptCount(s), int64(2*calls))
}

// An acquire whose caller has left goes on, and its answer ends what is not known of it: no need to come back for a
// whole lease.
func TestAnswerEndsWhatIsNotKnown(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	warm(t, c)
	s.Pause()
	giveUp(t, c, 10)
	s.Resume()
	require.Eventually(t, func() bool { return sweeping(c) == 0 }, patience, time.Millisecond,
		"long before the lease of 30 s is over")
	for i := range 10 {
		l, err := c.Mutex("k" + strconv.Itoa(i)).TryLock(context.Background())
		require.NoError(t, err)
		require.NoError(t, l.Unlock(context.Background()))
	}
}

// warm has a client's connections and scripts ready.
func warm(t *testing.T, c *relock.Client) {
	t.Helper()
	l, err := c.Mutex("warm").Lock(context.Background())
	require.NoError(t, err)
	require.NoError(t, l.Unlock(context.Background()))
}

// A release that fails is repeated for as long as Extend made the lease last, not only for that of the client.
func TestReleaseOfALongLeaseIsRepeatedForLong(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	w := faulty(s)
	c := newClient(t, w, relock.WithLease(300*time.Millisecond))
	l := taken(t, c.Mutex("k").Lock)
	require.NoError(t, l.Extend(t.Context(), time.Hour))
	w.Filter(faults.All(faults.AnyScript, faults.LoseCall))
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrUnavailable)
	time.Sleep(2 * time.Second) // more than six of the client's leases
	w.Filter(nil)
	require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
}
