package relock

import (
	"context"
	"strconv"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A lock whose lease cannot be set is not left behind: nothing would ever end it.
func TestNoLockWithoutLease(t *testing.T) {
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *Client) {
		for _, s := range servers {
			s.Do("ACL", "SETUSER", "app", "-pexpire")
		}
		_, err := c.Mutex("k").TryLock(t.Context())
		require.Error(t, err)
		for _, s := range servers {
			require.Equal(t, "0", s.Do("EXISTS", "k"))
		}
	})
}

// A Redis that is out of memory lets go of a lock although somebody here is to be queued in the same step.
func TestOutOfMemoryLetsGoWithALocalWaiter(t *testing.T) {
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *Client) {
		l, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		onAll(t, servers, "k")
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if l, err := c.Mutex("k").Lock(ctx); err == nil {
				_ = l.Unlock(ctx)
			}
		}()
		lined(t, c, "k")
		for _, s := range servers {
			s.Do("CONFIG", "SET", "maxmemory", "1")
		}
		require.NoError(t, l.Unlock(t.Context()))
		cancel()
		within(t, gone)
	}, WithLocalHandoff(1, 0))
}

// Thousands may share an owner: State names the owner, and who waits does not read them all at each poll.
func TestManySharers(t *testing.T) {
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *Client) {
		const sharers = 4000
		ctx := WithOwner(t.Context(), "job")
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
		var held *HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, "job", held.Holder)
		for _, s := range servers {
			require.Zero(t, s.CommandCounts()["hkeys"])
		}
	})
}
