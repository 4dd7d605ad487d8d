package relock

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// forgets makes a node one that was emptied so long ago that its quarantine is over, but that was not yet told how far
// the others have counted.
func forgets(t *testing.T, s *redistest.Server) {
	t.Helper()
	s.Do("DEL", "redisson_lock_token:{k}", "k", "relock_queue:{k}")
	s.Do("HSET", "relock_incarnation", "born", strconv.FormatInt(time.Now().Add(-time.Hour).UnixMilli(), 10))
}

// A contender that was stopped asks on. What it heard of the others before they counted on, and a node forgot, is too
// little to tell that node.
func TestForgetfulNodeIsToldWhatWasAskedSince(t *testing.T) {
	nodes := masters(t, 3)
	holder, c := newRedlock(t, nodes), newRedlock(t, nodes)
	ctx := context.Background()
	_, err := holder.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, c.arb.(*quorum).prepare(ctx))
	a := contender(t, c)
	defer c.arb.abandon(a)
	e := a.election
	for i := range nodes {
		voteAt(t, e, i)
	}
	reached := int64(0)
	for _, s := range nodes[1:] {
		reached, err = strconv.ParseInt(s.Do("INCRBY", "redisson_lock_token:{k}", "5000"), 10, 64)
		require.NoError(t, err)
	}
	forgets(t, nodes[0])

	l, now := e.legs[0], clock.Now()
	l.pending = true
	v := e.send(l, now, 0, toWait)
	require.ErrorContains(t, v.err, "UNSEEDED")
	e.count(v)
	require.False(t, l.seeded, "by votes of before")
	for _, other := range e.legs[1:] {
		require.True(t, other.due.Reached(clock.Now()), "they are asked anew")
	}
	voteAt(t, e, 1)
	require.False(t, l.seeded, "node 3 may know more")
	voteAt(t, e, 2)
	require.True(t, l.seeded)
	require.Eventually(t, func() bool {
		n, _ := strconv.ParseInt(nodes[0].Do("GET", "redisson_lock_token:{k}"), 10, 64)
		return n >= reached
	}, patience, time.Millisecond)
}

// Who wins without the node that forgot tells it too: a lock that always passes quickly leaves no time to ask the others.
func TestWinnerTellsTheForgetfulNode(t *testing.T) {
	nodes := masters(t, 3)
	c := newRedlock(t, nodes)
	ctx := context.Background()
	require.NoError(t, c.Mutex("k").Do(ctx, func(context.Context) error { return nil }))
	forgets(t, nodes[0])
	a := contender(t, c)
	defer c.arb.abandon(a)
	e := a.election
	l, now := e.legs[0], clock.Now()
	l.pending = true
	e.count(e.send(l, now, 0, toWait))
	require.False(t, l.seeded)
	for _, other := range e.legs[1:] {
		other.pending = true
		e.count(vote{leg: other, sent: now, ballot: ballot{mine: true, number: 1 << 52}})
	}
	g, won := e.win()
	require.True(t, won)
	require.True(t, l.seeded)
	require.Eventually(t, func() bool {
		n, _ := strconv.ParseInt(nodes[0].Do("GET", "redisson_lock_token:{k}"), 10, 64)
		return n >= g.token
	}, patience, time.Millisecond)
}

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
