package relockotel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

const (
	// flushAt is how many durations must wait before a goroutine starts to record them.
	flushAt = 256
	// mostWaiting is how many durations may wait. Further ones are recorded at once.
	mostWaiting = 4 * flushAt
)

// backlog keeps the durations that are still to be recorded. The SDK takes several times as long to record
// a duration as the backlog to keep it, and a lock is passed on only after its observer has returned. A
// goroutine records many at once, and then ends. A collection records the rest first, so it is complete.
type backlog struct {
	drain sync.Mutex // held while durations are recorded

	mu      sync.Mutex // guards the fields below
	waiting []duration
	spare   []duration // an empty slice for waiting to grow in
	called  bool       // a goroutine was started to flush
}

// duration is a duration for a histogram.
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

// record counts a duration for the Producer, if there is one. Otherwise it records it at once if ctx has a
// sampled span, which exemplars refer to, and else keeps it for later.
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

// flush records all durations that were added before.
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

// record records the duration. A negative one counts as 0: a lease may be lost before its grant is observed.
func (of duration) record(ctx context.Context) {
	(*of.in).Record(ctx, max(of.d, 0).Seconds(), of.as.record...)
}
