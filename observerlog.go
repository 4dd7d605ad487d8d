package relock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/relock-go/relock/internal/wire"
)

// WithLogger sets where a client writes what nobody is there to be told. At warn stand leases that
// were lost, a Redis that stops answering and answers again, a Lock that has waited for Redis itself
// for a second and for every minute more, commands that Redis refuses and that no retry heals, for
// want of memory or rights or for a key of another type, subscriptions that are refused or fail, and
// messages which neither relock nor Redisson can have sent. Of one cause there is a line at once and
// then one every 10 seconds, with the number of what it stands for and the names of the first 20
// locks. At debug stand the Events of an Observer, of each kind the first 100 in 10 seconds.
//
// Lines are written where things happen: a handler that blocks delays wake-ups and renewals. With a
// logger locks cost what they cost with an Observer, and goroutines that wait get pprof labels as
// WithObserver says.
//
// By default nothing is written.
func WithLogger(log *slog.Logger) Option {
	return Option{name: "WithLogger", clientOnly: true, apply: func(c *config) error {
		if log == nil {
			return fmt.Errorf("the logger is nil")
		}
		c.log, c.lines = log, newLines(log)
		return nil
	}}
}

const (
	// lineEvery is how far apart lines of one cause are.
	lineEvery = 10 * time.Second
	// namesInLine is how many locks a line names that stands for several.
	namesInLine = 20
	// debugLines is how many lines of one kind of event are written at debug in lineEvery.
	debugLines = 100
	// causesInLine bounds how many causes of one kind of event have lines of their own at one time.
	causesInLine = 8
)

// lines is the Observer that writes to a logger.
type lines struct {
	log *slog.Logger

	// mu guards what follows. A topic is there for as long as its timer runs, which is until
	// lineEvery has passed in which nothing was added to it.
	mu     sync.Mutex
	topics map[topic]*backlog
	down   map[int]time.Time // since when a node does not answer
	quotas [len(eventNames)]quota
	closed bool
}

// topic is what one line stands for.
type topic struct {
	kind  EventKind
	node  int
	cause string
}

// backlog is what came of a topic since its last line.
type backlog struct {
	events int
	locks  []string
	last   Event
	timer  *time.Timer
}

// quota is what was written at debug of one kind of event, since then.
type quota struct {
	since          time.Time
	lines, skipped int
}

func newLines(log *slog.Logger) *lines {
	return &lines{log: log, topics: make(map[topic]*backlog), down: make(map[int]time.Time)}
}

// Observe writes a line, or remembers the event for a later one.
func (o *lines) Observe(e Event) {
	switch {
	case e.Kind == EventNodeUp:
		o.up(e)
	case e.alarms() && o.due(e):
		o.warn(e, 1, nil)
	case o.log.Enabled(context.Background(), slog.LevelDebug):
		o.debug(e)
	}
}

// alarms reports whether an event is one for the level warn. What Close ended was meant to end.
func (e Event) alarms() bool {
	switch e.Kind {
	case EventLost:
		return !errors.Is(e.Cause, ErrClosed)
	case EventWaiting:
		return e.Cause != nil
	case EventAbandoned, EventReleased, EventRenewalFailed:
		return refusal(e.Cause) != nil
	}
	return e.Kind == EventNodeDown
}

// refusal is what Redis answered that no retry heals, nil where err is nothing of that kind.
func refusal(err error) error {
	switch e := err.(type) {
	case *NodeError:
		if e.final {
			return e.Err
		}
	case *SeatError:
		if e.final {
			return e.Err
		}
	case *QuorumError:
		for _, said := range e.Nodes {
			if answer := refusal(said); answer != nil {
				return answer
			}
		}
	default:
		if final(err) { // a renewal's, which goes to no caller
			return err
		}
	}
	return nil
}

// debug writes a line, if there were not too many of the kind lately.
func (o *lines) debug(e Event) {
	o.mu.Lock()
	q := &o.quotas[e.Kind]
	skipped := 0
	if now := time.Now(); now.Sub(q.since) >= lineEvery {
		skipped = q.skipped
		*q = quota{since: now}
	}
	q.lines++
	if q.lines > debugLines {
		q.skipped++
		o.mu.Unlock()
		return
	}
	o.mu.Unlock()
	attrs := e.attrs()
	if skipped > 0 {
		attrs = append(attrs, slog.Int("skipped", skipped))
	}
	o.log.LogAttrs(context.Background(), slog.LevelDebug, "relock: "+e.Kind.String(), attrs...)
}

// due reports whether e is to be written now.
func (o *lines) due(e Event) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.Kind == EventNodeDown && o.down[e.Node].IsZero() {
		o.down[e.Node] = time.Now()
	}
	t := o.topicOf(e)
	b := o.topics[t]
	if b == nil || o.closed {
		if !o.closed {
			o.topics[t] = &backlog{timer: time.AfterFunc(lineEvery, func() { o.flush(t) })}
		}
		return true
	}
	b.events, b.last = b.events+1, e
	if e.Lock != "" && len(b.locks) < namesInLine {
		b.locks = append(b.locks, e.Lock)
	}
	return false
}

