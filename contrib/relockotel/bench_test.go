package relockotel

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// observers are those that a lock's cost is measured with.
func observers(b *testing.B) map[string][]relock.ClientOption {
	meters := sdk.NewMeterProvider(sdk.WithReader(sdk.NewManualReader()))
	tracers := trace.NewTracerProvider(trace.WithSpanProcessor(tracetest.NewSpanRecorder()), trace.WithSampler(trace.NeverSample()))
	made := func(opts ...Option) []relock.ClientOption {
		o, err := New(append(opts, WithMeterProvider(meters))...)
		if err != nil {
			b.Fatal(err)
		}
		return []relock.ClientOption{relock.WithObserver(o)}
	}
	return map[string][]relock.ClientOption{
		"none": nil, "nothing done": {relock.WithObserver(idle{})},
		"metrics": made(), "metrics by a Producer": made(WithProducer(NewProducer())),
		"metrics and spans not sampled": made(WithRootSpans(), WithTracerProvider(tracers)),
	}
}

// idle is what the library's own part costs.
type idle struct{}

func (idle) Observe(relock.Event) {}

func pair(b *testing.B, m *relock.Mutex) {
	l, err := m.Lock(context.Background())
	if err == nil {
		err = l.Unlock(context.Background())
	}
	if err != nil {
		b.Error(err)
	}
}

func open(b *testing.B, opts ...relock.ClientOption) *relock.Mutex {
	c, err := relock.New(redistest.Start(b).Client(), opts...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c.Mutex("order:4711")
}

// BenchmarkUncontended is a lock that nobody else wants: two round trips, beside which an observer is lost
// in the noise. Allocations are not.
func BenchmarkUncontended(b *testing.B) {
	for name, opts := range observers(b) {
		b.Run(name, func(b *testing.B) {
			m := open(b, opts...)
			pair(b, m)
			b.ReportAllocs()
			for b.Loop() {
				pair(b, m)
			}
		})
	}
}

// BenchmarkLingering is a lock that is taken from memory: what an observer costs shows.
func BenchmarkLingering(b *testing.B) {
	for name, opts := range observers(b) {
		b.Run(name, func(b *testing.B) {
			m := open(b, append(opts, relock.WithLinger(100*time.Second))...)
			pair(b, m)
			b.ReportAllocs()
			for b.Loop() {
				pair(b, m)
			}
		})
	}
}

// BenchmarkHotKey is one key wanted by 64 goroutines of one process: with nothing to do under the lock, which
// is what an observer costs at most, and with as little as a round trip on one machine takes.
func BenchmarkHotKey(b *testing.B) {
	for work, d := range map[string]time.Duration{"empty": 0, "20us": 20 * time.Microsecond} {
		for name, opts := range observers(b) {
			b.Run(work+"/"+name, func(b *testing.B) {
				m := open(b, opts...)
				pair(b, m)
				b.SetParallelism(64 / runtime.GOMAXPROCS(0))
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						busyPair(b, m, d)
					}
				})
			})
		}
	}
}

// BenchmarkHotKeyInTurns is how much longer a hot key takes with an observer, with nothing to do under the lock: the
// medians of short rounds in turns, so that a machine that slows down does it for all.
func BenchmarkHotKeyInTurns(b *testing.B) {
	const goroutines, pairs = 64, 256
	locks, took := map[string]*relock.Mutex{}, map[string][]float64{}
	for name, opts := range observers(b) {
		locks[name] = open(b, opts...)
		pair(b, locks[name])
	}
	for b.Loop() {
		for name, m := range locks {
			began := time.Now()
			var all sync.WaitGroup
			for range goroutines {
				all.Go(func() {
					for range pairs {
						busyPair(b, m, 0)
					}
				})
			}
			all.Wait()
			took[name] = append(took[name], float64(time.Since(began).Nanoseconds())/goroutines/pairs)
		}
	}
	for name, of := range took {
		slices.Sort(of)
		b.ReportMetric(of[len(of)/2], strings.ReplaceAll(name, " ", "-")+"-ns/pair")
	}
}

// busyPair is a lock under which a processor is busy for that long.
func busyPair(b *testing.B, m *relock.Mutex, d time.Duration) {
	err := m.Do(context.Background(), func(context.Context) error {
		for end := time.Now().Add(d); d > 0 && time.Now().Before(end); {
		}
		return nil
	})
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkObserve is the two events of one lease.
func BenchmarkObserve(b *testing.B) {
	for name, lock := range map[string]func(int) string{
		"one name": func(int) string { return "order:4711" },
		"new ones": func(i int) string { return ids[i%len(ids)] },
	} {
		b.Run(name, func(b *testing.B) {
			o, err := New(WithMeterProvider(sdk.NewMeterProvider(sdk.WithReader(sdk.NewManualReader()))))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				e := relock.Event{Kind: relock.EventAcquired, Lock: lock(i), LockKind: "mutex", How: relock.HowFree, Context: b.Context()}
				o.Observe(e)
				e.Kind = relock.EventReleased
				o.Observe(e)
			}
		})
	}
}

// ids are the names of more locks than are known again.
var ids = func() (ids []string) {
	for i := range 64 * maxRecent {
		ids = append(ids, "order:"+string(rune('0'+i%10))+string(rune('a'+i/10%26))+string(rune('a'+i/260)))
	}
	return ids
}()
