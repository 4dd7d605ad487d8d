package gate_test

import (
	"testing"

	"github.com/relock-go/relock/internal/gate"
)

// BenchmarkPass is a gate that goes from goroutine to goroutine.
func BenchmarkPass(b *testing.B) {
	g := gate.New[int]()
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			baton, err := g.Enter(b.Context(), "k")
			if err != nil {
				b.Error(err)
				return
			}
			if !g.Pass("k", baton+1) {
				g.Leave("k")
			}
		}
	})
}
