// Package show plays the late write. One worker takes a lock and is stopped while it holds it. The lock goes on to a
// second worker, which writes. Then the first one goes on, and writes too late. The workers are processes of their own:
// the program starts itself again.
package show

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockgoredis"
	"github.com/relock-go/relock/examples/internal/embedded"
	"github.com/relock-go/relock/examples/internal/workers"
)

// Rounds is how often each way is played.
var Rounds = flag.Int("rounds", 3, "how often each way to write is played")

// Example is what a program shows.
type Example struct {
	Setting
	Lock string // the name of order 42's lock
	Ways []Way
	// Prepare brings order 42 into the store, in the first process. It may set Store. end is called also if it fails.
	Prepare func(ctx context.Context, s *Setting) (end func(), err error)
	// State reads the state of order 42.
	State func(ctx context.Context, s *Setting) (string, error)
}

// Way is one way to write: with what the store compares, or without it, as the control group.
type Way struct {
	Name    string
	Refusal error // what a late write fails with; nil if the store takes it
	// Work is called under the lock. It calls Pause, and then sets the order's state to the name of the worker.
	Work func(ctx context.Context, w *Worker, lease *relock.Lease) error
}

// Setting says where Redis and the store are.
type Setting struct {
	URL   string // of Redis
	Store string
	Redis *redis.Client `json:"-"`
}

// Worker is one process that works under the lock.
type Worker struct {
	Setting
	Locks *relock.Client `json:"-"`
	Way   string
	Name  string
	Late  bool // it is the one that is stopped
}

const (
	lease = 500 * time.Millisecond // short, so that the show is
	bound = time.Minute            // of one round, for a machine that is very busy
)

// Main reads the flags, plays the example and prints what happened. The example's own flags may set its fields.
func Main(e *Example) {
	Work(*e)
	flag.StringVar(&e.URL, "redis", "", "the URL of a Redis, as redis://host:6379; without it one is embedded")
	flag.Parse()
	log.SetFlags(log.Ltime)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	counts, err := Play(ctx, *e, *Rounds, log.Printf)
	stop()
	if err != nil {
		log.Fatal(embedded.Redis{URL: e.URL}.Explain(err))
	}
	fmt.Printf("\n%-10s %8s %8s   late writes\n", "way", "refused", "accepted")
	for i, way := range e.Ways {
		fmt.Printf("%-10s %8d %8d\n", way.Name, counts[i].Refused, counts[i].Accepted)
	}
}

// Count tells what became of the late writes.
type Count struct{ Refused, Accepted int }

// Play plays each way for so many rounds. It fails if a worker fails, and if the store keeps what it should not.
func Play(ctx context.Context, e Example, rounds int, logf func(string, ...any)) ([]Count, error) {
	s := e.Setting
	at := embedded.Redis{URL: s.URL}
	stop, err := at.Start()
	if err != nil {
		return nil, err
	}
	defer stop()
	s.URL = at.URL
	if err := s.connect(); err != nil {
		return nil, err
	}
	defer s.Redis.Close()
	end, err := e.Prepare(ctx, &s)
	if end != nil {
		defer end()
	}
	if err != nil {
		return nil, err
	}
	counts := make([]Count, len(e.Ways))
	for round := range rounds {
		for i, way := range e.Ways {
			refused, err := playRound(ctx, e, &s, way)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", way.Name, round+1, err)
			}
			if refused != "" {
				counts[i].Refused++
				logf("%s: the late write is refused: %s", way.Name, refused)
			} else {
				counts[i].Accepted++
				logf("%s: the late write is accepted", way.Name)
			}
		}
	}
	return counts, nil
}

// playRound returns what the late write was refused with, or "".
func playRound(ctx context.Context, e Example, s *Setting, way Way) (refused string, err error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	late, err := start(ctx, Worker{Setting: *s, Way: way.Name, Name: "late", Late: true})
	if err != nil {
		return "", err
	}
	defer late.end()
	if _, err = late.expect(holding); err != nil {
		return "", err
	}
	if err = late.stop(); err != nil {
		return "", err
	}
	next, err := start(ctx, Worker{Setting: *s, Way: way.Name, Name: "next"})
	if err != nil {
		return "", err
	}
	defer next.end()
	if _, err = next.expect(accepted); err != nil { // it has waited for the lease of the one that is stopped
		return "", err
	}
	if err = late.resume(); err != nil {
		return "", err
	}
	said, err := late.expect(accepted, refusal)
	if err != nil {
		return "", err
	}
	wins := "late"
	if said.Event == refusal {
		wins, refused = "next", said.Text
	}
	state, err := e.State(ctx, s)
	if err == nil && state != wins {
		err = fmt.Errorf("order 42 has the state %q, and %q should have won", state, wins)
	}
	return refused, err
}

func (s *Setting) connect() error {
	options, err := redis.ParseURL(s.URL)
	if err != nil {
		return err
	}
	options.ContextTimeoutEnabled = true
	s.Redis = redis.NewClient(options)
	return nil
}

// Work is called first in main, and in TestMain: in a process that was started as a worker it works, and exits.
func Work(e Example) {
	w := &Worker{}
	if !workers.Job(w) {
		return
	}
	if err := w.work(e); err != nil {
		workers.Say(said{Event: failure, Text: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

func (w *Worker) work(e Example) error {
	if err := w.connect(); err != nil {
		return err
	}
	defer w.Redis.Close()
	var err error
	if w.Locks, err = relockgoredis.New(w.Redis, relock.WithLease(lease), relock.WithClientName(w.Name)); err != nil {
		return err
	}
	defer w.Locks.Close()
	for _, way := range e.Ways {
		if way.Name != w.Way {
			continue
		}
		// A holder that asks its lease's context learns of the loss. This one has asked it before it was stopped.
		ctx := context.Background()
		lease, err := w.Locks.Mutex(e.Lock).Lock(ctx)
		if err != nil {
			return err
		}
		defer lease.Unlock(ctx) // of a lost lease it fails, and there is nothing left to give back
		err = way.Work(ctx, w, lease)
		switch {
		case err == nil:
			workers.Say(said{Event: accepted})
		case way.Refusal != nil && errors.Is(err, way.Refusal):
			workers.Say(said{Event: refusal, Text: err.Error()})
		default:
			return err
		}
		return nil
	}
	return fmt.Errorf("there is no way %q", w.Way)
}

// Pause stands between the check of the lease and the write. A process may be stopped there for any time: by the
// scheduler, a garbage collection, a virtual machine that moves. In the show it is stopped by SIGSTOP.
func (w *Worker) Pause() {
	if !w.Late {
		return
	}
	workers.Say(said{Event: holding})
	_, _ = io.ReadFull(os.Stdin, make([]byte, 1)) // the byte comes before it goes on
}
