// Package workers starts a program again, as processes that work beside one another and say what they do.
package workers

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	env   = "RELOCK_EXAMPLE_WORKER"
	grace = 30 * time.Second // from SIGTERM to SIGKILL, for a machine that is very busy
)

// Command returns a command that starts this program again, as a worker with a job. The process dies with ctx.
func Command(ctx context.Context, job any) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), env+"="+string(text))
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// Job reports whether this process is a worker, and reads its job.
func Job(job any) bool {
	text, is := os.LookupEnv(env)
	if is {
		if err := json.Unmarshal([]byte(text), job); err != nil {
			log.Fatal(err)
		}
	}
	return is
}

// Main is called first in main. In a process that Start began it reads the job, runs it, and exits.
func Main(job any, run func() error) {
	if !Job(job) {
		return
	}
	EndWithParent()
	if err := run(); err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}

// EndWithParent ends this worker when the process that started it has ended, killed or not.
func EndWithParent() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // Start keeps it open, and writes nothing
		os.Exit(1)
	}()
}

// Say tells the process that started this worker of an event, which takes one line of JSON.
func Say(event any) { _ = json.NewEncoder(os.Stdout).Encode(event) }

// Worker is a process that Start has started.
type Worker struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{} // closed after err is set
	err   error
}

// Start starts a worker, which gets SIGTERM when ctx ends. said is called with its events one after the other, for the last
// time before Wait returns.
func Start[E any](ctx context.Context, job any, said func(E)) (*Worker, error) {
	cmd, err := Command(ctx, job)
	if err != nil {
		return nil, err
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	w := &Worker{cmd: cmd, ended: make(chan struct{})}
	if w.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(w.ended)
		lines := json.NewDecoder(stdout)
		for {
			var event E
			if lines.Decode(&event) != nil {
				break // it has ended, in the middle of a line if it was killed
			}
			said(event)
		}
		if err := cmd.Wait(); !cmd.ProcessState.Success() { // it is not nil after SIGTERM by ctx
			w.err = err
		}
	}()
	return w, nil
}

// Signal sends the process a signal. A process that has ended already is left alone.
func (w *Worker) Signal(s os.Signal) { _ = w.cmd.Process.Signal(s) }

// Wait returns how the process has ended.
func (w *Worker) Wait() error {
	<-w.ended
	return w.err
}

// Now reads the clock that all processes of a machine share.
func Now() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		log.Fatal(err)
	}
	return time.Duration(now.Nano())
}
