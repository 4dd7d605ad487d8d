package redistest

import (
	"log"
	"os"
	"slices"
)

// Stage is the TB of an example, which has no testing.T. What fails ends the program.
type Stage struct{ cleanups []func() }

// Helper does nothing.
func (s *Stage) Helper() {}

// Logf does nothing.
func (s *Stage) Logf(string, ...any) {}

// Fatalf ends the program.
func (s *Stage) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }

// Cleanup has clean called by End.
func (s *Stage) Cleanup(clean func()) { s.cleanups = append(s.cleanups, clean) }

// TempDir makes a directory that End removes.
func (s *Stage) TempDir() string {
	dir, err := os.MkdirTemp("", "relock-example-")
	if err != nil {
		log.Fatal(err)
	}
	s.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// End takes away all that was made on the stage, the last first.
func (s *Stage) End() {
	for _, clean := range slices.Backward(s.cleanups) {
		clean()
	}
}
