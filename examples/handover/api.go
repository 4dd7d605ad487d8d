package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/relock-go/relock"
)

// job travels in the queue.
type job struct {
	Report string
	Handle string // with which the worker takes the report's lock over
}

func lockName(report string) string { return "example:report:" + report }

// api accepts reports that workers write.
type api struct {
	locks  *relock.Client
	rdb    *redis.Client
	pickup time.Duration // how long a job may wait for a worker
	send   func(ctx context.Context, job string) error
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	err := a.accept(r.Context(), r.PathValue("report"))
	if err == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	var held *relock.HeldError
	if errors.As(err, &held) {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(held.RetryAfter.Seconds()))))
	}
	http.Error(w, http.StatusText(status(err)), status(err))
}

// accept locks the report, and hands the lock over with the job. It fails if no worker will do the job.
func (a *api) accept(ctx context.Context, report string) error {
	lock := a.locks.Mutex(lockName(report))
	lease, err := lock.TryLock(ctx)
	if err != nil {
		return err // ErrNotAcquired: another request has the report, or its worker
	}
	if err := setState(lease.Context(), a.rdb, report, "accepted", lease.Token()); err != nil {
		_ = lease.Unlock(ctx)
		return fmt.Errorf("%w: the report's state: %w", relock.ErrUnavailable, err)
	}
	handle, err := lease.HandOver(ctx, a.pickup)
	if err != nil {
		return err // the lock is freed in the background
	}
	text, err := json.Marshal(job{report, handle})
	if err == nil {
		err = a.send(ctx, string(text))
	}
	if err == nil {
		return nil
	}
	return a.takeBack(ctx, lock, handle, err)
}

// takeBack uses the handle up after a send that failed with cause. If its job is in the queue all the same, it is void then.
func (a *api) takeBack(ctx context.Context, lock *relock.Mutex, handle string, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	lease, err := lock.TakeOver(ctx, handle)
	switch {
	case err == nil:
		_ = lease.Unlock(ctx)
	case errors.Is(err, relock.ErrLost):
		return nil // the job did arrive: a worker has it
	}
	return fmt.Errorf("%w: the queue: %w", relock.ErrUnavailable, cause)
}

// status is that of docs/errors.md.
func status(err error) int {
	switch {
	case errors.Is(err, relock.ErrNotAcquired):
		return http.StatusConflict
	case errors.Is(err, relock.ErrUnavailable), errors.Is(err, relock.ErrLost), errors.Is(err, relock.ErrClosed):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
