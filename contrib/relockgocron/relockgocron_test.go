package relockgocron

import (
	"context"
	"errors"
	"flag"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relocktest"
)

var ticks = flag.Int("ticks", 5, "how many ticks of a second TestOncePerTick plays")

// plain is what a Locker is without a least time: the lock is free when the job ends.
type plain struct{ locks *relock.Client }

func (p plain) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	return p.locks.Mutex(key).TryLock(ctx)
}

// marks are the times of a job's runs in all processes.
type marks struct {
	mu    sync.Mutex
	times []time.Time
	full  chan struct{} // closed once there are enough
	count int
}

func newMarks(count int) *marks { return &marks{full: make(chan struct{}), count: count} }

func (m *marks) add(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.times = append(m.times, time.Now()); len(m.times) == m.count {
		close(m.full)
	}
	return nil
}

func (m *marks) all() []time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.times
}

// Three processes, whose ticks lie 0.3 s apart, run a short job once a second between them. Under a
// plain lock beside it each process runs it: that shows that the ticks do compete.
func TestOncePerTick(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		oncePerTick(t, real(t), *ticks)
	})
	t.Run("bubble", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { oncePerTick(t, memory(t), 200) })
	})
}

func oncePerTick(t *testing.T, redis process, ticks int) {
	once, each := newMarks(ticks+1), newMarks(0)
	start := time.Now().Add(500 * time.Millisecond)
	for i := range 3 {
		l := locker(t, redis, 900*time.Millisecond)
		s := scheduler(t)
		at := gocron.WithStartAt(gocron.WithStartDateTime(start.Add(time.Duration(i) * 300 * time.Millisecond)))
		_, err := s.NewJob(gocron.DurationJob(time.Second), l.Task("once", once.add),
			gocron.WithName("once"), gocron.WithDistributedJobLocker(l), at)
		require.NoError(t, err)
		_, err = s.NewJob(gocron.DurationJob(time.Second), gocron.NewTask(each.add),
			gocron.WithName("each"), gocron.WithDistributedJobLocker(plain{redis()}), at)
		require.NoError(t, err)
		s.Start()
	}
	select {
	case <-once.full:
	case <-time.After(time.Duration(ticks)*2*time.Second + patience):
		require.FailNow(t, "ticks were lost")
	}
	times := once.all()
	require.GreaterOrEqual(t, len(each.all()), ticks*2, "the control shows nothing: its lock keeps processes apart too")
	shortest, longest := time.Hour, time.Duration(0)
	for i, at := range times[1:] {
		gap := at.Sub(times[i])
		shortest, longest = min(shortest, gap), max(longest, gap)
	}
	t.Logf("%d runs, %v to %v apart; under a plain lock %d runs", len(times), shortest, longest, len(each.all()))
	require.Greater(t, shortest, 600*time.Millisecond, "a tick ran twice")
	require.Less(t, longest, 1900*time.Millisecond, "a tick was lost")
}

// A job that lasts for several leases keeps its lock.
func TestRenewedWhileTheJobRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := memory(t)
		const lease = 30 * time.Second
		l := locker(t, redis, 0, relock.WithLease(lease))
		lock, err := l.Lock(t.Context(), "long")
		require.NoError(t, err)
		other := redis().Mutex("long")
		for end := time.Now().Add(3 * lease); time.Now().Before(end); {
			_, err := other.TryLock(t.Context())
			require.ErrorIs(t, err, relock.ErrNotAcquired)
			time.Sleep(lease / 10)
		}
		require.NoError(t, lock.Unlock(t.Context()))
		require.ErrorIs(t, lock.Unlock(t.Context()), relock.ErrNotHeld)
		lease2, err := other.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease2.Unlock(t.Context()))
	})
}

// freed waits until another process gets the lock.
func freed(t *testing.T, m *relock.Mutex) time.Time {
	t.Helper()
	lease, err := m.Lock(t.Context())
	require.NoError(t, err)
	defer lease.Unlock(t.Context())
	return time.Now()
}

// The lock is kept for the least time, also past several leases, and then it is free at once: other
// processes need not wait for the lease.
func TestKeptAtLeast(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]time.Duration{"several leases": 3 * time.Second, "less than a lease": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				redis := memory(t)
				const atLeast = 10 * time.Second
				lock, err := locker(t, redis, atLeast, relock.WithLease(lease)).Lock(t.Context(), "short")
				require.NoError(t, err)
				granted := time.Now()
				require.NoError(t, lock.Unlock(t.Context()))
				took := freed(t, redis().Mutex("short")).Sub(granted)
				require.GreaterOrEqual(t, took, atLeast)
				require.Less(t, took, atLeast+100*time.Millisecond)
			})
		})
	}
}

