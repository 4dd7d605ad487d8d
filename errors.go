package relock

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/link"
	"github.com/relock-go/relock/internal/wire"
)

// Each error of this package belongs to one class, and matches the class's sentinel by errors.Is. The
// classes exclude each other, so a switch may ask for them in any order. Two errors are no more than what
// they wrap: that of a Shutdown whose context ended, and that of a MultiLease, which joins the errors of
// several locks. The classes:
//
//   - ErrNotAcquired: another owner has the lock;
//   - ErrUnavailable: Redis gave no answer;
//   - ErrRefused: Redis answers, and no retry helps;
//   - ErrLost: the caller's lock is no longer held;
//   - ErrMisuse: a mistake in the program or its configuration;
//   - ErrClosed: the Client is closed;
//   - errors.ErrUnsupported: the lock cannot do this, as a read-write lock over a quorum.
//
// A wait may end by an error of this package: as the cause of its context, when the lease that it ran
// under was lost. Then the wait's error is of that error's class alone. Any other cause matches beside
// the class.
var (
	// ErrNotAcquired says that the lock is busy. TryLock returns it, and Lock when the caller gave
	// up waiting. It is a *HeldError.
	ErrNotAcquired = wire.ErrNotAcquired

	// ErrUnavailable says that Redis gave no answer: it could not be reached, was silent, is loading or
	// failing over, may have forgotten locks, refuses a password that it took before, or was not asked
	// (ErrNotAsked). Nothing is known of the lock. It is a *NodeError, on a quorum a *QuorumError.
	ErrUnavailable = wire.ErrUnavailable

	// ErrNotAsked says that the caller's context had ended before the call, so that Redis was not
	// asked. It is of the class ErrUnavailable.
	ErrNotAsked = wire.ErrNotAsked

	// ErrRefused says that Redis answers, and that no retry helps before an operator or the program
	// is changed: a missing right, a password that Redis has never taken from this client, a key of
	// another type, no memory. It is a *NodeError, or a *QuorumError if the nodes that do not refuse are
	// no quorum.
	ErrRefused = wire.ErrRefused

	// ErrWrongKind says that the name belongs to a lock of another kind, as to a read-write lock if a
	// mutex was asked for, or to a key that is no lock. It is of the class ErrRefused.
	ErrWrongKind = wire.ErrWrongKind

	// ErrLost says that the caller's lock is no longer held: its lease ran out, or it was forced
	// open. In a *LostError it is the cause of the lease's context and what every later call on the lease
	// returns.
	ErrLost = wire.ErrLost

	// ErrMaxHold says that a hold ended because WithMaxHold's time was up. It is of the class ErrLost.
	ErrMaxHold = wire.ErrMaxHold

	// ErrClosed is returned by every call on a closed Client that would ask Redis. It is the cause of the contexts of
	// leases that were held when the Client was closed.
	ErrClosed = wire.ErrClosed

	// ErrMisuse is the class of the errors below. By itself it says that a nil context or function was
	// given, that a lock or a Client was not made by this package's functions, that a text is no handle or
	// a result cannot be decoded, or that locks cannot go together in All or Any.
	ErrMisuse = wire.ErrMisuse

	// ErrNotHeld is returned by Unlock, Extend and Held when the lock is not held by the caller:
	// never taken, or unlocked already. It is also the cause of a lease's context after Unlock.
	ErrNotHeld = wire.ErrNotHeld

	// ErrHandedOver is the cause of a lease's context after HandOver. Code that still runs under that
	// context runs without the lock.
	ErrHandedOver = wire.ErrHandedOver

	// ErrUpgrade is returned by RWMutex.Lock under the context of a read lease of the same lock: the
	// writer would wait for itself.
	ErrUpgrade = wire.ErrUpgrade

	// ErrInvalidName is returned for a lock name that Redis, or a Redis Cluster, cannot serve.
	ErrInvalidName = wire.ErrInvalidName

	// ErrInvalidOwner is returned for an owner id that WithOwner cannot use.
	ErrInvalidOwner = wire.ErrInvalidOwner

	// ErrInvalidOption is returned for an option whose value cannot work, or that the lock does not have,
	// and for a number or a time given to a method that is out of range.
	ErrInvalidOption = wire.ErrInvalidOption

	// ErrTooMany says that a caller wants more permits than the Semaphore has.
	ErrTooMany = wire.ErrTooMany

	// ErrTooLarge says that a Flight's value has more than 64 KiB as it is encoded.
	ErrTooLarge = wire.ErrTooLarge

	// ErrInvalidNodes says that the nodes of a quorum are no independent masters: one is a replica,
	// or two are the same server. It is in a *NodeError.
	ErrInvalidNodes = wire.ErrInvalidNodes
)

