package main

import (
	"context"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockgoredis"
)

// Before: redsync's lock alone.
func underRedsync(ctx context.Context, rs *redsync.Redsync, name string, work job) error {
	old := rs.NewMutex(name, redsync.WithExpiry(expiry))
	if err := old.LockContext(ctx); err != nil {
		return err
	}
	defer old.UnlockContext(context.WithoutCancel(ctx))
	extend := func(ctx context.Context) error { _, err := old.ExtendContext(ctx); return err }
	return renewed(ctx, extend, work)
}

func redsyncService(url string) (s service, err error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return s, err
	}
	rdb := redis.NewClient(options)
	rs := redsync.New(goredis.NewPool(rdb))
	s.before = func(ctx context.Context, name string, work job) error { return underRedsync(ctx, rs, name, work) }
	if s.locks, err = relockgoredis.New(rdb, relock.WithNamePrefix("locks:")); err != nil {
		return s, err
	}
	s.close = func() { s.locks.Close(); _ = rdb.Close() }
	return s, nil
}
