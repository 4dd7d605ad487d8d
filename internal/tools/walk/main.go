// Command walk lists the files that an uncontended Lock runs through, and those of the Unlock after
// it, from the root package down. It measures: a program of a few lines does both on a redis-server
// of its own, with coverage.
//
//	go run ./internal/tools/walk
//
// Code that the calls set off in the background counts. Code that would have run anyway does not:
// see package steps.
package main

import (
	"fmt"
	"os"
	"strings"
)

func main() {
	h := &host{}
	defer h.close()
	lock, unlock, err := walk(h)
	if err != nil {
		h.Fatalf("walk: %v", err)
	}
	fmt.Printf("Lock passes %d files:\n\t%s\n", len(lock), strings.Join(lock, "\n\t"))
	fmt.Printf("Unlock passes %d files:\n\t%s\n", len(unlock), strings.Join(unlock, "\n\t"))
}

// host is a redistest.TB for a command. It is used by one goroutine.
type host struct{ cleanups []func() }

func (h *host) Helper() {}

func (h *host) Logf(string, ...any) {}

func (h *host) Cleanup(f func()) { h.cleanups = append(h.cleanups, f) }

// Fatalf runs the cleanups and ends the process.
func (h *host) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	h.close()
	os.Exit(1)
}

func (h *host) TempDir() string {
	dir, err := os.MkdirTemp("", "relock-walk-")
	if err != nil {
		h.Fatalf("walk: %v", err)
	}
	h.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// close runs the cleanups, the last one first. If a cleanup calls Fatalf, the others still run.
func (h *host) close() {
	for len(h.cleanups) > 0 {
		last := len(h.cleanups) - 1
		f := h.cleanups[last]
		h.cleanups = h.cleanups[:last]
		f()
	}
}
