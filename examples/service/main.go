// Command service is an HTTP service whose requests lock what they work on: complete, with metrics and an orderly end.
package main

import (
	"context"
	"flag"
	"log"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
)

func main() {
	var at embedded.Redis
	flag.StringVar(&at.URL, "redis", "", "the URL of a Redis, as redis://host:6379; without it one is embedded")
	addr := flag.String("addr", "localhost:8080", "where the service listens")
	takes := flag.Duration("work", 3*time.Second, "how long it takes to settle an order")
	var s service
	flag.DurationVar(&s.wait, "wait", 200*time.Millisecond, "how long a request waits for another one with its order")
	flag.DurationVar(&s.grace, "grace", 20*time.Second, "how long requests may go on after SIGTERM")
	flag.Parse()

	end, err := at.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer end()
	options, err := redis.ParseURL(at.URL)
	if err != nil {
		log.Fatal(err)
	}
	options.ContextTimeoutEnabled = true
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	slog.Info("serves", "at", "http://"+listener.Addr().String(), "redis", "redis://"+options.Addr) // without its password

	s.work = func(ctx context.Context, order string) error {
		select { // where a real one calls its database, and gives it relock.Token(ctx)
		case <-time.After(*takes):
			slog.Info("settled", "order", order, "token", relock.Token(ctx))
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := s.run(ctx, listener, options); err != nil {
		log.Fatal(err)
	}
}
