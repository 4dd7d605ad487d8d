package suite_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
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
			bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
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
			}, relock.WithLogger(log), relock.WithLease(far))
		})
	}
}

// A holder that may no longer renew, and one that may no longer unlock, is in the log.
func TestRefusedRenewalsAreLogged(t *testing.T) {
	t.Parallel()
	log, p := logAt(slog.LevelInfo)
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
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
	}, relock.WithLogger(log), relock.WithLease(6*time.Second))
}

func TestLoggerAndObserverAreBothTold(t *testing.T) {
	log, p := logAt(slog.LevelDebug)
	o := &seen{}
	c := newClient(t, redistest.Start(t).Client(), relock.WithLogger(log), relock.WithObserver(o))
	l, err := c.Mutex("orders").Lock(t.Context())
	require.NoError(t, err)
	c.Close()
	require.Len(t, o.of(relock.EventAcquired), 1)
	require.Len(t, o.of(relock.EventLost), 1)
	require.Len(t, p.with("relock: acquired"), 1)
	require.Contains(t, p.with("relock: acquired")[0], fmt.Sprintf("lock=orders kind=mutex how=free token=%d", l.Token()))
	require.Len(t, p.with("relock: lost"), 1)
	require.Empty(t, p.with("level=WARN"), "who closes a client means to")
}
