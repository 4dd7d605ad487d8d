package world

import (
	"slices"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/sim/overlay"
)

// Shrink leaves out faults of a run that failed, as long as it still fails, and returns the last run that did. Without
// the runtime overlay a run does not repeat exactly, so each choice is tried a few times.
func Shrink(t *testing.T, seed uint64, o Options, failed *Result, patience time.Duration) *Result {
	until := time.Now().Add(patience)
	best := failed
	for parts := 2; len(best.Fired) > 0 && time.Now().Before(until); {
		smaller := fewer(t, seed, o, best, parts, until)
		switch {
		case smaller != nil:
			best, parts = smaller, 2
		case parts >= len(best.Fired):
			return best
		default:
			parts = min(2*parts, len(best.Fired))
		}
	}
	return best
}

// fewer looks for a run that fails though one of so many parts of the faults is left out. It returns nil for none.
func fewer(t *testing.T, seed uint64, o Options, failed *Result, parts int, until time.Time) *Result {
	tries := 3
	if overlay.Active() {
		tries = 1
	}
	size := (len(failed.Fired) + parts - 1) / parts
	for from := 0; from < len(failed.Fired); from += size {
		rest := slices.Delete(slices.Clone(failed.Fired), from, min(from+size, len(failed.Fired)))
		o.Only = rest
		for range tries {
			if time.Now().After(until) {
				return nil
			}
			var res *Result
			overlay.Run(seed, func() { res = Run(t, seed, o) })
			if res.Violation != "" && len(res.Fired) < len(failed.Fired) {
				return res
			}
		}
	}
	return nil
}
