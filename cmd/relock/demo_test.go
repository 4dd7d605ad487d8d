package main

import (
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// figure returns the number that stands in the table's row what.
func figure(t *testing.T, out, what string) float64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^ +` + regexp.QuoteMeta(what) + ` +([\d.,]+)`).FindStringSubmatch(out)
	require.NotNil(t, found, "no row %q in:\n%s", what, out)
	n, err := strconv.ParseFloat(strings.ReplaceAll(found[1], ",", ""), 64)
	require.NoError(t, err)
	return n
}

// requireNarrow fails where a line is wider than a terminal of 100 columns.
func requireNarrow(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 100, line)
	}
}

// requirePlayed checks a demo that went well by its own account.
func requirePlayed(t *testing.T, got result) {
	t.Helper()
	require.Equal(t, statusOK, got.status, got.out+got.err)
	require.Empty(t, got.err)
	require.Contains(t, got.out, "SIGKILL to worker 2: it holds the lock 2 times")
	require.Contains(t, got.out, "All as promised.")
	require.NotContains(t, got.out, "\x1b", "no terminal, no control characters")
	requireNarrow(t, got.out)
	require.Equal(t, figure(t, got.out, "increments expected"), figure(t, got.out, "increments found"))
	require.Greater(t, figure(t, got.out, "increments found"), 10.)
	// A grant, a release, a re-entry and its unlock are four without local hand-over, the last two always sent.
	require.Greater(t, figure(t, got.out, "Redis commands per acquisition"), 2.)
	require.Less(t, figure(t, got.out, "Redis commands per acquisition"), 4.)
}

func TestDemo(t *testing.T) {
	requireNoLeaks(t)
	requirePlayed(t, relockRun("demo", "-for", "4s", "-lease", "1500ms"))
}

func TestDemoOnAQuorum(t *testing.T) {
	requireNoLeaks(t)
	got := relockRun("demo", "-nodes", "5", "-lease", "3s", "-for", "12s") // a busy machine may not renew one of two seconds in time
	require.Equal(t, statusOK, got.status, got.out+got.err)
	require.Empty(t, got.err)
	requireNarrow(t, got.out)
	require.Contains(t, got.out, "node 2 hangs, node 3 is stopped: 3 of 5 nodes are left")
	require.Contains(t, got.out, "All as promised.")
	require.Equal(t, figure(t, got.out, "increments expected"), figure(t, got.out, "increments found"))
	require.Positive(t, figure(t, got.out, "acquisitions with 3 of 5 nodes"))
	require.GreaterOrEqual(t, figure(t, got.out, "restarted node kept out"), 3000.)
}

func TestDemoOnRedis(t *testing.T) {
	srv := redistest.Start(t)
	rdb, named, ended := srv.Client(), make(chan bool), make(chan struct{})
	go func() {
		seen := false
		for over := false; !seen && !over; runtime.Gosched() {
			select {
			case <-ended:
				over = true
			default:
				seen = namedWorker(t, rdb)
			}
		}
		named <- seen
	}()
	requirePlayed(t, relockRun("demo", "-for", "4s", "-lease", "1500ms", "-redis", "redis://"+srv.Addr()))
	close(ended)
	require.True(t, <-named, "the workers have names for those who look at the locks")
	require.Empty(t, srv.Do("KEYS", "*"), "the demo leaves nothing in a Redis that is not its own")
}

func TestDemoWithoutLock(t *testing.T) {
	requireNoLeaks(t)
	got := relockRun("demo", "-lock", "none", "-for", "1s", "-lease", "100ms")
	require.Equal(t, statusFailed, got.status, got.out)
	require.Contains(t, got.out, "WRONG: the counter is off", got.err)
	require.Less(t, figure(t, got.out, "increments found"), figure(t, got.out, "increments expected"))
}

// A Redis that goes away ends the demo with an error, not with a table.
func TestDemoLosesRedis(t *testing.T) {
	srv := redistest.Start(t)
	rdb := srv.Client()
	go func() {
		for t.Context().Err() == nil && !working(t, rdb) {
			runtime.Gosched()
		}
		srv.Kill()
	}()
	began := time.Now()
	got := relockRun("demo", "-for", "2s", "-lease", "200ms", "-redis", "redis://"+srv.Addr())
	require.Equal(t, statusFailed, got.status, got.out)
	require.Contains(t, got.err, "relock demo: ")
	require.NotContains(t, got.out, "All as promised.")
	require.Less(t, time.Since(began), 15*time.Second)
}

// namedWorker reports whether some worker has written its name.
func namedWorker(t *testing.T, rdb rueidis.Client) bool {
	ctx := t.Context()
	keys, err := rdb.Do(ctx, rdb.B().Keys().Pattern(wire.ClientPrefix+"*").Build()).AsStrSlice()
	if err != nil || len(keys) == 0 {
		return false
	}
	name, err := rdb.Do(ctx, rdb.B().Hget().Key(keys[0]).Field("name").Build()).ToString()
	return err == nil && strings.HasPrefix(name, "relock demo, worker ")
}

// working reports whether some demo's counter has begun to count.
func working(t *testing.T, rdb rueidis.Client) bool {
	ctx := t.Context()
	keys, err := rdb.Do(ctx, rdb.B().Keys().Pattern("relock-demo-counter:*").Build()).AsStrSlice()
	if err != nil || len(keys) == 0 {
		return false
	}
	n, err := rdb.Do(ctx, rdb.B().Get().Key(keys[0]).Build()).AsInt64()
	return err == nil && n > 10
}

// requireNoLeaks fails the test if it ends with more goroutines than it began with.
func requireNoLeaks(t *testing.T) {
	t.Helper()
	// The first use of signals starts a goroutine that package signal keeps.
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	signal.Stop(c)
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Error("goroutines are left")
				_ = pprof.Lookup("goroutine").WriteTo(t.Output(), 1)
				return
			}
		}
	})
}
