//go:build !unix

package main

import (
	"os"
	"os/exec"

	"github.com/spf13/cobra"
)

// Where processes have no groups and few signals, a command can only be killed.

// forwarded are the signals that end the wait for the lock. The command gets them from the console.
func forwarded() []os.Signal { return []os.Signal{os.Interrupt} }

// child is the command as it runs.
type child struct {
	cmd     *exec.Cmd
	control chan os.Signal // nil, as is changed: a command cannot be stopped on this system
	changed chan bool
	stopped bool
	ended   chan struct{} // closed once the command has ended
	status  int           // exit status of the command, once it has ended
}

func newChild(cmd *exec.Cmd, _ bool) *child { return &child{cmd: cmd, ended: make(chan struct{})} }

// ready returns a closed channel: start may be called at once.
func (c *child) ready() <-chan struct{} {
	now := make(chan struct{})
	close(now)
	return now
}

func (c *child) start() error {
	if err := c.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(c.ended)
		_ = c.cmd.Wait() // the exit status is read from the process state
		c.status = c.cmd.ProcessState.ExitCode()
	}()
	return nil
}

func (c *child) close() {}

func goesOn(os.Signal) bool { return false }

// ends returns true: SIGINT asks a process to end.
func ends(os.Signal) bool { return true }

// survivePipes does nothing: no signal tells of a broken pipe on this system.
func survivePipes() (undo func()) { return func() {} }

// pass does nothing: Ctrl-C at the console reaches the command too.
func (c *child) pass(os.Signal, <-chan struct{}) {}

// stopWithCommand does nothing: a command cannot be stopped on this system.
func (c *child) stopWithCommand() {}

func (c *child) send(s os.Signal) { _ = c.cmd.Process.Signal(s) }

func (c *child) terminate() { _ = c.cmd.Process.Kill() }

// leaves returns false: processes that a command has left behind cannot be found.
func (c *child) leaves() bool { return false }

// number is SIGINT's number: no other signal is forwarded here.
func (s gotSignal) number() int { return 2 }

// witnessCommand returns no command: without process groups there is no use for a witness.
func (a *app) witnessCommand() []*cobra.Command { return nil }