// topicOf is e's. Where there are too many causes already, the rest is one. The caller holds o.mu.
func (o *lines) topicOf(e Event) topic {
	t := topic{kind: e.Kind, node: e.Node, cause: root(cmp.Or(refusal(e.Cause), e.Cause))}
	if o.topics[t] != nil {
		return t
	}
	same := 0
	for other := range o.topics {
		if other.kind == t.kind && other.node == t.node {
			same++
		}
	}
	if same >= causesInLine {
		t.cause = "" // no error's text
	}
	return t
}

// root is the text of what is at the bottom of an error: that does not name the lock. Of an answer of
// Redis's it is the code: what follows may tell how much time is left.
func root(err error) string {
	for err != nil {
		var next error
		switch err := err.(type) {
		case interface{ Unwrap() error }:
			next = err.Unwrap()
		case interface{ Unwrap() []error }:
			if all := err.Unwrap(); len(all) > 0 {
				next = all[0]
			}
		}
		if next == nil {
			return cmp.Or(wire.ReplyCode(err.Error()), err.Error())
		}
		err = next
	}
	return ""
}

// flushWaits writes what came of Locks that wait for Redis, which a line "answers again" may not
// stand before.
func (o *lines) flushWaits() {
	var held []backlog
	o.mu.Lock()
	for t, b := range o.topics {
		if t.kind == EventWaiting && b.events > 0 {
			held = append(held, *b)
			b.events, b.locks = 0, nil
			b.timer.Reset(lineEvery)
		}
	}
	o.mu.Unlock()
	for _, b := range held {
		o.warn(b.last, b.events, b.locks)
	}
}

// flush writes what came of a topic, or forgets it.
func (o *lines) flush(t topic) {
	o.mu.Lock()
	b := o.topics[t]
	if b == nil { // closed
		o.mu.Unlock()
		return
	}
	was := *b
	if was.events == 0 {
		delete(o.topics, t)
	} else {
		b.events, b.locks = 0, nil
		b.timer.Reset(lineEvery)
	}
	o.mu.Unlock()
	if was.events == 0 {
		return
	}
	if t.kind == EventNodeUp {
		o.flushWaits()
	}
	o.warn(was.last, was.events, was.locks)
}

// up writes that a node answers again, if a line said that it does not.
func (o *lines) up(e Event) {
	o.mu.Lock()
	since, told := o.down[e.Node]
	delete(o.down, e.Node)
	o.mu.Unlock()
	if !told {
		return
	}
	e.Wait = time.Since(since) // as long as it was waited for
	if o.due(e) {
		o.flushWaits()
		o.warn(e, 1, nil)
	}
}

// said is what lines at warn begin with.
var said = map[EventKind]string{
	EventLost:     "relock: a lock was lost",
	EventNodeDown: "relock: Redis does not answer",
	EventNodeUp:   "relock: Redis answers again",
	EventWaiting:  "relock: Lock waits for Redis itself",

	EventAbandoned:     "relock: Redis refuses a lock",
	EventReleased:      "relock: Redis refuses to unlock",
	EventRenewalFailed: "relock: Redis refuses a renewal",
}

// warn writes a line of an event, the last of so many.
func (o *lines) warn(e Event, events int, locks []string) {
	attrs := e.attrs()
	if events > 1 || locks != nil {
		attrs = append(attrs, slog.Int("since the line before", events))
	}
	if len(locks) > 0 {
		attrs = append(attrs, slog.String("locks", strings.Join(locks, " ")))
	}
	o.log.LogAttrs(context.Background(), slog.LevelWarn, said[e.Kind], attrs...)
}

// close writes what has not been written.
func (o *lines) close() {
	if o == nil {
		return
	}
	o.mu.Lock()
	left := o.topics
	o.topics, o.closed = nil, true
	o.mu.Unlock()
	for _, b := range left {
		b.timer.Stop()
		if b.events > 0 {
			o.warn(b.last, b.events, b.locks)
		}
	}
}

// attrs are what a line says of an event.
func (e Event) attrs() []slog.Attr {
	attrs := make([]slog.Attr, 0, 8)
	if e.Lock != "" {
		attrs = append(attrs, slog.String("lock", e.Lock), slog.String("sort", e.Sort))
	}
	if e.Node > 0 {
		attrs = append(attrs, slog.Int("node", e.Node))
	}
	if e.How > 0 {
		attrs = append(attrs, slog.String("how", e.How.String()), slog.Int64("token", e.Token))
	}
	if d := cmp.Or(e.Wait, e.Hold); d > 0 {
		name := "held"
		switch {
		case e.Kind == EventNodeUp:
			name = "after"
		case e.Wait > 0:
			name = "waited"
		}
		attrs = append(attrs, slog.Duration(name, d.Round(time.Microsecond)))
	}
	if e.Cause != nil {
		attrs = append(attrs, slog.Any("cause", e.Cause))
	}
	return attrs
}

// observers tells several.
type observers []Observer

// Observe tells all of them.
func (all observers) Observe(e Event) {
	for _, o := range all {
		o.Observe(e)
	}
}

// addLines lets the logger be told, beside whom an option named. It is called once a client.
func (c *config) addLines() {
	switch {
	case c.lines == nil:
	case c.observer == nil:
		c.observer = c.lines
	default:
		c.observer = observers{c.observer, c.lines}
	}
}
