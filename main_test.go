package relock

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/lua"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// rueidis's Cluster client closes nodes it no longer needs five seconds later, whether it is closed or not.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

// patience is how long tests wait for what must happen. It is no promise of the library.
const patience = 15 * time.Second

// rounds is how often a test does something: few times, or many with RELOCK_LONG set, as the integration suite has it.
func rounds(few, many int) int {
	if os.Getenv("RELOCK_LONG") != "" {
		return many
	}
	return few
}

// ownRedis returns a client of a Redis that is the test's own.
func ownRedis(t *testing.T) rueidis.Client {
	t.Helper()
	return redistest.Start(t).Client()
}

// newClient returns a Client over rdb that is closed before rdb is.
func newClient(t *testing.T, rdb rueidis.Client, opts ...Option) *Client {
	t.Helper()
	c, err := New(rdb, opts...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// wire is a client whose script calls a test can see, lose, delay and repeat, wrapped around a real one as tracing hooks
// are. The zero filter lets everything pass.
type wire struct {
	rueidis.Client
	told   chan string   // ops of the commands that a filter wanted to be told of, once they ran
	answer chan struct{} // lets one stalled answer through
	mu     sync.Mutex
	filter func(op string, send func()) verdict
}

// verdict is what the caller of a command sees.
type verdict int

const (
	pass     verdict = iota // the command is sent and answered
	tell                    // the same, and told
	stall                   // sent and told, but answered only when the test says so
	loseCall                // never sent, never answered
	loseBack                // executed, never answered
)

// newWire wraps a client of its own for one server.
func newWire(t *testing.T, s *redistest.Server) *wire {
	t.Helper()
	return &wire{Client: s.Client(), told: make(chan string, 64), answer: make(chan struct{})}
}

// on sets the filter. send executes the command again, or late when it is called after the filter has returned.
func (w *wire) on(filter func(op string, send func()) verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.filter = filter
}

func (w *wire) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	op := opOf(cmd.Commands())
	w.mu.Lock()
	filter := w.filter
	w.mu.Unlock()
	if filter == nil || op == "" {
		return w.Client.Do(ctx, cmd)
	}
	cmd = cmd.Pin()
	send := func() { w.Client.Do(context.Background(), cmd) }
	switch filter(op, send) {
	case loseCall:
	case loseBack:
		w.Client.Do(ctx, cmd)
	case stall:
		defer func() { w.told <- op; <-w.answer }()
		return w.Client.Do(ctx, cmd)
	case tell:
		defer func() { w.told <- op }()
		return w.Client.Do(ctx, cmd)
	default:
		return w.Client.Do(ctx, cmd)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	return w.Client.Do(ended, cmd) // not sent: only its error is wanted
}

// scriptTexts are the scripts of a Redis that decides alone.
var scriptTexts = sync.OnceValue(func() map[string]string {
	from := lua.Scripts{Kind: "mutex", Retention: defaultRetention}
	texts := map[string]string{"sweep": mustScript(from.Sweep("release"))}
	for _, op := range []string{"acquire", "release", "force", "recount", "renew", "inspect"} {
		texts[op] = mustScript(from.Text(op))
	}
	return texts
})

// opOf names the script that a command runs.
func opOf(cmd []string) string {
	if len(cmd) < 2 {
		return ""
	}
	for op, text := range scriptTexts() {
		sum := sha1.Sum([]byte(text))
		if cmd[1] == text || cmd[1] == hex.EncodeToString(sum[:]) {
			return op
		}
	}
	return ""
}

// lines keeps commands back until the test sends them.
type lines struct {
	mu   sync.Mutex
	kept []func()
}

func (l *lines) keep(send func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, send)
}

func (l *lines) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.kept)
}

// flush sends what was kept.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, send := range l.kept {
		send()
	}
	l.kept = nil
}

// within takes what comes from ch, which must come.
func within[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	return await(t, ch, patience)
}

// await takes what comes from ch within limit.
func await[T any](t *testing.T, ch <-chan T, limit time.Duration) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(limit):
		require.FailNow(t, "nothing came in time")
		panic("unreachable")
	}
}
