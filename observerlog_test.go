package relock

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/internal/eventlog"
	"github.com/relock-go/relock/internal/redistest"
)

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

// What Redis refuses and no retry heals is in the log, once for all locks.
func TestRefusalsAreLogged(t *testing.T) {
	t.Parallel()
	for code, refuse := range map[string]func(*redistest.Server){
		"WRONGTYPE": func(s *redistest.Server) {
			for i := range 30 {
				s.Do("SET", fmt.Sprint("k", i), "no lock")
			}
		},
		"OOM":    func(s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", "1") },
		"NOPERM": func(s *redistest.Server) { s.Do("ACL", "SETUSER", "app", "resetkeys", "~other*") },
	} {
		t.Run(code, func(t *testing.T) {
			log, p := logAt(slog.LevelInfo)
			bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *Client) {
				for _, s := range servers {
					refuse(s)
				}
				before := len(p.with("Redis refuses a lock"))
				for i := range 30 {
					_, err := c.Mutex(fmt.Sprint("k", i)).TryLock(t.Context())
					require.Error(t, err)
				}
				lines := p.with("Redis refuses a lock")[before:]
				require.Len(t, lines, 1)
				require.Contains(t, lines[0], "lock=k0")
				require.Contains(t, lines[0], code)
				c.Close()
				lines = p.with("Redis refuses a lock")[before:]
				require.Len(t, lines, 2, "and how many more, when that is due")
				require.Contains(t, lines[1], `"since the line before"=29`)
			}, WithLogger(log), WithLease(far))
		})
	}
}

// A holder that may no longer renew, and one that may no longer unlock, is in the log.
func TestRefusedRenewalsAreLogged(t *testing.T) {
	t.Parallel()
	log, p := logAt(slog.LevelInfo)
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *Client) {
		before := len(p.with("Redis refuses a renewal"))
		l, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		onAll(t, servers, "k")
		for _, s := range servers {
			s.Do("ACL", "SETUSER", "app", "resetkeys")
		}
		require.Eventually(t, func() bool { return len(p.with("Redis refuses a renewal")) > before }, patience, time.Millisecond)
		require.Contains(t, p.with("Redis refuses a renewal")[before], "lock=k")
		_ = l.Unlock(t.Context())
		require.NotEmpty(t, p.with("Redis refuses to unlock"))
	}, WithLogger(log), WithLease(6*time.Second))
}

func TestLoggerAndObserverAreBothTold(t *testing.T) {
	log, p := logAt(slog.LevelDebug)
	o := &seen{}
	c := newClient(t, redistest.Start(t).Client(), WithLogger(log), WithObserver(o))
	l, err := c.Mutex("orders").Lock(t.Context())
	require.NoError(t, err)
	c.Close()
	require.Len(t, o.of(EventAcquired), 1)
	require.Len(t, o.of(EventLost), 1)
	require.Len(t, p.with("relock: acquired"), 1)
	require.Contains(t, p.with("relock: acquired")[0], fmt.Sprintf("lock=orders kind=mutex how=free token=%d", l.Token()))
	require.Len(t, p.with("relock: lost"), 1)
	require.Empty(t, p.with("level=WARN"), "who closes a client means to")
}
