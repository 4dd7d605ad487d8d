package relock

import (
	"context"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/tenure"
	"github.com/stretchr/testify/require"
)

// An Extend that was not answered may have lengthened the lease. So the hold is neither passed on in this process nor laid down:
// if the process died, the next holder's lock would stand for as long. That goes on once the hold count, which the same command
// wrote, is sure again.
func TestUnansweredExtendLengthens(t *testing.T) {
	const lease, longer = time.Hour, 2 * time.Hour // so that the watchdog does nothing by itself, however slow the machine is
	for name, of := range map[string]func(c *Client, opts ...Option) func(context.Context) (*Lease, error){
		"mutex": func(c *Client, opts ...Option) func(context.Context) (*Lease, error) {
			return c.Mutex("k", opts...).Lock
		},
		"writer": func(c *Client, opts ...Option) func(context.Context) (*Lease, error) {
			return c.RWMutex("k", opts...).Lock
		},
		"reader": func(c *Client, opts ...Option) func(context.Context) (*Lease, error) {
			return c.RWMutex("k", opts...).RLock
		},
	} {
		for _, linger := range []time.Duration{0, time.Hour} {
			t.Run(name+"/"+linger.String(), func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				rdb := faulty(s)
				c := lingeringClient(t, rdb, time.Hour, WithLease(lease), WithCommandTimeout(2*patience), WithRedissonWatchdog(0))
				lock := of(c, WithLinger(linger))
				first := taken(t, lock)
				rdb.Filter(faults.All(faults.Script("recount"), faults.LoseReply))
				require.Error(t, first.Extend(t.Context(), longer))
				rdb.Filter(nil)
				first.h.mu.Lock()
				first.h.count = tenure.Count{} // as if renewals had confirmed it meanwhile
				first.h.mu.Unlock()
				require.NoError(t, first.Context().Err())
				passedOn := make(chan *Lease, 1)
				if linger == 0 && name != "reader" { // whose hold a second one would share
					go func() { passedOn <- taken(t, lock) }()
					require.Eventually(t, func() bool { return gatesOf(c).Waiting(entryOf(first).Names.Gate(1)) }, patience, time.Millisecond)
				}
				unlocked(t, first)
				require.Zero(t, idleAt(c), "it was laid down")
				if linger == 0 && name != "reader" {
					next := within(t, passedOn)
					require.NotSame(t, holdOf(first), holdOf(next), "it was passed on")
					unlocked(t, next)
				}
			})
		}
	}
}

func TestExtendMovesTheEndOfAFixedLease(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
		l, err := c.Mutex("k", WithFixedLease(10*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(5 * time.Second)
		require.NoError(t, l.Extend(t.Context(), 20*time.Second))
		time.Sleep(19 * time.Second)
		require.NoError(t, l.Context().Err())
		time.Sleep(time.Second)
		require.Error(t, l.Context().Err())
	})
}

// A lease that was made longer than usual is not left to the next goroutine: if the process died, others would wait for
// all of it.
func TestLengthenedLeaseIsNotPassedOn(t *testing.T) {
	s := redistest.Start(t)
	c := newClient(t, s.Client(), WithLocalHandoff(10, time.Hour))
	ctx := context.Background()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	got := waitFor(t, c, "k")
	lined(t, c, "k")
	require.NoError(t, l.Extend(ctx, time.Hour))
	require.NoError(t, l.Unlock(ctx))
	next := within(t, got)
	require.NotEqual(t, l.Token()+1, next.Token(), "it was granted anew")
	require.Less(t, time.Until(next.Until()), time.Minute)
	require.Len(t, s.Do("PTTL", "k"), len("30000"))
	require.NoError(t, next.Unlock(ctx))
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