// A process that dies leaves the lock for the least time, even if its lease is shorter.
func TestKeptByACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := memory(t)
		locks := redis()
		const atLeast = time.Hour
		l, err := NewLocker(locks, atLeast, relock.WithLease(10*time.Second))
		require.NoError(t, err)
		lock, err := l.Lock(t.Context(), "job")
		require.NoError(t, err)
		granted := time.Now()
		relocktest.Crash(t, locks)
		require.GreaterOrEqual(t, freed(t, redis().Mutex("job")).Sub(granted), atLeast)
		require.ErrorIs(t, lock.Unlock(t.Context()), relock.ErrClosed)
		require.NoError(t, l.Close(t.Context()))
	})
}

// Close leaves locks that are kept, waits for jobs, and no lock is taken after it.
func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := memory(t)
		l := locker(t, redis, time.Hour)
		kept, err := l.Lock(t.Context(), "kept")
		require.NoError(t, err)
		require.NoError(t, kept.Unlock(t.Context()))
		running, err := l.Lock(t.Context(), "running")
		require.NoError(t, err)

		late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, l.Close(late), context.DeadlineExceeded)
		_, err = l.Lock(t.Context(), "another")
		require.ErrorIs(t, err, relock.ErrClosed)
		require.NoError(t, running.Unlock(t.Context()))
		require.NoError(t, l.Close(t.Context()))

		other := redis()
		for _, name := range []string{"kept", "running"} {
			_, err = other.Mutex(name).TryLock(t.Context())
			require.ErrorIs(t, err, relock.ErrNotAcquired, name)
		}
		_, err = other.Mutex("another").TryLock(t.Context())
		require.NoError(t, err)
	})
}

// A job hears that its lock is lost, and gocron is told.
func TestTaskIsToldOfTheLoss(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := memory(t)
		l := locker(t, redis, 0, relock.WithLease(30*time.Second))
		s := scheduler(t, gocron.WithDistributedLocker(l))
		runs, failed := make(chan int64, 1), make(chan error, 1)
		own := errors.New("the job's own")
		_, err := s.NewJob(atOnce(), l.Task("job", func(ctx context.Context) error {
			runs <- relock.Token(ctx)
			<-ctx.Done()
			return own
		}), gocron.WithName("job"), gocron.WithEventListeners(
			gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { failed <- err })))
		require.NoError(t, err)
		s.Start()
		require.Positive(t, got(t, runs))
		freed, err := redis().Mutex("job").ForceUnlock(t.Context())
		require.NoError(t, err)
		require.True(t, freed)
		err = got(t, failed)
		require.ErrorIs(t, err, relock.ErrLost)
		require.ErrorIs(t, err, own)
	})
}

// A job ends with the context that gocron gives it, though its lease does not.
func TestTaskEndsWithItsScheduler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := memory(t)
		l := locker(t, redis, 0)
		s, err := gocron.NewScheduler(gocron.WithDistributedLocker(l))
		require.NoError(t, err)
		runs, ended := make(chan struct{}), make(chan error, 1)
		_, err = s.NewJob(atOnce(), l.Task("job", func(ctx context.Context) error {
			close(runs)
			select {
			case <-ctx.Done():
			case <-time.After(patience / 2):
			}
			ended <- context.Cause(ctx)
			return nil
		}), gocron.WithName("job"))
		require.NoError(t, err)
		s.Start()
		got(t, runs)
		require.NoError(t, s.Shutdown())
		require.ErrorIs(t, got(t, ended), context.Canceled)
		freed(t, redis().Mutex("job"))
	})
}

// A Task runs under its own lock, or not at all: not under that of another job, nor without one.
func TestTaskNeedsItsLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := memory(t)
		l := locker(t, redis, 0)
		s := scheduler(t, gocron.WithDistributedLocker(l))
		failed := make(chan error, 1)
		_, err := s.NewJob(atOnce(), l.Task("one", func(context.Context) error { return nil }), gocron.WithName("another"),
			gocron.WithEventListeners(gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { failed <- err })))
		require.NoError(t, err)
		s.Start()
		require.ErrorIs(t, got(t, failed), relock.ErrNotHeld)
	})
}

// Busy is told from a Redis that is down, by Lock and by gocron's listener.
func TestErrorsHaveAClass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := memory(t)
		l := locker(t, redis, 0)
		lead := redis()
		e := NewElector(lead.Mutex("leader"))
		held, err := redis().Mutex("job").Lock(t.Context())
		require.NoError(t, err)
		_, err = redis().Mutex("leader").Lock(t.Context())
		require.NoError(t, err)

		skipped := make(chan error, 1)
		s := scheduler(t, gocron.WithDistributedLocker(l))
		_, err = s.NewJob(atOnce(), l.Task("job", func(context.Context) error { return nil }), gocron.WithName("job"),
			gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) { skipped <- err })))
		require.NoError(t, err)
		s.Start()
		require.ErrorIs(t, got(t, skipped), relock.ErrNotAcquired)
		require.ErrorIs(t, e.IsLeader(t.Context()), relock.ErrNotAcquired)
		require.NoError(t, held.Unlock(t.Context()))

		relocktest.RedisDown(t, l.locks)
		relocktest.RedisDown(t, lead)
		_, err = l.Lock(t.Context(), "job")
		require.ErrorIs(t, err, relock.ErrUnavailable)
		require.ErrorIs(t, e.IsLeader(t.Context()), relock.ErrUnavailable)
	})
}

