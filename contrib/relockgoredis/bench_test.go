package relockgoredis_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock/contrib/relockgoredis"
	"github.com/relock-go/relock/internal/redistest"
)

// What a Lock and an Unlock take that find nobody else.
func BenchmarkUncontended(b *testing.B) {
	s := redistest.Start(b)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer rdb.Close()
	locks, err := relockgoredis.New(rdb)
	if err != nil {
		b.Fatal(err)
	}
	defer locks.Close()
	m, ctx := locks.Mutex("m"), context.Background()
	b.ReportAllocs()
	for b.Loop() {
		l, err := m.Lock(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Unlock(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

// The same by a thousand goroutines, each with a lock of its own.
func BenchmarkManyKeys(b *testing.B) {
	s := redistest.Start(b)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer rdb.Close()
	locks, err := relockgoredis.New(rdb)
	if err != nil {
		b.Fatal(err)
	}
	defer locks.Close()
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(500)
	b.RunParallel(func(pb *testing.PB) {
		m, ctx := locks.Mutex("m"+strconv.FormatInt(n.Add(1), 10)), context.Background()
		for pb.Next() {
			l, err := m.Lock(ctx)
			if err != nil {
				b.Error(err)
				return
			}
			if err := l.Unlock(ctx); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
