package gate_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/gate"
)

// BenchmarkPass is a gate that goes from goroutine to goroutine.
func BenchmarkPass(b *testing.B) {
	benchHandOver(b, (*gate.Gates[int]).Pass)
}

// BenchmarkOffer is a hand-over at which running goroutines may overtake the one that is being woken.
func BenchmarkOffer(b *testing.B) {
	benchHandOver(b, func(g *gate.Gates[int], key string, baton int) bool { return g.Offer(key, baton, clock.Mono()) })
}

func benchHandOver(b *testing.B, handOver func(g *gate.Gates[int], key string, baton int) bool) {
	g := gate.New[int]()
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			baton, err := g.Enter(b.Context(), "k", nil)
			if err != nil {
				b.Error(err)
				return
			}
			if !handOver(g, "k", baton+1) {
				g.Leave("k")
			}
		}
	})
}

// BenchmarkKeysOfTheirOwn is goroutines that want nothing of each other: the more processors (-cpu), the less time each
// should take.
func BenchmarkKeysOfTheirOwn(b *testing.B) {
	g := gate.New[int]()
	var goroutines atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		key := strconv.FormatInt(goroutines.Add(1), 10)
		baton := 1
		for pb.Next() {
			g.TryEnter(key)
			g.LayDown(key, baton, baton, true, 0)
		}
	})
}
