package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/relock-go/relock/bench/internal/worker"
)

// errHung is the error of a worker that did not answer in time. It was killed.
var errHung = errors.New("hung")

// errUnknown is the error of a worker of another commit, whose bench cannot do what it is asked for.
var errUnknown = errors.New("the worker cannot do that")

// process is a worker.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	replies chan worker.Reply // closed when the process's output has ended
	errors  tail
	exited  chan struct{}
}

// start runs a worker by its command line.
func start(command []string) (*process, error) {
	p := &process{replies: make(chan worker.Reply, 1), exited: make(chan struct{})}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Env = append(os.Environ(), worker.Env+"=1")
	p.cmd.Stderr = &p.errors
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is the bench's alone
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	go func() {
		defer close(p.exited)
		dec := json.NewDecoder(out)
		for {
			var r worker.Reply
			if err := dec.Decode(&r); err != nil {
				break
			}
			p.replies <- r
		}
		close(p.replies)
		_ = p.cmd.Wait() // how it ended is told by what it wrote
	}()
	return p, nil
}

// ask sends a request and returns the reply. It fails when the worker reports an error, and with errHung when there is
// no reply within limit; then, and when ctx ends, the worker is killed.
func (p *process) ask(ctx context.Context, r worker.Request, limit time.Duration) (worker.Reply, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return worker.Reply{}, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return worker.Reply{}, p.died(r.Do)
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case rep, ok := <-p.replies:
		if !ok {
			return rep, p.died(r.Do)
		}
		if strings.HasPrefix(rep.Error, "unknown request") {
			return rep, fmt.Errorf("%w: %s", errUnknown, rep.Error)
		}
		if rep.Error != "" {
			return rep, fmt.Errorf("%s: %s", r.Do, rep.Error)
		}
		return rep, nil
	case <-timer.C:
		p.kill()
		return worker.Reply{}, fmt.Errorf("%w: no answer to %q within %v", errHung, r.Do, limit.Round(time.Second))
	case <-ctx.Done():
		p.kill()
		return worker.Reply{}, context.Cause(ctx)
	}
}

func (p *process) died(during string) error {
	p.kill()
	return fmt.Errorf("the worker ended during %q: %s", during, p.errors.last())
}

// kill ends the process as a crash would and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	for range p.replies { // a reply nobody took must not keep the reader
	}
	<-p.exited
}

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// tail keeps the end of what a process writes to its standard error.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buf.Len() > 64<<10 {
		t.buf.Reset()
	}
	return t.buf.Write(p)
}

// last returns the last lines written, "no message" if there are none. A Go panic's message comes first.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(t.buf.String())
	if i := strings.Index(text, "panic: "); i >= 0 {
		text, _, _ = strings.Cut(text[i:], "\n")
	}
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	if text == "" {
		return "no message"
	}
	return text
}

// pool keeps workers from round to round.
type pool struct {
	command []string
	procs   []*process
}

// get returns n workers, started if need be, and those of them that are new.
func (p *pool) get(n int) (procs, fresh []*process, err error) {
	kept := p.procs[:0]
	for _, proc := range p.procs {
		if proc.alive() {
			kept = append(kept, proc)
		}
	}
	p.procs = kept
	for len(p.procs) < n {
		proc, err := start(p.command)
		if err != nil {
			return nil, nil, err
		}
		p.procs = append(p.procs, proc)
		fresh = append(fresh, proc)
	}
	return p.procs[:n], fresh, nil
}

// close ends all workers.
func (p *pool) close() {
	for _, proc := range p.procs {
		proc.kill()
	}
	p.procs = nil
}

// askAll sends requests to as many workers at once. The first error counts; all are waited for.
func askAll(ctx context.Context, procs []*process, limit time.Duration,
	request func(i int) worker.Request) ([]worker.Reply, error) {
	replies := make([]worker.Reply, len(procs))
	errs := make([]error, len(procs))
	var wg sync.WaitGroup
	for i, p := range procs {
		wg.Go(func() { replies[i], errs[i] = p.ask(ctx, request(i), limit) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return replies, err
		}
	}
	return replies, nil
}
