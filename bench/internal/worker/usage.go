package worker

import (
	"runtime"
	"syscall"
	"time"
)

// usage returns what this process has used so far.
func (w *worker) usage() Usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Usage{
		Commands: w.wire.Counts(), CPU: cpuTime(), Allocs: m.Mallocs, Bytes: m.TotalAlloc,
		Memory: m.HeapInuse + m.StackInuse,
	}
}

// settled returns the usage, with the memory that is in use after a garbage collection.
func (w *worker) settled() Usage {
	u := w.usage()
	runtime.GC()
	runtime.GC() // the first sweep may still be under way
	u.Memory = w.usage().Memory
	return u
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
