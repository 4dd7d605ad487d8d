//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// forwarded are the signals that a command under a lock gets in relock's place.
func forwarded() []os.Signal {
	return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}

// typed reports whether a terminal sends s to its whole foreground group.
func typed(s os.Signal) bool { return s == os.Interrupt || s == syscall.SIGQUIT }

// ownGroup makes cmd the leader of a process group, so that signals reach what it starts as well.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// send signals cmd, or its process group. One that has ended needs none.
func send(cmd *exec.Cmd, group bool, s os.Signal) {
	number, ok := s.(syscall.Signal)
	if group && ok {
		_ = syscall.Kill(-cmd.Process.Pid, number)
	} else {
		_ = cmd.Process.Signal(s)
	}
}

// terminate asks cmd to end.
func terminate(cmd *exec.Cmd, group bool) { send(cmd, group, syscall.SIGTERM) }

// exitStatus is the status a shell would report.
func exitStatus(p *os.ProcessState) int {
	if ws, ok := p.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return statusSignal + int(ws.Signal())
	}
	return p.ExitCode()
}

func (s gotSignal) number() int {
	n, _ := s.Signal.(syscall.Signal)
	return int(n)
}
