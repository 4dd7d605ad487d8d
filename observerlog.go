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

	"github.com/relock-go/relock/internal/throttle"
	"github.com/relock-go/relock/internal/wire"
)

// WithLogger sets the logger. A client writes what no caller is told. At warn:
//
//   - leases that were lost;
//   - a Redis that stops answering and answers again, and one that works worse than it should: see
//     EventNodeDown, EventNodeUp and EventNodeImpaired;
//   - a Lock that has waited for Redis itself for a second, and for every minute more;
//   - commands that Redis refuses and that no retry heals, for want of memory or rights or for a key
//     of another type.
//
// Of one cause there is a line at once and then one every 10 seconds, with the number of what it
// stands for and the names of the first 20 locks. At debug stand the Events of an Observer, of each
// kind the first 100 in 10 seconds.
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
		c.logged = newLogged(log)
		return nil
	}}
}

// logged is the Observer that writes to a logger.
type logged struct {
	log   *slog.Logger
	warns *throttle.Lines[Event]
	debug [len(eventNames)]throttle.Budget

	mu   sync.Mutex
	down map[int]time.Time // since when a node does not answer; guarded by mu
}

func newLogged(log *slog.Logger) *logged {
	o := &logged{log: log, down: make(map[int]time.Time)}
	o.warns = throttle.New(o.warn, map[int]int{int(EventNodeUp): int(EventWaiting)}) // what waited for the node is told first
	return o
}

// Observe writes a line, or keeps the event for a later one.
func (o *logged) Observe(e Event) {
	switch {
	case e.Kind == EventNodeUp:
		o.up(e)
		return
	case e.Kind == EventNodeDown:
		o.wentDown(e.Node)
	}
	if e.alarms() && o.warns.Add(e.topic(), e, e.Lock) {
		return
	}
	if o.log.Enabled(context.Background(), slog.LevelDebug) {
		o.tell(e)
	}
}

// tell writes a line at debug, if there were not too many of the kind lately.
func (o *logged) tell(e Event) {
	skipped, ok := o.debug[e.Kind].Take()
	if !ok {
		return
	}
	attrs := e.attrs()
	if skipped > 0 {
		attrs = append(attrs, slog.Int("skipped", skipped))
	}
	o.log.LogAttrs(context.Background(), slog.LevelDebug, "relock: "+e.Kind.String(), attrs...)
}

// wentDown notes since when a node does not answer.
func (o *logged) wentDown(node int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.down[node].IsZero() {
		o.down[node] = time.Now()
	}
}

// up writes that a node answers again, if a line said that it does not.
func (o *logged) up(e Event) {
	o.mu.Lock()
	since, told := o.down[e.Node]
	delete(o.down, e.Node)
	o.mu.Unlock()
	if told {
		e.Wait = time.Since(since)
		o.warns.Add(e.topic(), e, "")
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
	return e.Kind == EventNodeDown || e.Kind == EventNodeImpaired
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

// topic is what lines at warn are counted by.
func (e Event) topic() throttle.Key {
	return throttle.Key{Kind: int(e.Kind), Node: e.Node, Cause: root(cmp.Or(refusal(e.Cause), e.Cause))}
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

// warnings are what lines at warn begin with.
var warnings = map[EventKind]string{
	EventLost:     "relock: a lock was lost",
	EventNodeDown: "relock: Redis does not answer",
	EventNodeUp:   "relock: Redis answers again",
	EventWaiting:  "relock: Lock waits for Redis itself",

	EventNodeImpaired: "relock: Redis works worse than it should",

	EventAbandoned:     "relock: Redis refuses a lock",
	EventReleased:      "relock: Redis refuses to unlock",
	EventRenewalFailed: "relock: Redis refuses a renewal",
}

// warn writes one line for some events of the same topic: e is the last of them, events is how many
// there were, and locks are the names of their locks.
func (o *logged) warn(e Event, events int, locks []string) {
	attrs := e.attrs()
	if events > 1 || locks != nil {
		attrs = append(attrs, slog.Int("since the line before", events))
	}
	if len(locks) > 0 {
		attrs = append(attrs, slog.String("locks", strings.Join(locks, " ")))
	}
	o.log.LogAttrs(context.Background(), slog.LevelWarn, warnings[e.Kind], attrs...)
}

// close writes what has not been written.
func (o *logged) close() {
	if o != nil {
		o.warns.Close()
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

// addLogged adds the logger to the observer that an option named. It is called once a client.
func (c *config) addLogged() {
	switch {
	case c.logged == nil:
	case c.observer == nil:
		c.observer = c.logged
	default:
		c.observer = observers{c.observer, c.logged}
	}
}
