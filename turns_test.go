package relock

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A turn is over when somebody unlocked in it, and only then.
func TestTurnIsOverOnceUsed(t *testing.T) {
	var ts turns
	now := time.Now()
	ts.unlocked()
	require.Empty(t, ts.over())
	require.False(t, ts.near(now))
	ts.opened("1", now)
	require.Empty(t, ts.over())
	require.True(t, ts.near(now))
	ts.unlocked()
	require.Equal(t, "1", ts.over())
	ts.opened("2", now)
	require.Empty(t, ts.over())
	require.False(t, ts.near(now.Add(turnMemory)), "a second without a turn")
}

// Eight turns that nobody uses make them rare, each further one twice as rare, and a used one frequent again.
func TestUnusedTurnsGetRare(t *testing.T) {
	var ts turns
	now := time.Now()
	unused := func() {
		ts.opened("t", now)
		ts.granted(now)
		ts.granted(now) // a turn counts once
	}
	for range unusedAllowed - 1 {
		unused()
		require.True(t, ts.due(now))
	}
	for _, pause := range []time.Duration{10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000, 1000, 1000, 1000} {
		unused()
		require.False(t, ts.due(now.Add(pause*time.Millisecond-1)))
		require.False(t, ts.near(now))
		now = now.Add(pause * time.Millisecond)
		require.True(t, ts.due(now))
	}
	ts.opened("t", now)
	ts.unlocked()
	ts.granted(now)
	require.Zero(t, ts.unused)
	unused()
	require.True(t, ts.due(now))
}

// subscribe listens on a channel as neither relock's nor Redisson's clients do, until the test ends.
func subscribe(t *testing.T, s *redistest.Server, channel string, hear func(message string)) {
	t.Helper()
	conn, release := s.Client().Dedicate()
	t.Cleanup(release)
	before := s.Do("PUBSUB", "NUMSUB", channel)
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { hear(m.Message) }})
	require.NoError(t, conn.Do(context.Background(), conn.B().Subscribe().Channel(channel).Build()).Error())
	require.Eventually(t, func() bool { return s.Do("PUBSUB", "NUMSUB", channel) != before }, patience, time.Millisecond)
}

// A release that finds foreign listeners hands over to nobody: relock stays away for a moment, and whoever it queued
// knows for how long. The mark in the queue is no waiter.
func TestReleaseLeavesTheLockToForeigners(t *testing.T) {
	s := redistest.Start(t)
	n := deaf(s.Client(), "w", 30*time.Second)
	inbox := inboxOf(t, s, "w")
	told := make(chan string, 16)
	subscribe(t, s, "redisson_lock__channel:{k}", func(m string) { told <- m })
	a, b, c := acquisitionOf(t, "k", "w", 1, time.Minute), acquisitionOf(t, "k", "w", 2, time.Minute),
		acquisitionOf(t, "k", "w", 3, time.Minute)
	asks(t, n, a)
	asks(t, n, b)
	_, held, err := n.release(context.Background(), a, c)
	require.NoError(t, err)
	require.False(t, held)
	require.Equal(t, "0", within(t, told))
	require.Equal(t, "0", s.Do("EXISTS", "k"))
	require.Positive(t, c.blocker.ttl)
	require.LessOrEqual(t, c.blocker.ttl, turnTime)
	require.Empty(t, c.blocker.holder)
	require.Less(t, c.nextPoll(), 2*turnTime)
	require.Empty(t, inbox)
	st, err := n.inspect(context.Background(), &a.names)
	require.NoError(t, err)
	require.Equal(t, 2, st.Waiters)
	require.NotEmpty(t, s.Do("ZSCORE", "relock_queue:{k}", "turn"))
}

// Where nobody waits in relock, the mark ends by itself.
func TestTurnLeavesNothingBehind(t *testing.T) {
	s := redistest.Start(t)
	n := deaf(s.Client(), "w", 30*time.Second)
	var turn atomic.Bool
	subscribe(t, s, "redisson_lock__channel:{k}", func(string) { turn.Store(true) })
	a := acquisitionOf(t, "k", "w", 1, time.Minute)
	asks(t, n, a)
	_, _, err := n.release(context.Background(), a, nil)
	require.NoError(t, err)
	require.Eventually(t, turn.Load, patience, time.Millisecond)
	require.Eventually(t, func() bool { return s.Do("EXISTS", "relock_queue:{k}") == "0" }, patience, time.Millisecond)
}

