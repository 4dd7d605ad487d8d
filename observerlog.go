package relock

import (
	"errors"
	"log/slog"

	"github.com/relock-go/relock/internal/eventlog"
	"github.com/relock-go/relock/internal/wire"
)

// WithLogger makes the client write to log what it tells no caller. At warn: leases that were lost, a
// Redis that stops answering or works worse than it should and the end of that (see EventNodeDown and
// EventNodeImpaired), a Lock that has waited for Redis itself for a second and each minute more,
// commands that Redis refuses for good (ErrRefused) or since it does not let the client in, and a
// Semaphore of which Redis keeps another number of permits, once for each name. At debug: all Events of
// an Observer.
//
// A cause is logged at once, and then in one line every 10 seconds, with the number of its events and
// the names of the first 20 locks. At debug each kind of event has up to 100 lines in 10 seconds. A
// handler that blocks delays wake-ups and renewals. One that panics loses its line: what an Observer's
// panic leads to, its own does too. Waiting goroutines get pprof labels as WithObserver
// says.
//
// By default nothing is written.
func WithLogger(log *slog.Logger) ClientOption {
	return &option{"WithLogger", wrongIf(log == nil, "the logger is nil"), func(c *config) { c.logged = newLogged(log) }}
}

// logged is the Observer that writes to a logger.
type logged struct{ *eventlog.Log }

func newLogged(log *slog.Logger) *logged {
	before := map[int]int{
		int(EventNodeUp):     int(EventWaiting), // Locks that waited for the node are told first
		int(EventNodeMended): int(EventNodeImpaired),
	}
	return &logged{eventlog.New(log, len(eventNames), before)}
}

// Observe writes a line, or keeps the event for a later one.
func (o *logged) Observe(e Event) {
	if rank := e.rank(); rank != eventlog.Quiet || o.Debugs() {
		o.Tell(e.record(rank))
	}
}

// record is the event for the log.
func (e *Event) record(rank eventlog.Rank) eventlog.Record {
	r := eventlog.Record{
		Rank: rank, Kind: int(e.Kind), Name: e.Kind.String(), Alarm: alarms[e.Kind], Node: e.Node, Lock: e.Lock, LockKind: e.LockKind,
		How: e.How.String(), Token: e.Token, Wait: e.Wait, Hold: e.Hold, Cause: e.Cause,
	}
	if lost, is := e.Cause.(*LostError); is {
		r.Cause = lost.Err // the line names the lock
	}
	if rank != eventlog.Quiet {
		r.Topic, _ = topic(e.Cause)
	}
	return r
}

// rank says which events are for the level warn. A lease that Close ended is not: that is no fault.
func (e *Event) rank() eventlog.Rank {
	loud := false
	switch e.Kind {
	case EventNodeDown:
		return eventlog.Down
	case EventNodeUp:
		return eventlog.Up
	case EventNodeImpaired, EventNodeMended:
		loud = true
	case EventLost:
		loud = !errors.Is(e.Cause, ErrClosed)
	case EventWaiting:
		loud = e.Cause != nil
	case EventAbandoned, EventReleased, EventRenewalFailed:
		_, loud = topic(e.Cause)
	}
	if loud {
		return eventlog.Alarm
	}
	return eventlog.Quiet
}

// alarms are the words with which lines at warn begin.
var alarms = [len(eventNames)]string{
	EventLost:          "a lock was lost",
	EventNodeDown:      "Redis does not answer",
	EventNodeUp:        "Redis answers again",
	EventWaiting:       "Lock waits for Redis itself",
	EventNodeImpaired:  "Redis works worse than it should",
	EventNodeMended:    "Redis works as it should again",
	EventAbandoned:     "Redis refuses a lock",
	EventReleased:      "Redis refuses to unlock",
	EventRenewalFailed: "Redis refuses a renewal",
}

// topic returns the error inside err that names no lock. Of a quorum's errors it prefers one that a
// retry would get too. refused reports whether a retry would, or Redis does not let the client in.
func topic(err error) (why error, refused bool) {
	switch e := err.(type) {
	case *NodeError:
		return e.Err, wire.Family(e.is) == ErrRefused || e.shut
	case *QuorumError:
		for i := len(e.Nodes) - 1; i >= 0 && !refused; i-- {
			why, refused = topic(e.Nodes[i])
		}
		return why, refused
	}
	return err, wire.Final(err) || wire.RefusesLogin(err) // of a renewal: no caller gets it
}