// HeldError tells why a lock was not acquired and which holder was in the way. Its class is
// ErrNotAcquired, unless Cause is of another.
type HeldError struct {
	Name   string        // the lock
	Holder string        // field of the holder in Redis, "" when unknown; see State.Holder
	Client ClientInfo    // name of the holder, zero when unknown; see WithClientName
	TTL    time.Duration // what was left of the holder's lease unless renewed, 0 when unknown, negative when it never ends

	// RetryAfter is how long to wait before the next try: about as long as a hold of this lock lasts. It
	// is never 0, and does not depend on how many wait. It is the greater of
	//
	//   - the running mean of the holds of this name that this client has seen, in which the latest
	//     weighs a quarter: its own from Lock to Unlock, others' as far as its refusals showed them. It
	//     is one second if the client has seen none;
	//   - how long this holder has been in this client's way so far, but at most TTL, or 30 seconds if
	//     TTL is not known. If this client has the lock, that is how long its latest lease has lasted;
	//   - with WithMinHold, TTL, but at most that option's time.
	RetryAfter time.Duration

	Wanted bool  // TryLock asked the holder to give way; if the lock was idle there, try again
	Local  bool  // the caller waited behind another goroutine of this process, and Redis was not asked for it
	Cause  error // why waiting ended; nil for TryLock, or a *QuorumError with the nodes' answers

	nodes   bool          // Cause is that QuorumError, not why the caller gave up
	age     time.Duration // of the lease in force, if this process has the lock
	lingers bool          // the caller's locks may linger, so that others' may, too
}

// Error names the lock, its holder (as Client says, or else Holder), and the cause.
func (e *HeldError) Error() string {
	msg := fmt.Sprintf("relock: lock %q not acquired", e.Name)
	who := wire.Owner(e.Holder, wire.Card(e.Client))
	switch {
	case who == "":
	case e.TTL < 0:
		msg += fmt.Sprintf(": held by %s without an end", who)
	case wire.IsHandleField(e.Holder):
		msg += fmt.Sprintf(": held by %s within %v", who, e.TTL)
	default:
		msg += fmt.Sprintf(": held by %s for another %v unless renewed", who, e.TTL)
	}
	switch {
	case e.age > 0:
		msg += fmt.Sprintf("; a goroutine of this process has had it for %v", e.age.Round(time.Millisecond))
	case e.Local:
		msg += "; another goroutine of this process was first"
	}
	if e.Wanted && e.lingers {
		msg += "; it was asked to give the lock back if it lingers there (WithLinger): try again"
	}
	return wire.GaveUp(msg, e.Cause)
}

// Is reports whether target is the error's class, or the cause matches it.
func (e *HeldError) Is(target error) bool {
	is := ErrNotAcquired
	if !e.nodes {
		is = cmp.Or(wire.ClassOf(e.Cause), is)
	}
	return wire.Matches(target, is, e.Cause)
}

// As finds target in the cause.
func (e *HeldError) As(target any) bool { return errors.As(e.Cause, target) }

// A LostError tells which lock was lost. It is of the class ErrLost.
type LostError struct {
	Name string // of the lock
	Err  error  // ErrLost, or ErrMaxHold, which matches ErrLost
}

// Error names the lock, and says how it was lost.
func (e *LostError) Error() string { return wire.Began("lock", e.Name) + wire.InWords(e.Err) }

// Unwrap returns Err.
func (e *LostError) Unwrap() error { return e.Err }

// isLost reports whether err says that the very lock that was asked about is lost. An error that only wraps
// ErrLost may be about another lock, under whose context the caller waited.
func isLost(err error) bool {
	_, named := err.(*LostError)
	return named || wire.IsLost(err)
}

