package relockotel

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/relock-go/relock"
)

const oldestName = "relock.hold.oldest.age"

// ages are the points of the gauge with these attributes, in seconds.
func ages(t *testing.T, reader sdk.Reader, with ...string) (all []float64) {
	t.Helper()
	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &got))
	for _, s := range got.ScopeMetrics {
		for _, m := range s.Metrics {
			if m.Name != oldestName {
				continue
			}
			require.Equal(t, "s", m.Unit)
			for _, p := range m.Data.(metricdata.Gauge[float64]).DataPoints {
				if matches(p.Attributes, with) {
					all = append(all, p.Value)
				}
			}
		}
	}
	return all
}

// The gauge tells the age of the lease that is held longest, whichever ends first, and 0 once none is held.
func TestOldestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdk.NewManualReader()
		o, err := New(WithMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader))))
		require.NoError(t, err)
		of := func(lock string, kind relock.EventKind, lease uint64) {
			o.Observe(relock.Event{Kind: kind, Lock: lock, LockKind: "mutex", How: relock.HowFree, Lease: lease, Cause: relock.ErrLost})
		}
		age := func() float64 {
			got := ages(t, reader, "relock.lock.name", "order:*", "relock.lock.kind", "mutex")
			require.Len(t, got, 1)
			return got[0]
		}
		require.Empty(t, ages(t, reader), "no lock was used")
		of("order:1", relock.EventAbandoned, 0)
		require.Zero(t, age(), "none is held")
		of("order:1", relock.EventAcquired, 1)
		time.Sleep(time.Minute)
		of("order:2", relock.EventAcquired, 1+places) // both want one place
		time.Sleep(time.Minute)
		of("order:3", relock.EventAcquired, 7)
		of("report", relock.EventAcquired, 8)
		require.InDelta(t, 120, age(), 1)
		require.InDelta(t, 0, ages(t, reader, "relock.lock.name", "report")[0], 1, "each name has its own")
		time.Sleep(time.Minute)
		of("order:1", relock.EventReleased, 1)
		require.InDelta(t, 120, age(), 1, "the second")
		of("order:2", relock.EventLost, 1+places)
		require.InDelta(t, 60, age(), 1, "the third")
		of("order:3", relock.EventReleased, 7)
		require.Zero(t, age())
	})
}

// A holder that hangs shows before callers that wait for a moment only, on a real Redis, whoever counts.
func TestOldestHoldBeforeImpatientCallers(t *testing.T) {
	both(t, func(t *testing.T, byProducer bool) {
		b := newBedFor(t, byProducer, nil)
		began := time.Now()
		l, err := b.locks.Mutex("order:4711").Lock(t.Context())
		require.NoError(t, err)
		got := time.Now()
		other := b.client(relock.WithObserver(b.observer))
		_, err = other.Mutex("order:4711").TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrNotAcquired)
		_, err = other.Mutex("order:4711", relock.WithWait(10*time.Millisecond)).Lock(t.Context())
		require.Error(t, err)
		least := time.Since(got).Seconds()
		age := ages(t, b.reader, "relock.lock.name", "order:*")
		require.Len(t, age, 1)
		require.GreaterOrEqual(t, age[0], least)
		require.LessOrEqual(t, age[0], time.Since(began).Seconds())
		require.NoError(t, l.Unlock(t.Context()))
		require.Zero(t, ages(t, b.reader, "relock.lock.name", "order:*")[0])
	})
}

// Many hold at one time, and end in any order, while ages are read: in the end none is left.
func TestOldestHoldOfMany(t *testing.T) {
	o := oldest{from: time.Now()}
	long := uint64(1 << 40)
	o.begun(long)
	before := o.age()
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() {
			for i := range uint64(500) {
				for lease := i * 10; lease < i*10+10; lease++ {
					o.begun(lease*8 + g + 1)
				}
				for lease := i*10 + 10; lease > i*10; lease-- {
					o.ended((lease-1)*8 + g + 1)
				}
			}
		})
	}
	wg.Go(func() {
		for last := before; last < before+time.Millisecond; {
			age := o.age()
			if age < last {
				t.Errorf("the oldest is %v old, and was %v", age, last)
				return
			}
			last = age
		}
	})
	wg.Wait()
	o.ended(long)
	require.Zero(t, o.age())
	require.Empty(t, o.rest)
	for i := range o.places {
		require.Zero(t, o.places[i].lease.Load())
	}
}
