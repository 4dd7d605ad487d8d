package relockotel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

const (
	// flushAt is how many durations wait until a goroutine records them.
	flushAt = 256
	// mostWaiting is how many wait at most. Further ones are recorded at once.
	mostWaiting = 4 * flushAt
)

// backlog keeps the durations that are still to be recorded. To record one takes the SDK several times
// as long as to keep it here, and a lock that is passed on waits for whoever is to be told of it. So
// they are recorded by goroutines of their own, which end with what they have to do, and by whoever
// collects: what is collected is complete.
type backlog struct {
	drain sync.Mutex // held by who records

	mu      sync.Mutex // guards what follows
	waiting []duration
	spare   []duration // empty
	called  bool       // a goroutine is on its way
}

// duration is one for a histogram.
type duration struct {
	in *metric.Float64Histogram
	as *labels
	d  time.Duration
}

// add keeps a duration, or records it if there are too many.
func (b *backlog) add(of duration) {
	b.mu.Lock()
	if len(b.waiting) >= mostWaiting {
		b.mu.Unlock()
		of.record(context.Background())
		return
	}
	b.waiting = append(b.waiting, of)
	call := len(b.waiting) >= flushAt && !b.called
	b.called = b.called || call
	b.mu.Unlock()
	if call {
		go b.flush()
	}
}

// record counts for a Producer. Else it records at once what is to be known with its context, for
// exemplars, and keeps the rest.
func (b *backlog) record(ctx context.Context, of duration) {
	switch {
	case of.as.durations != nil:
		of.as.durations.add(of.d)
	case !(*of.in).Enabled(ctx): // nobody collects
	case trace.SpanContextFromContext(ctx).IsSampled():
		of.record(ctx)
	default:
		b.add(of)
	}
}

// flush records all that was added before.
func (b *backlog) flush() {
	b.drain.Lock()
	defer b.drain.Unlock()
	b.mu.Lock()
	all := b.waiting
	b.waiting, b.spare, b.called = b.spare, nil, false
	b.mu.Unlock()
	for _, of := range all {
		of.record(context.Background())
	}
	b.mu.Lock()
	b.spare = all[:0]
	b.mu.Unlock()
}

// record tells the instrument. A lease may be lost before it is told of: no duration is negative.
func (of duration) record(ctx context.Context) {
	(*of.in).Record(ctx, max(of.d, 0).Seconds(), of.as.record...)
}
