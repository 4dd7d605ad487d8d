package relockotel

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/relock-go/relock"
)

// Whatever is still to be recorded, and whoever collects meanwhile: each duration is collected once.
func TestEveryDurationIsCollected(t *testing.T) { both(t, everyDurationIsCollected) }

func everyDurationIsCollected(t *testing.T, byProducer bool) {
	const goroutines, leases = 4, 3*mostWaiting + 7
	b := newBedFor(t, byProducer, nil)
	lease := func() {
		e := relock.Event{Kind: relock.EventAcquired, Lock: "k", LockKind: "mutex", How: relock.HowFree, Wait: time.Second}
		b.observer.Observe(e)
		e.Kind, e.Hold = relock.EventReleased, 2*time.Second
		b.observer.Observe(e)
	}
	lease()
	require.Equal(t, 1, b.count("relock.wait.duration"), "so few are recorded by who collects")
	require.Equal(t, 1, b.count("relock.hold.duration"))
	var told, collector sync.WaitGroup
	ended := make(chan struct{})
	collector.Go(func() {
		var all metricdata.ResourceMetrics
		for {
			select {
			case <-ended:
				return
			default:
				_ = b.reader.Collect(context.Background(), &all)
			}
		}
	})
	for range goroutines {
		told.Go(func() {
			for range leases {
				lease()
			}
		})
	}
	told.Wait()
	close(ended)
	collector.Wait()
	for metric, each := range map[string]float64{"relock.wait.duration": 1, "relock.hold.duration": 2} {
		points := b.collected()[metric].Data.(metricdata.Histogram[float64]).DataPoints
		require.Len(t, points, 1)
		require.EqualValues(t, goroutines*leases+1, points[0].Count, metric)
		require.InDelta(t, each*(goroutines*leases+1), points[0].Sum, 1e-3, metric)
	}
}

// A duration of a trace that is sampled leads to it.
func TestDurationsHaveExemplars(t *testing.T) {
	b := newBed(t, nil)
	ctx, span := b.tracer.Tracer("test").Start(t.Context(), "job")
	l, err := b.locks.Mutex("jobs").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, l.Unlock(ctx))
	span.End()
	for _, metric := range []string{"relock.wait.duration", "relock.hold.duration"} {
		points := b.collected()[metric].Data.(metricdata.Histogram[float64]).DataPoints
		require.Len(t, points, 1)
		require.Len(t, points[0].Exemplars, 1, metric)
		id := span.SpanContext().TraceID()
		require.Equal(t, id[:], points[0].Exemplars[0].TraceID)
	}
}
