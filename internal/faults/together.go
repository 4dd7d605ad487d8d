package faults

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// Together asks for 200 locks, lock-0 to lock-199, so that their commands go together behind tap, and returns what
// became of each. It waits 15 seconds for the first script that carries several.
func Together[L any](t testing.TB, tap *Client, lock func(name string) (L, error)) ([]L, []error) {
	t.Helper()
	const locks, alone = 200, 32 // so many are out before others wait for one another
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
