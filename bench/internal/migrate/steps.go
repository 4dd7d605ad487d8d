// Package migrate is the code of docs/migrating.md: a service that comes from another lock takes both
// locks in its first step, and relock's alone in its second. The tests run releases beside each other.
package migrate

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/redis/rueidis/rueidislock"
	"github.com/relock-go/relock"
)

// job is work that ends with its context.
type job = func(context.Context) error

// expiry is the old lock's.
var expiry = 30 * time.Second

// Step 1 of a service that comes from redsync: both locks, the old one first.
func redsyncStep1(ctx context.Context, rs *redsync.Redsync, locks *relock.Client, name string, work job) error {
	old := rs.NewMutex(name, redsync.WithExpiry(expiry))
	if err := old.LockContext(ctx); err != nil {
		return err
	}
	defer old.UnlockContext(context.WithoutCancel(ctx))
	extend := func(ctx context.Context) error { _, err := old.ExtendContext(ctx); return err }
	return renewed(ctx, extend, func(ctx context.Context) error {
		return locks.Mutex(name).Do(ctx, work)
	})
}

// renewed calls extend each third of the old lock's expiry while work runs. If that fails, work's context ends.
func renewed(ctx context.Context, extend, work job) error {
	ctx, lost := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(expiry / 3); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				if err := extend(ctx); err != nil {
					lost(err)
				}
			}
		}
	}()
	err := work(ctx)
	lost(nil)
	<-ended
	return err
}

// Step 2, of every service.
func step2(ctx context.Context, locks *relock.Client, name string, work job) error {
	return locks.Mutex(name).Do(ctx, work)
}

// Step 1 of a service that comes from redislock.
func redislockStep1(ctx context.Context, rl *redislock.Client, locks *relock.Client, name string, work job) error {
	retry := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	old, err := rl.Obtain(ctx, name, expiry, retry)
	if err != nil {
		return err
	}
	defer old.Release(context.WithoutCancel(ctx))
	extend := func(ctx context.Context) error { return old.Refresh(ctx, expiry, nil) }
	return renewed(ctx, extend, func(ctx context.Context) error {
		return locks.Mutex(name).Do(ctx, work)
	})
}

// Step 1 of a service that comes from rueidislock, which renews its lock itself.
func rueidislockStep1(ctx context.Context, rl rueidislock.Locker, locks *relock.Client, name string, work job) error {
	ctx, unlock, err := rl.WithContext(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	return locks.Mutex(name).Do(ctx, work)
}
