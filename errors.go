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

var (
	// ErrNotAcquired says that the lock is busy. TryLock returns it, and Lock when the caller gave
	// up waiting: then the error also wraps why the context ended. It is a *HeldError. A Redis that
	// did not answer is a *NodeError or *QuorumError, which does not match ErrNotAcquired.
	ErrNotAcquired = wire.ErrNotAcquired

	// ErrNotHeld is returned by Unlock, Extend and Held when the lock is not held by the caller:
	// never taken, or unlocked already. It is also the cause of a lease's context after Unlock.
	ErrNotHeld = wire.ErrNotHeld

	// ErrLost says that the caller's lock is no longer held: its lease ran out, or it was forced
	// open. It is the cause of the lease's context and what every later call on the lease returns.
	ErrLost = wire.ErrLost

	// ErrClosed is returned by every call on a closed Client. It is the cause of the contexts of
	// leases that were held when the Client was closed.
	ErrClosed = wire.ErrClosed

	// ErrInvalidName is returned for a lock name that Redis, or a Redis Cluster, cannot serve.
	ErrInvalidName = wire.ErrInvalidName

	// ErrInvalidOwner is returned for an owner id that WithOwner cannot use.
	ErrInvalidOwner = wire.ErrInvalidOwner

	// ErrMisuse is returned where a nil context or function is given, or a Mutex or Client was not
	// made by this package's functions.
	ErrMisuse = wire.ErrMisuse

	// ErrUpgrade is returned by RWMutex.Lock under the context of a read lease of the same lock: the
	// writer would wait for itself. It matches ErrMisuse.
	ErrUpgrade = wire.ErrUpgrade

	// ErrWrongKind says that the name is no lock of this kind: a read-write lock where a mutex was
	// asked for, a mutex where a read-write lock was, or a key that is no lock. A *NodeError that
	// matches it says what stands there.
	ErrWrongKind = wire.ErrWrongKind

	// ErrRefused says that Redis answers, and that no retry helps before an operator or the program
	// is changed: a missing right, a wrong password, a key of another type, no memory. A *NodeError
	// or a *SeatError matches it if its answer is such a one, and a *QuorumError if so many nodes
	// answer so that the others are no quorum. A Redis that is down, loading or failing over does not
	// match it.
	ErrRefused = wire.ErrRefused

	// ErrNotAsked says that the caller's context had ended before the call, so that Redis was not
	// asked: nothing is known of the lock or of Redis. It is in a *NodeError (*QuorumError on a
	// quorum), which also matches what ended the context.
	ErrNotAsked = wire.ErrNotAsked

	// ErrMaxHold says that a hold ended because WithMaxHold's time was up. It matches ErrLost.
	ErrMaxHold = wire.ErrMaxHold

	// ErrInvalidNodes says that the nodes of a quorum are no independent masters: one is a replica,
	// or two are the same server.
	ErrInvalidNodes = wire.ErrInvalidNodes

	// ErrInvalidOption is returned for an option whose value cannot work.
	ErrInvalidOption = wire.ErrInvalidOption
)

// HeldError tells why a lock was not acquired and which holder was in the way. It matches
// ErrNotAcquired and, where the caller gave up waiting, the cause of that.
type HeldError struct {
	Name   string        // the lock
	Holder string        // field of the holder in Redis, "" when unknown; see Mutex.State
	Client ClientInfo    // name of the holder, zero when unknown; see WithClientName
	TTL    time.Duration // what was left of the holder's lease unless renewed, 0 when unknown, negative when it never ends

	// RetryAfter is when it is worth to try again: after about as long as a hold of this lock lasts.
	// It is never 0, and tells nothing of how many wait. It is the greatest of
	//
	//   - the mean of the holds of this name that this client has seen, in which the latest weighs a
	//     fourth: from its own Locks to their Unlocks, and those of others as its refusals found them.
	//     Where it has seen none, one second;
	//   - for how long this client has been refused for the sake of this holder, but no longer than
	//     TTL, or 30 seconds where that is not known.
	RetryAfter time.Duration

	Wanted bool  // TryLock asked the holder to give way; if the lock was idle there, try again
	Local  bool  // the caller waited behind another goroutine of this process
	Cause  error // why waiting ended; nil for TryLock
}

// Error names the lock, its holder (as Client says, or else Holder), and the cause.
func (e *HeldError) Error() string {
	msg := fmt.Sprintf("relock: lock %q not acquired", e.Name)
	who := wire.Shown(cmp.Or(e.Client.String(), e.Holder))
	switch {
	case who == "":
	case e.TTL < 0:
		msg += fmt.Sprintf(": held by %s without an end", who)
	default:
		msg += fmt.Sprintf(": held by %s for another %v unless renewed", who, e.TTL)
	}
	if e.Wanted {
		msg += "; it was asked to give the lock back if no code runs under it there: try again"
	}
	if e.Local {
		msg += ": another goroutine of this process was first"
	}
	return gaveUp(msg, e.Cause)
}

