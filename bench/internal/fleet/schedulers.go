package fleet

import (
	"context"
	"time"

	redislock "github.com/go-co-op/gocron-redis-lock/v2"
	"github.com/go-co-op/gocron/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/bench/internal/board"
	"github.com/relock-go/relock/contrib/relockgocron"
)

const (
	period  = time.Second
	atLeast = period * 5 / 6 // as the README's 50 seconds of a minute
)

// An opener opens a Locker for gocron. task makes gocron's task of a job.
type opener func(addr string) (locker gocron.Locker, task func(job func()) gocron.Task, closes func(), err error)

var schedulers = map[string]opener{"relockgocron": openRelockgocron, "gocron-redis-lock": openRedisLock}

func openRelockgocron(addr string) (gocron.Locker, func(func()) gocron.Task, func(), error) {
	rdb, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		return nil, nil, nil, err
	}
	locks, err := relock.New(rdb)
	if err != nil {
		return nil, nil, nil, err
	}
	l, err := relockgocron.NewLocker(locks, atLeast)
	if err != nil {
		return nil, nil, nil, err
	}
	task := func(job func()) gocron.Task {
		return l.Task("job", func(context.Context) error { job(); return nil })
	}
	return l, task, func() { _ = l.Close(context.Background()); locks.Close(); rdb.Close() }, nil
}

// openRedisLock is the README's: one try, and the default expiry of eight seconds.
func openRedisLock(addr string) (gocron.Locker, func(func()) gocron.Task, func(), error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	l, err := redislock.NewRedisLocker(rdb, redislock.WithTries(1))
	return l, func(job func()) gocron.Task { return gocron.NewTask(job) }, func() { _ = rdb.Close() }, err
}

// schedule runs a job each second until ctx ends, where the locker lets it.
func schedule(ctx context.Context, t task, open opener, v *voice) error {
	locker, asTask, closes, err := open(t.Addr)
	if err != nil {
		return err
	}
	defer closes()
	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return err
	}
	job := func() {
		v.say(board.Now(), began, "")
		time.Sleep(t.Job)
	}
	start := gocron.WithStartAt(gocron.WithStartDateTime(board.Time(t.Start)))
	if _, err := s.NewJob(gocron.DurationJob(period), asTask(job), gocron.WithName("job"), start); err != nil {
		return err
	}
	s.Start()
	<-ctx.Done()
	return s.Shutdown()
}
