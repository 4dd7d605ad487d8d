// Package relockgocron makes a job of gocron v2 run once per tick, however many processes schedule
// it: a [gocron.Locker] and a [gocron.Elector] over locks of relock.
//
//	locker, err := relockgocron.NewLocker(locks, 50*time.Second) // for a job of each minute
//	...
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//	...
//	_, err = scheduler.NewJob(gocron.CronJob("* * * * *", false),
//		locker.Task("bill", bill), gocron.WithName("bill"))
//
// The processes' clocks and starts differ. A lock that is free as soon as a short job has ended
// lets each process run the job, one after the other, in the same tick. So a [Locker] keeps the
// lock for a given time from the grant on, also if the job ends sooner, or its process dies.
//
// # Errors
//
// gocron skips a run whose lock or leader's check fails, and hands a Locker's error to the job's
// [gocron.AfterLockError]. Its class says why: relock.ErrNotAcquired if another process has the
// tick, relock.ErrUnavailable if Redis does not answer, relock.ErrRefused if no retry helps. gocron
// tells no error of an Elector's: ask [Elector.IsLeader].
package relockgocron

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/relock-go/relock"
)

var (
	_ gocron.Locker  = (*Locker)(nil)
	_ gocron.Elector = (*Elector)(nil)
)

// A Locker is a [gocron.Locker]: the process that gets the lock of a job's name runs the job. Its
// methods may be called from any goroutine.
type Locker struct {
	locks   *relock.Client
	atLeast time.Duration
	opts    []relock.Option

	mu     sync.Mutex // guards what follows
	closed bool
	runs   map[string][]*run // granted, in order, and not yet taken by a Task
	held   int               // runs that have not ended, and calls of Lock
	idle   chan struct{}     // closed once closed is set and held is 0
}

// NewLocker returns a Locker whose locks are kept for atLeast from the grant on, even if the job
// ends sooner. Let atLeast be longer than clocks and starts of the processes differ, and shorter
// than the job's period: a lock that is kept when the next tick comes costs that tick. Where jobs
// have different periods, give each a Locker of its own by [gocron.WithDistributedJobLocker]. With
// 0 the lock is free when the job ends.
//
// Names of locks are the jobs' names: set them by [gocron.WithName], the same in all processes.
// Give locks the option relock.WithNamePrefix where others share the Redis.
//
// The locks have the client's options changed by opts. A process that dies during a run keeps others
// from the job for its lease (relock.WithLease), or for the rest of atLeast if that is longer. Under
// relock.WithRestartGuard, as over a quorum, a lock outlives its process for at most the guard's time:
// let atLeast be no longer there.
//
// It fails with relock.ErrMisuse for a nil client, and with relock.ErrInvalidOption for an atLeast that
// relock.WithMinHold does not take or an option that cannot work.
func NewLocker(locks *relock.Client, atLeast time.Duration, opts ...relock.Option) (*Locker, error) {
	l := &Locker{
		locks: locks, atLeast: atLeast, opts: append(slices.Clip(opts), relock.WithMinHold(atLeast)),
		runs: make(map[string][]*run), idle: make(chan struct{}),
	}
	if _, err := locks.Mutex("relockgocron", l.opts...).Held(context.Background()); !errors.Is(err, relock.ErrNotHeld) {
		return nil, err // what is wrong with the client or an option
	}
	return l, nil
}

// Lock is called by gocron: it tries the lock named key once, and does not wait for it. Errors are
// those of relock.Mutex's TryLock.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, relock.ErrClosed
	}
	l.held++
	l.mu.Unlock()
	lease, err := try(ctx, relock.Detach(context.WithoutCancel(ctx)), l.locks.Mutex(key, l.opts...))
	if err != nil {
		l.ended()
		return nil, err
	}
	if time.Until(lease.Until()) < l.atLeast {
		_ = lease.Extend(ctx, l.atLeast) // in case this process dies; if it fails, the lock outlives that for a lease
	}
	r := &run{of: l, lease: lease}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[key] = append(l.runs[key], r)
	return r, nil
}

// ended is called when a run has ended, or its lease could not be had.
func (l *Locker) ended() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held--; l.closed && l.held == 0 {
		close(l.idle)
	}
}

// Task returns a job's function for [gocron.Scheduler.NewJob]. name must be the job's, as given to
// [gocron.WithName]. fn's context ends with the job's own, and as soon as the lock is lost: its
// cause is then relock.ErrLost, and the job's error matches that too. It carries the lease, for
// relock.Token and relock.FromContext.
//
// gocron has no way to tell a function that was given to it otherwise of a loss. A job that runs
// without the lock of this Locker fails with relock.ErrNotHeld, and one whose lock was lost before it
// began with relock.ErrLost: fn is not called.
func (l *Locker) Task(name string, fn func(ctx context.Context) error) gocron.Task {
	return gocron.NewTask(func(ctx context.Context) error {
		r := l.take(name)
		if r == nil {
			return fmt.Errorf("%w: relockgocron: no lock named %q was taken for this run", relock.ErrNotHeld, name)
		}
		if cause := context.Cause(r.lease.Context()); cause != nil {
			return cause
		}
		return under(ctx, r.lease, fn)
	})
}

