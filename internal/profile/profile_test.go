package profile

import (
	"context"
	"fmt"
	"runtime/pprof"
	"testing"

	"github.com/stretchr/testify/require"
)

func labels(ctx context.Context) map[string]string {
	got := map[string]string{}
	pprof.ForLabels(ctx, func(key, value string) bool { got[key] = value; return true })
	return got
}

// Labels of the caller's stay.
func TestLabelsOfALock(t *testing.T) {
	of := func(ctx context.Context) map[string]string { return labels(with(ctx, "orders")) }
	require.Equal(t, map[string]string{Label: "orders"}, of(t.Context()))
	require.Equal(t, map[string]string{Label: "orders", "job": "night"}, of(pprof.WithLabels(t.Context(), pprof.Labels("job", "night"))))
	require.Equal(t, map[string]string{Label: "orders"}, of(t.Context()))
}

// A lock has its own name, also where another was kept in the same place.
func TestLabelsOfManyLocks(t *testing.T) {
	for range 2 {
		for i := range 3 * len(cache) {
			lock := fmt.Sprint("lock ", i)
			require.Equal(t, map[string]string{Label: lock}, labels(with(t.Context(), lock)))
		}
	}
}

// A label that was made before is made no more.
func TestLabelsAreKept(t *testing.T) {
	with(t.Context(), "orders")
	require.Zero(t, testing.AllocsPerRun(100, func() { with(context.Background(), "orders") }))
}
