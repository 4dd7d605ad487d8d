package relockotel

import (
	"errors"
	"runtime/debug"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
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
			e := relock.Event{Lock: "order:4711", LockKind: "mutex", How: relock.How(i % hows), Wait: d, Hold: 2 * d}
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

// refusing is a meter provider that refuses an instrument.
type refusing struct{ noop.MeterProvider }

type refusingMeter struct{ noop.Meter }

var errRefused = errors.New("refused")

func (refusing) Meter(string, ...metric.MeterOption) metric.Meter { return refusingMeter{} }

func (refusingMeter) Int64ObservableCounter(string, ...metric.Int64ObservableCounterOption) (metric.Int64ObservableCounter, error) {
	return nil, errRefused
}

// A New that failed leaves the Producer to the next one.
func TestProducerAfterAFailedNew(t *testing.T) {
	p := NewProducer()
	_, err := New(WithProducer(p), WithMeterProvider(refusing{}))
	require.ErrorIs(t, err, errRefused)
	o, err := New(WithProducer(p), WithMeterProvider(noop.NewMeterProvider()))
	require.NoError(t, err)
	o.Observe(relock.Event{Kind: relock.EventAcquired, Lock: "k", LockKind: "mutex", How: relock.HowFree, Wait: time.Second})
	told, err := p.Produce(t.Context())
	require.NoError(t, err)
	require.Len(t, told, 1)
}

// All that an Observer tells bears this module's version, whoever counts.
func TestScopeVersion(t *testing.T) {
	both(t, func(t *testing.T, byProducer bool) {
		b := newBedFor(t, byProducer, nil, WithRootSpans())
		lease, err := b.locks.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		var all metricdata.ResourceMetrics
		require.NoError(t, b.reader.Collect(t.Context(), &all))
		require.NotEmpty(t, all.ScopeMetrics)
		for _, s := range all.ScopeMetrics {
			require.Equal(t, version(), s.Scope.Version)
		}
		require.NotEmpty(t, b.traces.Ended())
		for _, s := range b.traces.Ended() {
			require.Equal(t, version(), s.InstrumentationScope().Version)
		}
	})
	require.NotEmpty(t, version())
	require.Equal(t, "unknown", versionIn(nil))
	require.Equal(t, "v1.2.3", versionIn(&debug.BuildInfo{Deps: []*debug.Module{{Path: "x"}, {Path: scope, Version: "v1.2.3"}}}))
	require.Equal(t, "(devel)", versionIn(&debug.BuildInfo{Main: debug.Module{Path: scope, Version: "(devel)"}}))
}

// Prometheus's exporter takes both parts of one scope together.
func TestProducerThroughTheExporter(t *testing.T) {
	p, registry := NewProducer(), prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithProducer(p))
	require.NoError(t, err)
	o, err := New(WithProducer(p), WithMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader))))
	require.NoError(t, err)
	o.Observe(relock.Event{Kind: relock.EventAcquired, Lock: "k", LockKind: "mutex", How: relock.HowFree, Wait: time.Second})
	families, err := registry.Gather()
	require.NoError(t, err)
	found := map[string]bool{}
	for _, f := range families {
		found[f.GetName()] = true
	}
	require.True(t, found["relock_wait_duration_seconds"])
	require.True(t, found["relock_held"])
}
