// Command migration is a service that moves from another lock to relock's while it runs. Its releases are before, middle
// and after. docs/migrating.md says when to ship which.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/relock-go/relock"
)

var (
	from  = flag.String("from", "redsync", "the lock that the service comes from: redsync, redislock or rueidislock")
	step  = flag.String("step", "", "run one release: before, middle or after; without it all move, and the way back")
	url   = flag.String("redis", "", "the URL of a Redis, as redis://host:6379; without it one is embedded")
	lasts = flag.Duration("for", 5*time.Second, "how long two releases run beside each other")
)

// expiry is the old lock's.
var expiry = 8 * time.Second

func init() { flag.DurationVar(&expiry, "expiry", expiry, "the old lock's") }

// name is the lock's, in each library.
const name = "counter"

// job is work that ends with its context.
type job = func(context.Context) error

// release does work under the lock, or the locks, that one release of the service takes.
type release func(ctx context.Context, name string, work job) error

// service is what a release needs: the old lock as the service has used it, and relock.
type service struct {
	before release
	locks  *relock.Client
	close  func()
}

// libraries open a service that comes from each of them.
var libraries = map[string]func(url string) (service, error){
	"redsync": redsyncService, "redislock": redislockService, "rueidislock": rueidislockService,
}

// release is that of the step.
func (s service) release(step string) (release, error) {
	switch step {
	case "before":
		return s.before, nil
	case "middle":
		return func(ctx context.Context, name string, work job) error {
			return middle(ctx, s.before, s.locks, name, work)
		}, nil
	case "after":
		return func(ctx context.Context, name string, work job) error {
			return after(ctx, s.locks, name, work)
		}, nil
	}
	return nil, fmt.Errorf("-step %s: before, middle and after are possible", step)
}

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	switch open, known := libraries[*from]; {
	case !known:
		err = fmt.Errorf("-from %s: redsync, redislock and rueidislock are possible", *from)
	case *step == "":
		err = show(ctx)
	case *url == "":
		err = errors.New("-step needs -redis: a Redis that other processes use too")
	default:
		if os.Getenv(played) != "" {
			go func() { _, _ = io.Copy(io.Discard, os.Stdin); stop() }() // it ends with the process that plays
		}
		err = run(ctx, open)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run is one process of the service: it counts until ctx ends.
func run(ctx context.Context, open func(string) (service, error)) error {
	s, err := open(*url)
	if err != nil {
		return err
	}
	defer s.close()
	release, err := s.release(*step)
	if err != nil {
		return err
	}
	c, err := openCounter(*url)
	if err != nil {
		return err
	}
	defer c.rdb.Close()
	counts := sync.OnceFunc(func() { fmt.Println("release", *step, "counts") })
	for ctx.Err() == nil {
		err := release(ctx, name, func(ctx context.Context) error { return c.add(ctx, *step) })
		if err == nil {
			counts()
		} else if ctx.Err() == nil {
			log.Print(err) // redsync gives up after 32 tries
		}
		time.Sleep(rand.N(5 * time.Millisecond))
	}
	return nil
}
