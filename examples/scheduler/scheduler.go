package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/relock-go/relock"
)

// A job is what must run once per tick. Its context ends before another process may run it.
type job func(context.Context) error

// once runs a job, or fails with relock.ErrNotAcquired if another process has this tick. atLeast lies between two times: how
// far apart the ticks of the processes lie, and the time from one tick to the next. The middle of both leaves most room for
// delays.
func once(ctx context.Context, locks *relock.Client, name string, atLeast time.Duration, run job) error {
	lease, err := locks.Mutex(name, relock.WithMinHold(atLeast), relock.WithLease(atLeast)).TryLock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx) // the lock stays taken until atLeast after its grant, however short the job is
	return run(lease.Context())
}

// schedule calls tick every so often, until ctx ends.
func schedule(ctx context.Context, every time.Duration, tick func(context.Context) error) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		err := tick(ctx)
		if err != nil && !errors.Is(err, relock.ErrNotAcquired) { // the job failed, it took too long, or Redis is down
			slog.Error("this tick failed, the next one tries again", "error", err)
		}
	}
}
