//go:build !linux

package redistest

import "syscall"

// dieWithParent does nothing here: only Linux can tie a child's life to its
// parent's. The server shares the process group, so that Ctrl-C ends it too.
func dieWithParent() *syscall.SysProcAttr { return nil }
