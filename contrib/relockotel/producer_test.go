package relockotel

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/relock-go/relock"
)

// A reader finds the same histograms, whoever counts.
func TestProducerCountsAsTheSDKDoes(t *testing.T) {
	sdks, own := newBed(t, nil), newBedFor(t, true, nil)
	lasting := []time.Duration{-time.Second, 0, 1, time.Hour}
	for _, bound := range bounds {
		lasting = append(lasting, bound-1, bound, bound+1)
	}
	for _, b := range []*bed{sdks, own} {
		for i, d := range lasting {
			e := relock.Event{Lock: "order:4711", Sort: "mutex", How: relock.How(i % hows), Wait: d, Hold: 2 * d}
			for kind := relock.EventAcquired; kind <= relock.EventLost; kind++ {
				e.Kind, e.Lease = kind, uint64(i+1)
				e.Cause = []error{nil, relock.ErrMaxHold}[int(kind)/int(relock.EventLost)]
				b.observer.Observe(e)
			}
			e.Kind, e.Cause = relock.EventAbandoned, []error{relock.ErrNotAcquired, relock.ErrClosed, relock.ErrLost}[i%3]
			b.observer.Observe(e)
		}
	}
	for _, name := range []string{"relock.wait.duration", "relock.hold.duration"} {
		want, got := sdks.collected()[name], own.collected()[name]
		require.Equal(t, want.Description, got.Description)
		require.Equal(t, want.Unit, got.Unit)
		data := got.Data.(metricdata.Histogram[float64])
		require.Equal(t, metricdata.CumulativeTemporality, data.Temporality)
		points := byAttributes(data)
		require.Len(t, points, len(data.DataPoints))
		wanted := byAttributes(want.Data.(metricdata.Histogram[float64]))
		require.Len(t, points, len(wanted))
		for of, w := range wanted {
			p := points[of]
			require.Equal(t, w.Bounds, p.Bounds)
			require.Equal(t, w.BucketCounts, p.BucketCounts)
			require.Equal(t, w.Count, p.Count)
			require.InEpsilon(t, 1+w.Sum, 1+p.Sum, 1e-9)
			require.False(t, p.StartTime.IsZero() || p.Time.Before(p.StartTime))
		}
	}
	require.Equal(t, sdks.sum("relock.held"), own.sum("relock.held"))
}

// byAttributes are a histogram's points.
func byAttributes(of metricdata.Histogram[float64]) map[attribute.Distinct]metricdata.HistogramDataPoint[float64] {
	points := map[attribute.Distinct]metricdata.HistogramDataPoint[float64]{}
	for _, p := range of.DataPoints {
		points[p.Attributes.Equivalent()] = p
	}
	return points
}

func TestProducerServesOneObserver(t *testing.T) {
	p := NewProducer()
	reader := sdk.NewManualReader(sdk.WithProducer(p))
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all), "it has no observer yet")
	require.Empty(t, all.ScopeMetrics)
	_, err := New(WithProducer(p), WithMeterProvider(provider))
	require.NoError(t, err)
	_, err = New(WithProducer(p), WithMeterProvider(provider))
	require.ErrorIs(t, err, ErrInvalidOption)
}

// Prometheus's exporter takes both parts of one scope together.
func TestProducerThroughTheExporter(t *testing.T) {
	p, registry := NewProducer(), prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithProducer(p))
	require.NoError(t, err)
	o, err := New(WithProducer(p), WithMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader))))
	require.NoError(t, err)
	o.Observe(relock.Event{Kind: relock.EventAcquired, Lock: "k", Sort: "mutex", How: relock.HowFree, Wait: time.Second})
	families, err := registry.Gather()
	require.NoError(t, err)
	found := map[string]bool{}
	for _, f := range families {
		found[f.GetName()] = true
	}
	require.True(t, found["relock_wait_duration_seconds"])
	require.True(t, found["relock_held"])
}
