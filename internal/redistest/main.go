package redistest

import (
	"slices"
	"sync"
)

// Main runs the tests of a package, and then what was left for their end. It stands where a
// check for goroutines that are left wants a *testing.M.
type Main struct{ M interface{ Run() int } }

// Run runs the tests and returns the code to exit with.
func (m Main) Run() int {
	code := m.M.Run()
	End()
	return code
}

// AtEnd has end called by End, the last one first. It is for clients that no test can close, since it
// does not know of them.
func AtEnd(end func()) {
	endMu.Lock()
	defer endMu.Unlock()
	ends = append(ends, end)
}

// End closes what was left for the end. It is called when no client of the package's tests is in use: by
// Main, or where a check for goroutines that are left comes earlier.
func End() {
	endMu.Lock()
	due := ends
	ends = nil
	endMu.Unlock()
	for _, end := range slices.Backward(due) {
		end()
	}
}

var (
	endMu sync.Mutex // guards ends
	ends  []func()
)
