package relockotel

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/relock-go/relock"
)

// matches reports whether a set has all these keys and values.
func matches(set attribute.Set, with []string) bool {
	for pair := range slices.Chunk(with, 2) {
		if v, ok := set.Value(attribute.Key(pair[0])); !ok || v.AsString() != pair[1] {
			return false
		}
	}
	return true
}

func TestMetricsOfARun(t *testing.T) {
	b := newBed(t, nil)
	m := b.locks.Mutex("order:4711", relock.WithLocalHandoff(10, time.Hour))
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	inner, err := m.Lock(l.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, b.sum("relock.held", "relock.lock.name", "order:*", "relock.lock.sort", "mutex"))
	require.NoError(t, inner.Unlock(t.Context()))
	_, err = m.TryLock(t.Context())
	require.ErrorIs(t, err, relock.ErrNotAcquired)
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := b.waits(ctx, m)
	cancel()
	require.Error(t, within(t, gaveUp).err)
	require.Zero(t, b.sum("relock.waiting"))

	next := b.waits(t.Context(), m)
	require.NoError(t, l.Unlock(t.Context()))
	got := within(t, next)
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Unlock(t.Context()))

	require.Zero(t, b.sum("relock.waiting"))
	require.Zero(t, b.sum("relock.held"))
	require.Zero(t, b.sum("relock.lost"))
	for _, how := range []string{"free", "reentered", "local"} {
		of := []string{"relock.lock.name", "order:*", "relock.how", how}
		require.Equal(t, 1, b.count("relock.wait.duration", append(of, "relock.result", "acquired")...), how)
		require.Equal(t, 1, b.count("relock.hold.duration", append(of, "relock.result", "released")...), how)
	}
	require.Equal(t, 2, b.count("relock.wait.duration", "relock.result", "busy"))
	require.Equal(t, 5, b.count("relock.wait.duration"))
	for name, m := range b.collected() {
		require.NotEmpty(t, m.Description, name)
		require.NotEmpty(t, m.Unit, name)
	}
}

func TestMetricsOfALoss(t *testing.T) {
	b := newBed(t, []relock.Option{relock.WithLease(3 * time.Second)})
	l, err := b.locks.Mutex("jobs").Lock(t.Context())
	require.NoError(t, err)
	data := b.collected()["relock.lost"].Data.(metricdata.Sum[int64])
	require.Len(t, data.DataPoints, len(causes), "counters are there before anything is lost")
	require.Zero(t, b.sum("relock.lost"))
	b.srv.Do("DEL", "jobs")
	b.eventually("the loss", func() bool { return b.sum("relock.lost", "relock.cause", "lost") == 1 })
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLost)
	require.Zero(t, b.sum("relock.held"))
	require.Equal(t, 1, b.count("relock.hold.duration", "relock.result", "lost"))
	require.EqualValues(t, 1, b.sum("relock.lost"))

	_, err = b.locks.Mutex("jobs", relock.WithMaxHold(100*time.Millisecond)).Lock(t.Context())
	require.NoError(t, err)
	b.eventually("the end of the hold", func() bool { return b.sum("relock.lost", "relock.cause", "max_hold") == 1 })
	_, err = b.locks.Mutex("jobs").Lock(t.Context())
	require.NoError(t, err)
	b.locks.Close()
	require.EqualValues(t, 1, b.sum("relock.lost", "relock.cause", "closed"))
	require.Zero(t, b.sum("relock.held"))
	_, err = b.locks.Mutex("jobs").Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrClosed)
	require.Equal(t, 1, b.count("relock.wait.duration", "relock.result", "closed"))
}

func TestMetricsOfAnOutage(t *testing.T) {
	b := newBed(t, []relock.Option{relock.WithLease(6 * time.Second), relock.WithCommandTimeout(500 * time.Millisecond)})
	l, err := b.locks.Mutex("jobs").Lock(t.Context())
	require.NoError(t, err)
	require.Contains(t, b.collected(), "relock.nodes.down", "it says that none is down")
	b.eventually("no outage", func() bool { return b.sum("relock.nodes.down") == 0 })
	b.srv.Pause()
	b.eventually("the outage", func() bool {
		return b.sum("relock.nodes.down") == 1 && b.sum("relock.renewal.failures", "relock.lock.name", "jobs") > 0
	})
	_, err = b.locks.Mutex("other").TryLock(t.Context())
	require.Error(t, err)
	require.Equal(t, 1, b.count("relock.wait.duration", "relock.result", "failed"))
	b.srv.Resume()
	b.eventually("its end", func() bool { return b.sum("relock.nodes.down") == 0 })
	if err := l.Unlock(t.Context()); err != nil {
		require.ErrorIs(t, err, relock.ErrLost, "a busy machine may take longer to notice than a lease lasts")
	}
}

// Observers of one provider are added up.
func TestTwoObserversOfOneProvider(t *testing.T) {
	b := newBed(t, nil)
	o, err := New(WithMeterProvider(b.meters))
	require.NoError(t, err)
	second := b.client(relock.WithObserver(o))
	for _, c := range []*relock.Client{b.locks, second} {
		_, err := c.Mutex("job:" + c.ID()).Lock(t.Context())
		require.NoError(t, err)
	}
	require.EqualValues(t, 2, b.sum("relock.held", "relock.lock.name", "job:*"))
	require.Equal(t, 2, b.count("relock.wait.duration", "relock.lock.name", "job:*"))
}

func TestOptionsThatCannotWork(t *testing.T) {
	for name, opt := range map[string]Option{
		"meters": WithMeterProvider(nil), "tracers": WithTracerProvider(nil), "name": WithLockName(nil),
	} {
		_, err := New(opt)
		require.ErrorIs(t, err, ErrInvalidOption, name)
	}
	_, err := New()
	require.NoError(t, err, "the global providers do nothing, and are there")
}

// An event that is newer than this package breaks nothing.
func TestStrangeEvents(t *testing.T) {
	reader := sdk.NewManualReader()
	o, err := New(WithMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader))))
	require.NoError(t, err)
	for kind := range relock.EventKind(100) {
		o.Observe(relock.Event{Kind: kind, How: 99, Cause: relock.ErrLost})
		o.Observe(relock.Event{Kind: kind, How: 99, Cause: relock.ErrLost, Lock: "k", Sort: "semaphore"})
	}
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
}
