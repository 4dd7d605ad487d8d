package relock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// tap is a client of one node that lets a test look at each command before it is sent, and drop it.
type tap struct {
	rueidis.Client
	mu    sync.Mutex
	drops func(ctx context.Context, cmd []string) bool
}

// on sets what is asked of each command; true drops it unanswered.
func (w *tap) on(drops func(ctx context.Context, cmd []string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drops = drops
}

func (w *tap) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	w.mu.Lock()
	drops := w.drops
	w.mu.Unlock()
	if drops != nil {
		cmd = cmd.Pin()
		if drops(ctx, cmd.Commands()) {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			ctx = ended
		}
	}
	return w.Client.Do(ctx, cmd)
}

// tapped returns a client over servers and the tap on each.
func tapped(t *testing.T, servers []*redistest.Server, opts ...Option) (*Client, []*tap) {
	t.Helper()
	var nodes []rueidis.Client
	var taps []*tap
	for _, s := range servers {
		w := &tap{Client: s.Client()}
		nodes, taps = append(nodes, w), append(taps, w)
	}
	c, err := NewRedlock(nodes, opts...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, taps
}

// isWriteBack reports whether a command raises the counter of a lock that is held.
func isWriteBack(cmd []string) bool { return slices.Contains(cmd, "hold") }

// countApart lets the nodes' counters stand so far apart that a quorum's token must be written back at node 1.
func countApart(nodes []*redistest.Server) {
	for i, s := range nodes {
		s.Do("SET", "redisson_lock_token:{k}", []string{"8000000000010000", "8000000000020000", "8000000000020000"}[i])
	}
}

// A write-back that fails is no evidence; its contest goes on listening, to its caller and to Close.
func TestFailedWriteBackListens(t *testing.T) {
	for _, ends := range []string{"context", "client"} {
		nodes := masters(t, 3)
		c, taps := tapped(t, nodes)
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		require.NoError(t, c.Mutex("other").Do(ctx, func(context.Context) error { return nil }))
		countApart(nodes)
		nodes[2].Pause()
		failed := make(chan bool, 1)
		var sent atomic.Int64
		for _, w := range taps {
			w.on(func(_ context.Context, cmd []string) bool {
				if !isWriteBack(cmd) {
					return false
				}
				if sent.Add(1) == 3 {
					failed <- true
				}
				return true
			})
		}
		done := make(chan error, 1)
		go func() {
			_, err := c.Mutex("k").Lock(ctx)
			done <- err
		}()
		within(t, failed)
		gone := errors.New("gone")
		if ends == "context" {
			cancel(gone)
			require.ErrorIs(t, within(t, done), gone)
		} else {
			c.Close()
			require.ErrorIs(t, within(t, done), ErrClosed)
		}
		require.Less(t, sent.Load(), int64(20), "it backs off")
		nodes[2].Resume()
	}
}

// A write-back runs in the node's time: a caller whose time ends meanwhile makes no node look silent.
func TestWriteBackOutlivesItsCaller(t *testing.T) {
	nodes := masters(t, 3)
	c, taps := tapped(t, nodes)
	bg := context.Background()
	require.NoError(t, c.Mutex("other").Do(bg, func(context.Context) error { return nil }))
	countApart(nodes)
	nodes[2].Pause()
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	ended := make(chan error, 1)
	taps[0].on(func(at context.Context, cmd []string) bool {
		if isWriteBack(cmd) {
			cancel()
			ended <- at.Err()
		}
		return false
	})
	_, err := c.Mutex("k").Lock(ctx)
	if err != nil {
		require.ErrorIs(t, err, context.Canceled)
	}
	require.NoError(t, within(t, ended))
	require.False(t, c.arb.(*quorum).seats[0].idle())
}

// The lock was lost at the node that is written back to: another node's vote, which comes later, makes the quorum.
func TestFailedWriteBackCountsVotes(t *testing.T) {
	nodes := masters(t, 3)
	c, taps := tapped(t, nodes)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	require.NoError(t, c.Mutex("other").Do(ctx, func(context.Context) error { return nil }))
	countApart(nodes)
	failed := make(chan bool)
	var sent atomic.Int64
	taps[0].on(func(_ context.Context, cmd []string) bool {
		if isWriteBack(cmd) && sent.Add(1) == 2 {
			close(failed)
		}
		return isWriteBack(cmd)
	})
	taps[2].on(func(ctx context.Context, cmd []string) bool {
		if slices.Contains(cmd, toWait) {
			select {
			case <-failed:
			case <-ctx.Done():
			}
		}
		return false
	})
	granted := make(chan *Lease)
	go func() {
		l, err := c.Mutex("k").Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		granted <- l
	}()
	l := within(t, granted)
	require.Greater(t, l.Token(), int64(8000000000020000))
	require.NoError(t, l.Unlock(ctx))
	require.Less(t, sent.Load(), int64(20), "it backs off")
}

// TryLock asks once: what a failed write-back leaves undecided is no lock.
func TestTryLockWithAFailedWriteBack(t *testing.T) {
	nodes := masters(t, 3)
	c, taps := tapped(t, nodes)
	ctx := context.Background()
	require.NoError(t, c.Mutex("other").Do(ctx, func(context.Context) error { return nil }))
	countApart(nodes)
	nodes[2].Pause()
	taps[0].on(func(_ context.Context, cmd []string) bool { return isWriteBack(cmd) })
	_, err := c.Mutex("k").TryLock(ctx)
	require.Error(t, err)
	nodes[2].Resume()
	require.NoError(t, c.Mutex("k").Do(ctx, func(context.Context) error { return nil }))
}

// The order of instants must not depend on how wide an int is.
func TestGrantsAreOrderedByAge(t *testing.T) {
	now := clock.Now()
	legs := []*leg{{own: 1 << 40, sent: now.Add(-5 * time.Second)}, {own: 3, sent: now}, {own: 1<<40 + 1<<32, sent: now.Add(-3 * time.Second)}}
	slices.SortFunc(legs, func(a, b *leg) int { return byAge(a, b, now) })
	for i, age := range []time.Duration{0, 3 * time.Second, 5 * time.Second} {
		require.Equal(t, age, now.Since(legs[i].sent))
	}
	slices.SortFunc(legs, byNumber)
	require.Equal(t, []int64{3, 1 << 40, 1<<40 + 1<<32}, []int64{legs[0].own, legs[1].own, legs[2].own})
}
