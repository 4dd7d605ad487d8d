package drivertest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// trial is a test that may fail while the test around it passes.
type trial struct {
	testing.TB
	ctx  context.Context
	wait time.Duration // its checks' patience

	mu       sync.Mutex // guards what follows
	failed   bool
	skipped  bool
	said     strings.Builder
	cleanups []func()
}

// try makes a check and returns what came of it.
func try(t *testing.T, c check, b *bed, wait time.Duration) *trial {
	ctx, cancel := context.WithCancel(t.Context())
	tr := &trial{TB: t, ctx: ctx, wait: wait}
	apart(func() { c.run(tr, b) })
	cancel()
	for len(tr.cleanups) > 0 {
		last := len(tr.cleanups) - 1
		cleanup := tr.cleanups[last]
		tr.cleanups = tr.cleanups[:last]
		apart(cleanup)
	}
	return tr
}

// apart calls a function that may end its goroutine.
func apart(call func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	<-done
}

func (t *trial) note(failed bool, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = t.failed || failed
	t.said.WriteString(text + "\n")
}

func (t *trial) patience() time.Duration { return t.wait }

// Failed reports whether the check failed.
func (t *trial) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// says is all that the check said.
func (t *trial) says() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.said.String()
}

func (t *trial) Fail()                             { t.note(true, "") }
func (t *trial) FailNow()                          { t.Fail(); runtime.Goexit() }
func (t *trial) Error(args ...any)                 { t.note(true, fmt.Sprint(args...)) }
func (t *trial) Errorf(format string, args ...any) { t.note(true, fmt.Sprintf(format, args...)) }
func (t *trial) Fatal(args ...any)                 { t.Error(args...); runtime.Goexit() }
func (t *trial) Fatalf(format string, args ...any) { t.Errorf(format, args...); runtime.Goexit() }
func (t *trial) Log(args ...any)                   { t.note(false, fmt.Sprint(args...)) }
func (t *trial) Logf(format string, args ...any)   { t.note(false, fmt.Sprintf(format, args...)) }
func (t *trial) Skipf(format string, args ...any)  { t.Logf(format, args...); t.SkipNow() }
func (t *trial) Skip(args ...any)                  { t.Log(args...); t.SkipNow() }
func (t *trial) Context() context.Context          { return t.ctx }

// SkipNow ends the check.
func (t *trial) SkipNow() {
	t.mu.Lock()
	t.skipped = true
	t.mu.Unlock()
	runtime.Goexit()
}

// Cleanup has a function called when the check is over.
func (t *trial) Cleanup(call func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, call)
}

// named is the check of that name.
func named(t *testing.T, name string) check {
	t.Helper()
	all := slices.Concat(alone, checks, ofSlots)
	i := slices.IndexFunc(all, func(c check) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("no check is named %q", name)
	}
	return all[i]
}
