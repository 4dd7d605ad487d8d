// Command leader shows that one of several processes leads, and how another one follows: at once after SIGTERM, and when the
// lease has run out after kill -9.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
	"github.com/relock-go/relock/examples/internal/workers"
)

// What a process says.
const (
	leads  = "leads"
	works  = "works"
	ended  = "ended"
	failed = "failed"
)

type event struct {
	Process int
	What    string
	At      time.Duration // on the clock that the processes share
	Until   time.Duration // of works: no other process leads before, unless this one ends its term
	Token   int64         // the term's
	Text    string
}

// job is what a process is started with.
type job struct {
	Redis   embedded.Redis
	Lease   time.Duration
	Process int
}

// lead is the leader's work. Here it does nothing but say that it goes on.
func (j job) lead(ctx context.Context) error {
	lease, _ := relock.FromContext(ctx)
	say := func(e event) {
		e.Process, e.Token = j.Process, relock.Token(ctx)
		workers.Say(e)
	}
	say(event{What: leads, At: workers.Now()})
	for {
		at := workers.Now() // before it asks: see check
		if ctx.Err() != nil {
			break
		}
		say(event{What: works, At: at, Until: at + time.Until(lease.Until())})
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	say(event{What: ended, At: workers.Now(), Text: context.Cause(ctx).Error()})
	return nil
}

func (j job) run() error {
	rdb, err := connect(j.Redis)
	if err != nil {
		return err
	}
	defer rdb.Close()
	return run(rdb, lockName, processName(j.Process), j.Lease, j.lead)
}

// work is the main of the processes.
func work() {
	var j job
	if !workers.Job(&j) {
		return
	}
	workers.EndWithParent()
	if err := j.run(); err != nil {
		workers.Say(event{Process: j.Process, What: failed, Text: err.Error()})
		os.Exit(1)
	}
	os.Exit(0)
}

func connect(to embedded.Redis) (rueidis.Client, error) {
	options, err := rueidis.ParseURL(to.URL)
	if err != nil {
		return nil, err
	}
	options.DisableCache = true // relock caches nothing
	if to.Embedded {            // it would be taken for a Cluster
		options.ForceSingleClient, options.AlwaysRESP2 = true, true
	}
	return rueidis.NewClient(options)
}

func main() {
	work()
	s := setting{Upsets: []upset{sigterm, sigkill}, Pause: 2 * time.Second, Logf: log.Printf}
	flag.StringVar(&s.Redis.URL, "redis", "", "the URL of a Redis, as redis://host:6379; without it one is embedded")
	flag.DurationVar(&s.Lease, "lease", 5*time.Second, "how long after kill -9 another process leads, at most")
	flag.IntVar(&s.Rounds, "rounds", 2, "how often a leader gets each signal")
	flag.Parse()
	log.SetFlags(log.Ltime)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	took, err := play(ctx, s)
	stop()
	if err != nil {
		log.Fatal(s.Redis.Explain(err))
	}
	fmt.Printf("\n%-8s   the next process led after\n", "signal")
	for _, u := range s.Upsets {
		fmt.Printf("%-8s  ", u.name)
		for _, d := range took[u.name] {
			fmt.Printf(" %v", d.Round(100*time.Microsecond))
		}
		fmt.Println()
	}
	fmt.Println("At no time did two processes lead.")
}
