package relock

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// crowded returns a client of s whose pool of dedicated connections has one, which is in use until give is called.
func crowded(t *testing.T, s *redistest.Server) (rdb rueidis.Client, give func()) {
	t.Helper()
	opt := s.Option()
	opt.BlockingPoolSize = 1
	rdb, err := rueidis.NewClient(opt)
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	_, release := rdb.Dedicate()
	give = sync.OnceFunc(release)
	t.Cleanup(give)
	return rdb, give
}

// closes requires that Close returns.
func closes(t *testing.T, c *Client) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		c.Close()
		close(closed)
	}()
	within(t, closed)
}

// Close does not wait for a connection that the user's pool does not hand out. One that comes later is given back.
func TestCloseWithoutAConnection(t *testing.T) {
	s := redistest.Start(t)
	rdb, give := crowded(t, s)
	c, err := New(rdb)
	require.NoError(t, err)
	require.NoError(t, c.Mutex("k").Do(context.Background(), func(context.Context) error { return nil }))
	closes(t, c)
	give()
	_, release := rdb.Dedicate()
	release()
}

// Close does not wait for a connection that takes long to close, as the client library's does where a server hangs.
func TestCloseBesideAConnectionThatHangs(t *testing.T) {
	s := redistest.Start(t)
	rdb := faulty(s)
	rdb.Filter(faults.All(faults.Command("CLOSE"), faults.Hold))
	c, err := New(rdb)
	require.NoError(t, err)
	require.NoError(t, c.Mutex("k").Do(context.Background(), func(context.Context) error { return nil }))
	listening(t, s, c)
	closes(t, c)
	rdb.Release()
}

// guarded is a buffer for a logger.
type guarded struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (g *guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.Write(p)
}

func (g *guarded) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.String()
}

// Where no connection is to be had for messages, the logger is told, and everything is heard once there is one.
func TestMissingConnectionIsLogged(t *testing.T) {
	s := redistest.Start(t)
	rdb, give := crowded(t, s)
	var out guarded
	c := newClient(t, rdb, WithLease(far), WithLogger(slog.New(slog.NewTextHandler(&out, nil))))
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "BlockingPoolSize") },
		patience, 10*time.Millisecond)
	give()
	handsOver(t, s, newClient(t, s.Client(), WithLease(far)), c, "k")
	require.Equal(t, 1, strings.Count(out.String(), "level=WARN"))
}

// Thousands of channels are subscribed in batches, also after a lost connection, and only what changes is sent.
func TestChannelsAreSubscribedInBatches(t *testing.T) {
	const locks = 2000
	s := redistest.Start(t)
	c := newClient(t, s.Client())
	h := c.arb.(*node).hub
	subscribed := func(n int) func() bool {
		return func() bool {
			found := 0
			for _, ch := range strings.Split(s.Do("PUBSUB", "CHANNELS"), "\n") {
				if strings.Contains(ch, "{batch") {
					found++
				}
			}
			return found == n
		}
	}
	for i := range locks {
		a := acquisitionOf(t, fmt.Sprint("batch", i), c.id, uint64(i+1), time.Minute)
		h.enter(a)
		h.listen(a)
		if i%2 == 0 {
			h.forget(a)
		}
	}
	require.Eventually(t, subscribed(2*locks), patience, 10*time.Millisecond)
	listening(t, s, c)
	s.ResetCommandCounts()
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	require.Eventually(t, func() bool { return s.CommandCounts()["subscribe"] > 0 }, patience, time.Millisecond)
	require.Eventually(t, subscribed(2*locks), patience, 10*time.Millisecond)
	require.LessOrEqual(t, s.CommandCounts()["subscribe"], int64(2*locks/maxChannels+1))

	s.ResetCommandCounts()
	for h.endIdle(time.Now().Add(linger + time.Second)) {
	}
	require.Eventually(t, subscribed(locks), patience, 10*time.Millisecond)
	a := acquisitionOf(t, "batch0", c.id, locks+1, time.Minute)
	h.enter(a)
	h.listen(a)
	require.Eventually(t, subscribed(locks+2), patience, 10*time.Millisecond)
	require.EqualValues(t, 1, s.CommandCounts()["subscribe"])
	require.LessOrEqual(t, s.CommandCounts()["unsubscribe"], int64(locks/maxChannels+2))
}

// Rooms are ended in the order in which they became empty, and only those that nobody listens in.
func TestIdleRoomsAreEndedInOrder(t *testing.T) {
	h := newHub(nil, "c", slog.New(slog.DiscardHandler), func(grantMessage) {})
	defer h.close()
	h.feed = &plainFeed{h: h}
	as := make([]*acquisition, 3)
	for i := range as {
		as[i] = acquisitionOf(t, fmt.Sprint("k", i), "c", uint64(i), time.Minute)
		h.enter(as[i])
		h.listen(as[i])
		h.forget(as[i])
	}
	again := acquisitionOf(t, "k0", "c", 9, time.Minute)
	h.enter(again)
	later := h.rooms[as[1].names.unlock].empty.Add(linger)
	require.False(t, h.endIdle(later.Add(-1)))
	require.Len(t, h.rooms, 3)
	require.False(t, h.endIdle(later.Add(time.Minute)))
	require.Len(t, h.rooms, 1, "k0 is listened in again")
	h.forget(again)
	require.Equal(t, 1, h.vacant.Len())
	require.False(t, h.endIdle(time.Now().Add(2*linger)))
	require.Empty(t, h.rooms)
	require.Zero(t, h.vacant.Len())
}

// A room that is opened anew before its channels were left is confirmed without a command: none would be answered.
func TestReopenedRoomIsReady(t *testing.T) {
	h := newHub(nil, "c", slog.New(slog.DiscardHandler), func(grantMessage) {})
	defer h.close()
	f := &plainFeed{h: h, up: true, changed: make(chan struct{}, 1)}
	h.feed = f
	a, b := acquisitionOf(t, "k", "c", 1, time.Minute), acquisitionOf(t, "k", "c", 2, time.Minute)
	s := subscriber{feed: f, have: make(map[string]bool)}
	h.listen(a)
	step, _ := s.next()
	require.ElementsMatch(t, []string{a.names.unlock, a.names.listen}, step.add)
	h.forget(a)
	require.False(t, h.endIdle(time.Now().Add(2*linger)))
	h.listen(b)
	require.False(t, b.room.ready)
	step, _ = s.next()
	require.Empty(t, step)
	require.True(t, b.room.ready)
	require.Len(t, b.wake, 1)
}
