// Command scheduler shows a job that runs once per tick, though three processes schedule it, each by a ticker of its own.
// Beside it, as a control group, the same job runs under a plain lock: in each of the processes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockgoredis"
	"github.com/relock-go/relock/examples/internal/embedded"
	"github.com/relock-go/relock/examples/internal/workers"
)

// The two ways to run the job, and the names of their locks.
const (
	onceWay  = "example:once"
	plainWay = "example:plain"
)

// What became of a try.
const (
	asks   = "asks" // it asks for the lock now; a process that is killed may say no more of this try
	ran    = "ran"
	busy   = "busy"   // another process has the tick
	failed = "failed" // Redis did not answer in time
)

// event is a try to run the job, at a tick of a process.
type event struct {
	Process       int
	Tick          int // counted by the process
	Way, Did      string
	Before, After time.Duration // it asked for the lock, and had the answer; on the clock that the processes share
}

// plain is once as most write it: the lock is free as soon as the job has ended, and the next process finds it so.
func plain(ctx context.Context, locks *relock.Client, name string, run job) error {
	lease, err := locks.Mutex(name).TryLock(ctx)
	if err != nil {
		return err
	}
	defer lease.Unlock(ctx)
	return run(lease.Context())
}

// worker is what a process is started with.
type worker struct {
	Redis   embedded.Redis
	Process int
	Start   time.Duration // when its ticker starts, on the clock that the processes share
	Ticks   int
	Every   time.Duration
	AtLeast time.Duration
}

func (w worker) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	options, err := redis.ParseURL(w.Redis.URL)
	if err != nil {
		return err
	}
	options.ContextTimeoutEnabled = true
	rdb := redis.NewClient(options)
	defer rdb.Close()
	locks, err := relockgoredis.New(rdb)
	if err != nil {
		return err
	}
	defer locks.Close()
	time.Sleep(w.Start - workers.Now())
	tick := 0
	schedule(ctx, w.Every, func(ctx context.Context) error {
		if tick++; tick == w.Ticks {
			defer stop()
		}
		err := w.try(tick, onceWay, func(run job) error { return once(ctx, locks, onceWay, w.AtLeast, run) })
		_ = w.try(tick, plainWay, func(run job) error { return plain(ctx, locks, plainWay, run) })
		return err
	})
	return nil
}

// try says what becomes of a try.
func (w worker) try(tick int, way string, do func(job) error) error {
	e := event{Process: w.Process, Tick: tick, Way: way, Did: asks, Before: workers.Now()}
	workers.Say(e)
	err := do(func(context.Context) error {
		e.Did, e.After = ran, workers.Now()
		workers.Say(e)
		time.Sleep(w.Every / 20)
		return nil
	})
	switch {
	case e.Did == ran:
		return err
	case errors.Is(err, relock.ErrNotAcquired):
		e.Did = busy
	default:
		e.Did = failed
	}
	e.After = workers.Now()
	workers.Say(e)
	return err
}

// work does the job of a process that was started for one, and ends it.
func work() {
	var w worker
	workers.Main(&w, func() error { return w.run() })
}

func main() {
	work()
	s := setting{Logf: log.Printf}
	flag.StringVar(&s.Redis.URL, "redis", "", "the URL of a Redis, as redis://host:6379; without it one is embedded")
	flag.DurationVar(&s.Every, "every", time.Second, "the time from one tick to the next")
	flag.IntVar(&s.Ticks, "ticks", 8, "how many ticks are played")
	flag.IntVar(&s.KillAt, "kill", 4, "the tick in which the process that runs the job is killed, 0 for none")
	flag.Parse()
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	got, err := play(ctx, s)
	stop()
	if err != nil {
		log.Fatal(s.Redis.Explain(err))
	}
	fmt.Printf("\n%-8s %6s %6s\n", "way", "ticks", "runs")
	fmt.Printf("%-8s %6d %6d\n", "plain", s.Ticks, got.Plain)
	fmt.Printf("%-8s %6d %6d\n", "once", s.Ticks, got.Once)
}
