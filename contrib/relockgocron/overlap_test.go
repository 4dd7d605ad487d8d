package relockgocron

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relocktest"
)

// Close waits for a job that cleans up after its lock was lost, whether the job is a Task or another function.
func TestCloseWaitsForAJobWhoseLockIsLost(t *testing.T) {
	t.Parallel()
	for name, atLeast := range map[string]time.Duration{"kept": time.Hour, "free at the end": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				redis := memory(t)
				l, err := NewLocker(redis(), atLeast)
				require.NoError(t, err)
				s := scheduler(t, gocron.WithDistributedLocker(l))
				began, cleaned := make(chan struct{}, 2), atomic.Int32{}
				t.Cleanup(func() { time.Sleep(2 * time.Minute) }) // the scheduler's Shutdown stops the bubble's time
				cleanUp := func() {
					time.Sleep(time.Minute)
					cleaned.Add(1)
				}
				_, err = s.NewJob(atOnce(), l.Task("task", func(ctx context.Context) error {
					began <- struct{}{}
					<-ctx.Done()
					cleanUp()
					return nil
				}), gocron.WithName("task"))
				require.NoError(t, err)
				_, err = s.NewJob(atOnce(), gocron.NewTask(func() { // it is not told of a loss
					began <- struct{}{}
					cleanUp()
				}), gocron.WithName("plain"))
				require.NoError(t, err)
				s.Start()
				got(t, began)
				got(t, began)
				for _, name := range []string{"task", "plain"} {
					_, err = redis().Mutex(name).ForceUnlock(t.Context())
					require.NoError(t, err)
				}
				late, cancel := context.WithTimeout(t.Context(), 30*time.Second) // the losses are told meanwhile
				defer cancel()
				require.ErrorIs(t, l.Close(late), context.DeadlineExceeded)
				require.NoError(t, l.Close(t.Context()))
				require.EqualValues(t, 2, cleaned.Load(), "Close returned before the jobs")
			})
		})
	}
}

// overlaps notes runs of a job that is to run once at a time in all processes.
type overlaps struct {
	mu     sync.Mutex
	now    int     // runs that believe
	most   int     // of them at one time
	tokens []int64 // of all runs
}

// enter begins a run, whose end leave tells.
func (o *overlaps) enter(ctx context.Context) (leave func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tokens = append(o.tokens, relock.Token(ctx))
	o.now++
	o.most = max(o.most, o.now)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.now--
	}
}

// Ticks of three processes overlap with a job that takes two periods and a half: it runs once at a time, and goes on.
func TestJobLongerThanItsPeriod(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string][]gocron.JobOption{
		"overlapping": nil, "rescheduled": {gocron.WithSingletonMode(gocron.LimitModeReschedule)},
		"queued": {gocron.WithSingletonMode(gocron.LimitModeWait)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				redis := memory(t)
				var runs overlaps
				var failed atomic.Int32
				start := time.Now().Add(500 * time.Millisecond)
				for i := range 3 {
					l := locker(t, redis, 900*time.Millisecond)
					s := scheduler(t, gocron.WithDistributedLocker(l))
					_, err := s.NewJob(gocron.DurationJob(time.Second), l.Task("long", func(ctx context.Context) error {
						defer runs.enter(ctx)()
						select {
						case <-time.After(2500 * time.Millisecond):
						case <-ctx.Done():
						}
						return context.Cause(ctx)
					}), append(mode, gocron.WithName("long"),
						gocron.WithStartAt(gocron.WithStartDateTime(start.Add(time.Duration(i)*300*time.Millisecond))),
						gocron.WithEventListeners(gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) {
							if !errors.Is(err, context.Canceled) { // the test's end
								failed.Add(1)
							}
						})))...)
					require.NoError(t, err)
					s.Start()
				}
				time.Sleep(200 * time.Second)
				runs.mu.Lock()
				defer runs.mu.Unlock()
				require.Equal(t, 1, runs.most)
				require.Zero(t, failed.Load())
				require.Greater(t, len(runs.tokens), 200/4, "they skip more ticks than the job takes")
				require.IsIncreasing(t, runs.tokens)
			})
		})
	}
}

// A job hears of the loss before another process runs it, and its process's next ticks do not take its place: also if the
// job works on after its context has ended.
func TestLossDuringALongJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := memory(t)
		const lease = 3 * time.Second
		var believe overlaps
		over := make(chan struct{})
		began := make(chan struct{}, 1000)
		outside := redis()
		for range 3 {
			l := locker(t, redis, 900*time.Millisecond, relock.WithLease(lease))
			s := scheduler(t, gocron.WithDistributedLocker(l))
			_, err := s.NewJob(gocron.DurationJob(time.Second), l.Task("long", func(ctx context.Context) error {
				leave := believe.enter(ctx)
				began <- struct{}{}
				<-ctx.Done()
				leave() // another process may have it from now on
				select {
				case <-time.After(3500 * time.Millisecond): // it works on for a while
				case <-over: // the scheduler's Shutdown stops the bubble's time
				}
				return nil
			}), gocron.WithName("long"))
			require.NoError(t, err)
			s.Start()
		}
		t.Cleanup(func() { close(over) })
		for range 50 {
			got(t, began)
			relocktest.RedisDown(t, outside)
			time.Sleep(lease + time.Second)
			relocktest.RedisUp(t, outside)
		}
		got(t, began)
		believe.mu.Lock()
		defer believe.mu.Unlock()
		require.Equal(t, 1, believe.most)
		require.Len(t, believe.tokens, 51)
		require.IsIncreasing(t, believe.tokens)
	})
}

// A run that gocron holds back for longer than its lock lasts does not take the lock of the next one.
func TestTaskDoesNotRunUnderTheNextRunsLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := memory(t)
		l := locker(t, redis, 0)
		s := scheduler(t, gocron.WithDistributedLocker(l))
		held, goOn := make(chan struct{}), make(chan struct{})
		failed, ran := make(chan error, 1), make(chan struct{})
		_, err := s.NewJob(atOnce(), l.Task("job", func(context.Context) error {
			close(ran)
			return nil
		}), gocron.WithName("job"), gocron.WithEventListeners(
			gocron.BeforeJobRuns(func(uuid.UUID, string) {
				close(held)
				<-goOn
			}),
			gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { failed <- err }),
			gocron.AfterJobRuns(func(uuid.UUID, string) { failed <- nil })))
		require.NoError(t, err)
		s.Start()
		got(t, held)
		_, err = redis().Mutex("job").ForceUnlock(t.Context())
		require.NoError(t, err)
		synctest.Wait()                         // the loss is told
		next, err := l.Lock(t.Context(), "job") // as gocron does at the next tick
		require.NoError(t, err)
		close(goOn)
		require.ErrorIs(t, got(t, failed), relock.ErrLost)
		select {
		case <-ran:
			require.Fail(t, "it ran under the lock of the next run, or under none")
		default:
		}
		require.NoError(t, next.Unlock(t.Context()))
	})
}
