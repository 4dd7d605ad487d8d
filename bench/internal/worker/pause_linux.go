package worker

import (
	"syscall"
	"time"
)

// doze sleeps for about d. Go's own timers are a millisecond coarse in a process that is otherwise idle.
func doze(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	_ = syscall.Nanosleep(&ts, nil) // woken early by a signal, the caller spins on
}
