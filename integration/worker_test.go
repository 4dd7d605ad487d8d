//go:build unix

package integration

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

const soon = 30 * time.Second // for what must happen and whose time is not what is tested

// long reports whether the tests run at full length.
func long() bool { return os.Getenv("RELOCK_LONG") != "" }

// rounds is how many rounds a test does.
func rounds(short, full int) int {
	if long() {
		return full
	}
	return short
}

// begin is the first call of every test: when everything it used is closed, no goroutine may be left.
func begin(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		// The proxy's connections take a moment to notice that their ends are gone.
		none := func(c *assert.CollectT) { require.NoError(c, goleak.Find(before)) }
		require.EventuallyWithT(t, none, soon, 10*time.Millisecond)
	})
}

// worker is a worker process as its test sees it.
type worker struct {
	t      *testing.T
	id     int
	cmd    *exec.Cmd
	orders io.WriteCloser
	client string // id of its relock client

	exited chan struct{}
	errors bytes.Buffer // what it wrote to standard error; to be read once exited
	status error        // likewise
}

// jobFor is the job of a worker on what a client with option o talks to.
func jobFor(o rueidis.ClientOption, lease time.Duration) job {
	return job{Addrs: o.InitAddress, Single: o.ForceSingleClient, Master: o.Sentinel.MasterSet, Lease: lease}
}

// startWorker starts a process that has made its client when startWorker returns. It is gone after the test.
func startWorker(t *testing.T, jl *journal, id int, j job) *worker {
	t.Helper()
	j.ID = id
	spec, err := json.Marshal(j)
	require.NoError(t, err)
	w := &worker{t: t, id: id, cmd: exec.Command(os.Args[0]), exited: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), workerEnv+"="+string(spec))
	// With a process group of its own, a worker that stands is ended by the kernel when the test's process dies.
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	w.cmd.Stderr = &w.errors
	w.orders, err = w.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := w.cmd.StdoutPipe()
	require.NoError(t, err)
	begun := now()
	require.NoError(t, w.cmd.Start())
	t.Cleanup(w.kill)
	go func() {
		defer close(w.exited)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if e, err := parseEvent(lines.Text()); err == nil { // the last line of a killed worker may be cut
				jl.add(e)
			}
		}
		w.status = w.cmd.Wait()
	}()
	w.client = jl.await(t, soon, begun, "a worker's start", func(e event) bool { return e.kind == ready && w.owns(e) }).note
	return w
}

// owns reports whether the worker wrote e.
func (w *worker) owns(e event) bool { return strings.HasPrefix(e.who, fmt.Sprintf("w%d.", w.id)) }

func (w *worker) order(format string, args ...any) {
	w.t.Helper()
	_, err := fmt.Fprintf(w.orders, format+"\n", args...)
	require.NoError(w.t, err)
}

// kill ends the worker at once and returns when the process is gone.
func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	<-w.exited
}

func (w *worker) pause()  { _ = w.cmd.Process.Signal(syscall.SIGSTOP) }
func (w *worker) resume() { _ = w.cmd.Process.Signal(syscall.SIGCONT) }

// finish lets workers unlock what they hold, close their clients, look for goroutines that are left, and end.
func finish(t *testing.T, workers ...*worker) {
	t.Helper()
	for _, w := range workers {
		w.order("stop")
	}
	for _, w := range workers {
		select {
		case <-w.exited:
			require.NoError(t, w.status, "%s", w.errors.String())
		case <-time.After(soon):
			t.Fatal("a worker does not end")
		}
	}
}

// queued returns when n processes wait in the lock's queue.
func queued(t *testing.T, s *redistest.Server, lock string, n int) {
	t.Helper()
	full := func() bool { return s.Do("ZCARD", queueKey(lock)) == fmt.Sprint(n) }
	require.Eventually(t, full, soon, 2*time.Millisecond)
}

// queueKey is the key of a lock's queue: a name with a hash tag of its own is not wrapped in another, and one that is
// nothing else has a queue with another prefix.
func queueKey(lock string) string {
	if strings.HasPrefix(lock, "{") && strings.HasSuffix(lock, "}") {
		return "relock_line:" + lock
	}
	if strings.Contains(lock, "{") {
		return "relock_queue:" + lock
	}
	return "relock_queue:{" + lock + "}"
}

// absent checks that neither locks nor queues are left, at the latest after limit.
func absent(t *testing.T, limit time.Duration, s *redistest.Server, locks ...string) {
	t.Helper()
	var left []string
	none := func() bool {
		left = nil
		for _, lock := range locks {
			if s.Do("EXISTS", lock) == "1" {
				left = append(left, fmt.Sprintf("%s: %s", lock, s.Do("HGETALL", lock)))
			}
			if s.Do("EXISTS", queueKey(lock)) == "1" {
				left = append(left, fmt.Sprintf("%s: %s", queueKey(lock), s.Do("ZRANGE", queueKey(lock), "0", "-1")))
			}
		}
		return len(left) == 0
	}
	for end := time.Now().Add(limit); !none(); time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "left: %q", left)
	}
}

// nothingFailed checks that no worker wrote of a failure.
func nothingFailed(t *testing.T, events []event) {
	t.Helper()
	bad := only(events, func(e event) bool { return e.kind == failed })
	require.Empty(t, bad[:min(len(bad), 10)], "%d failures", len(bad))
}
