package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A node that is silent is left alone, once for all that fails together, and is asked by one probe after each pause.
func TestSilentNodeIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHealth(time.Second)
		began := time.Now()
		for range 10 {
			h.answered(context.DeadlineExceeded)
		}
		require.True(t, h.Idle())
		require.LessOrEqual(t, h.silent.until.Sub(began), time.Since(began)+20*time.Millisecond, "one outage")
		time.Sleep(25 * time.Millisecond) // the first pause, and a quarter at most
		require.False(t, h.Idle(), "the probe")
		require.True(t, h.Idle(), "the probe is out")
		before := time.Now()
		h.answered(context.DeadlineExceeded)
		pause := h.silent.until.Sub(before)
		require.GreaterOrEqual(t, pause, 30*time.Millisecond, "twice the first, less a quarter at most")
		require.LessOrEqual(t, pause, time.Since(before)+40*time.Millisecond)
		h.answered(nil)
		require.False(t, h.Idle())
	})
}

// That a node went and came is told by turns, in this order. While it is being told, no other goroutine's command waits.
func TestReachabilityIsToldByTurns(t *testing.T) {
	var mu sync.Mutex
	var told []bool // down
	began, goOn := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	p := reachability{tell: func(cause error) {
		if calls.Add(1) == 1 {
			close(began)
			<-goOn
		}
		mu.Lock()
		defer mu.Unlock()
		told = append(told, cause != nil)
	}}
	silent := errors.New("silent")
	var telling sync.WaitGroup
	telling.Go(func() { p.answered(silent) })
	<-began
	p.answered(nil)
	require.False(t, p.down.Load())
	mu.Lock()
	require.Empty(t, told, "the one before is still being told")
	mu.Unlock()
	close(goOn)
	telling.Wait()
	require.Equal(t, []bool{true, false}, told)
	for i := range 8 {
		telling.Go(func() {
			for range 2000 {
				p.answered([]error{nil, silent}[i%2])
			}
		})
	}
	telling.Wait()
	p.answered(silent)
	for i, down := range told {
		require.Equal(t, i%2 == 0, down, "%d of %d", i, len(told))
	}
	require.True(t, told[len(told)-1])
}
