package relock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/eventlog"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is kept of holds ends with what is kept of their names, and takes no memory of its own.
func TestHowLongHoldsLastIsKeptWithTheName(t *testing.T) {
	c := newClient(t, ownRedis(t))
	k := c.core
	write, read := c.RWMutex("rw").write.known, c.RWMutex("rw").read.known
	require.Same(t, write.lasts, read.lasts, "a reader waits for writers, too")
	for i := range 3 * maxKnown {
		c.Mutex(fmt.Sprint("k", i))
	}
	again := c.RWMutex("rw")
	require.Same(t, again.write.lasts, again.read.lasts)
	n := 0
	for i := range k.known {
		if k.known[i].Load() != nil {
			n++
		}
	}
	require.LessOrEqual(t, n, maxKnown)
}

// Names are kept, few of them, and none is taken for another.
func TestNamesAreKept(t *testing.T) {
	inFakeTime(t, func(t *testing.T, c *Client, s *scripted) {
		require.Same(t, c.Mutex("k").names, c.Mutex("k").names)
		for i := range 4 * maxKnown {
			name := fmt.Sprint("n", i)
			require.Equal(t, name, c.Mutex(name).Name())
			require.Equal(t, name, c.Mutex(name).names.Lock)
		}
		require.ErrorIs(t, c.Mutex("").err, ErrInvalidName)
		require.ErrorIs(t, c.Mutex("").err, ErrInvalidName)
		require.Zero(t, c.Mutex("").Name())
		require.Less(t, testing.AllocsPerRun(100, func() { c.Mutex("k") }), 2.0)
	})
}

// By default counters are kept for ten minutes, and for longer where the client is told of a lease longer than a quarter of that.
func TestDefaultTokenRetention(t *testing.T) {
	for _, c := range []struct {
		want time.Duration
		opts []ClientOption
	}{
		{10 * time.Minute, nil},
		{10 * time.Minute, []ClientOption{WithLease(150 * time.Second)}},
		{20 * time.Minute, []ClientOption{WithLease(5 * time.Minute)}},
		{4 * time.Hour, []ClientOption{WithFixedLease(time.Hour)}},
		{4 * time.Hour, []ClientOption{WithRestartGuard(time.Hour)}},
		{8 * time.Hour, []ClientOption{WithRestartGuard(2 * time.Hour), WithFixedLease(time.Hour)}},
	} {
		cfg, err := with(defaultConfig(), c.opts, "")
		require.NoError(t, err)
		require.Equal(t, c.want, cfg.retention)
	}
}

// page is what a logger wrote.
type page struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *page) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// with returns the lines so far that hold a text.
func (p *page) with(text string) (found []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(p.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

func logAt(level slog.Level) (*slog.Logger, *page) {
	p := &page{}
	return slog.New(slog.NewTextHandler(p, &slog.HandlerOptions{Level: level})), p
}

// pass lets time pass in a bubble, and timers do what they do then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestALineForEachCauseAndTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, p := logAt(slog.LevelInfo)
		o := newLogged(log)
		lost := func(i int, cause error) {
			o.Observe(Event{Kind: EventLost, Lock: fmt.Sprintf("order:%d", i), LockKind: "mutex", How: HowFree, Token: int64(i), Cause: cause})
		}
		gone := &NodeError{Op: "renew", Name: "order:1", Err: io.ErrUnexpectedEOF}
		for i := range 1000 {
			gone.Name = fmt.Sprint(i) // the text of the error differs, the cause does not
			lost(i, gone)
		}
		require.Len(t, p.with("level=WARN"), 1)
		require.Contains(t, p.with("lost")[0], "lock=order:0")
		lost(7, errors.New("something else"))
		require.Len(t, p.with("level=WARN"), 2, "of another cause at once")
		pass(eventlog.Every + time.Second)
		require.Len(t, p.with("level=WARN"), 3)
		require.Contains(t, p.with("level=WARN")[2], `"since the line before"=999`)
		require.Contains(t, p.with("level=WARN")[2], "order:1 order:2 ")
		pass(3 * eventlog.Every)
		require.Len(t, p.with("level=WARN"), 3, "nothing came")
		lost(8, gone)
		require.Len(t, p.with("level=WARN"), 4, "and at once when it comes again")
		lost(9, gone)
		o.Close()
		require.Len(t, p.with("level=WARN"), 5, "the rest is written at last")
		require.Contains(t, p.with("level=WARN")[4], "lock=order:9")
	})
}