// ClientInfo is what a client with WithClientName says of itself. It is zero if nothing is known.
type ClientInfo struct {
	Name    string    `json:"name"`
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Started time.Time `json:"started,omitzero"`  // when the client was made, by its own clock, in milliseconds
	Version string    `json:"version,omitempty"` // of the library
}

// String returns a text such as "billing on pod-7f9c (pid 12)", and "" for the zero ClientInfo.
func (h ClientInfo) String() string { return wire.Card(h).String() }

// Command says what a command to Redis is for, in a word that fits a metric's attribute. A later release
// may add words, and part or merge them: programs show them, and do not list them. The words of this one:
//
//	acquire    questions for a lock; on a quorum votes
//	release    locks given back
//	renew      renewals of leases
//	recount    re-entries, inner Unlocks, Extend
//	refill     the next fencing tokens
//	move       HandOver and TakeOver
//	resize     SetPermits, and the first number of permits
//	sweep      releases of entries that Redis may still have, though no caller wants them
//	fence      writes and reads of a quorum's fencing counters
//	force      ForceUnlock
//	inspect    State; a holder's name; a semaphore's number
//	introduce  this client's name, written and withdrawn: see WithClientName
//	flight     results of a Flight: read, left, forgotten
//	check      whether a Redis answers, or was restarted; which channels a Cluster has; TrustNodes
//	subscribe  subscriptions, and their ends
type Command string

// NodeError is what one Redis answered, or the failure to reach it. Unless the wrapped error is a
// reply of Redis, the command may have run. Its class is ErrUnavailable, or ErrRefused if no retry
// helps, unless Cause is of another. For a quorum's node it may also be ErrNotAcquired or ErrLost, by
// what that node knows, or ErrMisuse (ErrInvalidNodes).
type NodeError struct {
	Op    Command
	Name  string // the lock, "" when it concerned the node itself
	Node  int    // the place in NewRedlock's list, from 1; 0 if one Redis decides alone
	Err   error
	Cause error // why the caller gave up; nil if Err alone ended the call

	// Quarantine is how much longer the node grants nothing, since it may have forgotten locks (see
	// WithRestartGuard). It is 0 if the node failed for another reason.
	Quarantine time.Duration

	is   error  // the sentinel that Err is; nil for ErrUnavailable
	hint string // what to do about Err
	shut bool   // Redis does not let the client in; that may pass
}

// Error says what failed on which lock, what to do if waiting does not help, and how long the node's
// Quarantine lasts.
func (e *NodeError) Error() string {
	return wire.GaveUp(wire.Began(string(e.Op), e.Name)+e.said(), e.Cause)
}

// said is the text of Err, with its node, what to do and the Quarantine.
func (e *NodeError) said() string {
	msg := wire.InWords(e.Err)
	if e.Node > 0 {
		msg = fmt.Sprintf("node %d: %s", e.Node, msg)
	}
	if e.hint != "" {
		msg += " (" + e.hint + ")"
	}
	if e.Quarantine > 0 {
		left := max(e.Quarantine.Round(100*time.Millisecond), 100*time.Millisecond)
		msg += fmt.Sprintf(" (it may have forgotten locks and grants none for another %v, see WithRestartGuard)", left)
	}
	return msg
}

// Is reports whether target is the error's class or finer, or Err or the cause matches it.
func (e *NodeError) Is(target error) bool {
	return wire.Matches(target, cmp.Or(wire.ClassOf(e.Cause), e.is, ErrUnavailable), e.Err, e.Cause)
}

// As finds target in Err, or in the cause.
func (e *NodeError) As(target any) bool {
	return errors.As(e.Err, target) || errors.As(e.Cause, target)
}

// QuorumError says why no quorum agreed. Its class is ErrUnavailable, or ErrRefused if the nodes that do
// not refuse for good are no quorum, unless Cause is of another. The class of a single node's error is
// not the QuorumError's.
type QuorumError struct {
	Op    Command
	Name  string       // the lock, "" when it concerned the nodes themselves
	Need  int          // nodes that had to agree
	Of    int          // nodes in all
	Nodes []*NodeError // those that did not agree
	Cause error        // why the caller gave up; nil if the nodes alone ended the call
}

