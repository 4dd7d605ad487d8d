package hub

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// Thousands of channels are subscribed in batches, also after a lost connection, and only what changes is sent.
func TestChannelsAreSubscribedInBatches(t *testing.T) {
	const locks = 2000
	s := redistest.Start(t)
	h := New(overrueidis.New(s.Client()), "c", quiet{}, noOrphan(t))
	defer h.Close()
	h.StartPlain(true)
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
		e := listens(t, h, fmt.Sprint("batch", i), i+1)
		if i%2 == 0 {
			e.Close()
		}
	}
	require.Eventually(t, subscribed(2*locks), patience, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		return strings.HasSuffix(s.Do("PUBSUB", "NUMSUB", wire.InboxPrefix+"c"), "1")
	}, patience, time.Millisecond)
	s.ResetCommandCounts()
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	require.Eventually(t, func() bool { return s.CommandCounts()["subscribe"] > 0 }, patience, time.Millisecond)
	require.Eventually(t, subscribed(2*locks), patience, 10*time.Millisecond)
	require.LessOrEqual(t, s.CommandCounts()["subscribe"], int64(2*locks/maxChannels+1))

	s.ResetCommandCounts()
	for h.endIdle(time.Now().Add(keepIdle + time.Second)) {
	}
	require.Eventually(t, subscribed(locks), patience, 10*time.Millisecond)
	listens(t, h, "batch0", locks+1)
	require.Eventually(t, subscribed(locks+2), patience, 10*time.Millisecond)
	require.EqualValues(t, 1, s.CommandCounts()["subscribe"])
	require.LessOrEqual(t, s.CommandCounts()["unsubscribe"], int64(locks/maxChannels+2))
}

// Subscriptions are ended in the order in which they became idle, and only those that no ear hears.
func TestIdleSubscriptionsAreEndedInOrder(t *testing.T) {
	h := New(&faults.Stub{}, "c", quiet{}, noOrphan(t))
	defer h.Close()
	h.feed = &plainFeed{h: h}
	ears := make([]*Ear, 3)
	for i := range ears {
		ears[i] = listens(t, h, fmt.Sprint("k", i), i)
		ears[i].Close()
	}
	again := earOf(t, h, "k0", 9)
	later := h.subs[ears[1].entry.Names.Unlock].idleSince.Add(keepIdle)
	require.False(t, h.endIdle(later.Add(-1)))
	require.Len(t, h.subs, 2*3, "each by two channels")
	require.False(t, h.endIdle(later.Add(time.Minute)))
	require.Len(t, h.subs, 2, "k0 is heard again")
	again.Close()
	require.Equal(t, 1, h.idle.Len())
	require.False(t, h.endIdle(time.Now().Add(2*keepIdle)))
	require.Empty(t, h.subs)
	require.Zero(t, h.idle.Len())
}

// A subscription that is opened anew before its channels were left is confirmed without a command: none would be answered.
func TestReopenedSubscriptionIsReady(t *testing.T) {
	h := New(&faults.Stub{}, "c", quiet{}, noOrphan(t))
	defer h.Close()
	f := &plainFeed{h: h, inbox: wire.InboxPrefix + "c", up: true, changed: make(chan struct{}, 1)}
	h.feed = f
	s := subscriber{feed: f, have: make(map[string]bool)}
	a := listens(t, h, "k", 1)
	step, _ := s.next()
	n := a.entry.Names
	require.ElementsMatch(t, []string{f.inbox, n.Unlock, n.Listen}, step.add)
	a.Close()
	require.False(t, h.endIdle(time.Now().Add(2*keepIdle)))
	b := listens(t, h, "k", 2)
	require.False(t, b.sub.ready)
	step, _ = s.next()
	require.Empty(t, step)
	require.True(t, b.sub.ready)
	require.Len(t, b.wake, 1)
}

// watching is told what a holder is.
type watching struct{ wanted atomic.Int32 }

func (w *watching) Doubt()      {}
func (w *watching) Wanted(bool) { w.wanted.Add(1) }

// A holder is told that it may have missed something as soon as the connection is lost. The next one may be long in coming: until
// then nothing says that another process wants the lock.
func TestLostConnectionIsToldAtOnce(t *testing.T) {
	h := New(&faults.Stub{}, "c", quiet{}, noOrphan(t))
	defer h.Close()
	f := &plainFeed{h: h, inbox: wire.InboxPrefix + "c", up: true, changed: make(chan struct{}, 1)}
	h.feed = f
	e := earOf(t, h, "k", 1)
	h.Subscribed(f.inbox)
	e.wanted.Store(notWanted)
	told := &watching{}
	var w Watcher = told
	e.Watch(&w)
	f.end(errDropped)
	require.EqualValues(t, 1, told.wanted.Load())
	f.end(errNoConn)
	require.EqualValues(t, 1, told.wanted.Load(), "once")
}

// BenchmarkSubscriptionAmongThousands is what the hub does for a lock that begins to be waited for and no longer is, while the
// channels of 10,000 others are still subscribed.
func BenchmarkSubscriptionAmongThousands(b *testing.B) {
	h := New(&faults.Stub{}, "c", quiet{}, noOrphan(b))
	b.Cleanup(h.Close)
	f := &plainFeed{h: h, up: true, changed: make(chan struct{}, 1)}
	h.feed = f
	s := subscriber{feed: f, have: make(map[string]bool)}
	n := 0
	pass := func() {
		n++
		listens(b, h, strconv.Itoa(n), n).Close()
		s.next()
	}
	for range 10_000 {
		pass()
	}
	b.ReportAllocs()
	for b.Loop() {
		pass()
		if n > 10_000 { // and the oldest is left
			h.mu.Lock()
			h.end(h.idle.Front().Value.(*subscription))
			h.mu.Unlock()
		}
	}
}
