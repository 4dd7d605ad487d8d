// Package relockotel tells OpenTelemetry what happens to the locks of package relock: metrics of
// waits, holds and losses, and spans of who waited for whom.
//
//	o, err := relockotel.New()
//	...
//	locks, err := relock.New(rdb, relock.WithObserver(o))
//
// The metrics, with what Prometheus makes of their names:
//
//	relock.wait.duration     relock_wait_duration_seconds    from Lock or TryLock to a lease or an error
//	relock.hold.duration     relock_hold_duration_seconds    from a lease to its Unlock or loss
//	relock.waiting           relock_waiting                  calls that wait now
//	relock.held              relock_held                     leases held now
//	relock.hold.oldest.age   relock_hold_oldest_age_seconds  for how long the oldest lease held now is held
//	relock.lost              relock_lost_total               leases that ended before they were unlocked
//	relock.renewal.failures  relock_renewal_failures_total   times that renewals of a hold began to fail
//	relock.nodes.down        relock_nodes_down               Redis servers that leave commands unanswered
//	relock.commands          relock_commands_total           commands that were sent to Redis
//
// Their attributes:
//
//	relock.lock.name  what WithLockName makes of the lock's name; no node has it
//	relock.lock.kind  "mutex"
//	relock.result     of waits: acquired, busy, failed (no answer, Redis not asked, or a mistake of the
//	                  program), refused (no retry helps), lost (the lease around the call) or closed;
//	                  of holds: released or lost
//	relock.how        of waits that were granted, and of holds: free, local, remote, reentered, cached
//	relock.cause      of losses: lost, max_hold, closed
//	relock.node       of nodes.down and commands: which of a quorum, from 1, as NewRedlock was given them
//	relock.command    of commands: acquire, release, renew, subscribe and the others of relock.Stats
//	relock.result     of commands: answered, refused (with an error) or unanswered
//
// relock.hold.oldest.age is 0 while none of a name is held. It is this Observer's: where one meter
// provider serves several, it tells the age of one of them, while the other metrics are sums.
//
// Each call of Lock, TryLock and Do is counted once, by what its caller was told, and each lease once
// more when it ends. Some count otherwise. All and Any count each lease that they had, also of a lock
// that they gave back, and one refusal for a call that failed. Downgrade counts as a call. Calls of a lock that cannot be, for its
// name or options, and of more permits than a semaphore was made with, are counted nowhere.
//
// The counters of a name exist, at zero, from its first event on: Prometheus sees a first loss as an
// increase. The counter of a command exists from the first such command on. One command may serve
// many locks.
//
// If the context given to Lock or TryLock carries a recorded span, the call and the hold get spans too,
// its children, named "lock" and "hold" with the lock's name. If another goroutine of the process passed
// the lock on to the call, the call's span links to that goroutine's hold.
//
// For locks that are passed on very often a Producer counts durations at a fraction of the cost.
//
// dashboard.json is a dashboard for Grafana, alerts.yml has rules for Prometheus.
package relockotel

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/relock-go/relock"
)

// scope is the instrumentation's name.
const scope = "github.com/relock-go/relock/contrib/relockotel"

// version returns this module's version in the program's build information.
var version = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return versionIn(info)
})

// versionIn finds this module's version in info, which may be nil.
func versionIn(info *debug.BuildInfo) string {
	if info == nil {
		return "unknown"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == scope && m.Version != "" {
			return m.Version
		}
	}
	return "unknown"
}

// ErrInvalidOption is returned by New for an option that cannot work.
var ErrInvalidOption = errors.New("relockotel: invalid option")

// An Option changes what an Observer records, and where.
type Option func(*config) error

type config struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	rename  func(string) string
	roots   bool

	producer *Producer
}

// WithMeterProvider sets where metrics go. By default it is the global one.
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(c *config) error {
		if p == nil {
			return fmt.Errorf("%w: WithMeterProvider: it is nil", ErrInvalidOption)
		}
		c.meters = p
		return nil
	}
}

// WithTracerProvider sets where spans go. By default it is the global one.
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(c *config) error {
		if p == nil {
			return fmt.Errorf("%w: WithTracerProvider: it is nil", ErrInvalidOption)
		}
		c.tracers = p
		return nil
	}
}

// WithLockName sets what stands for a lock's name in metrics and spans; "" leaves the attribute out. It
// must return the same for the same name, and may be called from any goroutine. After the first MaxNames
// different results each further one counts as "other".
//
// By default parts with a digit are ids and cut: "order:4711" is "order:*".
func WithLockName(rename func(lock string) string) Option {
	return func(c *config) error {
		if rename == nil {
			return fmt.Errorf("%w: WithLockName: it is nil", ErrInvalidOption)
		}
		c.rename = rename
		return nil
	}
}

// WithRootSpans makes spans also if the context given to Lock carries no recorded span, as the tracer
// provider's sampler decides. By default there are none: a trace with only a lock in it says little.
func WithRootSpans() Option {
	return func(c *config) error {
		c.roots = true
		return nil
	}
}

// An Observer turns the events of clients into metrics and spans: give it to relock.WithObserver. One may
// serve any number of clients. Its meter provider keeps it as long as the provider itself lives.
type Observer struct {
	names  *names
	meters *meters
	spans  *spans
}

var _ relock.ClientObserver = (*Observer)(nil)

// ObserveClient counts the commands of a client, and its nodes that are down, until the client is closed.
// The client calls it. An observer that passes events on to this one must pass this call on too.
func (o *Observer) ObserveClient(c *relock.Client) (closed func()) { return o.meters.servers.join(c) }

// New returns an observer. It fails with ErrInvalidOption for an option that cannot work, and with the
// error of a meter provider that refuses an instrument.
func New(opts ...Option) (*Observer, error) {
	c := config{rename: Anonymous}
	for _, opt := range opts {
		if err := opt(&c); err != nil {
			return nil, err
		}
	}
	if c.meters == nil {
		c.meters = otel.GetMeterProvider()
	}
	if c.tracers == nil {
		c.tracers = otel.GetTracerProvider()
	}
	n := &names{rename: c.rename, known: map[nameKey]*series{}, produced: c.producer != nil}
	if c.producer != nil && !c.producer.names.CompareAndSwap(nil, n) {
		return nil, fmt.Errorf("%w: WithProducer: it serves another Observer", ErrInvalidOption)
	}
	m, err := newMeters(c.meters.Meter(scope, metric.WithInstrumentationVersion(version())), n.produced, n.all)
	if err != nil {
		if c.producer != nil {
			c.producer.names.Store(nil) // so that it can serve another Observer
		}
		return nil, fmt.Errorf("relockotel: %w", err)
	}
	tracer := c.tracers.Tracer(scope, trace.WithInstrumentationVersion(version()))
	s := &spans{tracer: tracer, roots: c.roots, live: map[uint64]trace.Span{}}
	return &Observer{names: n, meters: m, spans: s}, nil
}

// Observe records an event. Clients call it.
func (o *Observer) Observe(e relock.Event) {
	ctx := e.Context
	if ctx == nil {
		ctx = context.Background()
	}
	if e.Lock == "" { // of a node: servers asks clients which nodes are down
		return
	}
	s := o.names.series(e.LockKind, e.Lock)
	o.meters.lock(ctx, s, &e)
	switch e.Kind {
	case relock.EventAcquired, relock.EventAbandoned:
		o.spans.called(ctx, s, &e)
	case relock.EventReleased, relock.EventLost:
		o.spans.ended(&e)
	}
}
