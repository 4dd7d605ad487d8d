package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// counter is what the locks guard. Two holders at once lose a count.
type counter struct{ rdb *redis.Client }

func openCounter(url string) (counter, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return counter{}, err
	}
	options.MaxRetries = -1 // a command that is sent twice counts twice
	options.ContextTimeoutEnabled = true
	return counter{redis.NewClient(options)}, nil
}

const prefix = "example:migration:"

// add reads the counter, and writes one more. Redis itself counts how often that was done.
func (c counter) add(ctx context.Context, step string) error {
	n, err := c.rdb.Get(ctx, prefix+"counter").Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	select {
	case <-time.After(time.Millisecond):
	case <-ctx.Done(): // the lock is lost, or the process ends
		return context.Cause(ctx)
	}
	_, err = c.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, prefix+"counter", n+1, 0)
		p.Incr(ctx, prefix+step)
		return nil
	})
	return err
}
