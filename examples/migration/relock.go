package main

import (
	"context"
	"time"

	"github.com/relock-go/relock"
)

// After: relock's lock alone.
func after(ctx context.Context, locks *relock.Client, name string, work job) error {
	return locks.Mutex(name).Do(ctx, work)
}

// Middle: the old lock, and under it relock's.
func middle(ctx context.Context, before release, locks *relock.Client, name string, work job) error {
	return before(ctx, name, func(ctx context.Context) error {
		return after(ctx, locks, name, work)
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
