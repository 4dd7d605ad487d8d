package main

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/relock-go/relock"
)

// Before: rueidislock's lock alone. It renews itself.
func underRueidislock(ctx context.Context, rl rueidislock.Locker, name string, work job) error {
	ctx, unlock, err := rl.WithContext(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	return work(ctx)
}

func rueidislockService(url string) (s service, err error) {
	option, err := rueidis.ParseURL(url)
	if err != nil {
		return s, err
	}
	// With a KeyMajority of 1 a waiter of v1.0.79 may wait for ever, though the lock is free.
	rl, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: option, NoLoopTracking: true, KeyValidity: expiry,
		TryNextAfter: expiry, // by default it gives a command up after 20 ms, which a busy machine takes
	})
	if err != nil {
		return s, err
	}
	s.before = func(ctx context.Context, name string, work job) error { return underRueidislock(ctx, rl, name, work) }
	rdb, err := rueidis.NewClient(option)
	if err != nil {
		rl.Close()
		return s, err
	}
	if s.locks, err = relock.New(rdb, relock.WithNamePrefix("locks:")); err != nil {
		rl.Close()
		rdb.Close()
		return s, err
	}
	s.close = func() { s.locks.Close(); rdb.Close(); rl.Close() }
	return s, nil
}