// Unwrap returns ErrNotAcquired and the cause.
func (e *HeldError) Unwrap() []error { return causedBy(e.Cause, ErrNotAcquired) }

// ClientInfo is what a client with WithClientName says of itself. It is zero where nothing is known.
type ClientInfo struct {
	Name    string    `json:"name"`
	Host    string    `json:"host,omitempty"`
	PID     int       `json:"pid,omitempty"`
	Started time.Time `json:"started,omitzero"`  // when the client was made, by its own clock, in milliseconds
	Version string    `json:"version,omitempty"` // of the library
}

// String is as in "billing on pod-7f9c (pid 12)", and "" for the zero ClientInfo.
func (h ClientInfo) String() string { return wire.Card(h).String() }

// NodeError is what one Redis answered, or the failure to reach it. Unless the wrapped error is a
// reply of Redis, the command may have run.
type NodeError struct {
	Op    string // acquire, release, renew, ...
	Name  string // the lock
	Err   error
	Cause error // why the caller gave up; nil where Err alone ended the call

	code  string // of the answer that Err is; "" where it is none
	final bool   // Err is an answer of Redis's that no retry heals: then it matches ErrRefused
}

// Error says what failed on which lock and, for errors that waiting does not heal, what to do.
func (e *NodeError) Error() string {
	msg := fmt.Sprintf("relock: %s %q: %s", e.Op, e.Name, wire.InWords(e.Err))
	if hint := hints[e.code]; hint != "" {
		msg += " (" + hint + ")"
	}
	return gaveUp(msg, e.Cause)
}

// Is reports whether target is ErrRefused and no retry helps, or ErrWrongKind and Redis says that the
// name is something else's.
func (e *NodeError) Is(target error) bool {
	return target == ErrRefused && e.final || target == ErrWrongKind && (e.code == "WRONGKIND" || e.code == "WRONGTYPE")
}

// Unwrap returns Err, and the cause where the caller gave up.
func (e *NodeError) Unwrap() []error { return causedBy(e.Cause, e.Err) }

// QuorumError says why no quorum agreed. It wraps Nodes: a *SeatError of each that did not. It
// matches ErrRefused only if so many nodes refuse for good that the others are no quorum.
type QuorumError struct {
	Op    string
	Name  string // the lock, "" when it concerned the nodes themselves
	Need  int    // nodes that had to agree
	Of    int    // nodes in all
	Nodes []error
	Cause error // why the caller gave up; nil where the nodes alone ended the call
}

// Error names the operation and each node's answer.
func (e *QuorumError) Error() string {
	if e.asked() == 0 && len(e.Nodes) > 0 {
		return gaveUp(fmt.Sprintf("relock: %s %q: %s", e.Op, e.Name, wire.InWords(ErrNotAsked)), e.Cause)
	}
	said := make([]string, len(e.Nodes))
	for i, err := range e.Nodes {
		said[i] = err.Error()
	}
	msg := fmt.Sprintf("relock: %s %q: no quorum of %d of %d nodes: %s", e.Op, e.Name, e.Need, e.Of, strings.Join(said, "; "))
	return gaveUp(msg, e.Cause)
}

// asked counts the nodes that were asked.
func (e *QuorumError) asked() (n int) {
	for _, said := range e.Nodes {
		if !errors.Is(said, ErrNotAsked) {
			n++
		}
	}
	return n
}

// Is reports whether target is ErrRefused and so many nodes refuse for good that no retry helps.
func (e *QuorumError) Is(target error) bool {
	return target == ErrRefused && e.refusals() > e.Of-e.Need
}

// refusals counts the nodes whose answers no retry heals.
func (e *QuorumError) refusals() (n int) {
	for _, said := range e.Nodes {
		if errors.Is(said, ErrRefused) {
			n++
		}
	}
	return n
}

// Unwrap returns the nodes' errors, and the cause where the caller gave up.
func (e *QuorumError) Unwrap() []error {
	nodes := e.Nodes
	if n := e.refusals(); n > 0 && n <= e.Of-e.Need {
		nodes = make([]error, len(e.Nodes))
		for i, said := range e.Nodes {
			nodes[i] = dispensable{said}
		}
	}
	return causedBy(e.Cause, nodes...)
}

// dispensable is the error of one node where there may be a quorum without it. The error of them all
// must not match ErrRefused for its sake.
type dispensable struct{ error }

func (e dispensable) Is(target error) bool { return target != ErrRefused && errors.Is(e.error, target) }

func (e dispensable) As(target any) bool { return errors.As(e.error, target) }

