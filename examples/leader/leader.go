package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/election"
)

// run takes part in the election called name until SIGTERM. While this process leads, it calls lead. The context of lead ends
// before another process leads, and lead must return then. process is what others see as the leader's name.
func run(rdb rueidis.Client, name, process string, lease time.Duration, lead func(context.Context) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	locks, err := relock.New(rdb, relock.WithClientName(process), relock.WithLogger(slog.Default()))
	if err != nil {
		return err
	}
	defer locks.Close() // after Run, which gives the lock back; and before rdb.Close
	leader := election.New(locks.Mutex(name, relock.WithLease(lease)))
	return leader.Run(ctx, lead) // again and again; nil after SIGTERM
}

// watch tells who leads, until ctx ends: at once, and then each time that it changes.
func watch(ctx context.Context, leader *election.Election, tell func(string)) {
	for now, err := range leader.Watch(ctx) {
		switch {
		case err != nil:
			tell("the leader is not known for now: " + err.Error())
		case now.Held:
			tell("the leader is " + now.Client.Name)
		default:
			tell("no process leads")
		}
	}
}