// One process leads, until it closes or dies.
func TestElector(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := memory(t)
		const lease = 10 * time.Second
		dies := redis(relock.WithLease(lease))
		electors := []*Elector{NewElector(dies.Mutex("leader"))}
		for range 2 {
			electors = append(electors, NewElector(redis(relock.WithLease(lease)).Mutex("leader")))
		}
		first, second, third := electors[0], electors[1], electors[2]
		for range 3 {
			require.NoError(t, first.IsLeader(t.Context()))
			require.ErrorIs(t, second.IsLeader(t.Context()), relock.ErrNotAcquired)
		}
		last := time.Now()
		relocktest.Crash(t, dies)
		for second.IsLeader(t.Context()) != nil {
			require.Less(t, time.Since(last), 2*lease)
			time.Sleep(lease / 10)
		}
		require.GreaterOrEqual(t, time.Since(last), lease/2, "the lead was given away while its lease ran")
		require.ErrorIs(t, third.IsLeader(t.Context()), relock.ErrNotAcquired)

		require.NoError(t, second.Close(t.Context()))
		require.NoError(t, third.IsLeader(t.Context()))
		require.ErrorIs(t, second.IsLeader(t.Context()), relock.ErrClosed)
		require.NoError(t, third.Close(t.Context()))
		require.NoError(t, third.Close(t.Context()))
	})
}

// The leader's job hears that another one leads, and the other's scheduler runs the job.
func TestElectorsTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		redis := memory(t)
		e := NewElector(redis().Mutex("leader"))
		s := scheduler(t, gocron.WithDistributedElector(e))
		runs, failed := make(chan struct{}), make(chan error, 1)
		_, err := s.NewJob(atOnce(), e.Task(func(ctx context.Context) error {
			close(runs)
			<-ctx.Done()
			return nil
		}), gocron.WithEventListeners(gocron.AfterJobRunsWithError(func(_ uuid.UUID, _ string, err error) { failed <- err })))
		require.NoError(t, err)
		s.Start()
		got(t, runs)
		_, err = redis().Mutex("leader").ForceUnlock(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, got(t, failed), relock.ErrLost)
	})
}

// What cannot work is refused.
func TestUnusableOptions(t *testing.T) {
	t.Parallel()
	locks := relocktest.New(t)
	for name, make := range map[string]func() (*Locker, error){
		"negative":       func() (*Locker, error) { return NewLocker(locks, -1) },
		"too long":       func() (*Locker, error) { return NewLocker(locks, 10000*time.Hour) },
		"no lease":       func() (*Locker, error) { return NewLocker(locks, time.Second, relock.WithLease(0)) },
		"too long lease": func() (*Locker, error) { return NewLocker(locks, time.Second, relock.WithLease(10000*time.Hour)) },
	} {
		_, err := make()
		require.ErrorIs(t, err, relock.ErrInvalidOption, name)
		require.ErrorIs(t, err, relock.ErrMisuse, name)
	}
	_, err := NewLocker(nil, time.Second)
	require.ErrorIs(t, err, relock.ErrMisuse)
}

// A Locker's locks have the client's options, and those that it was given.
func TestOptionsOfALocker(t *testing.T) {
	t.Parallel()
	locks := relocktest.New(t, relock.WithLease(10*time.Second))
	for _, of := range []struct {
		opts []relock.Option
		want time.Duration
	}{{nil, 10 * time.Second}, {[]relock.Option{relock.WithLease(time.Minute)}, time.Minute}} {
		l, err := NewLocker(locks, 0, of.opts...)
		require.NoError(t, err)
		held, err := l.Lock(t.Context(), "job")
		require.NoError(t, err)
		state, err := locks.Mutex("job").State(t.Context())
		require.NoError(t, err)
		require.InDelta(t, of.want, state.TTL, float64(5*time.Second))
		require.NoError(t, held.Unlock(t.Context()))
	}
	_, err := NewLocker(locks, -time.Second)
	require.EqualError(t, err, "relock: invalid option: WithMinHold: -1s is out of range, between 0s and 8784h0m0s are possible")
	_, err = NewLocker(nil, 0)
	require.EqualError(t, err, "relock: misuse: Client made without New or NewRedlock")
}