// A poll in a turn is refused, with the time left; one that knows the turn to be used ends it; and a mark of another
// clock is no turn.
func TestPollKeepsOutOfATurn(t *testing.T) {
	s := redistest.Start(t)
	n := deaf(s.Client(), "w", 30*time.Second)
	r := route{inbox: inboxPrefix, publish: "PUBLISH"}
	a := acquisitionOf(t, "k", "w", 1, time.Minute)
	ask := func(over string) reply {
		rep, err := n.scripts.acquire(context.Background(), r, a, "", over)
		require.NoError(t, err)
		return rep
	}
	require.Eventually(t, func() bool { // a turn is short, and the test may be late
		name := markTurn(t, s, turnTime)
		if ask("7").owner {
			return false
		}
		require.True(t, ask(name).owner)
		return true
	}, patience, time.Microsecond)
	for _, ahead := range []time.Duration{-time.Second, time.Hour} {
		markTurn(t, s, ahead)
		require.True(t, ask("").owner)
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
	n := deaf(s.Client(), "w", 30*time.Second)
	for i := uint64(1); ; i++ {
		a := acquisitionOf(t, "k", "w", i, time.Minute)
		n.hub.rooms[a.names.unlock] = &room{names: a.names}
		name := markTurn(t, s, turnTime)
		if _, held := asks(t, n, a); held {
			require.Less(t, i, uint64(1000))
			continue // a turn is short, and the test was late
		}
		n.hub.receive(a.names.unlock, "0") // what Redisson was told when the turn began
		n.hub.receive(a.names.listen, name)
		n.hub.receive(a.names.unlock, "0")
		_, held, err := n.poll(context.Background(), a)
		require.NoError(t, err)
		require.True(t, held)
		return
	}
}

// Foreign waiters that come later than relock's get their share of a lock that relock is eager for, and one that never
// comes costs little.
func TestForeignersGetTheirShare(t *testing.T) {
	s := redistest.Start(t)
	ctx, cancel := context.WithCancel(context.Background())
	clients := []*Client{newClient(t, s.Client()), newClient(t, s.Client())}
	var ours, theirs, late atomic.Int64
	free := make(chan struct{}, 1)
	subscribe(t, s, "redisson_lock__channel:{k}", func(string) {
		select {
		case free <- struct{}{}:
		default:
		}
	})
	done := make(chan struct{})
	for _, c := range clients {
		for range 2 {
			go func() {
				defer func() { done <- struct{}{} }()
				for ctx.Err() == nil {
					if c.Mutex("k").Do(ctx, func(context.Context) error { return nil }) == nil {
						ours.Add(1)
					}
				}
			}()
		}
	}
	const take = "return redis.call('EXISTS', KEYS[1]) == 0 and redis.call('HSET', KEYS[1], 'java:1', 1)"
	for began := time.Now(); theirs.Load() < 50; {
		require.Less(t, time.Since(began), patience)
		within(t, free)
		time.Sleep(2 * time.Millisecond) // as a JVM takes to come
		if s.Do("EVAL", take, "1", "k") == "1" {
			theirs.Add(1)
			s.Do("DEL", "k")
			s.Do("PUBLISH", "redisson_lock__channel:{k}", "0")
		} else {
			late.Add(1) // a turn is short, and the machine may be busy
		}
	}
	t.Logf("%d holdings of ours, %d of theirs, %d chances missed", ours.Load(), theirs.Load(), late.Load())
	require.Less(t, ours.Load(), 20*(theirs.Load()+late.Load()))

	require.Eventually(t, func() bool { // the foreigner sleeps now
		for _, c := range clients {
			h := c.arb.(*node).hub
			h.mu.Lock()
			unused := h.rooms["redisson_lock__channel:{k}"].turns.unused
			h.mu.Unlock()
			if unused > unusedAllowed {
				return true
			}
		}
		return false
	}, patience, 10*time.Millisecond)
	cancel()
	for range 4 {
		within(t, done)
	}
}

// A hand-over that fails at a broken counter wakes the waiters, who are told why.
func TestBrokenCounterLeavesNobodyAsleep(t *testing.T) {
	s := redistest.Start(t)
	c, d := newClient(t, s.Client(), WithLease(far)), newClient(t, s.Client(), WithLease(far))
	for name, free := range map[string]func(*Lease) error{
		"unlocked": func(l *Lease) error { return l.Unlock(context.Background()) },
		"forced": func(*Lease) error {
			_, err := c.Mutex("forced").ForceUnlock(context.Background())
			return err
		},
	} {
		l, err := c.Mutex(name).Lock(context.Background())
		require.NoError(t, err)
		told := make(chan error, 1)
		go func() {
			_, err := d.Mutex(name).Lock(context.Background())
			told <- err
		}()
		queued(t, s, name, 1)
		require.Eventually(t, func() bool {
			return strings.HasSuffix(s.Do("PUBSUB", "NUMSUB", "redisson_lock__channel:{"+name+"}"), "\n1")
		}, patience, time.Millisecond)
		s.Do("DEL", "redisson_lock_token:{"+name+"}")
		s.Do("RPUSH", "redisson_lock_token:{"+name+"}", "a")
		require.NoError(t, free(l), "the lock is free, whatever the counter is")
		var node *NodeError
		require.ErrorAs(t, within(t, told), &node)
		require.Equal(t, "0", s.Do("EXISTS", name))
	}
}

// What comes over the channels and means nothing is written to the logger, but not each time.
func TestSkippedMessagesAreLogged(t *testing.T) {
	var out bytes.Buffer
	c := newClient(t, ownRedis(t), WithLogger(slog.New(slog.NewTextHandler(&out, nil))))
	h := c.arb.(*node).hub
	nm, err := namesOf("", "k")
	require.NoError(t, err)
	h.mu.Lock()
	h.rooms[nm.unlock] = &room{names: nm, empty: time.Now()}
	h.mu.Unlock()
	for range 100 {
		h.receive(nm.unlock, strings.Repeat("9", 1000))
	}
	h.receive(nm.listen, "soon")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 2)
	require.Contains(t, lines[0], nm.unlock)
	require.Contains(t, lines[0], "skipped=1")
	require.Less(t, len(lines[0]), 300)
	require.Contains(t, lines[1], "message=soon")
	require.Contains(t, lines[1], "skipped=101")
}
