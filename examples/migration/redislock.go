package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockgoredis"
)

// Before: redislock's lock alone.
func underRedislock(ctx context.Context, rl *redislock.Client, name string, work job) error {
	retry := &redislock.Options{RetryStrategy: redislock.LinearBackoff(20 * time.Millisecond)}
	old, err := rl.Obtain(ctx, name, expiry, retry)
	if err != nil {
		return err
	}
	defer old.Release(context.WithoutCancel(ctx))
	extend := func(ctx context.Context) error { return old.Refresh(ctx, expiry, nil) }
	return renewed(ctx, extend, work)
}

func redislockService(url string) (s service, err error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return s, err
	}
	rdb := redis.NewClient(options)
	rl := redislock.New(rdb)
	s.before = func(ctx context.Context, name string, work job) error { return underRedislock(ctx, rl, name, work) }
	if s.locks, err = relockgoredis.New(rdb, relock.WithNamePrefix("locks:")); err != nil {
		return s, err
	}
	s.close = func() { s.locks.Close(); _ = rdb.Close() }
	return s, nil
}