func (e dispensable) Unwrap() error { return errors.Unwrap(e.error) }

// gaveUp adds to an error's text why the caller gave up, if it did.
func gaveUp(msg string, cause error) string {
	if cause == nil {
		return msg
	}
	return fmt.Sprintf("%s: gave up waiting: %v", msg, cause)
}

// causedBy returns the errors, and why the caller gave up, if it did.
func causedBy(cause error, errs ...error) []error {
	if cause == nil {
		return errs
	}
	return append(slices.Clip(errs), cause)
}

// SeatError is what one node of a quorum answered, or the failure to reach it.
type SeatError struct {
	Node int // its place in NewRedlock's list, from 1
	Err  error

	// Quarantine is for how much longer the node grants nothing, since it may have forgotten locks
	// (see WithRestartGuard). It is 0 where the node did not agree for another reason.
	Quarantine time.Duration

	code  string // of the answer that Err is; "" where it is none
	final bool   // Err is an answer of Redis's that no retry heals: then it matches ErrRefused
}

// Error names the node. It says what to do about an error that waiting does not heal, and how long
// the node is waited for if that is known.
func (e *SeatError) Error() string {
	msg := fmt.Sprintf("node %d: %s", e.Node, wire.InWords(e.Err))
	if hint := hints[e.code]; hint != "" {
		msg += " (" + hint + ")"
	}
	if e.Quarantine > 0 {
		left := max(e.Quarantine.Round(100*time.Millisecond), 100*time.Millisecond)
		msg += fmt.Sprintf(" (it may have forgotten locks and grants none for another %v, see WithRestartGuard)", left)
	}
	return msg
}

// Is reports whether target is ErrRefused and no retry helps.
func (e *SeatError) Is(target error) bool { return target == ErrRefused && e.final }

// Unwrap returns the node's error.
func (e *SeatError) Unwrap() error { return e.Err }

// hints say what to do about an answer of Redis's, by its code.
var hints = map[string]string{
	"NOAUTH":    "check the client's user name and password",
	"WRONGPASS": "check the client's user name and password",
	"NOPERM":    "the user lacks a permission, docs/wire.md lists what relock needs",
	"WRONGKIND": "one name has one kind of lock: choose another name",
	"WRONGTYPE": "the key, or a key beside it, belongs to something else: choose another lock name",
	"OOM":       "Redis is out of memory: unlocking works, locking does not",
	astray:      "this is one server of a Redis Cluster: make the client for the Cluster, as go-redis's NewClusterClient does",
}

// astray stands for the code of an answer that sends a client elsewhere which knows of one server.
const astray = "MOVED to a server that the client does not know"

// codeOf is the code of an answer of Redis's, "" where err is none.
func codeOf(err error) string {
	if link.Astray(err) {
		return astray
	}
	return wire.ReplyCode(link.Reply(err))
}

// final reports whether err is an answer of Redis's that it gives to a retry too.
func final(err error) bool { return link.Reply(err) != "" && !wire.Transient(err) }

// outward turns an error of an internal package into the one that the caller sees. Every error that
// this package returns goes through it.
//
//   - An error of an internal type becomes one of this package's, whose fields godoc shows.
//   - An error that Redis answered becomes the client library's own.
//   - A caller that left gets the cause of its context.
func outward(err error) error {
	switch e := err.(type) {
	case *wire.HeldError:
		return &HeldError{
			Name: e.Name, Holder: e.Holder, Client: ClientInfo(e.By), TTL: e.TTL, Wanted: e.Wanted, Local: e.Local, Cause: outward(e.Cause),
		}
	case *wire.NodeError:
		return &NodeError{
			Op: e.Op, Name: e.Name, Err: outward(e.Err), Cause: e.Cause, code: codeOf(e.Err), final: final(e.Err),
		}
	case *wire.MemberError:
		return &SeatError{
			Node: e.Node, Err: outward(e.Err), Quarantine: e.Mute, code: codeOf(e.Err), final: final(e.Err),
		}
	case *wire.QuorumError:
		out := &QuorumError{Op: e.Op, Name: e.Name, Need: e.Need, Of: e.Of, Cause: e.Cause}
		for _, said := range e.Nodes {
			out.Nodes = append(out.Nodes, outward(said))
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

var (
	errNilContext = fmt.Errorf("%w: the context is nil", ErrMisuse)
	errNilFunc    = fmt.Errorf("%w: the function is nil", ErrMisuse)
	errEntersMore = fmt.Errorf("%w: a re-entry that takes more of the lock than its outer lease has", ErrMisuse)
	errNoClient   = fmt.Errorf("%w: Mutex made without a Client; use Client.Mutex", ErrMisuse)
	errNotNew     = fmt.Errorf("%w: Client made without New or NewRedlock", ErrMisuse)
)
