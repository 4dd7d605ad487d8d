package relockgocron

import (
	"context"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long tests wait for what must happen. It is no promise of the module.
const patience = 30 * time.Second

// client returns the locks of one process over srv.
func client(t *testing.T, srv *redistest.Server, opts ...relock.Option) *relock.Client {
	t.Helper()
	locks, err := relock.New(srv.Client(), opts...)
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	return locks
}

// locker returns the Locker of one process over srv.
func locker(t *testing.T, srv *redistest.Server, atLeast time.Duration, opts ...Option) *Locker {
	t.Helper()
	l, err := NewLocker(client(t, srv), atLeast, opts...)
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
