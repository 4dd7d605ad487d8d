// Command fencedredis shows how data in Redis refuses a late write: a script keeps the fencing token beside the data.
package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/show"
)

// key has the data of order 42, a hash.
const key = "example:order:42"

// write compares and writes in one step, as only a script can.
var write = redis.NewScript(`
local last = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < last then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'state', ARGV[2])
return 1
`)

// errStale wraps ErrLost: a later holder wrote, so this one has lost its lock.
var errStale = fmt.Errorf("a later holder has written: %w", relock.ErrLost)

// setState is what a service would have: each write of the order passes here.
func setState(ctx context.Context, rdb *redis.Client, key, state string, token int64) error {
	written, err := write.Run(ctx, rdb, []string{key}, token, state).Int()
	if err != nil {
		return err
	}
	if written == 0 {
		return errStale
	}
	return nil
}

func withToken(ctx context.Context, w *show.Worker, lease *relock.Lease) error {
	w.Pause()
	return setState(ctx, w.Redis, key, w.Name, lease.Token())
}

// without is the control group.
func without(ctx context.Context, w *show.Worker, _ *relock.Lease) error {
	w.Pause()
	return w.Redis.HSet(ctx, key, "state", w.Name).Err()
}

var example = show.Example{
	Lock: "order:42",
	Ways: []show.Way{
		{Name: "token", Work: withToken, Refusal: errStale},
		{Name: "without", Work: without},
	},
	Prepare: func(ctx context.Context, s *show.Setting) (func(), error) {
		return func() { s.Redis.Del(context.WithoutCancel(ctx), key) }, s.Redis.Ping(ctx).Err()
	},
	State: func(ctx context.Context, s *show.Setting) (string, error) {
		return s.Redis.HGet(ctx, key, "state").Result()
	},
}

func main() { show.Main(&example) }
