package peer

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
)

const zsetMost = 32 * time.Millisecond // with more, 32 processes get hardly more through, and starve longer

func zsetSpec() Spec {
	return Spec{
		Name: "zset", Module: "github.com/redis/rueidis",
		Setup: "the classic semaphore: a sorted set of permits by the end of their leases, by Redis's clock; a script over " +
			"rueidis counts those that are not over; back-off 1 ms doubling to 32 ms with jitter, 30 s lease, not renewed",
		Open: openZset, Semaphore: true, Weighted: true, NoMutex: true, Lease: spinLease,
	}
}

// zsetAcquire takes as many permits as it is given members, if so many of ARGV[1] are free.
var zsetAcquire = rueidis.NewLuaScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) + #ARGV - 2 > tonumber(ARGV[1]) then
  return 0
end
for i = 3, #ARGV do
  redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[i])
end
return 1`)

type zsetPeer struct {
	rdb   rueidis.Client
	lease time.Duration
}

func openZset(e Env) (Peer, error) {
	rdb, err := e.rueidisClient()
	if err != nil {
		return nil, err
	}
	return &zsetPeer{rdb: rdb, lease: e.leaseOr(spinLease)}, nil
}

func (p *zsetPeer) Acquire(ctx context.Context, key string, n, k int) (Held, error) {
	args := []string{strconv.Itoa(n), millis(p.lease)}
	id := uuid.NewString()
	for i := range k {
		args = append(args, id+":"+strconv.Itoa(i))
	}
	for try := 0; ; try++ {
		got, err := zsetAcquire.Exec(ctx, p.rdb, []string{key}, args).AsInt64()
		if err != nil {
			return nil, err
		}
		if got == 1 {
			return heldFunc{ctx, func(ctx context.Context) error { return p.release(ctx, key, args[2:]) }}, nil
		}
		if err := sleep(ctx, backOff(try, zsetMost)); err != nil {
			return nil, err
		}
	}
}

func (p *zsetPeer) release(ctx context.Context, key string, members []string) error {
	n, err := p.rdb.Do(ctx, p.rdb.B().Zrem().Key(key).Member(members...).Build()).AsInt64()
	if err == nil && int(n) < len(members) {
		return errNotHeld
	}
	return err
}

func (p *zsetPeer) Lock(ctx context.Context, key string) (Held, error) {
	return p.Acquire(ctx, key, 1, 1)
}

func (p *zsetPeer) Close() { p.rdb.Close() }

// backOff is the pause before another try: a millisecond, doubled from try to try up to most, with jitter.
func backOff(try int, most time.Duration) time.Duration {
	d := min(spinLeast<<min(try, 10), most)
	return d/2 + rand.N(d/2+1)
}
