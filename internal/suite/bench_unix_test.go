//go:build unix

package suite_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

// BenchmarkNamesOnce is locks of which each has a name of its own, as a job or a request has that locks what it alone
// works on. Beside it stands the least that a lock with a lease is: two scripts, and nobody is told of anything. The CPU
// time of this process and of Redis is told for itself, since it stays the same on a machine that has more to do.
func BenchmarkNamesOnce(b *testing.B) {
	s := redistest.Start(b)
	rdb := s.Client()
	type locking func(ctx context.Context, name string) error
	relocks := func(opts ...relock.ClientOption) func(b *testing.B) locking {
		return func(b *testing.B) locking {
			c := benchClient(b, rdb, opts...)
			return func(ctx context.Context, name string) error {
				l, err := c.Mutex(name).Lock(ctx)
				if err == nil {
					err = l.Unlock(ctx)
				}
				return err
			}
		}
	}
	for _, kind := range []struct {
		name string
		open func(b *testing.B) locking
	}{
		{"spin", func(*testing.B) locking {
			return func(ctx context.Context, name string) error { return spin(ctx, rdb, name) }
		}},
		{"relock", relocks()},
		{"lingering", relocks(relock.WithLinger(5 * time.Millisecond))},
	} {
		for _, goroutines := range []int{1, 64, 1000} {
			b.Run(fmt.Sprintf("%s/%d", kind.name, goroutines), func(b *testing.B) {
				s.Do("FLUSHALL")
				lock := kind.open(b)
				var names atomic.Int64
				once := func() {
					if err := lock(context.Background(), fmt.Sprint("orders:", names.Add(1))); err != nil {
						b.Error(err)
					}
				}
				once() // which loads scripts
				redis, client := cpuOf(b, s), cpu(b)
				b.ReportAllocs()
				b.ResetTimer()
				var wg sync.WaitGroup
				var left atomic.Int64
				left.Store(int64(b.N))
				for range goroutines {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							once()
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				n := float64(b.N)
				b.ReportMetric(float64(cpuOf(b, s)-redis)/n, "redis-ns/op")
				b.ReportMetric(float64(cpu(b)-client)/n, "client-ns/op")
			})
		}
	}
}

var (
	spinLock = rueidis.NewLuaScript(`
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
return 0`)
	spinUnlock = rueidis.NewLuaScript(`
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return -1
end
local count = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
if count == 0 then
  redis.call('DEL', KEYS[1])
end
return count`)
)

// spin takes and gives back a lock that nobody else wants.
func spin(ctx context.Context, rdb rueidis.Client, name string) error {
	id := uuid.NewString()
	if err := spinLock.Exec(ctx, rdb, []string{name}, []string{id, "30000"}).Error(); err != nil {
		return err
	}
	return spinUnlock.Exec(ctx, rdb, []string{name}, []string{id}).Error()
}

// cpu is the CPU time of this process.
func cpu(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// cpuOf is the CPU time of a Redis.
func cpuOf(b *testing.B, s *redistest.Server) (used time.Duration) {
	for line := range strings.Lines(s.Do("INFO", "cpu")) {
		field, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if field == "used_cpu_sys" || field == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			used += time.Duration(seconds * float64(time.Second))
		}
	}
	return used
}
