package integration

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// ledger counts what an observer is told, and keeps what a logger writes.
type ledger struct {
	mu     sync.Mutex
	text   bytes.Buffer
	events map[relock.EventKind]int
	lost   map[string]int // events by lock
}

func newLedger() *ledger {
	return &ledger{events: make(map[relock.EventKind]int), lost: make(map[string]int)}
}

func (b *ledger) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(line)
}

func (b *ledger) Observe(e relock.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events[e.Kind]++
	if e.Kind == relock.EventLost {
		b.lost[e.Lock]++
	}
}

func (b *ledger) count(kind relock.EventKind) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.events[kind]
}

func (b *ledger) lines(text string) (found []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func (b *ledger) options() []relock.ClientOption {
	log := slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelInfo}))
	return []relock.ClientOption{relock.WithLogger(log), relock.WithObserver(b), relock.WithLease(3 * time.Second)}
}

// What a service's log says of an outage: a Redis hangs for 8 seconds and comes back empty. A leader and four of those
// who work under a lock lose it, hundreds wait.
func TestTheLogTellsOfAnOutage(t *testing.T) {
	s := redistest.Start(t)
	told := newLedger()
	rdb := s.Client()
	c, err := relock.New(rdb, told.options()...)
	require.NoError(t, err)
	defer c.Close()

	leader, err := c.Mutex("leader").Lock(t.Context())
	require.NoError(t, err)
	var lost, got, given atomic.Int64 // as the workers see it
	worker := func(ctx context.Context, m *relock.Mutex) {
		for ctx.Err() == nil {
			l, err := m.Lock(ctx)
			if err != nil {
				continue // the run is over
			}
			got.Add(1)
			select {
			case <-l.Context().Done():
			case <-time.After(5 * time.Millisecond):
			}
			if err := l.Unlock(context.WithoutCancel(ctx)); err == nil {
				given.Add(1)
			}
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var crowd sync.WaitGroup
	for i := range 400 {
		crowd.Go(func() { worker(ctx, c.Mutex(fmt.Sprintf("order:%d", i%4))) })
	}
	require.Eventually(t, func() bool { return got.Load() > 100 }, 30*time.Second, time.Millisecond)

	s.Pause()
	<-leader.Context().Done()
	lost.Add(1)
	require.ErrorIs(t, context.Cause(leader.Context()), relock.ErrLost)
	time.Sleep(8 * time.Second) // what the outage takes
	s.Kill()
	s.RestartEmpty()
	before := got.Load()
	require.Eventually(t, func() bool { return got.Load() > before+100 }, time.Minute, time.Millisecond)
	require.ErrorIs(t, leader.Unlock(t.Context()), relock.ErrLost)
	stop()
	crowd.Wait()
	c.Close()

	text := told.lines("relock")
	t.Logf("%d lines:\n%s", len(text), strings.Join(text, ""))
	require.LessOrEqual(t, len(text), 20)
	require.NotEmpty(t, told.lines("relock: Redis does not answer"))
	require.NotEmpty(t, told.lines("relock: Redis answers again"))
	require.NotEmpty(t, told.lines("relock: Lock waits for Redis itself"))
	told.mu.Lock()
	defer told.mu.Unlock()
	require.Positive(t, told.lost["leader"])
	for lock := range told.lost {
		require.Regexp(t, `(lock=|locks=|locks=".*)`+lock, told.text.String(), "who lost what")
	}
	t.Logf("events %v, lost %v", told.events, told.lost)
	require.EqualValues(t, got.Load()+1, told.events[relock.EventAcquired], "each lease that a worker got is one event")
	require.Equal(t, told.events[relock.EventAcquired], told.events[relock.EventReleased]+told.events[relock.EventLost])
	require.GreaterOrEqual(t, int64(told.events[relock.EventReleased]), given.Load())
}

// One node of five is cut off for a while: the log says which, and that nothing was lost.
func TestTheLogTellsOfANode(t *testing.T) {
	var servers []*redistest.Server
	var nodes []rueidis.Client
	for range 5 {
		s := redistest.Start(t)
		servers, nodes = append(servers, s), append(nodes, s.Client())
	}
	told := newLedger()
	c, err := relock.NewRedlock(nodes, told.options()...)
	require.NoError(t, err)
	defer c.Close()
	leader, err := c.Mutex("leader").Lock(t.Context())
	require.NoError(t, err)

	servers[2].Pause()
	require.Eventually(t, func() bool { return told.count(relock.EventNodeDown) > 0 }, 30*time.Second, time.Millisecond)
	for range 20 {
		l, err := c.Mutex("order").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
	}
	servers[2].Resume()
	require.Eventually(t, func() bool { return told.count(relock.EventNodeUp) > 0 }, 30*time.Second, time.Millisecond)
	require.NoError(t, leader.Unlock(t.Context()))
	c.Close()

	text := told.lines("relock")
	t.Logf("%d lines:\n%s", len(text), strings.Join(text, ""))
	require.LessOrEqual(t, len(text), 20)
	require.Len(t, told.lines("does not answer"), len(told.lines("does not answer\" node=3")), "of the third alone")
	require.NotEmpty(t, told.lines("answers again\" node=3"))
	require.Zero(t, told.count(relock.EventLost))
}
