package suite_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// What no retry helps matches ErrRefused, whatever was called and without a look at Cause or at a text. A Redis that is not
// there does not.
func TestRefusedIsToldFromDown(t *testing.T) {
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		ctx := t.Context()
		held, err := c.Mutex("held").Lock(ctx)
		require.NoError(t, err)
		onAll(t, servers, "held")
		var writer *relock.Lease
		if len(servers) == 1 {
			writer, err = c.RWMutex("rw").Lock(ctx)
			require.NoError(t, err)
		}
		calls := map[string]func() error{
			"TryLock":     func() error { _, err := c.Mutex("k").TryLock(ctx); return err },
			"Extend":      func() error { return held.Extend(ctx, 30*time.Second) },
			"re-entry":    func() error { _, err := c.Mutex("held").TryLock(held.Context()); return err },
			"State":       func() error { _, err := c.Mutex("k").State(ctx); return err },
			"ForceUnlock": func() error { _, err := c.Mutex("k").ForceUnlock(ctx); return err },
		}
		if writer != nil {
			calls["Downgrade"] = func() error { _, err := writer.Downgrade(ctx); return err }
		}
		for _, s := range servers {
			s.Do("ACL", "SETUSER", "app", "resetkeys", "~other*")
		}
		_, err = c.Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, relock.ErrRefused, "Lock returns it at once")
		for name, call := range calls {
			require.ErrorIs(t, call(), relock.ErrRefused, name)
		}
		for _, s := range servers {
			s.Kill()
		}
		for name, call := range calls {
			if name == "TryLock" || name == "State" {
				err := call()
				require.Error(t, err, name)
				require.NotErrorIs(t, err, relock.ErrRefused, name)
			}
		}
	}, relock.WithCommandTimeout(500*time.Millisecond))
}

// Keys of another kind are refused too, by one Redis.
func TestAnotherKindIsRefused(t *testing.T) {
	c := newClient(t, redistest.Start(t).Client())
	l, err := c.RWMutex("k").RLock(t.Context())
	require.NoError(t, err)
	defer unlocked(t, l)
	_, err = c.Mutex("k").TryLock(t.Context())
	require.ErrorIs(t, err, relock.ErrRefused)
	require.ErrorIs(t, err, relock.ErrWrongKind)
}

// A quorum's failure is final only if that of too many nodes is. What one node said can still be looked at.
func TestAQuorumRefusesByTooManyOfItsNodes(t *testing.T) {
	node := func(nr int, err error) *relock.NodeError {
		return outward(&wire.NodeError{Node: nr, Err: err}).(*relock.NodeError)
	}
	refuses, down := node(1, reply("NOPERM")), node(2, context.DeadlineExceeded)
	require.ErrorIs(t, refuses, relock.ErrRefused)
	require.NotErrorIs(t, down, relock.ErrRefused)
	for want, nodes := range map[bool][]*relock.NodeError{
		false: {refuses, down},
		true:  {refuses, down, node(3, reply("OOM"))},
	} {
		quorum := &relock.QuorumError{Op: "acquire", Need: 2, Of: 3, Nodes: nodes, Cause: context.Canceled}
		for _, err := range []error{quorum, fmt.Errorf("wrapped: %w", quorum), &relock.HeldError{Cause: quorum}} {
			require.Equal(t, want, errors.Is(err, relock.ErrRefused))
			require.ErrorIs(t, err, context.DeadlineExceeded, "of a node")
			require.ErrorIs(t, err, context.Canceled, "of the caller")
			require.ErrorIs(t, err, refuses.Err)
			var node *relock.NodeError
			require.ErrorAs(t, err, &node)
			require.Same(t, refuses, node)
		}
	}
}
