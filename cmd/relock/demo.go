package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/wire"
	"github.com/spf13/cobra"
)

const (
	workers    = 3
	goroutines = 100 // in each worker
	victim     = 1   // which worker is killed

	lockNone   = "none"
	lockRelock = "relock"
)

// demoOptions are the flags of relock demo.
type demoOptions struct {
	redis   string
	secrets secrets
	nodes   int
	lock    string
	run     time.Duration
	lease   time.Duration
	otel    string        // where to serve metrics, "" for nowhere
	otelFor time.Duration // how long to serve them after the demo, 0 until interrupted
}

func (o *demoOptions) locked() bool { return o.lock == lockRelock }

// limit is how long the demo may take before it is ended with an error: the work, a lease of a holder that died, two
// leases for a node to come back, and time to start and to stop.
func (o *demoOptions) limit() time.Duration { return o.run + 3*o.lease + 5*time.Second }

// check returns what is wrong with the flags.
func (o *demoOptions) check() error {
	if o.lock != lockRelock && o.lock != lockNone {
		return fmt.Errorf("-lock %q: it is %s or %s", o.lock, lockRelock, lockNone)
	}
	if shortest := 100 * time.Millisecond; o.lease < shortest {
		return fmt.Errorf("-lease %v: the shortest is %v", o.lease, shortest)
	}
	// A worker is killed after a quarter of the time; the others must get the lock and go on well within the rest.
	if o.run < 2*o.lease {
		return fmt.Errorf("-for %v: twice the lease of %v is needed to see a crash through", o.run, o.lease)
	}
	if o.otel != "" && !o.locked() {
		return errors.New("-otel tells of locks: there are none with -lock none")
	}
	if err := o.checkNodes(); err != nil {
		return err
	}
	if o.redis == "" {
		return nil
	}
	_, err := o.target().options()
	return err
}

// target is the Redis of -redis; without -redis it has no URL. The demo ignores RELOCK_REDIS: it must not write to a
// Redis by chance.
func (o *demoOptions) target() target { return target{URL: o.redis, Secrets: o.secrets} }

func (a *app) demoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo [flags]",
		Short: "Let processes fight over a lock, kill one that holds it, and check what comes of it",
		Args:  cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.redis, "redis", "", "use the Redis at `URL`, redis://[user:password@]host:port[/db], "+
		"instead of an embedded miniredis")
	flags.IntVar(&o.nodes, "nodes", 1, "keep the lock on a quorum of `N` embedded Redis servers, of which one hangs, one is "+
		"stopped and comes back empty")
	flags.StringVar(&o.lock, "lock", lockRelock, "what keeps the workers apart, `relock|none`; with none the counter "+
		"goes wrong and the exit status is 1")
	flags.DurationVar(&o.run, "for", 8*time.Second, "how long the workers work")
	flags.DurationVar(&o.lease, "lease", 2*time.Second, "how long a lock outlives a process that died")
	flags.StringVar(&o.otel, "otel", "", "serve the workers' metrics for Prometheus at `[host]:port`, /metrics, during the demo and "+
		"after it")
	flags.DurationVar(&o.otelFor, "otel-for", 0, "with -otel, end so long after the demo, not by an interrupt")
	o.secrets.add(flags)
	cmd.RunE = func(*cobra.Command, []string) error {
		if o.redis != "" {
			if err := o.secrets.fill(flags); err != nil {
				return err
			}
		}
		if err := o.check(); err != nil {
			return err
		}
		a.status = o.start(a.std)
		return nil
	}
	return cmd
}

// start plays the demo. The exit status is 0 only if the counter is right (without a lock it is not) and all else is
// as promised.
func (o *demoOptions) start(std stdio) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	show := newProgress(std.out)
	x, err := openExhibit(o.otel)
	if err != nil {
		return failed(std, statusFailed, "relock demo", err)
	}
	defer x.close()
	r, err := o.play(ctx, std, show, x)
	show.wipe()
	if err != nil {
		return failed(std, statusFailed, "relock demo", cured(err))
	}
	status := statusOK
	if !r.print(std.out) {
		status = statusFailed
	}
	x.stay(ctx, o.otelFor, show)
	return status
}

// play runs the whole demo. With an error there is no report.
func (o *demoOptions) play(ctx context.Context, std stdio, show *progress, x *exhibit) (*report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit(), errTooLong)
	defer cancel()
	srv, err := openServer(o.target())
	if err != nil {
		return nil, err
	}
	defer srv.close()
	ns, err := openNodes(o.nodes, srv)
	if err != nil {
		return nil, err
	}
	defer ns.close()
	var rdbs []rueidis.Client
	for _, n := range ns {
		rdbs = append(rdbs, n.rdb)
	}
	locks, err := openLocksOn(rdbs, o.lease, relock.WithCommandTimeout(min(o.lease/3, 2*time.Second))) // for State alone
	if err != nil {
		return nil, err
	}
	defer locks.Close()

	name := "relock-demo-" + uuid.NewString()[:8]
	j := job{Target: srv.target, Nodes: ns.targets(), Lock: name, Counter: "relock-demo-counter:{" + name + "}",
		Locked: o.locked(), Lease: o.lease, Goroutines: goroutines, Observed: x != nil}
	s := &scene{o: o, srv: srv, ns: ns, job: j, mutex: locks.Mutex(name), show: show, journal: newJournal(), exhibit: x,
		faults: faults{ns: ns, lock: name, pause: o.run / 8, show: show}}
	defer s.faults.end()
	if err := s.set(ctx, 0); err != nil {
		return nil, err
	}
	defer s.sweep()
	show.say("%d processes of %d goroutines, %s, lock %s, lease %v", workers, goroutines, ns, o.lock, o.lease)
	if x != nil {
		show.say("metrics at %s", x.url)
	}
	if s.fleet, err = startFleet(workers, j, std.err); err != nil {
		return nil, err
	}
	defer s.fleet.close()
	if err := s.watch(ctx); err != nil {
		return nil, err
	}
	return s.report(context.WithoutCancel(ctx))
}

var errTooLong = errors.New("the demo did not end in time")

// set writes the counter.
func (s *scene) set(ctx context.Context, n int64) error {
	cmd := s.srv.rdb.B().Set().Key(s.job.Counter).Value(fmt.Sprint(n)).Build()
	if err := s.srv.rdb.Do(ctx, cmd).Error(); err != nil {
		return fmt.Errorf("write the counter: %w", err)
	}
	return nil
}

// sweep removes the keys that this run has left in the Redis, which may not be the demo's own. The token counter would
// stay there for minutes.
func (s *scene) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	tag := "{" + s.job.Lock + "}"
	keys := []string{s.job.Counter, s.job.Lock, "relock_queue:" + tag, "redisson_lock_token:" + tag}
	err := s.srv.rdb.Do(ctx, s.srv.rdb.B().Del().Key(keys...).Build()).Error()
	if s.crash != nil { // the killed worker has not removed its client's card; the others have
		card := wire.ClientKey(s.fleet.procs[s.crash.worker].client)
		err = errors.Join(err, s.srv.rdb.Do(ctx, s.srv.rdb.B().Del().Key(card).Build()).Error())
	}
	if err != nil {
		s.show.say("keys of lock %s may be left in Redis: %v", s.job.Lock, err)
	}
}
