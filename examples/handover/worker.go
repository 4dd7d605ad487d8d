package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/relock-go/relock"
)

// queue is a list of jobs.
const queue = "example:reports"

// worker does the jobs of the queue.
type worker struct {
	locks *relock.Client
	rdb   *redis.Client
	write func(ctx context.Context, report string) error
	done  func(j job, err error) // is told what became of a job
}

// run returns when ctx has ended, after the job that is under way then.
func (w *worker) run(ctx context.Context) error {
	for ctx.Err() == nil {
		next, err := w.rdb.BRPop(ctx, time.Second, queue).Result()
		if errors.Is(err, redis.Nil) {
			continue // the queue is empty
		}
		if err != nil && ctx.Err() == nil {
			return err
		} else if err != nil {
			break
		}
		var j job
		if err = json.Unmarshal([]byte(next[1]), &j); err == nil {
			err = w.do(ctx, j)
		}
		w.done(j, err)
	}
	return nil
}

// do does a job once, however often the queue delivers it. It fails with relock.ErrLost if the job is not this worker's, or
// no longer: another one has it or did it, no worker came in time, or the lock was lost meanwhile.
func (w *worker) do(ctx context.Context, j job) error {
	lease, err := w.locks.Mutex(lockName(j.Report)).TakeOver(ctx, j.Handle)
	if err != nil {
		return err
	}
	defer lease.Unlock(context.WithoutCancel(ctx)) // also if the work fails: then the next request may try again
	if err := w.write(lease.Context(), j.Report); err != nil {
		return err
	}
	return setState(lease.Context(), w.rdb, j.Report, "written", lease.Token())
}

// set is the script of examples/fencedredis, which refuses a lower token. It counts besides.
var set = redis.NewScript(`
local last = tonumber(redis.call('HGET', KEYS[1], 'fence') or '0')
if tonumber(ARGV[1]) < last then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'state', ARGV[2])
redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
return 1
`)

// errStale wraps ErrLost: a later holder wrote, so this one has lost its lock.
var errStale = fmt.Errorf("a later holder has written: %w", relock.ErrLost)

func setState(ctx context.Context, rdb *redis.Client, report, state string, token int64) error {
	written, err := set.Run(ctx, rdb, []string{stateKey(report)}, token, state).Int()
	if err == nil && written == 0 {
		err = errStale
	}
	return err
}

func stateKey(report string) string { return lockName(report) + ":state" }
