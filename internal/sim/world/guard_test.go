package world

import (
	"fmt"
	"os"
	"time"
)

const (
	stuck   = 30 * time.Second // of real time in which nothing happens
	endless = 10 * time.Minute // for one seed with its shrinking
)

// guard ends the process with the stacks of the bubble when a seed gets nowhere: the time of a bubble, and so every
// limit within it, stands still while one of its goroutines is blocked but not durably.
func guard(seed uint64, o Options) (stop func()) {
	over := make(chan struct{})
	go func() {
		tick := time.NewTicker(stuck)
		defer tick.Stop()
		began, seen := time.Now(), steps.Load()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			now := steps.Load()
			if now == seen || time.Since(began) > endless {
				fmt.Fprintf(os.Stderr, "seed %d gets nowhere: %d entries of its trace in %v of real time\n\n%s\n\n%s\n",
					seed, now-seen, stuck, bubbleStacks(), "again: make sim SEED="+Word(seed, o.Class, o.Topology))
				os.Exit(3)
			}
			seen = now
		}
	}()
	return func() { close(over) }
}
