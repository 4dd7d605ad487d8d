package redistest

import (
	"slices"
	"sync"
)

// Main runs the tests of a package, and then what AtEnd left for the end. It takes the place of the
// *testing.M that a check for leaked goroutines wants.
type Main struct{ M interface{ Run() int } }

// Run runs the tests and returns the code to exit with.
func (m Main) Run() int {
	code := m.M.Run()
	End()
	return code
}

// AtEnd leaves a function for End, which calls the last one first. It is for clients that no test
// knows of, so that none can close them.
func AtEnd(end func()) {
	endMu.Lock()
	defer endMu.Unlock()
	ends = append(ends, end)
}

// End calls the functions that AtEnd left. It is called when no client of the package's tests is in
// use any more: by Main, or before a check for leaked goroutines that comes earlier.
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
