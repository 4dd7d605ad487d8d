package relock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

var (
	// ErrNotAcquired is returned by TryLock when somebody else holds the lock, and by Lock when the caller gave up
	// waiting: then the error also wraps the cause of the context's end. The error is a *HeldError. It says that the lock
	// is busy; that Redis did not answer is a *NodeError or *QuorumError, which does not match it.
	ErrNotAcquired = errors.New("relock: lock not acquired")

	// ErrNotHeld is returned by Unlock, Extend and Held when the lock is not held by the caller: never taken, or
	// unlocked already. It is also the cause of a lease's context after Unlock.
	ErrNotHeld = errors.New("relock: lock not held")

	// ErrLost says that a lock that was held no longer is: its lease ran out, or somebody forced it open. It is the
	// cause of the lease's context and is returned by every later call on the lease.
	ErrLost = errors.New("relock: lock lost")

	// ErrClosed is returned by every call on a closed Client, and is the cause of the contexts of the leases it held.
	ErrClosed = errors.New("relock: client closed")

	// ErrInvalidName is returned for a lock name that Redis, or a Redis Cluster, cannot serve.
	ErrInvalidName = errors.New("relock: invalid lock name")

	// ErrInvalidOwner is returned for an owner id that WithOwner cannot use.
	ErrInvalidOwner = errors.New("relock: invalid owner id")

	// ErrMisuse is returned where a nil context or function is given, or a Mutex or Client was not made by this package's
	// functions.
	ErrMisuse = errors.New("relock: misuse")

	// ErrMaxHold says that a hold ended because WithMaxHold's time was up. It matches ErrLost.
	ErrMaxHold = fmt.Errorf("%w: held for as long as WithMaxHold allows", ErrLost)

	// ErrInvalidOption is returned for an option whose value cannot work.
	ErrInvalidOption = errors.New("relock: invalid option")
)

// HeldError tells why a lock was not acquired and who was in the way. It matches ErrNotAcquired and, where the caller
// gave up waiting, the cause of that.
type HeldError struct {
	Name   string        // the lock
	Holder string        // field of the holder in Redis, "" when unknown
	TTL    time.Duration // what was left of the holder's lease, 0 when unknown
	Local  bool          // it waited behind another goroutine of this process
	Cause  error         // why waiting ended; nil for TryLock
}

// Error names the lock, its holder and the cause.
func (e *HeldError) Error() string {
	msg := fmt.Sprintf("relock: lock %q not acquired", e.Name)
	if e.Holder != "" {
		msg += fmt.Sprintf(": held by %s for another %v unless renewed", e.Holder, e.TTL)
	}
	if e.Local {
		msg += ": another goroutine of this process was first"
	}
	if e.Cause != nil {
		msg += fmt.Sprintf(": gave up waiting: %v", e.Cause)
	}
	return msg
}

// Unwrap returns ErrNotAcquired and the cause.
func (e *HeldError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrNotAcquired}
	}
	return []error{ErrNotAcquired, e.Cause}
}

// NodeError is what one Redis answered, or the failure to reach it. Whether the command ran is unknown unless the
// wrapped error is a reply of Redis.
type NodeError struct {
	Op    string // acquire, release, renew, ...
	Name  string // the lock
	Err   error
	Cause error // why the caller gave up; nil where Err alone ended the call
}

// Error says what failed on which lock and, for errors that waiting does not heal, what to do.
func (e *NodeError) Error() string {
	msg := fmt.Sprintf("relock: %s %q: %v", e.Op, e.Name, e.Err)
	if hint := hintFor(e.Err); hint != "" {
		msg += " (" + hint + ")"
	}
	if e.Cause != nil {
		msg += fmt.Sprintf(": gave up waiting: %v", e.Cause)
	}
	return msg
}

// Unwrap returns the client's error, and the cause where the caller gave up.
func (e *NodeError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.Cause}
}

// notHeard is the error of a caller that gave up, by cause, while Redis did not answer or failed with err.
func notHeard(op, name string, err, cause error) error {
	switch err := err.(type) {
	case *QuorumError:
		told := *err
		told.Cause = cause
		return &told
	case *NodeError:
		told := *err
		told.Cause = cause
		return &told
	}
	return &NodeError{Op: op, Name: name, Err: err, Cause: cause}
}

