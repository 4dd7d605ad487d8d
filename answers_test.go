package relock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/redistest"
)

// A Lock that waits for Redis itself is told of with a Cause: after a second, where Redis is gone, and with its first
// command that is not answered for longer, where it hangs.
func TestWaitingForRedisIsToldWithItsCause(t *testing.T) {
	for name, c := range map[string]struct {
		nodes int
		stop  func(*redistest.Server)
		most  time.Duration
	}{
		"one Redis that is gone": {1, (*redistest.Server).Kill, 0},
		"one Redis that hangs":   {1, (*redistest.Server).Pause, 2 * time.Second},
		"a quorum that is gone":  {3, (*redistest.Server).Kill, 0},
		"a quorum that hangs":    {3, (*redistest.Server).Pause, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			servers, o := masters(t, c.nodes), &seen{}
			var client *Client
			if c.nodes == 1 {
				client = newClient(t, servers[0].Client(), WithObserver(o))
			} else {
				client = newRedlock(t, servers, WithObserver(o))
			}
			lockAndUnlock(t, client.Mutex("warm"))
			for _, s := range servers {
				c.stop(s)
				if c.most > 0 {
					defer s.Resume()
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			failed := make(chan error, 1)
			go func() {
				_, err := client.Mutex("k").Lock(ctx)
				failed <- err
			}()
			var told Event
			require.Eventually(t, func() bool {
				for _, e := range o.of(EventWaiting) {
					if e.Cause != nil {
						told = e
					}
				}
				return told.Cause != nil
			}, patience, time.Millisecond)
			require.GreaterOrEqual(t, told.Wait, time.Second)
			if c.most > 0 {
				require.Less(t, told.Wait, c.most+time.Second)
			}
			require.Equal(t, "k", told.Lock)
			cancel()
			require.ErrorIs(t, <-failed, context.Canceled)
		})
	}
}
