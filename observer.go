package relock

import (
	"context"
	"time"
)

// An Observer is told what happens to a client's locks: for metrics, traces and logs.
type Observer interface {
	// Observe is called where the event happens, by the goroutine that makes it happen.
	//
	//   - It must not block, and must not use the client.
	//   - It must not panic. A panic of it ends there: locks go on as if it had returned. The panic is
	//     written at level error, with its stack, every 10 seconds at most: to the client's logger
	//     (WithLogger), or to slog.Default.
	//   - Calls of it overlap.
	//   - What an event says is true when it is told. Events of one lease come in order. Those of
	//     different leases need not.
	Observe(e Event)
}

// Event is what an Observer is told. Its fields by kind; others are zero:
//
//	EventWaiting        Lock LockKind Context Wait, and Cause if the call waits for Redis itself
//	EventAcquired       Lock LockKind Context Wait Waited Lease How Token, and From if HowLocal or HowCached
//	EventAbandoned      Lock LockKind Context Wait Waited Cause
//	EventReleased       Lock LockKind Context Lease How Token Hold, and Cause if Redis was not told yet
//	EventLost           Lock LockKind Context Lease How Token Hold Cause
//	EventRenewalFailed  Lock LockKind Cause
//	EventRecovered      Lock LockKind
//	EventWanted         Lock LockKind
//	EventNodeDown       Node Cause
//	EventNodeUp         Node
//	EventNodeImpaired   Node Cause
//	EventNodeMended     Node Cause
type Event struct {
	Kind     EventKind
	Lock     string          // name of the lock
	LockKind string          // kind of the lock: "mutex", "read", "write" or "semaphore"
	Context  context.Context // as given to Lock or TryLock
	Lease    uint64          // its number, unique in this process
	From     uint64          // number of the lease before it
	How      How             // how the lease was got
	Waited   bool            // EventWaiting was told before
	Token    int64           // fencing token of the lease
	Wait     time.Duration   // from the call to the grant; 0 if this process had the lock to give
	Hold     time.Duration   // from the grant to the call of Unlock, or the loss
	Node     int             // of a quorum, from 1; else 0
	Cause    error           // why it failed or ended
}

// EventKind says what happened.
type EventKind uint8

// The kinds of events. Each Lock, TryLock and Do ends in EventAcquired or EventAbandoned, and each
// EventAcquired in one EventReleased or EventLost.
const (
	// EventWaiting: a Lock was not granted by the first answer. It is told once, and again with a
	// Cause while the Lock waits for Redis itself: after a second without an answer, and then every
	// minute. If Redis says that it grants nothing for longer than a second (see WithRestartGuard),
	// the event with that Cause comes at once.
	EventWaiting EventKind = iota + 1
	// EventAcquired: a lease was returned.
	EventAcquired
	// EventReleased: Unlock has ended a lease. With a Cause, Redis is told later.
	EventReleased
	// EventLost: a lease ended before it was unlocked. The Cause is that of the lease's context.
	EventLost
	// EventRenewalFailed: a renewal was not answered, and is repeated. Only the first in a row is
	// told.
	EventRenewalFailed
	// EventRecovered: a renewal was answered again.
	EventRecovered
	// EventWanted: another process waits for a lock that is held here; see Lease.Wanted.
	EventWanted
	// EventNodeDown: a Redis has left a command unanswered. A client that sends no commands asks Redis
	// when its connection for messages has been lost for two seconds.
	EventNodeDown
	// EventNodeUp: the Redis has answered again. While it is down it is asked each second, so that the
	// event comes even if no lock is wanted.
	EventNodeUp
	// EventAbandoned: a Lock or TryLock failed. The Cause is the error that it returned.
	EventAbandoned
	// EventNodeImpaired: a Redis works worse than it should, and an operator has to mend it. The
	// Cause says what is wrong: a channel that may not be subscribed, a subscription that fails, a
	// message that neither relock nor Redisson can have sent, or a node of a quorum whose clock is
	// off or that tells no run id.
	EventNodeImpaired
	// EventNodeMended: the trouble that EventNodeImpaired told is over; the Cause says which. It is told
	// when channels may be subscribed again, messages are heard again, or a clock is right again. A
	// single fault, such as a message that was skipped, has no end that could be told.
	EventNodeMended
)

var eventNames = [...]string{
	"", "waiting", "acquired", "released", "lost", "renewal failed", "recovered", "wanted", "node down", "node up", "abandoned",
	"node impaired", "node mended",
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

// WithObserver makes the client tell o what happens to its locks. An o that is a ClientObserver too
// is given the client, to read its Stats. Without an observer that costs a branch.
//
// A goroutine that waits has the pprof label relock.lock, with the lock's name, beside the labels
// of the context given to Lock. After the wait it has only the labels of that context: Go cannot
// tell which others it had before.
//
// By default, and with nil, there is no observer.
func WithObserver(o Observer) ClientOption {
	return &option{"WithObserver", nil, func(c *config) {
		c.observers = nil
		if o != nil {
			c.observers = observers{o}
		}
	}}
}

// tell tells the observer, if there is one.
func (c *config) tell(e Event) {
	for _, o := range c.observers {
		c.panics.Guard("an observer", func() { o.Observe(e) })
	}
}

// observers are the observers of a client, nil for none: the user's, and the logger.
type observers []Observer
