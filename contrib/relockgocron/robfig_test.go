package relockgocron

import (
	"context"
	"errors"
	"log"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relocktest"
)

// The recipe of docs/recipes.md for robfig/cron stands here: gocron needs that module, and the library does not.

func once(ctx context.Context, locks *relock.Client, name string, d time.Duration, job func(context.Context)) func() {
	return func() {
		// The lock stays taken for d from its grant: after a short job, and if the process dies.
		lease, err := locks.Mutex(name, relock.WithMinHold(d), relock.WithLease(d)).TryLock(ctx)
		if errors.Is(err, relock.ErrNotAcquired) {
			return // another process has this tick
		}
		if err != nil {
			log.Print(err)
			return
		}
		defer lease.Unlock(ctx) // also if the job panics
		job(lease.Context())    // its lock is renewed, however long it takes
	}
}

func schedule(ctx context.Context, locks *relock.Client, backup func(context.Context)) (*cron.Cron, error) {
	c := cron.New(cron.WithLocation(time.UTC)) // one time zone for all processes
	_, err := c.AddFunc("15 3 * * *", once(ctx, locks, "nightly", 10*time.Minute, backup))
	c.Start()
	return c, err
}

// crons returns three processes with the schedules of a test, and stops them when it ends.
func crons(t *testing.T, redis process, add func(ctx context.Context, i int, c *cron.Cron, locks *relock.Client)) {
	t.Helper()
	for i := range 3 {
		ctx, stop := context.WithCancel(t.Context())
		c := cron.New()
		add(ctx, i, c, redis())
		c.Start()
		t.Cleanup(func() { stop(); <-c.Stop().Done() })
	}
}

// offset is a schedule by a clock that is late.
type offset struct {
	cron.Schedule
	by time.Duration
}

func (o offset) Next(t time.Time) time.Time { return o.Schedule.Next(t.Add(-o.by)).Add(o.by) }

// Three processes, whose clocks lie 0.3 s apart, run a short job once a second between them. Under a plain lock beside it
// each process runs it: that shows that the ticks do compete.
func TestRobfigOncePerTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs, plain atomic.Int32
		crons(t, memory(t), func(ctx context.Context, i int, c *cron.Cron, locks *relock.Client) {
			each := offset{cron.Every(time.Second), time.Duration(i) * 300 * time.Millisecond}
			job := func(context.Context) { runs.Add(1) }
			c.Schedule(each, cron.FuncJob(once(ctx, locks, "once", 900*time.Millisecond, job)))
			c.Schedule(each, cron.FuncJob(func() {
				if lease, err := locks.Mutex("plain").TryLock(ctx); err == nil {
					plain.Add(1)
					_ = lease.Unlock(ctx)
				}
			}))
		})
		time.Sleep(200*time.Second + 200*time.Millisecond)
		require.EqualValues(t, 200, runs.Load())
		require.EqualValues(t, 600, plain.Load(), "the control shows nothing: its lock keeps processes apart too")
	})
}

// Work that takes longer than its least time keeps the lock, also past a tick, and is told of a loss.
func TestRobfigLongJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		held := make(chan *relock.Lease, 100)
		ended := make(chan error, 100)
		crons(t, memory(t), func(ctx context.Context, _ int, c *cron.Cron, locks *relock.Client) {
			long := func(ctx context.Context) {
				runs.Add(1)
				lease, _ := relock.FromContext(ctx)
				held <- lease
				<-ctx.Done()
				ended <- context.Cause(ctx)
			}
			c.Schedule(cron.Every(time.Minute), cron.FuncJob(once(ctx, locks, "long", 50*time.Second, long)))
		})
		time.Sleep(10*time.Minute + 30*time.Second)
		require.EqualValues(t, 1, runs.Load())
		relocktest.Lose(t, <-held)
		require.ErrorIs(t, <-ended, relock.ErrLost)
		time.Sleep(time.Minute)
		require.EqualValues(t, 2, runs.Load(), "the next tick")
	})
}

// A job that panics keeps its lock no longer than another, where cron goes on.
func TestRobfigPanic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		redis := memory(t)
		ctx, stop := context.WithCancel(t.Context())
		c := cron.New(cron.WithChain(cron.Recover(cron.DiscardLogger)))
		c.Schedule(cron.Every(time.Minute), cron.FuncJob(once(ctx, redis(), "panics", 50*time.Second, func(context.Context) {
			runs.Add(1)
			panic("the job's")
		})))
		c.Start()
		defer func() { stop(); <-c.Stop().Done() }()
		time.Sleep(3*time.Minute + time.Second)
		require.EqualValues(t, 3, runs.Load())
	})
}

// What the recipe shows runs at a quarter past three, in one process. A process that ends leaves the lock to its time.
func TestRobfigSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := memory(t)
		ran := newMarks(0)
		ctx, stop := context.WithCancel(t.Context())
		var all []*cron.Cron
		for range 3 {
			c, err := schedule(ctx, redis(), func(ctx context.Context) { _ = ran.add(ctx) })
			require.NoError(t, err)
			all = append(all, c)
		}
		time.Sleep(28 * time.Hour) // from midnight on
		require.Len(t, ran.all(), 2)
		for i, at := range ran.all() {
			require.Equal(t, time.Date(2000, 1, 1+i, 3, 15, 0, 0, time.UTC), at.UTC())
		}
		time.Sleep(23*time.Hour + 16*time.Minute)
		require.Len(t, ran.all(), 3)
		stop()
		for _, c := range all {
			<-c.Stop().Done()
		}
		_, err := redis().Mutex("nightly").TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrNotAcquired, "a process that starts now could run the tick again")
	})
}
