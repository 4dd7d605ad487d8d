//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// Where processes have no groups and few signals, a command can only be killed.

func forwarded() []os.Signal { return []os.Signal{os.Interrupt} }

func typed(os.Signal) bool { return true }

func ownGroup(*exec.Cmd) {}

func send(cmd *exec.Cmd, _ bool, s os.Signal) { _ = cmd.Process.Signal(s) }

func terminate(cmd *exec.Cmd, _ bool) { _ = cmd.Process.Kill() }

func exitStatus(p *os.ProcessState) int { return p.ExitCode() }

func (s gotSignal) number() int { return 2 }