// take returns the first run of that name that no Task has taken, nil if there is none. There are several if gocron
// held a run back for longer than its lock lasted. The first is then the lost one: no Task runs under the lock of
// a later run, which ends that lock.
func (l *Locker) take(name string) (r *run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := l.runs[name]; len(of) > 0 {
		r = of[0]
		l.drop(r)
	}
	return r
}

// drop forgets a run, if no Task has taken it. The caller holds l.mu.
func (l *Locker) drop(r *run) {
	name := r.lease.Name()
	l.runs[name] = slices.DeleteFunc(l.runs[name], func(other *run) bool { return other == r })
	if len(l.runs[name]) == 0 {
		delete(l.runs, name)
	}
}

// Close ends the Locker, and waits until its jobs have ended, those too whose locks were lost, or ctx
// has: call it after the scheduler's Shutdown, and before the client's Close. A lock that is to be kept
// for longer is left in Redis, where it ends by itself at the end of its time. Close returns the cause
// of ctx if that ended first. Lock then fails with relock.ErrClosed.
func (l *Locker) Close(ctx context.Context) error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		if l.held == 0 {
			close(l.idle)
		}
	}
	l.mu.Unlock()
	select {
	case <-l.idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A run is a job's run.
type run struct {
	of    *Locker
	lease *relock.Lease
	ended sync.Once
}

// Unlock is called by gocron when the job has ended, as late as that may be after a loss of the lock.
func (r *run) Unlock(ctx context.Context) error {
	r.of.mu.Lock()
	r.of.drop(r)
	r.of.mu.Unlock()
	defer r.ended.Do(r.of.ended)
	return r.lease.Unlock(ctx)
}

// An Elector is a [gocron.Elector]: one process at a time leads and runs all jobs. The others ask
// at each tick, so another one leads at the first tick after the leader's lease ran out. Its
// methods may be called from any goroutine.
//
// When the lead changes, a tick may run in both processes, one after the other, if their ticks are
// staggered: gocron does not ask a Locker where there is an Elector.
type Elector struct {
	m    *relock.Mutex
	turn chan struct{} // holds one while a call uses what follows

	lease  *relock.Lease // nil if this process does not lead
	closed bool
}

// NewElector returns an Elector whose leader holds m, which all processes name alike. m's lease
// (relock.WithLease) says how soon another one leads after a crash.
func NewElector(m *relock.Mutex) *Elector { return &Elector{m: m, turn: make(chan struct{}, 1)} }

// IsLeader is called by gocron, and returns nil if this process leads. Otherwise it tries to lead,
// once. Errors are those of relock.Mutex's TryLock: relock.ErrNotAcquired if another one leads.
func (e *Elector) IsLeader(ctx context.Context) error {
	_, err := e.lead(ctx)
	return err
}

func (e *Elector) lead(ctx context.Context) (*relock.Lease, error) {
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-e.turn }()
	switch {
	case e.closed:
		return nil, relock.ErrClosed
	case e.lease != nil && e.lease.Context().Err() == nil:
		return e.lease, nil
	}
	lease, err := try(ctx, context.Background(), e.m) // it serves all jobs
	if err == nil {
		e.lease = lease
	}
	return lease, err
}

// Task returns a job's function for [gocron.Scheduler.NewJob]. fn's context ends with the job's
// own, and once this process leads no more, as [Locker.Task] says of a lost lock. It does not run
// fn if this process no longer leads.
func (e *Elector) Task(fn func(ctx context.Context) error) gocron.Task {
	return gocron.NewTask(func(ctx context.Context) error {
		lease, err := e.lead(ctx)
		if err != nil {
			return err
		}
		return under(ctx, lease, fn)
	})
}

// Close gives the lead away, at once: call it after the scheduler's Shutdown. A job that still runs,
// which Shutdown then tells, may run on beside the next leader's: its context ends. IsLeader then fails
// with relock.ErrClosed. Errors are those of relock.Lease's Unlock, and the cause of ctx if that ends
// while a call is under way: then Close did nothing.
func (e *Elector) Close(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}: // also if ctx has ended
	default:
		select {
		case e.turn <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer func() { <-e.turn }()
	if e.closed = true; e.lease == nil {
		return nil
	}
	lease := e.lease
	e.lease = nil
	return lease.Unlock(ctx)
}

// try is TryLock for a lease that outlives ctx. Its context derives from values.
func try(ctx, values context.Context, m *relock.Mutex) (*relock.Lease, error) {
	held, end := context.WithCancelCause(values)
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	lease, err := m.TryLock(held)
	if !stop() && err == nil { // the lease's context ends, and its renewals would not
		_ = lease.Unlock(ctx)
		return nil, context.Cause(ctx)
	}
	return lease, err
}

// under runs a job's function until the lease or the job's context ends.
func under(job context.Context, lease *relock.Lease, fn func(ctx context.Context) error) error {
	ctx, end := context.WithCancelCause(lease.Context())
	defer end(nil)
	defer context.AfterFunc(job, func() { end(context.Cause(job)) })()
	err := fn(ctx)
	if cause := context.Cause(lease.Context()); errors.Is(cause, relock.ErrLost) || errors.Is(cause, relock.ErrClosed) {
		return errors.Join(cause, err)
	}
	return err
}
