package calls

import (
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestNoCallBeginsOnAClosedClient(t *testing.T) {
	c := New()
	require.True(t, c.Of(3).Begin())
	c.Close()
	require.False(t, c.Of(3).Begin())
	require.EqualValues(t, 1, c.UnderWay(), "one that does not begin is not counted")
	c.Of(3 + Tallies).Enter()
	require.EqualValues(t, 2, c.UnderWay(), "what gives a lock back is")
	c.Of(3).End()
	c.Of(3).End()
	require.Zero(t, c.UnderWay())
}

// Wait returns with the end of the last call, whichever that is, or when its time is up.
func TestWait(t *testing.T) {
	for name, tc := range map[string]struct {
		calls map[uint64]time.Duration // by hash, and how long they last
		want  time.Duration
	}{
		"none":                        {nil, 0},
		"one":                         {map[uint64]time.Duration{1: time.Second}, time.Second},
		"of one tally":                {map[uint64]time.Duration{1: time.Second, 1 + Tallies: 3 * time.Second}, 3 * time.Second},
		"of several, the first last":  {map[uint64]time.Duration{0: 3 * time.Second, 1: time.Second, 9: 2 * time.Second}, 3 * time.Second},
		"several at the same time":    {map[uint64]time.Duration{0: time.Second, 1: time.Second, 15: time.Second}, time.Second},
		"one that lasts for too long": {map[uint64]time.Duration{0: time.Hour, 1: time.Second}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := New()
				for hash, lasts := range tc.calls {
					c.Of(hash).Go(func() { time.Sleep(lasts) })
				}
				require.EqualValues(t, len(tc.calls), c.UnderWay())
				began := time.Now()
				c.Close()
				c.Wait(time.Minute)
				require.Equal(t, tc.want, time.Since(began))
				time.Sleep(time.Hour) // those that were not waited for end
				require.Zero(t, c.UnderWay())
			})
		})
	}
}

// What calls write lies on cache lines of its own.
func TestCacheLines(t *testing.T) {
	const line = 64
	c := New()
	at := func(i uint64) uintptr { return uintptr(unsafe.Pointer(&c.Of(i).calls)) }
	require.GreaterOrEqual(t, at(0)-uintptr(unsafe.Pointer(&c.closed)), uintptr(line))
	for i := range uint64(Tallies - 1) {
		last := uintptr(unsafe.Pointer(&c.Of(i).Lingering))
		require.GreaterOrEqual(t, at(i+1)-last, uintptr(line))
	}
}

// A call costs one addition at its begin and one at its end, and no allocation.
func TestNothingIsAllocated(t *testing.T) {
	of := New().Of(1)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		of.Begin()
		of.End()
	}))
}

func BenchmarkCall(b *testing.B) {
	of := New().Of(1)
	for b.Loop() {
		of.Begin()
		of.End()
	}
}
