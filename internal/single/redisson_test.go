package single

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// turnTime is how long one turn of Redisson's waiters lasts, as TURN in turn.lua.
const turnTime = 10 * time.Millisecond

// A release that finds foreign listeners hands over to nobody: relock stays away for a moment, and whoever it queued
// knows for how long. The mark in the queue is no waiter.
func TestReleaseLeavesTheLockToForeigners(t *testing.T) {
	s := redistest.Start(t)
	n := deaf(t, s.Client(), "w")
	inbox := inboxOf(t, s, "w")
	told := make(chan string, 16)
	subscribe(t, s, "redisson_lock__channel:{k}", func(m string) { told <- m })
	a, b, c := contenderOf(t, n, "w", 1, time.Minute), contenderOf(t, n, "w", 2, time.Minute),
		contenderOf(t, n, "w", 3, time.Minute)
	asks(t, a)
	asks(t, b)
	_, held, err := a.Release(context.Background(), c)
	require.NoError(t, err)
	require.False(t, held)
	require.Equal(t, "0", within(t, told))
	require.Equal(t, "0", s.Do("EXISTS", "k"))
	require.Positive(t, c.ttl)
	require.LessOrEqual(t, c.ttl, turnTime)
	require.Empty(t, c.holder)
	require.Less(t, c.entry.LookAgain(c.ttl, c.answers), 2*turnTime)
	require.Empty(t, inbox)
	st, err := n.Inspect(context.Background(), a.entry.Names)
	require.NoError(t, err)
	require.Equal(t, 2, st.Waiters)
	require.NotEmpty(t, s.Do("ZSCORE", "relock_queue:{k}", "turn"))
}

// Where nobody waits in relock, the mark ends by itself.
func TestTurnLeavesNothingBehind(t *testing.T) {
	s := redistest.Start(t)
	n := deaf(t, s.Client(), "w")
	var turn atomic.Bool
	subscribe(t, s, "redisson_lock__channel:{k}", func(string) { turn.Store(true) })
	a := contenderOf(t, n, "w", 1, time.Minute)
	asks(t, a)
	_, _, err := a.Release(context.Background(), nil)
	require.NoError(t, err)
	require.Eventually(t, turn.Load, patience, time.Millisecond)
	require.Eventually(t, func() bool { return s.Do("EXISTS", "relock_queue:{k}") == "0" }, patience, time.Millisecond)
}

// A poll in a turn is refused, with the time left; one that knows the turn to be used ends it; and a mark of another
// clock is no turn.
func TestPollKeepsOutOfATurn(t *testing.T) {
	s := redistest.Start(t)
	n := deaf(t, s.Client(), "w")
	c := contenderOf(t, n, "w", 1, time.Minute)
	ask := func(over string) bool {
		a, err := n.node.Debug().Wire.Acquire(context.Background(), wire.Plain, &c.entry, "", over, nil)
		require.NoError(t, err)
		return a.Mine
	}
	require.Eventually(t, func() bool { // a turn is short, and the test may be late
		name := markTurn(t, s, turnTime)
		if ask("7") {
			return false
		}
		require.True(t, ask(name))
		return true
	}, patience, time.Microsecond)
	for _, ahead := range []time.Duration{-time.Second, time.Hour} {
		markTurn(t, s, ahead)
		require.True(t, ask(""))
	}
}

// markTurn frees the lock k for a turn that ends so far ahead, and returns its name.
func markTurn(t *testing.T, s *redistest.Server, ahead time.Duration) string {
	t.Helper()
	var sec, usec int64
	_, err := fmt.Sscan(strings.ReplaceAll(s.Do("TIME"), "\n", " "), &sec, &usec)
	require.NoError(t, err)
	name := strconv.FormatInt(sec*1e6+usec+ahead.Microseconds(), 10)
	s.Do("DEL", "k")
	s.Do("ZADD", "relock_queue:{k}", "-"+name, "turn")
	return name
}

// A waiter that heard an unlock in the turn does not sit it out.
func TestUsedTurnIsNotSatOut(t *testing.T) {
	s := redistest.Start(t)
	n := deaf(t, s.Client(), "w")
	for i := uint64(1); ; i++ {
		c := contenderOf(t, n, "w", i, time.Minute)
		c.Enter()
		c.Ear().Listen()
		name := markTurn(t, s, turnTime)
		if _, held := asks(t, c); held {
			c.Forget()
			require.Less(t, i, uint64(1000))
			continue // a turn is short, and the test was late
		}
		names := c.entry.Names
		n.node.Debug().Hub.Message(names.Unlock, "0") // what Redisson was told when the turn began
		n.node.Debug().Hub.Message(names.Listen, name)
		n.node.Debug().Hub.Message(names.Unlock, "0")
		g, err := c.poll(context.Background())
		require.NoError(t, err)
		require.Positive(t, g.Token)
		return
	}
}
