package run

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/relock-go/relock/internal/redistest"
)

// host is what a server of redistest lives in outside of a test.
type host struct {
	mu       sync.Mutex
	cleanups []func() // guarded by mu
}

// failure is a Fatalf on its way to start.
type failure struct{ error }

// start runs a redis-server of our own, with further options as on its command line.
func (h *host) start(args ...string) (s *redistest.Server, err error) {
	err = h.try(func() { s = redistest.Start(h, args...) })
	return s, err
}

// try calls f and returns what f failed with.
func (h *host) try(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	f()
	return nil
}

func (h *host) close() {
	h.mu.Lock()
	all := h.cleanups
	h.cleanups = nil
	h.mu.Unlock()
	for _, f := range slices.Backward(all) {
		f()
	}
}

func (h *host) Helper() {}

func (h *host) Cleanup(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.cleanups = append(h.cleanups, f)
}

func (h *host) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

func (h *host) Logf(string, ...any) {}

func (h *host) TempDir() string {
	dir, err := os.MkdirTemp("", "relock-bench-")
	if err != nil {
		h.Fatalf("%w", err)
	}
	h.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
