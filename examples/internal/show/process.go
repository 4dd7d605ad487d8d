package show

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"syscall"

	"github.com/relock-go/relock/examples/internal/workers"
)

// What a worker says, a line of JSON each.
const (
	holding  = "holding"
	accepted = "accepted"
	refusal  = "refused"
	failure  = "failed"
)

type said struct{ Event, Text string }

type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *json.Decoder
}

// start starts this program again, as a worker that dies with ctx.
func start(ctx context.Context, w Worker) (*process, error) {
	cmd, err := workers.Command(ctx, w)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.lines = json.NewDecoder(stdout)
	return p, p.cmd.Start()
}

// expect returns what the worker says next, which must be one of these events.
func (p *process) expect(events ...string) (s said, err error) {
	if err = p.lines.Decode(&s); err != nil {
		return s, fmt.Errorf("a worker ended before it was %s: %w", events[0], err)
	}
	if !slices.Contains(events, s.Event) {
		return s, fmt.Errorf("a worker is not %s: %s %s", events[0], s.Event, s.Text)
	}
	return s, nil
}

// stop returns when the process stands still.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case status.Stopped():
			return nil
		default:
			return errors.New("a worker ended before it was stopped")
		}
	}
}

func (p *process) resume() error {
	if _, err := p.stdin.Write([]byte{1}); err != nil {
		return err
	}
	return p.cmd.Process.Signal(syscall.SIGCONT)
}

func (p *process) end() {
	_ = p.cmd.Process.Kill() // it has said what it has to say
	_ = p.cmd.Wait()
}
