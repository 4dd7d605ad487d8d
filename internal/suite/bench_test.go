package suite_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
)

// BenchmarkUncontended is a lock that nobody else wants, beside two calls of the shortest script that writes and deletes
// a key through the same client: what any lock on Redis costs at least.
func BenchmarkUncontended(b *testing.B) {
	rdb := redistest.Start(b).Client()
	ctx := context.Background()
	b.Run("two scripts", func(b *testing.B) {
		set := rueidis.NewLuaScript(`return redis.call('SET', KEYS[1], ARGV[1])`)
		del := rueidis.NewLuaScript(`return redis.call('DEL', KEYS[1])`)
		b.ReportAllocs()
		for b.Loop() {
			cctx, cancel := context.WithTimeout(ctx, time.Second)
			if err := set.Exec(cctx, rdb, []string{"raw"}, []string{"1"}).Error(); err != nil {
				b.Fatal(err)
			}
			if err := del.Exec(cctx, rdb, []string{"raw"}, nil).Error(); err != nil {
				b.Fatal(err)
			}
			cancel()
		}
	})
	b.Run("lock", func(b *testing.B) {
		benchPair(b, benchClient(b, rdb))
	})
	b.Run("lock on five nodes", func(b *testing.B) {
		var nodes []rueidis.Client
		for range 5 {
			nodes = append(nodes, redistest.Start(b).Client())
		}
		c, err := relock.NewRedlock(nodes)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.Close)
		benchPair(b, c)
	})
}

func benchPair(b *testing.B, c *relock.Client) {
	m := c.Mutex("k")
	lockUnlock(context.Background(), b, m) // the first one loads scripts and gets to know the nodes
	b.ReportAllocs()
	for b.Loop() {
		lockUnlock(context.Background(), b, m)
	}
}

// BenchmarkHotKey is one key wanted by 64 goroutines of one process.
func BenchmarkHotKey(b *testing.B) {
	rdb := redistest.Start(b).Client()
	for name, opts := range map[string][]relock.ClientOption{
		"handed on in memory": nil, "kept": {relock.WithLinger(time.Second)}, "through Redis": {relock.WithLocalHandoff(1, 0)},
	} {
		b.Run(name, func(b *testing.B) {
			m := benchClient(b, rdb, opts...).Mutex("k")
			b.SetParallelism(64)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					lockUnlock(context.Background(), b, m)
				}
			})
		})
	}
}

func BenchmarkReentry(b *testing.B) {
	m := benchClient(b, redistest.Start(b).Client()).Mutex("k")
	l, err := m.Lock(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		lockUnlock(l.Context(), b, m)
	}
	b.StopTimer()
	if err := l.Unlock(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRenewal is one renewal of 200 leases: a full batch of the watchdog's.
func BenchmarkRenewal(b *testing.B) {
	c := benchClient(b, redistest.Start(b).Client())
	ctx := context.Background()
	var batch []claim.Renewal
	for i := range wire.MaxBatch {
		l, err := c.Mutex(fmt.Sprint("k", i)).Lock(ctx)
		if err != nil {
			b.Fatal(err)
		}
		batch = append(batch, claim.Renewal{Claim: claimOf(l), Lease: entryOf(l).Lease})
	}
	b.ReportAllocs()
	for b.Loop() {
		arbiterOf(c).Renew(ctx, batch, func(i int, r wire.Result, _ clock.Stamp, _ error) {
			if r != wire.Renewed {
				b.Errorf("%s was not renewed", batch[i].Claim.Of().Names.Lock)
			}
		})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch)), "ns/lease")
}

func benchClient(b *testing.B, rdb rueidis.Client, opts ...relock.ClientOption) *relock.Client {
	c, err := relock.New(rdb, opts...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

func lockUnlock(ctx context.Context, b *testing.B, m *relock.Mutex) {
	l, err := m.Lock(ctx)
	if err == nil {
		err = l.Unlock(ctx)
	}
	if err != nil {
		b.Error(err)
	}
}

// BenchmarkOneScriptForMany is how long Redis is kept busy by one script for as many locks as go together: what
// others wait for it at most.
func BenchmarkOneScriptForMany(b *testing.B) {
	s := redistest.Start(b)
	c := benchClient(b, s.Client())
	var wg sync.WaitGroup
	lockAll := func(n int) {
		for i := range 256 {
			m := c.Mutex(fmt.Sprint("k", i))
			wg.Go(func() {
				for range n {
					lockUnlock(context.Background(), b, m)
				}
			})
		}
		wg.Wait()
	}
	lockAll(4)
	s.Do("CONFIG", "SET", "slowlog-max-len", "4096", "slowlog-log-slower-than", "0")
	for b.Loop() {
		lockAll(1)
	}
	took := map[string][]float64{}
	found, err := s.Client().Do(context.Background(), s.Client().B().SlowlogGet().Count(4096).Build()).ToArray()
	if err != nil {
		b.Fatal(err)
	}
	for _, entry := range found {
		parts, _ := entry.ToArray()
		us, _ := parts[2].AsInt64()
		if words, _ := parts[3].AsStrSlice(); len(words) > 2 && words[0] == "EVALSHA" {
			took[words[2]] = append(took[words[2]], float64(us))
		}
	}
	for name, keys := range map[string]string{"16-acquires": "64", "32-releases": "160"} { // keys of so many
		if times := took[keys]; len(times) > 0 {
			slices.Sort(times)
			b.ReportMetric(times[len(times)/2], "µs/"+name)
		}
	}
}

func BenchmarkCached(b *testing.B) {
	s := redistest.Start(b)
	c := benchClient(b, s.Client(), relock.WithLinger(time.Minute))
	m := c.Mutex("k")
	for idleAt(c) == 0 {
		lockUnlock(b.Context(), b, m)
	}
	b.ReportAllocs()
	for b.Loop() {
		lockUnlock(b.Context(), b, m)
	}
}

// BenchmarkCachedKeysOfTheirOwn is as many goroutines as processors (-cpu), each with a cached lock that nobody else
// wants: two do twice what one does, as far as they share nothing.
func BenchmarkCachedKeysOfTheirOwn(b *testing.B) {
	c := benchClient(b, redistest.Start(b).Client(), relock.WithLinger(time.Minute))
	m := c.Mutex("k")
	for idleAt(c) == 0 {
		lockUnlock(b.Context(), b, m)
	}
	var goroutines atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		m := c.Mutex(strconv.FormatInt(goroutines.Add(1), 10))
		for pb.Next() {
			lockUnlock(context.Background(), b, m)
		}
	})
}
