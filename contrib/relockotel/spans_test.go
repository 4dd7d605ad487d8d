package relockotel

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"github.com/relock-go/relock"
)

// spansOf are the spans of that name that have ended, under the parent.
func (b *bed) spansOf(name string, parent api.Span) (of []trace.ReadOnlySpan) {
	for _, s := range b.traces.Ended() {
		if s.Name() == name && s.Parent().SpanID() == parent.SpanContext().SpanID() {
			of = append(of, s)
		}
	}
	return of
}

// span is the only one of that name.
func (b *bed) span(name string, parent api.Span) trace.ReadOnlySpan {
	b.t.Helper()
	of := b.spansOf(name, parent)
	require.Len(b.t, of, 1, name)
	return of[0]
}

// under begins a span of a caller's.
func (b *bed) under(name string) (context.Context, api.Span) {
	return b.tracer.Tracer("test").Start(b.t.Context(), name)
}

func attributeOf(s trace.ReadOnlySpan, key attribute.Key) string {
	set := attribute.NewSet(s.Attributes()...)
	v, _ := set.Value(key)
	return v.String()
}

func TestSpansOfAHandOver(t *testing.T) {
	b := newBed(t, nil)
	m := b.locks.Mutex("order:4711", relock.WithLocalHandoff(10, time.Hour))
	first, holder := b.under("holder")
	second, waiter := b.under("waiter")
	l, err := m.Lock(first)
	require.NoError(t, err)
	next := b.waits(second, m)
	time.Sleep(200 * time.Millisecond) // the start is reckoned back from when the observer hears, a little late
	require.NoError(t, l.Unlock(t.Context()))
	got := within(t, next)
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock(t.Context()))

	held, waited, passed := b.span("hold order:*", holder), b.span("lock order:*", waiter), b.span("hold order:*", waiter)
	require.Empty(t, b.span("lock order:*", holder).Links())
	require.Len(t, waited.Links(), 1)
	require.Equal(t, held.SpanContext(), waited.Links()[0].SpanContext)
	require.NotEqual(t, held.SpanContext().TraceID(), waited.SpanContext().TraceID())
	require.Equal(t, "local", attributeOf(waited, keyHow))
	require.Equal(t, "acquired", attributeOf(waited, keyResult))
	require.Equal(t, "released", attributeOf(passed, keyResult))
	require.Equal(t, "order:*", attributeOf(waited, keyName))
	require.Equal(t, fmt.Sprint(got.lease.Token()), attributeOf(passed, keyToken))
	require.False(t, waited.EndTime().After(passed.StartTime()))
	require.True(t, waited.StartTime().Before(held.EndTime()), "it waited while the lock was held")
	require.Equal(t, codes.Unset, waited.Status().Code)
}

func TestSpansOfFailures(t *testing.T) {
	b := newBed(t, []relock.ClientOption{relock.WithLease(3 * time.Second)})
	m := b.locks.Mutex("jobs")
	first, holder := b.under("holder")
	second, waiter := b.under("waiter")
	l, err := m.Lock(first)
	require.NoError(t, err)
	_, err = m.TryLock(second)
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	tried := b.span("lock jobs", waiter)
	require.Equal(t, "busy", attributeOf(tried, keyResult))
	require.Equal(t, codes.Unset, tried.Status().Code, "a lock that is busy is no error")
	require.Empty(t, b.spansOf("hold jobs", waiter))

	b.srv.Do("DEL", "jobs")
	<-l.Context().Done()
	b.eventually("the end of the hold", func() bool { return len(b.spansOf("hold jobs", holder)) > 0 })
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLost)
	lost := b.span("hold jobs", holder)
	require.Equal(t, codes.Error, lost.Status().Code)
	require.Equal(t, "lost", attributeOf(lost, keyResult))
	require.Equal(t, "lost", attributeOf(lost, keyCause))

	b.locks.Close()
	third, late := b.under("late")
	_, err = m.Lock(third)
	require.ErrorIs(t, err, relock.ErrClosed)
	require.Equal(t, codes.Error, b.span("lock jobs", late).Status().Code)
}

func TestSpansNeedASpan(t *testing.T) {
	for name, test := range map[string]struct {
		opts  []Option
		spans int
	}{
		"by default": {nil, 0}, "with roots": {[]Option{WithRootSpans()}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nil, test.opts...)
			l, err := b.locks.Mutex("jobs").Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
			require.Len(t, b.traces.Ended(), test.spans)
		})
	}
}

// Each hold's span ends once, and each lock that was passed on is linked to the hold before.
func TestSpansOfACrowd(t *testing.T) {
	b := newBed(t, nil, WithRootSpans())
	m := b.locks.Mutex("jobs")
	const goroutines, rounds = 8, 30
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range rounds {
				if err := m.Do(t.Context(), func(context.Context) error { return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	holds, links := map[api.SpanID]string{}, 0
	for _, s := range b.traces.Ended() {
		if s.Name() == "hold jobs" {
			holds[s.SpanContext().SpanID()] = attributeOf(s, keyToken)
		}
	}
	require.Len(t, holds, goroutines*rounds)
	for _, s := range b.traces.Ended() {
		if attributeOf(s, keyHow) != "local" || s.Name() != "lock jobs" {
			continue
		}
		require.Len(t, s.Links(), 1)
		require.Contains(t, holds, s.Links()[0].SpanContext.SpanID())
		require.Less(t, holds[s.Links()[0].SpanContext.SpanID()], attributeOf(s, keyToken))
		links++
	}
	require.Equal(t, b.count("relock.wait.duration", "relock.how", "local"), links)
	require.Positive(t, links)
}
