package interop

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answerLimit is how long a test waits for the answer to a command; a hang fails the test instead of the suite.
const answerLimit = 90 * time.Second

// peer is a process that follows the line protocol: a JVM with Redisson, or a Go process with relock.
type peer struct {
	t   testing.TB
	id  string // the client's uuid, the first part of its fields in Redis
	cmd *exec.Cmd
	in  io.Writer

	mu    sync.Mutex // guards what follows, and writing to in
	last  int
	calls map[string]chan answer
	done  chan struct{} // closed when the process has ended
}

// answer is the outcome of one command, with the wall clock before and after it.
type answer struct {
	value        string
	err          error
	began, ended time.Time
}

// startPeer runs a process until the cleanup, or until its standard input ends with this one.
func startPeer(t testing.TB, cmd *exec.Cmd) *peer {
	t.Helper()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	log, err := os.CreateTemp(t.TempDir(), "peer")
	require.NoError(t, err)
	cmd.Stderr = log
	require.NoError(t, cmd.Start())
	p := &peer{t: t, cmd: cmd, in: in, calls: make(map[string]chan answer), done: make(chan struct{})}
	lines := bufio.NewScanner(out)
	hello := lines.Scan()
	p.id = lines.Text()
	go p.read(lines)
	t.Cleanup(func() {
		p.Kill()
		_ = log.Close()
	})
	if text, _ := os.ReadFile(log.Name()); !hello {
		t.Fatalf("%s did not start:\n%s", cmd.Path, text)
	}
	return p
}

// read hands answers to their callers until the process ends; then every open call fails.
func (p *peer) read(lines *bufio.Scanner) {
	defer close(p.done)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		if len(words) != 5 {
			p.t.Errorf("%s answered %q", p.cmd.Path, lines.Text())
			continue
		}
		a := answer{value: words[2], began: stamp(words[3]), ended: stamp(words[4])}
		if words[1] != "ok" {
			a = answer{err: fmt.Errorf("%s", words[2]), began: a.began, ended: a.ended}
		}
		p.mu.Lock()
		p.calls[words[0]] <- a
		delete(p.calls, words[0])
		p.mu.Unlock()
	}
	_ = p.cmd.Wait() // the status of a process that was killed tells nothing
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, call := range p.calls {
		call <- answer{err: io.ErrUnexpectedEOF}
		delete(p.calls, id)
	}
}

// Go gives a command to a thread of the process and returns where the answer comes.
func (p *peer) Go(thread, command string, args ...string) <-chan answer {
	call := make(chan answer, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	id := strconv.Itoa(p.last)
	p.calls[id] = call
	line := strings.Join(append([]string{id, thread, command}, args...), "\t")
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		call <- answer{err: err}
		delete(p.calls, id)
	}
	return call
}

// Try gives a command to a thread and waits for its answer.
func (p *peer) Try(thread, command string, args ...string) answer {
	p.t.Helper()
	return await(p.t, p.Go(thread, command, args...))
}

// Do is Try for a command that must succeed.
func (p *peer) Do(thread, command string, args ...string) string {
	p.t.Helper()
	a := p.Try(thread, command, args...)
	require.NoError(p.t, a.err, "%s %s %v", thread, command, args)
	return a.value
}

// Kill ends the process as a crash would and returns when it is gone.
func (p *peer) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// await returns what comes on a channel, or fails the test.
func await[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	timer := time.NewTimer(answerLimit)
	defer timer.Stop()
	select {
	case v := <-from:
		return v
	case <-timer.C:
		t.Fatalf("no answer within %v", answerLimit)
		panic("unreachable")
	}
}

func stamp(micros string) time.Time {
	n, _ := strconv.ParseInt(micros, 10, 64)
	return time.UnixMicro(n)
}
