//go:build unix

package redistest

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

// pause stops the process. Where /proc tells, it returns only once the process has stopped.
func (p *process) pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	deadline := time.Now().Add(time.Second)
	for !p.stopped() {
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d does not stop", p.pid())
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

func (p *process) resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// stopped reports whether the process is stopped, true where the system does not tell.
func (p *process) stopped() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid()))
	if err != nil {
		return true
	}
	// The state follows the program's name, which is in parentheses and may hold some.
	_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return len(state) > 0 && state[0] == 'T'
}
