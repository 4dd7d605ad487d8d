package relockotel

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/relock-go/relock"
)

// The attributes' keys.
const (
	keyName   = attribute.Key("relock.lock.name")
	keyKind   = attribute.Key("relock.lock.kind")
	keyResult = attribute.Key("relock.result")
	keyHow    = attribute.Key("relock.how")
	keyCause  = attribute.Key("relock.cause")
	keyToken  = attribute.Key("relock.token")
	keyNode   = attribute.Key("relock.node")
	keyFor    = attribute.Key("relock.command")
)

// buckets are in seconds. The shortest are for locks that lingered, the longest for jobs of minutes.
var buckets = []float64{
	.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15, 60, 300,
}

// description is a histogram's name and description.
type description struct{ name, text string }

var (
	waitDuration = description{"relock.wait.duration", "Time from Lock or TryLock to a lease or an error."}
	holdDuration = description{"relock.hold.duration", "Time from a lease to its Unlock or loss."}
)

// histogram makes the instrument.
func (d description) histogram(m metric.Meter) (metric.Float64Histogram, error) {
	return m.Float64Histogram(d.name, metric.WithUnit("s"), metric.WithDescription(d.text),
		metric.WithExplicitBucketBoundaries(buckets...))
}

// meters are the instruments. All but the histograms are observable: this package counts, and the SDK
// asks for the counts when it collects. That is twenty times cheaper than to report each event.
type meters struct {
	wait, hold metric.Float64Histogram // nil where a Producer counts
	servers    *servers
}

// newMeters makes the instruments, without histograms if durations are produced (a Producer counts
// them). all returns the series to observe.
func newMeters(m metric.Meter, produced bool, all func() []*series) (*meters, error) {
	counted := &meters{servers: newServers()}
	if produced {
		return counted, counted.register(m, all)
	}
	var err error
	if counted.wait, err = waitDuration.histogram(m); err != nil {
		return nil, err
	}
	if counted.hold, err = holdDuration.histogram(m); err != nil {
		return nil, err
	}
	return counted, counted.register(m, all)
}

// register makes the observable instruments.
func (m *meters) register(by metric.Meter, all func() []*series) error {
	var errs [7]error
	var waiting, held, down metric.Int64ObservableUpDownCounter
	var lost, failed, commands metric.Int64ObservableCounter
	var oldest metric.Float64ObservableGauge
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
	oldest, errs[6] = by.Float64ObservableGauge("relock.hold.oldest.age", metric.WithUnit("s"),
		metric.WithDescription("For how long the oldest of the leases held now is held."))
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	_, err := by.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		m.servers.tell(o, down, commands)
		for _, s := range all() {
			s.waits.flush()
			s.holds.flush()
			o.ObserveInt64(waiting, s.waiting.Load(), s.plain.observe...)
			o.ObserveInt64(held, s.heldNow(), s.plain.observe...)
			o.ObserveFloat64(oldest, s.oldest.age().Seconds(), s.plain.observe...)
			o.ObserveInt64(failed, s.renewals.Load(), s.plain.observe...)
			for i := range s.losses {
				o.ObserveInt64(lost, s.losses[i].Load(), s.causes[i].observe...)
			}
		}
		return nil
	}, waiting, held, oldest, down, lost, failed, commands)
	return err
}

// lock counts what happens to a lock.
func (m *meters) lock(ctx context.Context, s *series, e *relock.Event) {
	switch e.Kind {
	case relock.EventWaiting:
		if e.Cause == nil { // the same wait may be reported again, with a cause
			s.waiting.Add(1)
		}
	case relock.EventAcquired:
		m.called(ctx, s, e, &s.acquired[how(e)])
		s.begun(1)
		s.oldest.begun(e.Lease)
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
	s.begun(-1)
	s.oldest.ended(e.Lease)
	s.holds.record(ctx, duration{in: &m.hold, as: as, d: e.Hold})
}

// hows is one more than the greatest relock.How.
const hows = int(relock.HowCached) + 1

// how returns the event's How as an index, 0 for a value that this package does not know.
func how(e *relock.Event) int {
	if int(e.How) < hows {
		return int(e.How)
	}
	return 0
}

// Outcomes of calls, as indices in results.
const (
	failed = iota // no answer, or a mistake of the caller's
	busy
	hopeless
	over
	closed
)

var results = [...]string{failed: "failed", busy: "busy", hopeless: "refused", over: "lost", closed: "closed"}

// resultOf returns the outcome of a call that failed with err, by the error's class.
func resultOf(err error) int {
	switch {
	case errors.Is(err, relock.ErrNotAcquired):
		return busy
	case errors.Is(err, relock.ErrRefused):
		return hopeless
	case errors.Is(err, relock.ErrLost):
		return over
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

// causeOf returns why a lease was lost, as an index in causes.
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
	set     attribute.Set
	observe []metric.ObserveOption
	record  []metric.RecordOption

	durations *durations // nil unless a Producer counts durations with these attributes
}

func labelled(of ...attribute.KeyValue) labels {
	set := attribute.NewSet(of...)
	o := metric.WithAttributeSet(set)
	return labels{set: set, observe: []metric.ObserveOption{o}, record: []metric.RecordOption{o}}
}

// series has the counts and attributes of one name and kind of locks.
type series struct {
	name      string
	of        []attribute.KeyValue
	plain     labels
	acquired  [hows]labels
	released  [hows]labels
	lost      [hows]labels
	abandoned [len(results)]labels
	causes    [len(causes)]labels

	produced     bool    // a Producer counts durations, the SDK's histograms do not
	waits, holds backlog // two: the end of a hold and the next grant are observed at the same time

	oldest oldest // which leases are held

	_                       [8]uint64 // keeps fields that events read off the cache line of the counters
	waiting, held, renewals atomic.Int64
	losses                  [len(causes)]atomic.Int64
	_                       [8]uint64
}

// begun adds n to the number of leases held. It need not if a Producer counts: heldNow subtracts the
// durations of holds from those of calls.
func (s *series) begun(n int64) {
	if !s.produced {
		s.held.Add(n)
	}
}

// heldNow returns how many leases are held. It reads the ends first, so that it counts no end without its
// beginning.
func (s *series) heldNow() (n int64) {
	if !s.produced {
		return s.held.Load()
	}
	for i := range hows {
		n -= s.released[i].durations.count() + s.lost[i].durations.count()
	}
	for i := range hows {
		n += s.acquired[i].durations.count()
	}
	return n
}

// newSeries makes the series of a kind and name. produced says that a Producer counts its durations.
func newSeries(sort, name string, produced bool) *series {
	s := &series{name: name, produced: produced, oldest: oldest{from: time.Now()}, of: []attribute.KeyValue{keyKind.String(sort)}}
	if name != "" {
		s.of = append(s.of, keyName.String(name))
	}
	with := func(more ...attribute.KeyValue) labels { return labelled(append(more, s.of...)...) }
	s.plain = with()
	counted := func(more ...attribute.KeyValue) labels {
		l := with(more...)
		if produced {
			l.durations = new(durations)
		}
		return l
	}
	for i := range hows {
		by := keyHow.String(relock.How(i).String())
		s.acquired[i] = counted(by, keyResult.String("acquired"))
		s.released[i] = counted(by, keyResult.String("released"))
		s.lost[i] = counted(by, keyResult.String("lost"))
	}
	for i, result := range results {
		s.abandoned[i] = counted(keyResult.String(result))
	}
	for i, cause := range causes {
		s.causes[i] = with(keyCause.String(cause))
	}
	return s
}
