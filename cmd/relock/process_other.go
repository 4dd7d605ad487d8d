//go:build !unix

package main

import (
	"os"
	"os/exec"

	"github.com/spf13/cobra"
)

// Where processes have no groups and few signals, a command can only be killed.

func forwarded() []os.Signal { return []os.Signal{os.Interrupt} }

// child is the command as it runs.
type child struct {
	cmd     *exec.Cmd
	control chan os.Signal // nil: processes are not stopped here
	changed chan bool
	stopped bool
	ended   chan struct{} // closed once the command has ended
	status  int           // of the command that has ended
}

func newChild(cmd *exec.Cmd) *child { return &child{cmd: cmd, ended: make(chan struct{})} }

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

// pass does nothing: what is typed reaches the command too.
func (c *child) pass(os.Signal, <-chan struct{}) {}

func (c *child) follow() {}

func (c *child) send(s os.Signal) { _ = c.cmd.Process.Signal(s) }

func (c *child) terminate() { _ = c.cmd.Process.Kill() }

func (c *child) leaves() bool { return false }

func (s gotSignal) number() int { return 2 }

// witnesses are of use where signals go to groups.
func (a *app) witnessCommand() []*cobra.Command { return nil }
