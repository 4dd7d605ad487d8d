package relockotel

import (
	"context"
	"errors"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/relock-go/relock"
)

// The attributes' keys.
const (
	keyName   = attribute.Key("relock.lock.name")
	keySort   = attribute.Key("relock.lock.sort")
	keyResult = attribute.Key("relock.result")
	keyHow    = attribute.Key("relock.how")
	keyCause  = attribute.Key("relock.cause")
	keyToken  = attribute.Key("relock.token")
	keyNode   = attribute.Key("relock.node")
	keyFor    = attribute.Key("relock.command")
)

// buckets are seconds: from a lock that lingered to a job that holds one for minutes.
var buckets = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300,
}

// meters are the instruments. What is a number of things is counted here and asked for when it is
// collected: that is twenty times cheaper than telling of each.
type meters struct {
	wait, hold metric.Float64Histogram
	servers    *servers
}

// newMeters makes the instruments. Those of the series that all returns are asked for.
func newMeters(m metric.Meter, all func() []*series) (*meters, error) {
	wait, err := m.Float64Histogram("relock.wait.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from Lock or TryLock to a lease or an error."),
		metric.WithExplicitBucketBoundaries(buckets...))
	if err != nil {
		return nil, err
	}
	hold, err := m.Float64Histogram("relock.hold.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from a lease to its Unlock or loss."),
		metric.WithExplicitBucketBoundaries(buckets...))
	if err != nil {
		return nil, err
	}
	counted := &meters{wait: wait, hold: hold, servers: newServers()}
	return counted, counted.register(m, all)
}

// register makes the instruments that are asked for.
func (m *meters) register(by metric.Meter, all func() []*series) error {
	var errs [6]error
	var waiting, held, down metric.Int64ObservableUpDownCounter
	var lost, failed, commands metric.Int64ObservableCounter
	waiting, errs[0] = by.Int64ObservableUpDownCounter("relock.waiting", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that wait for a lock now."))
	held, errs[1] = by.Int64ObservableUpDownCounter("relock.held", metric.WithUnit("{lease}"),
		metric.WithDescription("Leases that are held now."))
	down, errs[2] = by.Int64ObservableUpDownCounter("relock.nodes.down", metric.WithUnit("{node}"),
		metric.WithDescription("Redis servers that leave commands unanswered now."))
	lost, errs[3] = by.Int64ObservableCounter("relock.lost", metric.WithUnit("{lease}"),
		metric.WithDescription("Leases that ended before they were unlocked."))
	failed, errs[4] = by.Int64ObservableCounter("relock.renewal.failures", metric.WithUnit("{failure}"),
		metric.WithDescription("Times that renewals of a hold began to fail."))
	commands, errs[5] = by.Int64ObservableCounter("relock.commands", metric.WithUnit("{command}"),
		metric.WithDescription("Commands that were sent to Redis."))
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	_, err := by.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		m.servers.tell(o, down, commands)
		for _, s := range all() {
			s.waits.flush()
			s.holds.flush()
			o.ObserveInt64(waiting, s.waiting.Load(), s.plain.observe...)
			o.ObserveInt64(held, s.held.Load(), s.plain.observe...)
			o.ObserveInt64(failed, s.renewals.Load(), s.plain.observe...)
			for i := range s.losses {
				o.ObserveInt64(lost, s.losses[i].Load(), s.causes[i].observe...)
			}
		}
		return nil
	}, waiting, held, down, lost, failed, commands)
	return err
}

// lock counts what happens to a lock.
func (m *meters) lock(ctx context.Context, s *series, e *relock.Event) {
	switch e.Kind {
	case relock.EventWaiting:
		if e.Cause == nil { // it is told again with one
			s.waiting.Add(1)
		}
	case relock.EventAcquired:
		m.called(ctx, s, e, &s.acquired[how(e)])
		s.held.Add(1)
	case relock.EventAbandoned:
		m.called(ctx, s, e, &s.abandoned[resultOf(e.Cause)])
	case relock.EventReleased:
		m.ended(ctx, s, e, &s.released[how(e)])
	case relock.EventLost:
		m.ended(ctx, s, e, &s.lost[how(e)])
		s.losses[causeOf(e.Cause)].Add(1)
	case relock.EventRenewalFailed:
		s.renewals.Add(1)
	}
}

// called counts the end of a Lock or TryLock.
func (m *meters) called(ctx context.Context, s *series, e *relock.Event, as *labels) {
	if e.Waited {
		s.waiting.Add(-1)
	}
	s.waits.record(ctx, duration{in: &m.wait, as: as, d: e.Wait})
}

// ended counts the end of a lease.
func (m *meters) ended(ctx context.Context, s *series, e *relock.Event, as *labels) {
	s.held.Add(-1)
	s.holds.record(ctx, duration{in: &m.hold, as: as, d: e.Hold})
}

// hows is one more than there are ways to a lease.
const hows = int(relock.HowCached) + 1

// how is 0 for a way that this package does not know.
func how(e *relock.Event) int {
	if int(e.How) < hows {
		return int(e.How)
	}
	return 0
}

// What becomes of calls and leases, as indices and in words.
const (
	busy = iota
	failed
	closed
)

var results = [...]string{busy: "busy", failed: "failed", closed: "closed"}

// resultOf says why a call failed.
func resultOf(err error) int {
	switch {
	case errors.Is(err, relock.ErrNotAcquired):
		return busy
	case errors.Is(err, relock.ErrClosed):
		return closed
	}
	return failed
}

const (
	causeLost = iota
	causeMaxHold
	causeClosed
)

var causes = [...]string{causeLost: "lost", causeMaxHold: "max_hold", causeClosed: "closed"}

// causeOf says why a lease was lost.
func causeOf(err error) int {
	switch {
	case errors.Is(err, relock.ErrMaxHold):
		return causeMaxHold
	case errors.Is(err, relock.ErrClosed):
		return causeClosed
	}
	return causeLost
}

// labels are attributes, in the form that instruments take them.
type labels struct {
	observe []metric.ObserveOption
	record  []metric.RecordOption
}

func labelled(of ...attribute.KeyValue) labels {
	o := metric.WithAttributeSet(attribute.NewSet(of...))
	return labels{observe: []metric.ObserveOption{o}, record: []metric.RecordOption{o}}
}

// series is all that one name is counted under.
type series struct {
	name      string
	of        []attribute.KeyValue
	plain     labels
	acquired  [hows]labels
	released  [hows]labels
	lost      [hows]labels
	abandoned [len(results)]labels
	causes    [len(causes)]labels

	waiting, held, renewals atomic.Int64
	losses                  [len(causes)]atomic.Int64
	waits, holds            backlog // two: a lock's next holder is told of beside the one before
}

func newSeries(sort, name string) *series {
	s := &series{name: name, of: []attribute.KeyValue{keySort.String(sort)}}
	if name != "" {
		s.of = append(s.of, keyName.String(name))
	}
	with := func(more ...attribute.KeyValue) labels { return labelled(append(more, s.of...)...) }
	s.plain = with()
	for i := range hows {
		by := keyHow.String(relock.How(i).String())
		s.acquired[i] = with(by, keyResult.String("acquired"))
		s.released[i] = with(by, keyResult.String("released"))
		s.lost[i] = with(by, keyResult.String("lost"))
	}
	for i, result := range results {
		s.abandoned[i] = with(keyResult.String(result))
	}
	for i, cause := range causes {
		s.causes[i] = with(keyCause.String(cause))
	}
	return s
}
