package faults

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// Together takes 200 locks, lock-0 to lock-199, so that behind tap one script carries the commands
// of several. It returns what became of each lock, and fails the test if no such script comes
// within 15 seconds.
func Together[L any](t testing.TB, tap *Client, lock func(name string) (L, error)) ([]L, []error) {
	t.Helper()
	const locks, alone = 200, 32 // with so many under way, further ones go together
	together := make(chan struct{})
	var once sync.Once
	held := Next(Script("acquire"), slices.Repeat([]Fate{Hold}, alone)...)
	seen := func(call *Call) Fate {
		if call.ScriptName() == "many" {
			once.Do(func() { close(together) })
		}
		return Pass
	}
	tap.Filter(Each(seen, held))
	leases, errs := make([]L, locks), make([]error, locks)
	var wg sync.WaitGroup
	for i := range locks {
		wg.Go(func() { leases[i], errs[i] = lock(fmt.Sprintf("lock-%d", i)) })
	}
	select {
	case <-together:
	case <-time.After(15 * time.Second):
		t.Error("no commands went together")
	}
	tap.Filter(nil)
	tap.Release()
	wg.Wait()
	return leases, errs
}
