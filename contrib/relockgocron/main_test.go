package relockgocron

import (
	"context"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long tests wait for what must happen. It is no promise of the module.
const patience = time.Minute

// process makes a client, as one process of a service has it, of the test's Redis.
type process func(opts ...relock.ClientOption) *relock.Client

// real is a Redis of the test's own.
func real(t *testing.T) process {
	t.Helper()
	redis := relocktest.Redis(t)
	return func(opts ...relock.ClientOption) *relock.Client { return redis.New(t, opts...) }
}

// memory is one in memory, for fake time.
func memory(t *testing.T) process {
	t.Helper()
	first := relocktest.New(t)
	return func(opts ...relock.ClientOption) *relock.Client { return relocktest.Beside(t, first, opts...) }
}

// locker returns the Locker of one process.
func locker(t *testing.T, redis process, atLeast time.Duration, opts ...relock.Option) *Locker {
	t.Helper()
	l, err := NewLocker(redis(), atLeast, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, l.Close(ctx))
	})
	return l
}

// scheduler returns one that runs until the test ends.
func scheduler(t *testing.T, opts ...gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Shutdown()) })
	return s
}

// atOnce is a job that runs one time.
func atOnce() gocron.JobDefinition { return gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()) }

// got waits for a value.
func got[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
	}
	return v
}

// Close waits for a call that is under way, for no longer than its context allows.
func TestCloseOfAnElectorEndsWithItsContext(t *testing.T) {
	e := NewElector(memory(t)().Mutex("leader"))
	require.NoError(t, e.IsLeader(t.Context()))
	ended, end := context.WithCancel(t.Context())
	end()
	e.turn <- struct{}{} // as a call has it
	require.ErrorIs(t, e.Close(ended), context.Canceled)
	<-e.turn
	require.NoError(t, e.IsLeader(t.Context()), "Close did nothing")
	require.NoError(t, e.Close(ended), "it gives the lead away, whatever its context")
	require.ErrorIs(t, e.IsLeader(t.Context()), relock.ErrClosed)
}
