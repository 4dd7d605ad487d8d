package relockotel

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long tests wait for what must happen. It is no promise of the module.
const patience = 15 * time.Second

// bed is a Redis, a client of locks that is observed, and what it has told.
type bed struct {
	t        *testing.T
	srv      *redistest.Server
	locks    *relock.Client
	observer *Observer
	producer *Producer
	reader   *sdk.ManualReader
	meters   *sdk.MeterProvider
	traces   *tracetest.SpanRecorder
	tracer   *trace.TracerProvider
}

// newBed tells of a run, to an observer with opts, of a client of locks with lockOpts.
func newBed(t *testing.T, lockOpts []relock.ClientOption, opts ...Option) *bed {
	return newBedFor(t, false, lockOpts, opts...)
}

// newBedFor is one whose durations a Producer counts, or the SDK.
func newBedFor(t *testing.T, byProducer bool, lockOpts []relock.ClientOption, opts ...Option) *bed {
	b := &bed{t: t, srv: redistest.Start(t), producer: NewProducer(), traces: tracetest.NewSpanRecorder()}
	b.reader = sdk.NewManualReader(sdk.WithProducer(b.producer))
	if byProducer {
		opts = append(opts, WithProducer(b.producer))
	}
	b.meters = sdk.NewMeterProvider(sdk.WithReader(b.reader))
	b.tracer = trace.NewTracerProvider(trace.WithSpanProcessor(b.traces))
	o, err := New(append([]Option{WithMeterProvider(b.meters), WithTracerProvider(b.tracer)}, opts...)...)
	require.NoError(t, err)
	b.observer = o
	b.locks = b.client(append(lockOpts, relock.WithObserver(o))...)
	return b
}

// both runs a test with durations that the SDK records, and with those that a Producer counts.
func both(t *testing.T, test func(t *testing.T, byProducer bool)) {
	t.Run("instruments", func(t *testing.T) { test(t, false) })
	t.Run("producer", func(t *testing.T) { test(t, true) })
}

// client is one more of locks.
func (b *bed) client(opts ...relock.ClientOption) *relock.Client {
	b.t.Helper()
	c, err := relock.New(b.srv.Client(), opts...)
	require.NoError(b.t, err)
	b.t.Cleanup(c.Close)
	return c
}

// collected are all metrics as they are now, by name.
func (b *bed) collected() map[string]metricdata.Metrics {
	b.t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(b.t, b.reader.Collect(context.Background(), &all))
	byName := map[string]metricdata.Metrics{}
	for _, s := range all.ScopeMetrics {
		require.Equal(b.t, scope, s.Scope.Name)
		for _, m := range s.Metrics {
			byName[m.Name] = m
		}
	}
	return byName
}

// sum is what a counter says of the series with these attributes, 0 where there is none.
func (b *bed) sum(metric string, with ...string) (sum int64) {
	b.t.Helper()
	data, ok := b.collected()[metric].Data.(metricdata.Sum[int64])
	require.True(b.t, ok, metric)
	for _, p := range data.DataPoints {
		if matches(p.Attributes, with) {
			sum += p.Value
		}
	}
	return sum
}

// count is how often a histogram's series with these attributes were told of.
func (b *bed) count(metric string, with ...string) (n int) {
	b.t.Helper()
	m, ok := b.collected()[metric]
	if !ok {
		return 0
	}
	data, ok := m.Data.(metricdata.Histogram[float64])
	require.True(b.t, ok, metric)
	for _, p := range data.DataPoints {
		if matches(p.Attributes, with) {
			n += int(p.Count)
		}
	}
	return n
}

// eventually waits for something told by another goroutine.
func (b *bed) eventually(what string, is func() bool) {
	b.t.Helper()
	require.Eventually(b.t, is, patience, time.Millisecond, what)
}

// waits begins a Lock that waits, and returns what becomes of it.
func (b *bed) waits(ctx context.Context, m *relock.Mutex) <-chan outcome {
	b.t.Helper()
	before, got := b.sum("relock.waiting"), make(chan outcome, 1)
	go func() {
		l, err := m.Lock(ctx)
		got <- outcome{l, err}
	}()
	b.eventually("waiting", func() bool { return b.sum("relock.waiting") > before })
	return got
}

type outcome struct {
	lease *relock.Lease
	err   error
}

// within returns what comes of a call that must end.
func within(t *testing.T, c <-chan outcome) outcome {
	t.Helper()
	select {
	case o := <-c:
		return o
	case <-time.After(patience):
		require.FailNow(t, "a call has not ended")
		return outcome{}
	}
}
