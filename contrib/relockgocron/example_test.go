package relockgocron_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockgocron"
	"github.com/relock-go/relock/internal/redistest"
)

// rdb is the Redis of the service.
var rdb rueidis.Client

var done = make(chan struct{}, 1)

func bill(ctx context.Context) error {
	defer func() { done <- struct{}{} }()
	fmt.Println("billed under a fencing token:", relock.Token(ctx) > 0)
	return ctx.Err()
}

// Each process of a service schedules the job, and one of them runs it in each minute.
func ExampleNewLocker() {
	locks, err := relock.New(rdb)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	locker, err := relockgocron.NewLocker(locks, 50*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close(context.Background())
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	defer scheduler.Shutdown()

	_, err = scheduler.NewJob(gocron.DurationJob(time.Minute),
		locker.Task("bill", bill), // bill's context ends when the lock is lost
		gocron.WithName("bill"),   // in each process the same
		gocron.WithStartAt(gocron.WithStartImmediately()),
		gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, name string, err error) {
			fmt.Println("not run here:", name, err) // relock.ErrNotAcquired: another process has this tick
		})))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	<-done
}

// One process leads, and runs all jobs.
func ExampleNewElector() {
	locks, err := relock.New(rdb, relock.WithLease(5*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	elector := relockgocron.NewElector(locks.Mutex("scheduler:leader"))
	defer elector.Close(context.Background())
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	defer scheduler.Shutdown()

	_, err = scheduler.NewJob(gocron.DurationJob(time.Minute), elector.Task(bill),
		gocron.WithStartAt(gocron.WithStartImmediately()))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	<-done
}

// What the README shows stands in the example.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	_, code, _ := strings.Cut(string(readme), "```go\n")
	code, _, _ = strings.Cut(code, "```")
	require.Contains(t, string(example), "\t"+strings.TrimRight(strings.ReplaceAll(code, "\n", "\n\t"), "\t"))
}

// The examples need a Redis, so they have no output of their own for go test to compare.
func TestExamples(t *testing.T) {
	rdb = redistest.Start(t).Client()
	ExampleNewLocker()
	ExampleNewElector()
	locks, err := relock.New(rdb)
	require.NoError(t, err)
	defer locks.Close()
	_, err = locks.Mutex("bill").TryLock(t.Context())
	require.ErrorIs(t, err, relock.ErrNotAcquired, "the tick is over, and its lock is not kept")
	lease, err := locks.Mutex("scheduler:leader").TryLock(t.Context())
	require.NoError(t, err, "the lead was not given away")
	require.NoError(t, lease.Unlock(t.Context()))
}
