// Command handover shows an API that accepts a report and hands its lock over to the process that writes it.
package main

import (
	"context"
	"errors"
	"flag"
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

// What a worker says.
const (
	begins  = "begins"
	writes  = "has written"
	refused = "is refused"
	failed  = "failed with"
)

type event struct {
	What, Report, Text string
	Token              int64
}

// process is what a worker process is started with.
type process struct {
	Redis embedded.Redis
	Lease time.Duration
	Takes time.Duration // how long it writes a report
}

// connect opens the clients that the API and each worker process have.
func connect(to embedded.Redis, name string, lease time.Duration) (*redis.Client, *relock.Client, error) {
	options, err := redis.ParseURL(to.URL)
	if err != nil {
		return nil, nil, err
	}
	options.ContextTimeoutEnabled = true
	rdb := redis.NewClient(options)
	locks, err := relockgoredis.New(rdb, relock.WithLease(lease), relock.WithClientName(name))
	return rdb, locks, err
}

func (p process) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	rdb, locks, err := connect(p.Redis, "worker", p.Lease)
	if err != nil {
		return err
	}
	defer rdb.Close()
	defer locks.Close()
	w := worker{locks, rdb, p.write, done}
	return w.run(ctx)
}

// write only takes its time.
func (p process) write(ctx context.Context, report string) error {
	workers.Say(event{What: begins, Report: report, Token: relock.Token(ctx)})
	select {
	case <-time.After(p.Takes):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func done(j job, err error) {
	e := event{What: writes, Report: j.Report}
	switch {
	case errors.Is(err, relock.ErrLost):
		e.What, e.Text = refused, err.Error()
	case err != nil:
		e.What, e.Text = failed, err.Error()
	}
	workers.Say(e)
}

// work does the job of a process that was started for one, and ends it.
func work() {
	var p process
	workers.Main(&p, func() error { return p.run() })
}

func main() {
	work()
	s := setting{Logf: log.Printf}
	flag.StringVar(&s.Redis.URL, "redis", "", "the URL of a Redis, as redis://host:6379; without it one is embedded")
	flag.DurationVar(&s.Lease, "lease", 3*time.Second, "how long the lock stands after its worker died")
	flag.DurationVar(&s.Pickup, "pickup", 5*time.Second, "how long a job may wait for a worker")
	flag.DurationVar(&s.Takes, "takes", 2*time.Second, "how long a worker writes")
	flag.Parse()
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := play(ctx, s)
	stop()
	if err != nil {
		log.Fatal(s.Redis.Explain(err))
	}
}
