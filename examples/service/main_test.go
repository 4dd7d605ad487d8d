package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockgoredis"
	"github.com/relock-go/relock/examples/internal/workers"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

func TestMain(m *testing.M) {
	var args []string
	if workers.Job(&args) {
		os.Args = append(os.Args[:1], args...)
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// program is the service, in a process of its own.
type program struct {
	t   *testing.T
	cmd *exec.Cmd
	url string
}

// start starts the program, and returns when it serves.
func start(t *testing.T, args ...string) *program {
	addr := "127.0.0.1:" + strconv.Itoa(redistest.FreePort(t))
	cmd, err := workers.Command(context.Background(), append(args, "-addr", addr))
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p := &program{t, cmd, "http://" + addr}
	require.Eventually(t, func() bool {
		answer, err := http.Get(p.url + "/healthz")
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	}, patience, 10*time.Millisecond)
	return p
}

// settle sends a request. It returns the status, 0 for a client that leaves, and Retry-After.
func (p *program) settle(ctx context.Context) (code int, after string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/orders/42/settle", nil)
	if err != nil {
		p.t.Error(err)
		return 0, ""
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			p.t.Error(err)
		}
		return 0, ""
	}
	answer.Body.Close()
	return answer.StatusCode, answer.Header.Get("Retry-After")
}

// settles sends a request, and returns its status when that has come.
func (p *program) settles(ctx context.Context) <-chan int {
	code := make(chan int, 1)
	go func() {
		is, _ := p.settle(ctx)
		code <- is
	}()
	return code
}

func (p *program) get(path string) string {
	answer, err := http.Get(p.url + path)
	require.NoError(p.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(p.t, err)
	return string(text)
}

// order returns order 42's lock, as another process has it.
func order(t *testing.T, addr string) *relock.Mutex {
	rdb := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { rdb.Close() })
	locks, err := relockgoredis.New(rdb)
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	return locks.Mutex("order:42")
}

// becomes waits until the lock is held, or is not.
func becomes(t *testing.T, m *relock.Mutex, held bool) {
	require.Eventually(t, func() bool {
		now, err := m.State(t.Context())
		return err == nil && now.Held == held
	}, patience, 5*time.Millisecond)
}

// Two processes share a Redis.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	order := order(t, srv.Addr())
	slow := start(t, "-redis", "redis://"+srv.Addr(), "-work", "1h", "-wait", patience.String())
	quick := start(t, "-redis", "redis://"+srv.Addr(), "-work", "0")
	// On a busy machine 503 may come at first: Redis does not answer within -wait.
	answers := func(want int) (after string) {
		var code int
		require.Eventually(t, func() bool {
			code, after = quick.settle(t.Context())
			return code == want
		}, patience, 10*time.Millisecond)
		return after
	}
	answers(http.StatusNoContent)

	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	left := slow.settles(ctx)
	becomes(t, order, true)
	seconds, err := strconv.Atoi(answers(http.StatusConflict))
	require.NoError(t, err)
	require.Positive(t, seconds)
	leave() // the work of slow ends
	<-left
	becomes(t, order, false)
	answers(http.StatusNoContent)

	metrics := quick.get("/metrics")
	require.Contains(t, metrics, `relock_hold_duration_seconds_count{relock_how="free"`)
	require.Contains(t, metrics, `relock_wait_duration_seconds_count`)
	require.NotContains(t, metrics, "otel_scope")

	srv.Kill()
	code, _ := quick.settle(t.Context())
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, quick.get("/healthz"), "ok")
	srv.Restart()
	answers(http.StatusNoContent)
}

// SIGTERM lets a request end well, within the grace. One that goes on for longer is answered 503. Either way its lock is free at
// once.
func TestSIGTERM(t *testing.T) {
	t.Parallel()
	for status, flags := range map[int][]string{
		http.StatusNoContent:          {"-work", "1s"},
		http.StatusServiceUnavailable: {"-work", "1h", "-grace", "10ms"},
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			order := order(t, srv.Addr())
			p := start(t, append([]string{"-redis", "redis://" + srv.Addr(), "-wait", patience.String()}, flags...)...)
			code := p.settles(t.Context())
			becomes(t, order, true)
			require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
			require.Equal(t, status, <-code)
			require.NoError(t, p.cmd.Wait())
			lease, err := order.TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
}

// Without a URL the program has a Redis of its own.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	p := start(t, "-work", "0", "-wait", patience.String())
	code, _ := p.settle(t.Context())
	require.Equal(t, http.StatusNoContent, code)
	require.Equal(t, "ok\n", p.get("/healthz"))
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.NoError(t, p.cmd.Wait())
}
