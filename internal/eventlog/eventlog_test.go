package eventlog

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

// at runs a test in a bubble with a Log of three kinds.
func at(t *testing.T, level slog.Level, test func(t *testing.T, l *Log, p *page)) {
	synctest.Test(t, func(t *testing.T) {
		p := &page{}
		l := New(slog.New(slog.NewTextHandler(p, &slog.HandlerOptions{Level: level})), 3, nil)
		defer l.Close()
		test(t, l, p)
	})
}

// pass lets time pass in a bubble, and timers do what they do then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestANodeThatGoesAndComes(t *testing.T) {
	at(t, slog.LevelInfo, func(t *testing.T, l *Log, p *page) {
		down := Record{Rank: Down, Kind: 1, Alarm: "it does not answer", Node: 3, Topic: io.EOF, Cause: io.EOF}
		up := Record{Rank: Up, Kind: 2, Alarm: "it answers again", Node: 3}
		l.Tell(up)
		require.Empty(t, p.with("level=WARN"), "no line said that it does not")
		l.Tell(down)
		pass(8 * time.Second)
		l.Tell(up)
		require.Len(t, p.with("level=WARN"), 2)
		require.Contains(t, p.with("relock: it answers again")[0], "node=3 after=8s")
		for range 100 { // it flaps
			l.Tell(down)
			l.Tell(up)
		}
		require.Len(t, p.with("level=WARN"), 2)
		pass(5 * Every)
		require.Len(t, p.with("level=WARN"), 4)
	})
}

func TestDebugIsNoFlood(t *testing.T) {
	at(t, slog.LevelDebug, func(t *testing.T, l *Log, p *page) {
		require.True(t, l.Debugs())
		one, other := Record{Kind: 1, Name: "one", Lock: "k"}, Record{Kind: 2, Name: "other", Lock: "k"}
		for range 10_000 {
			l.Tell(one)
		}
		l.Tell(other)
		require.Len(t, p.with("relock: one"), maxDebug)
		require.Len(t, p.with("relock: other"), 1)
		pass(Every)
		l.Tell(one)
		require.Contains(t, p.with("relock: one")[maxDebug], "skipped=9900")
	})
}

// What is held back at warn stands at debug, and what is quiet stands nowhere else.
func TestWhatIsHeldBackStandsAtDebug(t *testing.T) {
	at(t, slog.LevelDebug, func(t *testing.T, l *Log, p *page) {
		for i := range 3 {
			l.Tell(Record{Rank: Alarm, Kind: 1, Name: "one", Alarm: "mind", Lock: fmt.Sprint("k", i), Topic: io.EOF})
		}
		require.Len(t, p.with("level=WARN msg=\"relock: mind\""), 1)
		require.Len(t, p.with("level=DEBUG msg=\"relock: one\""), 2)
		pass(Every)
		require.Contains(t, p.with("level=WARN")[1], `lock=k2 kind="" "since the line before"=2 locks="k1 k2"`)
	})
	at(t, slog.LevelInfo, func(t *testing.T, l *Log, p *page) {
		require.False(t, l.Debugs())
		l.Tell(Record{Kind: 1, Name: "one"})
		require.Empty(t, p.with("relock"))
	})
}

func TestWhatALineSays(t *testing.T) {
	at(t, slog.LevelDebug, func(t *testing.T, l *Log, p *page) {
		l.Tell(Record{Name: "got", Lock: "k", LockKind: "mutex", How: "free", Token: 7, Wait: 1500 * time.Nanosecond, Hold: time.Hour})
		l.Tell(Record{Name: "kept", Node: 2, Hold: time.Second, Cause: io.EOF})
		require.Contains(t, p.with("got")[0], "lock=k kind=mutex how=free token=7 waited=2µs\n")
		require.Contains(t, p.with("kept")[0], "node=2 held=1s cause=EOF\n")
	})
}

// Lines are counted by what is at the bottom of an error, which is a code where Redis answered.
func TestTheBottomOfAnError(t *testing.T) {
	for want, err := range map[string]error{
		"":       nil,
		"EOF":    fmt.Errorf("lock 7: %w", io.EOF),
		"closed": fmt.Errorf("%w: %w", fmt.Errorf("closed"), io.EOF),
		"OOM":    fmt.Errorf("lock 8: %w", fmt.Errorf("OOM command not allowed, 7 ms left")),
	} {
		require.Equal(t, want, root(err))
	}
}
