// Package ctxmutex has a mutex whose waiters give up when their contexts end.
package ctxmutex

import (
	"context"
	"slices"
	"sync"
)

// Mutex is locked by one goroutine at a time, first come first served. A sync.Mutex would not do
// for what takes as long as a command to Redis: its waiters could not give up. The zero Mutex is
// unlocked. It must not be copied.
type Mutex struct {
	mu    sync.Mutex // guards what follows
	taken bool
	line  []chan struct{} // one per waiter, closed to give it the mutex; empty unless taken
}

// TryLock locks the mutex if it is free.
func (m *Mutex) TryLock() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	free := !m.taken
	m.taken = true
	return free
}

// Lock locks the mutex. If ctx ends first, Lock returns the cause of that, and the caller does not
// have the mutex. A free mutex is locked even under a context that has ended.
func (m *Mutex) Lock(ctx context.Context) error {
	m.mu.Lock()
	if !m.taken {
		m.taken = true
		m.mu.Unlock()
		return nil
	}
	given := make(chan struct{})
	m.line = append(m.line, given)
	m.mu.Unlock()
	select {
	case <-given:
		return nil
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(m.line, given); i >= 0 {
		m.line = slices.Delete(m.line, i, i+1)
	} else {
		m.pass() // this waiter was just given the mutex
	}
	return context.Cause(ctx)
}

// Unlock gives the mutex to the goroutine that has waited longest, if one waits. Any goroutine may
// call it for the one that locked the mutex.
func (m *Mutex) Unlock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass()
}

// Taken reports whether the mutex is locked. That may have changed by the time the caller reads the
// result.
func (m *Mutex) Taken() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.taken
}

// Awaited reports whether a goroutine waits for the mutex.
func (m *Mutex) Awaited() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.line) > 0
}

// pass gives the mutex to the next in line. The caller holds m.mu.
func (m *Mutex) pass() {
	if len(m.line) == 0 {
		m.taken = false
		return
	}
	close(m.line[0])
	m.line = slices.Delete(m.line, 0, 1)
}
