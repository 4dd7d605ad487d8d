package relock

import (
	"context"
	"time"
)

// An Observer is told what happens to a client's locks: for metrics, traces and logs.
type Observer interface {
	// Observe is called where the event happens, by the goroutine that makes it happen, so it must
	// not block, and calls of it overlap. It must not use the client. What an event says is true
	// when it is told; events of one lease come in order, those of different leases need not.
	Observe(e Event)
}

// Event is what an Observer is told.
type Event struct {
	Kind    EventKind
	Lock    string          // its name; "" for a node's
	Sort    string          // of lock: "mutex"
	Context context.Context // of a call's and a lease's: that was given to Lock or TryLock; nil for others
	Lease   uint64          // of EventAcquired, EventReleased and EventLost: no other lease of this process has that number
	From    uint64          // of EventAcquired, HowLocal and HowCached: the lease that had the lock before
	How     How             // of EventAcquired, EventReleased and EventLost: how the lease was got
	Waited  bool            // of EventAcquired and EventAbandoned: EventWaiting was told of that call before
	Token   int64           // of EventAcquired, EventReleased and EventLost: the lease's fencing token
	Wait    time.Duration   // of EventWaiting, EventAcquired and EventAbandoned: since Lock or TryLock, up to the grant; 0 if this process had it to give
	Hold    time.Duration   // of EventReleased and EventLost: from the grant until Unlock was called, or the loss
	Node    int             // of a node's: which of a quorum, from 1; 0 where one Redis decides
	Cause   error           // why, where something failed or ended by itself; else nil
}

// EventKind says what happened.
type EventKind uint8

// The kinds of events. Each Lock, TryLock and Do ends in EventAcquired or EventAbandoned, and each
// EventAcquired in one EventReleased or EventLost.
const (
	// EventWaiting: a Lock was not granted by the first answer. It is told once, and with a Cause, again after
	// a second and every minute, where Redis itself is what the Lock waits for: after the first command that is
	// not answered for longer, and at once where it says that it grants nothing for longer (WithRestartGuard).
	EventWaiting EventKind = iota + 1
	// EventAcquired: a lease was returned.
	EventAcquired
	// EventReleased: Unlock has ended a lease. With a Cause Redis was not told yet, and is told in
	// the background.
	EventReleased
	// EventLost: a lease ended before it was unlocked. The Cause is that of its context, and
	// ErrClosed where the client was closed.
	EventLost
	// EventRenewalFailed: a renewal was not answered; it is repeated. It is told of the first one
	// that fails after one that did not.
	EventRenewalFailed
	// EventRecovered: a renewal was answered again.
	EventRecovered
	// EventWanted: another process waits for a lock that is held here; see Lease.Wanted.
	EventWanted
	// EventNodeDown: a Redis has left a command unanswered.
	EventNodeDown
	// EventNodeUp: it has answered again.
	EventNodeUp
	// EventAbandoned: a Lock or TryLock failed. The Cause is what it returned.
	EventAbandoned
	// EventNodeImpaired: a Redis works worse than it should, and somebody has to mend that. The Cause
	// says what is wrong: a channel that may not be subscribed, a subscription that fails, a message
	// that neither relock nor Redisson can have sent, a node of a quorum whose clock is off or that
	// tells no run id.
	EventNodeImpaired
)

var eventNames = [...]string{
	"", "waiting", "acquired", "released", "lost", "renewal failed", "recovered", "wanted", "node down", "node up", "abandoned",
	"node impaired",
}

// String returns the kind in words.
func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return ""
}

// How says how a lease was got.
type How uint8

// The ways to a lease.
const (
	HowFree      How = iota + 1 // from Redis, by its first answer
	HowLocal                    // passed on by another goroutine of this process
	HowRemote                   // from Redis, but not by its first answer
	HowReentered                // under the context of a lease of the same lock
	HowCached                   // from this process, where it lingered
)

var howNames = [...]string{"", "free", "local", "remote", "reentered", "cached"}

// String returns the way in a word.
func (h How) String() string {
	if int(h) < len(howNames) {
		return howNames[h]
	}
	return ""
}

// WithObserver has o told what happens to the client's locks. What it costs is o's: without one it is
// a branch. A goroutine that waits has the pprof label relock.lock, with the lock's name, beside the
// labels of the context given to Lock. Once it has waited it has those of that context alone: labels
// that were set on the goroutine otherwise are gone, since Go cannot tell which it had.
//
// By default nobody is told.
func WithObserver(o Observer) Option {
	return Option{name: "WithObserver", clientOnly: true, apply: func(c *config) error {
		c.observer = o
		return nil
	}}
}
