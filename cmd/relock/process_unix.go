//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// forwarded are the signals that a command under a lock gets in relock's place.
func forwarded() []os.Signal {
	return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}

// control are the signals that stop a command and let it go on, which it gets in relock's place too.
func control() []os.Signal { return []os.Signal{syscall.SIGTSTP, syscall.SIGCONT} }

// typed reports whether a terminal sends s, to its whole foreground group.
func typed(s os.Signal) bool {
	return s == os.Interrupt || s == syscall.SIGQUIT || s == syscall.SIGTSTP
}

// ends reports whether s asks a process to end. One that is stopped hears of it once it goes on.
func ends(s os.Signal) bool {
	return s == os.Interrupt || s == syscall.SIGQUIT || s == syscall.SIGTERM || s == syscall.SIGHUP
}

func goesOn(s os.Signal) bool { return s == syscall.SIGCONT }

// child is the command as it runs. One goroutine calls its methods.
//
// Without a terminal it leads a process group of its own, so that signals reach what it starts as well,
// and relock never stops: whatever stops the command, the lock is kept. At a terminal it must be in
// relock's group, whether its input is redirected or not: any other is in the background, and stopped
// where it reads /dev/tty. There the terminal signals both, a shell stops both and lets both go on, and
// a witness tells which signals came to relock alone.
type child struct {
	cmd     *exec.Cmd
	own     bool // it leads a group of its own
	witness *witness
	kin     kin
	control chan os.Signal // that came to relock
	changed chan bool      // it was stopped, or goes on
	stopped bool
	asked   bool          // relock was told to stop
	ended   chan struct{} // closed once the command has ended
	status  int           // of the command that has ended
}

// newChild is called long before start: a witness takes time to come.
func newChild(cmd *exec.Cmd) *child {
	c := &child{
		cmd: cmd, own: !hasTerminal(), control: make(chan os.Signal, 16), changed: make(chan bool), ended: make(chan struct{}),
	}
	if !c.own {
		c.witness = newWitness()
	}
	return c
}

// hasTerminal reports whether this process has a controlling terminal.
func hasTerminal() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|syscall.O_NOCTTY, 0)
	if err == nil {
		_ = tty.Close()
	}
	return err == nil
}

func (c *child) start() error {
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: c.own}
	diesWithParent(c.cmd.SysProcAttr)
	c.witness = c.witness.ready()
	for _, s := range control() {
		if !signal.Ignored(s) {
			signal.Notify(c.control, s)
		}
	}
	started := make(chan struct{})
	go c.stopWhileStarting(started)
	err := c.cmd.Start()
	close(started)
	if err == nil {
		go c.await()
	}
	return err
}

// startTime is how long a command may take to start after it was told to stop.
const startTime = time.Second

// stopWhileStarting stops relock where its command was stopped before it became another program: Start waits
// for that as long as it takes, and so would a shell for its terminal.
func (c *child) stopWhileStarting(started <-chan struct{}) {
	select {
	case <-started:
	case s := <-c.control:
		select {
		case <-started:
			c.control <- s
		case <-time.After(startTime):
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		}
	}
}

func (c *child) close() {
	signal.Stop(c.control)
	c.witness.close()
}

// await tells when the command stops and goes on, until it ends.
func (c *child) await() {
	defer close(c.ended)
	for {
		var ws syscall.WaitStatus
		switch _, err := syscall.Wait4(c.cmd.Process.Pid, &ws, syscall.WUNTRACED|syscall.WCONTINUED, nil); {
		case err == syscall.EINTR:
		case err == nil && (ws.Stopped() || ws.Continued()):
			c.changed <- ws.Stopped()
		default:
			_ = c.cmd.Wait() // it finds no process, but waits for what copies the output
			c.status = exitStatus(ws)
			return
		}
	}
}

// pass hands on a signal that came to relock, unless the command got it too.
func (c *child) pass(s os.Signal, gone <-chan struct{}) {
	had := !c.own && c.saw(s, gone)
	switch s {
	case syscall.SIGTSTP:
		c.asked = !c.own
	case syscall.SIGCONT:
		c.asked = false
	}
	if !had {
		c.send(s)
	}
	if ends(s) && (!had || c.stopped) {
		c.send(syscall.SIGCONT)
	}
	c.follow()
}

// saw reports whether a signal came to the whole group. Once the lock is lost there is no time to ask.
func (c *child) saw(s os.Signal, gone <-chan struct{}) bool {
	if gone == nil {
		return typed(s)
	}
	return c.witness.saw(s, gone, c.ended)
}

// follow stops relock where it was told to and its command has stopped: then a shell takes its terminal
// back. A command that does not stop must not work on beside a relock that cannot renew.
func (c *child) follow() {
	if c.asked && c.stopped {
		c.asked = false
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}

// send signals the command and the processes that it has started. Errors are ignored: the process may have
// ended.
func (c *child) send(s os.Signal) {
	number, _ := s.(syscall.Signal)
	if c.own {
		_ = syscall.Kill(-c.cmd.Process.Pid, number)
		return
	}
	if number == syscall.SIGUSR1 || number == syscall.SIGUSR2 {
		_ = c.cmd.Process.Signal(s) // alone: these kill a process that does not handle them
		return
	}
	c.kin.look(c.cmd.Process.Pid)
	_ = c.cmd.Process.Signal(s)
	c.kin.send(number)
}

// terminate asks the command to end, be it stopped or not.
func (c *child) terminate() {
	c.send(syscall.SIGTERM)
	c.send(syscall.SIGCONT)
}

// leaves reports whether a command that has ended has left processes behind in its group.
func (c *child) leaves() bool {
	if c.own {
		return syscall.Kill(-c.cmd.Process.Pid, 0) == nil
	}
	return c.kin.lives()
}

// exitStatus is the status a shell would report.
func exitStatus(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return statusSignal + int(ws.Signal())
	}
	return ws.ExitStatus()
}

func (s gotSignal) number() int {
	n, _ := s.Signal.(syscall.Signal)
	return int(n)
}
