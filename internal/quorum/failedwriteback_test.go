package quorum_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// writeBack picks the commands that raise the counter of a lock that is held.
var writeBack = faults.Script("fence").And(faults.Carrying("hold"))

// countApart lets the nodes' counters stand so far apart that a quorum's token must be written back at node 1.
func countApart(nodes []*redistest.Server) {
	for i, s := range nodes {
		s.Do("SET", "redisson_lock_token:{k}", []string{"8000000000010000", "8000000000020000", "8000000000020000"}[i])
	}
}

// A write-back that fails is no evidence; its contest goes on listening, to its caller and to Close.
func TestFailedWriteBackListens(t *testing.T) {
	for _, ends := range []string{"context", "client"} {
		nodes := locktest.Masters(t, 3)
		c, taps := locktest.Tapped(t, nodes)
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		require.NoError(t, c.Mutex("other").Do(ctx, func(context.Context) error { return nil }))
		countApart(nodes)
		nodes[2].Pause()
		failed := make(chan bool, 1)
		var sent atomic.Int64
		for _, w := range taps {
			w.Filter(func(c *faults.Call) faults.Fate {
				if !writeBack(c) {
					return faults.Pass
				}
				if sent.Add(1) == 3 {
					failed <- true
				}
				return faults.LoseCall
			})
		}
		done := make(chan error, 1)
		go func() {
			_, err := c.Mutex("k").Lock(ctx)
			done <- err
		}()
		locktest.Within(t, failed)
		gone := errors.New("gone")
		if ends == "context" {
			cancel(gone)
			require.ErrorIs(t, locktest.Within(t, done), gone)
		} else {
			c.Close()
			require.ErrorIs(t, locktest.Within(t, done), relock.ErrClosed)
		}
		require.Less(t, sent.Load(), int64(20), "it backs off")
		nodes[2].Resume()
	}
}

// The lock was lost at the node that is written back to: another node's vote, which comes later, makes the quorum.
func TestFailedWriteBackCountsVotes(t *testing.T) {
	nodes := locktest.Masters(t, 3)
	c, taps := locktest.Tapped(t, nodes)
	ctx, cancel := context.WithTimeout(context.Background(), 2*locktest.Patience)
	defer cancel()
	require.NoError(t, c.Mutex("other").Do(ctx, func(context.Context) error { return nil }))
	countApart(nodes)
	var sent atomic.Int64
	taps[0].Filter(func(c *faults.Call) faults.Fate {
		if !writeBack(c) {
			return faults.Pass
		}
		sent.Add(1)
		return faults.LoseCall.Telling()
	})
	taps[2].Filter(faults.All(faults.Script("vote"), faults.Hold))
	granted := locktest.Locks(ctx, t, c.Mutex("k"))
	for range 2 {
		locktest.Within(t, taps[0].Told())
	}
	taps[2].Filter(nil)
	taps[2].Release()
	l := locktest.Within(t, granted)
	require.Greater(t, l.Token(), int64(8000000000020000))
	require.NoError(t, l.Unlock(ctx))
	require.Less(t, sent.Load(), int64(20), "it backs off")
}

// TryLock asks once: what a failed write-back leaves undecided is no lock.
func TestTryLockWithAFailedWriteBack(t *testing.T) {
	nodes := locktest.Masters(t, 3)
	c, taps := locktest.Tapped(t, nodes)
	ctx := context.Background()
	require.NoError(t, c.Mutex("other").Do(ctx, func(context.Context) error { return nil }))
	countApart(nodes)
	nodes[2].Pause()
	taps[0].Filter(faults.All(writeBack, faults.LoseCall))
	_, err := c.Mutex("k").TryLock(ctx)
	require.Error(t, err)
	nodes[2].Resume()
	require.NoError(t, c.Mutex("k").Do(ctx, func(context.Context) error { return nil }))
}
