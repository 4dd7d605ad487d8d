//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// forwarded are the signals that relock passes on to its command. While it waits for the lock, they end the wait.
func forwarded() []os.Signal {
	return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}

// control are the signals that stop a process and let it go on. relock passes them on too.
func control() []os.Signal { return []os.Signal{syscall.SIGTSTP, syscall.SIGCONT} }

// typed reports whether a key at a terminal sends s. The whole foreground process group gets it.
func typed(s os.Signal) bool {
	return s == os.Interrupt || s == syscall.SIGQUIT || s == syscall.SIGTSTP
}

// ends reports whether s asks a process to end. A stopped process gets it only when it goes on.
func ends(s os.Signal) bool {
	return s == os.Interrupt || s == syscall.SIGQUIT || s == syscall.SIGTERM || s == syscall.SIGHUP
}

// survivePipes lets relock live when it writes to a pipe whose reader has gone, until the function that it returns is
// called. SIGPIPE is caught and not ignored, since the command would inherit that.
func survivePipes() (undo func()) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	return func() { signal.Stop(broken) }
}

func goesOn(s os.Signal) bool { return s == syscall.SIGCONT }

// child is the command as it runs. One goroutine calls its methods.
//
// Without a terminal the command leads a process group of its own, so that signals reach its children
// too. relock itself never stops then: whatever stops the command, the lock is kept. At a terminal the
// command must be in relock's group, even if its input is redirected: any other group is in the background,
// and would be stopped when it reads /dev/tty. The terminal signals both then, a shell stops and continues
// both, and a witness tells which signals came to relock alone.
type child struct {
	cmd     *exec.Cmd
	sole    bool // nothing but relock runs in this process
	own     bool // the command leads a group of its own
	witness *witness
	kin     kin
	control chan os.Signal // control signals that relock got
	changed chan bool      // true: the command was stopped; false: it goes on
	stopped bool           // the command is stopped
	asked   bool           // relock is to stop once the command has stopped
	started time.Time      // when the command had started
	ended   chan struct{}  // closed once the command has ended
	status  int            // exit status of the command, once it has ended
}

// newChild prepares the command. Call it long before start: a witness takes time to start. sole says that nothing but
// relock runs in this process.
func newChild(cmd *exec.Cmd, sole bool) *child {
	c := &child{
		cmd: cmd, sole: sole, own: !hasTerminal(), control: make(chan os.Signal, 16), changed: make(chan bool), ended: make(chan struct{}),
	}
	if !c.own {
		c.kin.adopts = sole && adopt()
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

// ready returns a channel that is closed once start may be called.
func (c *child) ready() <-chan struct{} { return c.witness.ready() }

// start starts the command, and the goroutine that waits for its end.
func (c *child) start() error {
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: c.own}
	diesWithParent(c.cmd.SysProcAttr)
	for _, s := range control() {
		if !signal.Ignored(s) {
			signal.Notify(c.control, s)
		}
	}
	started := make(chan struct{})
	go c.stopWhileStarting(started)
	err := c.cmd.Start()
	close(started)
	c.started = time.Now()
	if err == nil {
		if c.sole {
			// With stty tostop, what relock says in the background would stop it. The command has not inherited this.
			signal.Ignore(syscall.SIGTTOU)
		}
		go c.await()
	}
	return err
}

// startEdge: a signal that relock takes up sooner than this after the start of the command may have come before it,
// and to the whole group without the command. It is passed on in any case, and the command may get it twice.
const startEdge = 100 * time.Millisecond

// startTime is how long a command may take to start after it was told to stop.
const startTime = time.Second

// stopWhileStarting stops relock if the command was stopped before its exec. Start does not return until the
// exec, and a shell would wait as long for its terminal.
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

// await reports over changed when the command stops or goes on. It closes ended when the command has ended. Until
// then it reaps what relock has adopted.
func (c *child) await() {
	defer close(c.ended)
	which := c.cmd.Process.Pid
	if c.kin.adopts {
		which = -1
	}
	for {
		var ws syscall.WaitStatus
		switch pid, err := syscall.Wait4(which, &ws, syscall.WUNTRACED|syscall.WCONTINUED, nil); {
		case err == syscall.EINTR:
		case err == nil && pid != c.cmd.Process.Pid: // an adopted process, or the witness
		case err == nil && (ws.Stopped() || ws.Continued()):
			c.changed <- ws.Stopped()
		default:
			_ = c.cmd.Wait() // Wait4 has reaped the process; this waits for the goroutines that copy the output
			c.status = exitStatus(ws)
			return
		}
	}
}

// pass passes a signal that relock got on to the command, unless the command got it too.
func (c *child) pass(s os.Signal, gone <-chan struct{}) {
	had := !c.own && time.Since(c.started) > startEdge && c.saw(s, gone)
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
	c.stopWithCommand()
}

// saw reports whether a signal came to the whole group. Once the lock is lost (gone is nil) there is no time
// to ask the witness: it guesses by the kind of signal.
func (c *child) saw(s os.Signal, gone <-chan struct{}) bool {
	if gone == nil {
		return typed(s)
	}
	return c.witness.saw(s, gone, c.ended)
}

// stopWithCommand stops relock if it was told to stop and the command has stopped: a shell then takes its
// terminal back. If the command ignores the signal, relock goes on too, since it must renew the lock.
func (c *child) stopWithCommand() {
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
	c.kin.addDescendants(c.cmd.Process.Pid, c.witness.pid())
	_ = c.cmd.Process.Signal(s)
	c.kin.send(number)
}

// terminate asks the command to end. SIGCONT lets a stopped command get the SIGTERM.
func (c *child) terminate() {
	c.send(syscall.SIGTERM)
	c.send(syscall.SIGCONT)
}

// leaves reports whether the command, which has ended, has left processes behind.
func (c *child) leaves() bool {
	if c.own {
		return syscall.Kill(-c.cmd.Process.Pid, 0) == nil
	}
	if !c.kin.anyLives() { // one of them may have started another as it was signalled
		c.kin.addDescendants(c.cmd.Process.Pid, c.witness.pid())
	}
	return c.kin.anyLives()
}

// exitStatus returns the status that a shell would report.
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