// Error names the operation and each node's answer.
func (e *QuorumError) Error() string {
	if len(e.Nodes) > 0 && e.count(ErrNotAsked) == len(e.Nodes) {
		return wire.GaveUp(wire.Began(string(e.Op), e.Name)+wire.InWords(ErrNotAsked), e.Cause)
	}
	said := make([]string, len(e.Nodes))
	for i, node := range e.Nodes {
		said[i] = node.said()
	}
	msg := fmt.Sprintf("%sno quorum of %d of %d nodes: %s", wire.Began(string(e.Op), e.Name), e.Need, e.Of, strings.Join(said, "; "))
	return wire.GaveUp(msg, e.Cause)
}

// count returns how many nodes' errors match one of the targets.
func (e *QuorumError) count(targets ...error) (n int) {
	for _, node := range e.Nodes {
		if slices.ContainsFunc(targets, node.Is) {
			n++
		}
	}
	return n
}

// Is reports whether target is the error's class or finer, or a node's error or the cause matches it.
func (e *QuorumError) Is(target error) bool {
	is := wire.ClassOf(e.Cause)
	switch {
	case is != nil:
	case e.count(ErrClosed) > 0: // the Client is closed, whatever the other nodes failed with
		is = ErrClosed
	case e.count(ErrRefused, ErrMisuse) > e.Of-e.Need:
		is = ErrRefused
	default:
		is = ErrUnavailable
	}
	return wire.Matches(target, is, append(e.all(), e.Cause)...)
}

// As finds target in a node's error, or in the cause.
func (e *QuorumError) As(target any) bool {
	return slices.ContainsFunc(append(e.all(), e.Cause), func(err error) bool { return errors.As(err, target) })
}

// all are the nodes' errors.
func (e *QuorumError) all() []error {
	errs := make([]error, len(e.Nodes), len(e.Nodes)+1)
	for i, node := range e.Nodes {
		errs[i] = node
	}
	return errs
}

// outward turns an error of an internal package into the one that the caller sees. Every error that
// this package returns goes through it.
//
//   - An error of an internal type becomes one of this package's, whose fields godoc shows.
//   - An error that Redis answered becomes the client library's own.
//   - A caller that gave up gets the cause of its context.
func outward(err error) error {
	switch e := err.(type) {
	case *wire.HeldError:
		_, nodes := e.Cause.(*wire.QuorumError)
		return &HeldError{
			Name: e.Name, Holder: e.Holder, Client: ClientInfo(e.By), TTL: e.TTL, Wanted: e.Wanted, Local: e.Local,
			Cause: outward(e.Cause), nodes: nodes,
		}
	case *wire.NodeError:
		return outwardNode(e)
	case *wire.QuorumError:
		out := &QuorumError{Op: Command(e.Op.String()), Name: e.Name, Need: e.Need, Of: e.Of, Cause: e.Cause}
		for _, said := range e.Nodes {
			out.Nodes = append(out.Nodes, outwardNode(said))
		}
		return out
	case *driver.ReplyError:
		if e.Err != nil {
			return e.Err
		}
	case *link.Left:
		return e.Cause
	}
	return err
}

func outwardNode(e *wire.NodeError) *NodeError {
	out := &NodeError{
		Op: Command(e.Op.String()), Name: e.Name, Node: e.Node, Err: outward(e.Err), Cause: e.Cause, Quarantine: e.Mute, is: wire.Said(e.Err),
	}
	if _, hints := out.Err.(*NodeError); !hints {
		out.hint, out.shut = wire.Hint(e.Err), wire.RefusesLogin(e.Err)
	}
	return out
}

var (
	errNilContext = fmt.Errorf("%w: the context is nil", ErrMisuse)
	errNilFunc    = fmt.Errorf("%w: the function is nil", ErrMisuse)
	errNoLocks    = fmt.Errorf("%w: made without All or Any", ErrMisuse)
	errNotNew     = fmt.Errorf("%w: Client made without New or NewRedlock", ErrMisuse)
)
