package relockotel

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/relock-go/relock"
)

// maxGone is how many holds that ended are kept for links to them.
const maxGone = 256

// spans makes the spans of calls and holds.
type spans struct {
	tracer trace.Tracer
	roots  bool
	count  atomic.Int64 // number of live spans: without any, take need not lock mu

	mu   sync.Mutex
	live map[uint64]trace.Span // of holds, by the lease's number; guarded by mu
	gone [maxGone]passed       // holds that ended, by the lease's number modulo maxGone; guarded by mu
}

// passed is a hold that ended. Its end may be observed before or after the next hold begins.
type passed struct {
	lease uint64
	span  trace.SpanContext
}

// called makes the span of a Lock or TryLock that ended, and begins the span of its hold.
func (s *spans) called(ctx context.Context, of *series, e *relock.Event) {
	if !s.roots && !trace.SpanFromContext(ctx).IsRecording() {
		return
	}
	now := time.Now()
	result := "acquired"
	if e.Kind == relock.EventAbandoned {
		result = results[resultOf(e.Cause)]
	}
	opts := []trace.SpanStartOption{
		trace.WithTimestamp(now.Add(-e.Wait)), trace.WithAttributes(of.of...), trace.WithAttributes(keyResult.String(result)),
	}
	if before := s.before(e.From); before.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{
			SpanContext: before, Attributes: []attribute.KeyValue{keyHow.String(e.How.String())},
		}))
	}
	_, call := s.tracer.Start(ctx, "lock "+of.name, opts...)
	if e.Kind == relock.EventAbandoned {
		if call.RecordError(e.Cause); result != results[busy] {
			call.SetStatus(codes.Error, e.Cause.Error())
		}
		call.End(trace.WithTimestamp(now))
		return
	}
	got := trace.WithAttributes(keyHow.String(e.How.String()), keyToken.Int64(e.Token))
	call.SetAttributes(keyHow.String(e.How.String()), keyToken.Int64(e.Token))
	call.End(trace.WithTimestamp(now))
	_, hold := s.tracer.Start(ctx, "hold "+of.name, trace.WithTimestamp(now), trace.WithAttributes(of.of...), got)
	if hold.IsRecording() {
		s.mu.Lock()
		s.live[e.Lease] = hold
		s.mu.Unlock()
		s.count.Add(1)
	}
}

// before returns the span of the hold before, if it was recorded. lease is the number of its lease.
func (s *spans) before(lease uint64) trace.SpanContext {
	if lease == 0 {
		return trace.SpanContext{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if hold := s.live[lease]; hold != nil {
		return hold.SpanContext()
	}
	if p := s.gone[lease%maxGone]; p.lease == lease {
		return p.span
	}
	return trace.SpanContext{}
}

// ended ends the span of a hold.
func (s *spans) ended(e *relock.Event) {
	hold := s.take(e.Lease)
	if hold == nil {
		return
	}
	if e.Cause != nil {
		hold.RecordError(e.Cause)
	}
	result := "released"
	if e.Kind == relock.EventLost {
		result = "lost"
		hold.SetStatus(codes.Error, e.Cause.Error())
		hold.SetAttributes(keyCause.String(causes[causeOf(e.Cause)]))
	}
	hold.SetAttributes(keyResult.String(result))
	hold.End()
}

// take removes and returns a hold's span, nil if it was not recorded. It keeps the span's context for a link.
func (s *spans) take(lease uint64) trace.Span {
	if s.count.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	hold := s.live[lease]
	if hold != nil {
		s.count.Add(-1)
		delete(s.live, lease)
		s.gone[lease%maxGone] = passed{lease: lease, span: hold.SpanContext()}
	}
	return hold
}
