package relockotel

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
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

func TestMetricsOfARun(t *testing.T) { both(t, runIsCounted) }

func runIsCounted(t *testing.T, byProducer bool) {
	b := newBedFor(t, byProducer, nil)
	m := b.locks.Mutex("order:4711", relock.WithLocalHandoff(10, time.Hour))
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	inner, err := m.Lock(l.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, b.sum("relock.held", "relock.lock.name", "order:*", "relock.lock.kind", "mutex"))
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

func TestMetricsOfALoss(t *testing.T) { both(t, lossIsCounted) }

func lossIsCounted(t *testing.T, byProducer bool) {
	b := newBedFor(t, byProducer, []relock.ClientOption{relock.WithLease(3 * time.Second)})
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

// What no retry helps is counted apart from what may pass.
func TestMetricsOfARefusal(t *testing.T) {
	b := newBed(t, nil)
	b.srv.Do("SET", "string", "no lock")
	_, err := b.locks.Mutex("string").TryLock(t.Context())
	require.ErrorIs(t, err, relock.ErrRefused)
	require.Equal(t, 1, b.count("relock.wait.duration", "relock.result", "refused"))
	require.Zero(t, b.count("relock.wait.duration", "relock.result", "failed"))
}

// A wait that ended with the lease around it is counted as lost: the lock that it waited for was busy, but the caller's
// work is to be undone.
func TestMetricsOfAWaitUnderALostLease(t *testing.T) {
	b := newBed(t, nil)
	_, err := b.locks.Mutex("busy").Lock(t.Context())
	require.NoError(t, err)
	around, err := b.locks.Mutex("around", relock.WithMaxHold(100*time.Millisecond)).Lock(t.Context())
	require.NoError(t, err)
	_, err = b.locks.Mutex("busy").Lock(around.Context())
	require.ErrorIs(t, err, relock.ErrLost)
	require.Equal(t, 1, b.count("relock.wait.duration", "relock.result", "lost"))
	require.Zero(t, b.count("relock.wait.duration", "relock.result", "busy"))
}

func TestMetricsOfAnOutage(t *testing.T) {
	b := newBed(t, []relock.ClientOption{relock.WithLease(6 * time.Second), relock.WithCommandTimeout(500 * time.Millisecond)})
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

// A client that is closed asks nobody for an answer any more.
func TestClosedClientHasNoNodeDown(t *testing.T) {
	b := newBed(t, []relock.ClientOption{relock.WithCommandTimeout(200 * time.Millisecond)})
	b.srv.Pause()
	_, err := b.locks.Mutex("jobs").TryLock(t.Context())
	require.Error(t, err)
	b.eventually("the outage", func() bool { return b.sum("relock.nodes.down") == 1 })
	b.locks.Close()
	require.Zero(t, b.sum("relock.nodes.down"))
	require.Len(t, b.collected()["relock.nodes.down"].Data.(metricdata.Sum[int64]).DataPoints, 1)
	b.srv.Resume()
}

func TestMetricsOfCommands(t *testing.T) {
	calm := []relock.ClientOption{relock.WithLease(time.Minute), relock.WithCommandTimeout(patience)}
	b := newBed(t, calm)
	require.Empty(t, b.collected()["relock.commands"].Data, "there was none")
	second := b.client(append(calm, relock.WithObserver(b.observer))...)
	for _, c := range []*relock.Client{b.locks, second} {
		m := c.Mutex("jobs:" + c.ID())
		l, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
	}
	of := func(command, result string) int64 {
		return b.sum("relock.commands", "relock.command", command, "relock.result", result)
	}
	require.EqualValues(t, 2, of("acquire", "answered"))
	require.EqualValues(t, 2, of("release", "answered"))
	require.Zero(t, of("acquire", "refused"))
	for _, p := range b.collected()["relock.commands"].Data.(metricdata.Sum[int64]).DataPoints {
		require.False(t, p.Attributes.HasValue(keyNode), "one Redis decides")
	}
	second.Close()
	require.EqualValues(t, 2, of("acquire", "answered"), "what a closed client has sent still counts")
	require.Len(t, b.observer.meters.servers.clients, 1, "and the client itself is forgotten")

	b.srv.Do("SET", "stranger", "no lock")
	_, err := b.locks.Mutex("stranger").TryLock(t.Context())
	require.Error(t, err)
	require.EqualValues(t, 1, of("acquire", "refused"))
}

// Which node of a quorum is down is told.
func TestMetricsOfAQuorum(t *testing.T) {
	b := newBed(t, nil)
	var nodes []rueidis.Client
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	for _, s := range servers {
		nodes = append(nodes, s.Client())
	}
	q, err := relock.NewRedlock(nodes, relock.WithObserver(b.observer), relock.WithCommandTimeout(200*time.Millisecond))
	require.NoError(t, err)
	t.Cleanup(q.Close)
	down := func(node string) int64 { return b.sum("relock.nodes.down", "relock.node", node) }
	data := b.collected()["relock.nodes.down"].Data.(metricdata.Sum[int64])
	require.Len(t, data.DataPoints, 1+len(nodes), "each says that it is not down, the single one too")
	once := func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		l, err := q.Mutex("jobs").Lock(ctx)
		require.NoError(t, err)
		_ = l.Unlock(ctx) // on a busy machine it may go on in the background
	}
	once()
	servers[1].Pause()
	for end := time.Now().Add(patience); down("2") == 0 && time.Now().Before(end); {
		once()
	}
	require.EqualValues(t, 1, down("2"))
	require.NotZero(t, b.sum("relock.commands", "relock.node", "2", "relock.result", "unanswered"))
	require.NotZero(t, b.sum("relock.commands", "relock.node", "1", "relock.command", "acquire", "relock.result", "answered"))
	servers[1].Resume()
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
		"meters": WithMeterProvider(nil), "tracers": WithTracerProvider(nil), "name": WithLockName(nil), "producer": WithProducer(nil),
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
		o.Observe(relock.Event{Kind: kind, How: 99, Cause: relock.ErrLost, Lock: "k", LockKind: "semaphore"})
	}
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
}
