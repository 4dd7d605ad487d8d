package relockotel

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// A Producer counts an Observer's waits and holds itself, and hands the histograms relock.wait.duration
// and relock.hold.duration to readers of the SDK. That takes a tenth of the time that the SDK's
// histograms take. It is for locks that are passed on a hundred thousand times a second. The other
// metrics come from the meter provider as before.
//
//	p := relockotel.NewProducer()
//	reader, err := prometheus.New(prometheus.WithProducer(p)) // or metric.NewPeriodicReader, metric.WithProducer
//	...
//	o, err := relockotel.New(relockotel.WithProducer(p), relockotel.WithMeterProvider(provider))
//
// The two histograms have the same buckets and attributes as without a Producer. They are cumulative,
// whatever a reader prefers. No view changes them, and they carry no exemplars. A reader must be given
// the Producer to see them.
type Producer struct {
	began time.Time
	names atomic.Pointer[names] // of its Observer; nil before New
}

var _ metric.Producer = (*Producer)(nil)

// NewProducer returns a Producer for one Observer and any number of readers.
func NewProducer() *Producer { return &Producer{began: time.Now()} }

// WithProducer lets p count waits and holds, in place of histograms of the meter provider. A Producer
// serves one Observer; New refuses a second with ErrInvalidOption.
func WithProducer(p *Producer) Option {
	return func(c *config) error {
		if p == nil {
			return fmt.Errorf("%w: WithProducer: it is nil", ErrInvalidOption)
		}
		c.producer = p
		return nil
	}
}

// Produce returns the two histograms as they are now. Readers call it.
func (p *Producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	n := p.names.Load()
	if n == nil {
		return nil, nil
	}
	waits, holds := p.histogram(), p.histogram()
	for _, s := range n.all() {
		for i := range hows {
			waits.take(&s.acquired[i])
			holds.take(&s.released[i])
			holds.take(&s.lost[i])
		}
		for i := range s.abandoned {
			waits.take(&s.abandoned[i])
		}
	}
	of := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: scope, Version: version()}}
	of.Metrics = append(waits.metric(waitDuration), holds.metric(holdDuration)...)
	if len(of.Metrics) == 0 {
		return nil, nil
	}
	return []metricdata.ScopeMetrics{of}, nil
}

// histogram is a histogram that Produce puts together.
type histogram struct {
	from, until time.Time
	points      []metricdata.HistogramDataPoint[float64]
}

func (p *Producer) histogram() histogram { return histogram{from: p.began, until: time.Now()} }

// take adds a data point for the durations counted under some attributes, if there are any.
func (h *histogram) take(of *labels) {
	counts, count := make([]uint64, len(buckets)+1), uint64(0)
	for i := range counts {
		counts[i] = of.durations.counts[i].Load()
		count += counts[i]
	}
	if count == 0 {
		return
	}
	h.points = append(h.points, metricdata.HistogramDataPoint[float64]{
		Attributes: of.set, StartTime: h.from, Time: h.until,
		Count: count, Sum: time.Duration(of.durations.sum.Load()).Seconds(), Bounds: slices.Clone(buckets), BucketCounts: counts,
	})
}

// metric returns the histogram in the SDK's form, or none before anything was counted.
func (h *histogram) metric(as description) []metricdata.Metrics {
	if len(h.points) == 0 {
		return nil
	}
	data := metricdata.Histogram[float64]{DataPoints: h.points, Temporality: metricdata.CumulativeTemporality}
	return []metricdata.Metrics{{Name: as.name, Description: as.text, Unit: "s", Data: data}}
}

// durations counts durations by their buckets. Goroutines on all processors add to it. It fills whole cache
// lines, so that two durations share none: then a goroutine that counts the end of a hold does not slow
// down another that counts the next grant. The sum stands beside the counts of short durations, which
// change most often.
type durations struct {
	sum    atomic.Int64 // nanoseconds
	counts [len(bounds) + 1]atomic.Uint64
	_      [4]uint64
}

// add counts d. A negative d counts as 0: a lease may be lost before its grant is observed.
func (of *durations) add(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	of.counts[i].Add(1)
	of.sum.Add(int64(d))
}

// count returns how many durations were counted.
func (of *durations) count() (n int64) {
	for i := range of.counts {
		n += int64(of.counts[i].Load())
	}
	return n
}

// bounds are the buckets' limits as durations.
var bounds = func() (of [18]time.Duration) {
	for i, s := range buckets {
		of[i] = time.Duration(math.Round(s * float64(time.Second)))
	}
	return of
}()
