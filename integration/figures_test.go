//go:build unix

package integration

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// figures is how a set of measured times is told in a log.
type figures []time.Duration

func (f figures) at(part float64) time.Duration {
	if len(f) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(f))
	return sorted[int(part*float64(len(sorted)-1))]
}

func (f figures) max() time.Duration { return f.at(1) }

func (f figures) String() string {
	round := func(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }
	return fmt.Sprintf("n=%d min %v p50 %v p90 %v p99 %v max %v", len(f),
		round(f.at(0)), round(f.at(0.5)), round(f.at(0.9)), round(f.at(0.99)), round(f.max()))
}

// drag is how long this machine keeps a goroutine that wants nothing but to wake up. On a busy one it is part of every
// time that is measured, once for the server and for each process that has to act, and no fault of a lock.
type drag struct {
	most *atomic.Int64
	// end returns the worst delay since the start, and stops measuring.
	end func() time.Duration
}

// worst is the worst delay so far.
func (d drag) worst() time.Duration { return time.Duration(d.most.Load()) }

func startDrag(t *testing.T) drag {
	stop, stopped := make(chan struct{}), make(chan struct{})
	d := drag{most: new(atomic.Int64)}
	d.end = sync.OnceValue(func() time.Duration {
		close(stop)
		<-stopped
		return d.worst()
	})
	t.Cleanup(func() { d.end() })
	go func() {
		defer close(stopped)
		const nap = time.Millisecond
		for {
			asleep := now()
			select {
			case <-stop:
				return
			case <-time.After(nap):
				d.most.Store(max(d.most.Load(), int64(now()-asleep-nap)))
			}
		}
	}()
	return d
}
