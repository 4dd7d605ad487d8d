package relock

import (
	"bytes"
	"context"
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
	rdb, err := redistest.Open(opt)
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

// Where no connection is to be had for messages, logger and observer are told, and everything is heard once there is one.
func TestMissingConnectionIsLogged(t *testing.T) {
	s := redistest.Start(t)
	rdb, give := crowded(t, s)
	var out guarded
	o := &seen{}
	c := newClient(t, rdb, WithLease(far), WithLogger(slog.New(slog.NewTextHandler(&out, nil))), WithObserver(o))
	require.Eventually(t, func() bool { return strings.Contains(out.String(), "BlockingPoolSize") },
		patience, 10*time.Millisecond)
	give()
	handsOver(t, s, newClient(t, s.Client(), WithLease(far)), c, "k")
	require.Equal(t, 1, strings.Count(out.String(), "level=WARN"))
	impaired := o.of(EventNodeImpaired)
	require.Len(t, impaired, 1)
	require.ErrorContains(t, impaired[0].Cause, "hears no messages")
}
