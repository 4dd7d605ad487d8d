package relock_test

import (
	"log"
	"os"
	"slices"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
)

// connect stands for the rueidis client that a service has already, here over a Redis of the example's own.
func connect() (rueidis.Client, func()) {
	s := new(stage)
	return redistest.Start(s).Client(), s.end
}

// stage is the redistest.TB of an example, which has no testing.T.
type stage struct{ cleanups []func() }

func (s *stage) Helper()                           {}
func (s *stage) Logf(string, ...any)               {}
func (s *stage) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }
func (s *stage) Cleanup(clean func())              { s.cleanups = append(s.cleanups, clean) }

func (s *stage) TempDir() string {
	dir, err := os.MkdirTemp("", "relock-example-")
	if err != nil {
		log.Fatal(err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (s *stage) end() {
	for _, clean := range slices.Backward(s.cleanups) {
		clean()
	}
}
