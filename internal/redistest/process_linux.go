package redistest

import "syscall"

// dieWithParent makes the kernel kill the server when the test process ends. A
// process group of its own keeps the terminal's Ctrl-C from it, so that a
// command can still talk to its servers while it shuts down.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