// errBusy is what an arbiter returns to a contender that gave up while Redis answered: somebody else has the lock.
var errBusy = errors.New("busy")

// errNoAnswer says that what was asked before is still not answered.
var errNoAnswer = errors.New("no answer")

func hintFor(err error) string {
	switch replyCode(replied(err)) {
	case "NOAUTH", "WRONGPASS":
		return "check the client's user name and password"
	case "NOPERM":
		return "the user lacks a permission, docs/wire.md lists what relock needs"
	case "WRONGTYPE":
		return "the key, or a key beside it, belongs to something else: choose another lock name"
	case "OOM":
		return "Redis is out of memory: unlocking works, locking does not"
	default:
		return ""
	}
}

// transient reports whether err is a failure that may pass without anybody changing the caller, the user's rights or
// the data: Lock rides those out. That a context has ended cannot be told from err, which may be a command's time-out:
// loops look at their own.
func transient(err error) bool {
	var quorum *QuorumError
	if errors.As(err, &quorum) {
		final := 0
		for _, e := range quorum.Nodes {
			if !transient(e) {
				final++
			}
		}
		return final <= quorum.Of-quorum.Need
	}
	reply := replied(err)
	if reply == "" {
		return !slices.ContainsFunc(finalErrors, func(final error) bool { return errors.Is(err, final) })
	}
	switch replyCode(reply) {
	case "LOADING", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "MOVED", "ASK", "BUSY", "NOREPLICAS",
		"QUARANTINED", "UNSEEDED":
		return true
	default:
		return false
	}
}

var (
	errNilContext = fmt.Errorf("%w: the context is nil", ErrMisuse)
	errNilFunc    = fmt.Errorf("%w: the function is nil", ErrMisuse)
	errNoClient   = fmt.Errorf("%w: Mutex made without a Client; use Client.Mutex", ErrMisuse)
	errNotNew     = fmt.Errorf("%w: Client made without New or NewRedlock", ErrMisuse)
)

// finalErrors are those without a reply of Redis that no repetition changes.
var finalErrors = []error{
	ErrClosed, ErrMisuse, ErrLost, ErrNotHeld, ErrNotAcquired, ErrInvalidName, ErrInvalidOption, ErrInvalidOwner, ErrInvalidNodes,
	errUnlocked, rueidis.ErrClosing,
}

// unknown reports whether a command that failed with err may still have run, or may yet.
func unknown(err error) bool {
	return err != nil && replied(err) == ""
}

// replied returns what Redis answered, "" when err is not Redis's.
func replied(err error) string {
	var reply *rueidis.RedisError
	if !errors.As(err, &reply) {
		return ""
	}
	return reply.Error()
}

// replyCode returns the code of an error reply, "" when it has none. One that was raised inside a script stands behind
// "ERR" and the script's place before Redis 7, with a dash or without, and a refusal of rights has no code of its own.
func replyCode(reply string) string {
	for rest, place := strings.TrimPrefix(reply, "-"), true; rest != ""; {
		var word string
		word, rest, _ = strings.Cut(rest, " ")
		if code := strings.TrimPrefix(word, "-"); place && len(code) > 2 && upper(code) && code != "ERR" {
			return code
		}
		place = strings.HasSuffix(word, ":")
	}
	if strings.Contains(reply, "ACL failure in script") || strings.Contains(reply, "The user executing the script") {
		return "NOPERM"
	}
	return ""
}

func upper(word string) bool {
	for i := range len(word) {
		if word[i] < 'A' || word[i] > 'Z' {
			return false
		}
	}
	return true
}

// gaveUp is the error of a caller whose ctx ended while it waited.
func gaveUp(name string, seen blocker, cause error) error {
	return &HeldError{Name: name, Holder: seen.holder, TTL: seen.ttl, Cause: cause}
}

// causeOf returns why ctx ended, or ErrClosed when the client did.
func causeOf(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return ErrClosed
}

// fromRedis reports whether err is what a node, or the nodes, answered or failed to.
func fromRedis(err error) bool {
	var node *NodeError
	var quorum *QuorumError
	return errors.As(err, &node) || errors.As(err, &quorum)
}

// isLost reports whether err says that the lock is no longer held.
func isLost(err error) bool { return errors.Is(err, ErrLost) }
