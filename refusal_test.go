package relock

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A node that noticed by a clock which was an hour ahead, and is right since, is out for its quarantine and no longer.
func TestQuarantineByAClockThatWasAhead(t *testing.T) {
	nodes := masters(t, 1)
	const lease = 500 * time.Millisecond
	c := newRedlock(t, nodes, WithLease(lease), WithRestartGuard(GuardAuto, lease))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, c.Mutex("k").Do(ctx, func(context.Context) error { return nil }))
	nodes[0].Do("HSET", "relock_incarnation", "born", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10))
	corrected := time.Now()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(corrected), lease, "leases of before may last so long")
	require.NoError(t, l.Unlock(ctx))
}

// Nodes that are out of memory let go of a lock beside a goroutine that waits for it, whether they can queue that or not.
func TestRedlockOutOfMemoryLetsGo(t *testing.T) {
	nodes := masters(t, 3)
	c := newRedlock(t, nodes, WithLocalHandoff(1, 0))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l, err := c.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	waited := make(chan error, 1)
	go func() { waited <- c.Mutex("k").Do(ctx, func(context.Context) error { return nil }) }()
	lined(t, c, "k")
	for _, s := range nodes {
		s.Do("CONFIG", "SET", "maxmemory", "1")
	}
	require.NoError(t, l.Unlock(ctx))
	if err := within(t, waited); err != nil {
		require.ErrorContains(t, err, "OOM")
	}
	for _, s := range nodes {
		require.Eventually(t, func() bool { return s.Do("EXISTS", "k") == "0" }, patience, time.Millisecond)
		s.Do("CONFIG", "SET", "maxmemory", "0")
	}
	require.NoError(t, c.Mutex("k").Do(ctx, func(context.Context) error { return nil }))
}
