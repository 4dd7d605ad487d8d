package redistest

import (
	"os"
	"os/exec"
	"runtime"
)

// process is a running server program.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once the process has ended and was reaped
}

// startProcess runs the program with its output appended to the file log.
func startProcess(path string, args []string, log string) (*process, error) {
	out, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p := &process{cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = dieWithParent()

	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run starts the process, reports that on started and reaps it.
//
// For Linux the parent of a child is the thread that started it, not the process: if that thread
// ended, the child would be killed. So one goroutine keeps the thread for as long as the child
// lives.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.cmd.Wait() // the exit status of a server that was killed tells nothing
	close(p.exited)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// kill ends the process, paused or not, and returns when it was reaped.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}