// Who waited for Redis is told of before the line that says that it answers again, be the lines held back.
func TestWaitsAreToldBeforeTheNodeIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, p := logAt(slog.LevelInfo)
		o := newLogged(log)
		o.Observe(Event{Kind: EventNodeDown, Cause: io.EOF})
		wait := func() {
			for i := range 5 {
				o.Observe(Event{Kind: EventWaiting, Lock: fmt.Sprint("k", i), LockKind: "mutex", Wait: time.Second, Cause: io.EOF})
			}
		}
		wait()
		pass(2 * time.Second)
		o.Observe(Event{Kind: EventNodeUp})
		all := p.with("level=WARN")
		require.Len(t, all, 4)
		require.Contains(t, all[2], "waits for Redis itself")
		require.Contains(t, all[2], `"since the line before"=4`)
		require.Contains(t, all[3], "answers again")
		for range 100 { // it flaps, and that is no flood
			o.Observe(Event{Kind: EventNodeDown, Cause: io.EOF})
			wait()
			o.Observe(Event{Kind: EventNodeUp})
		}
		require.Len(t, p.with("level=WARN"), 4)
		pass(eventlog.Every + time.Second)
		all = p.with("level=WARN")
		last := 0
		for i, line := range all {
			if strings.Contains(line, "answers again") {
				last = i
			}
		}
		require.Equal(t, len(all)-1, last, "%q", all)
		require.Contains(t, strings.Join(all, ""), `"since the line before"=500`)
		pass(3 * eventlog.Every)
		require.Len(t, p.with("level=WARN"), len(all), "nothing came")
	})
}

// says returns a function of a Flight that counts its runs and gives that text.
func says(text string, runs *atomic.Int32) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		runs.Add(1)
		return text, nil
	}
}

// flightOf returns the Flight k of a client, whose results are texts.
func flightOf(c *Client, opts ...Option) *Flight[string] {
	return FlightOf[string](c, "k", time.Minute, opts...)
}

// Where its lock is lost each time before its function runs, Do tries again ever more seldom, within its caller's bounds.
func TestFlightThatIsAlwaysLostTriesSeldom(t *testing.T) {
	t.Parallel()
	const bound = time.Second
	for name, opts := range map[string][]Option{"until its context ends": nil, "until WithWait's time is up": {WithWait(bound)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			other := newClient(t, s.Client())
			var losses atomic.Int32
			var c *Client
			c = hearing(t, s, WithObserver(observe(func(e Event) {
				switch {
				case e.Lock != "k":
				case e.Kind == EventLost:
					losses.Add(1)
				case e.Kind == EventAcquired:
					_, err := other.Mutex("k").ForceUnlock(context.Background())
					assert.NoError(t, err)
					for told := time.Now(); c.Mutex("k").base().lasts.ours.Load() != nil && time.Since(told) < patience; {
						time.Sleep(time.Millisecond) // until the message has ended the hold
					}
				}
			})))
			began := time.Now()
			err := inTime(t, func(ctx context.Context) error {
				if opts == nil {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, bound)
					defer cancel()
				}
				_, ran, err := flightOf(c, opts...).Do(ctx, says("one", new(atomic.Int32)))
				require.False(t, ran)
				return err
			})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, ErrLost)
			require.Less(t, time.Since(began), bound+leisure)
			require.LessOrEqual(t, losses.Load(), int32(15)) // after pauses of 1, 2, 4 … 250 ms
			require.Greater(t, losses.Load(), int32(1))
		})
	}
}

// observe is an observer.
type observe func(Event)

func (o observe) Observe(e Event) { o(e) }
