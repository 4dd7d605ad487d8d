// Package overlay makes what runs in a bubble of testing/synctest repeat from a seed.
//
// A bubble has fake time, but Go's runtime still draws: which ready case a select takes, the order of a map and of
// timers of one instant, the numbers of math/rand. Threads, the collector and the monitor that preempts goroutines
// put their real time on top. The command in the directory write makes an overlay of Go's own files that takes these
// numbers from the seed and keeps the rest away from bubbles:
//
//	go test $(go run ./overlay/write -o /tmp/simoverlay) ./...
//
// A program built without the overlay runs as ever, and [Active] says so.
//
// # What repeats
//
// Goroutines of a bubble, with one P and no collection while they run ([Run] sees to both): their order, select,
// timers, math/rand and math/rand/v2, maps, the children of a context, sync.Mutex. The order also varies by the seed
// beyond what Go does by itself: under some seeds a goroutine made ready goes to the end of the queue now and then.
// The wall clock outside of bubbles shows whole seconds, so that what a process noted at its start differs by those.
// Goroutines outside of the bubble may wake, draw and allocate without changing it.
//
// # What does not
//
//   - A map of more than eight keys that are, or contain, pointers (channels and interfaces of pointers too): addresses
//     order it. So it is with sync.Map.
//   - crypto/rand, and what it feeds: seed that apart.
//   - Whatever is kept from one run to the next, as a sync.Once done or a cache filled: warm up by a run of the same
//     kind.
//   - A goroutine that runs, or is in one system call, for ten seconds of real time: it is preempted so that a guard
//     outside of the bubble can act.
//
// # What it costs, and what it is for
//
// It is 28 replacements in 13 files of Go's source and 250 lines that are added to it, 950 lines in all with tests; four commits
// touched them so far. It fits Go 1.26.0 and 1.26.8 alike. It refuses Go 1.27.0, for one of the replacements: runtime/rand.go
// draws two numbers for a thread there. So a release costs a reading of these places; TestASeedRepeats says whether that was
// enough.
//
// Without it seeds still find what they find, but a failure that needs a rare order is not seen again. Of six seeds that each
// find a mutant, 20 runs of each failed 120 of 120 times with the overlay, and 100 of 120 without: four seeds each time, one 17
// times, and one, of callers that crowd at a gate, 3 of 20 times. Of eight other seeds, 25 runs each, 200 of 200 failed with it and 93
// without. A failure that does not repeat cannot be shrunk or traced, and the corpus plays other runs than those that once failed.
package overlay

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Active reports whether the program was built with the overlay.
func Active() bool { return active }

// Seed seeds every bubble that starts from now on, the bubble of the calling goroutine from this moment on, and what
// goroutines outside of bubbles draw. It does nothing where [Active] is false.
func Seed(seed uint64) { simSeed(seed) }

// Run calls run, which starts bubbles and waits for them, with all of its bubbles seeded, on one P and with no garbage
// collection but one before it. It is not for concurrent use.
func Run(seed uint64, run func()) {
	defer Alone()()
	if allocated()-collected > uncollected {
		collect()
	}
	Seed(seed)
	run()
}

// Alone leaves the process one P and no garbage collection, until the returned function is called, but one now and
// those before a [Run] that finds much to collect. Many runs are faster inside of it: a run by itself collects
// each time. It is not for concurrent use.
func Alone() (done func()) {
	if alone {
		return func() {}
	}
	alone = true
	procs, percent := runtime.GOMAXPROCS(1), debug.SetGCPercent(-1)
	collect()
	return func() {
		alone = false
		debug.SetGCPercent(percent)
		runtime.GOMAXPROCS(procs)
	}
}

// uncollected is how many bytes are allocated before a run collects.
const uncollected = 256 << 20

var (
	alone     bool
	collected uint64 // bytes that were allocated before the last collection
)

func collect() {
	runtime.GC()
	collected = allocated()
}

// allocated is how many bytes the process has allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
