package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/link"
)

// These are the library's sentinel errors; the root package tells what they mean under the same
// names.
var (
	ErrNotAcquired   = errors.New("relock: lock not acquired")
	ErrNotHeld       = errors.New("relock: lock not held")
	ErrLost          = errors.New("relock: lock lost")
	ErrMaxHold       = fmt.Errorf("%w: held for as long as WithMaxHold allows", ErrLost)
	ErrClosed        = errors.New("relock: client closed")
	ErrInvalidName   = errors.New("relock: invalid lock name")
	ErrInvalidOwner  = errors.New("relock: invalid owner id")
	ErrInvalidOption = errors.New("relock: invalid option")
	ErrInvalidNodes  = errors.New("relock: unusable nodes")
	ErrMisuse        = errors.New("relock: misuse")
	ErrUpgrade       = fmt.Errorf("%w: a reader cannot become the writer of the same lock: unlock the read lease first", ErrMisuse)
	ErrWrongKind     = errors.New("relock: wrong kind of lock")
	ErrRefused       = errors.New("relock: Redis refuses, and no retry helps")
	ErrNotAsked      = errors.New("relock: Redis was not asked")
)

// ErrNotThere is what a node of a quorum says that does not keep a lock. It is no ErrNotHeld: other nodes
// may keep the lock.
var ErrNotThere = errors.New("not held there")

// ErrBusy is why a contender that gave up was not granted the lock, although Redis answered: another
// owner has it.
var ErrBusy = errors.New("busy")

// ErrNoAnswer says that what was asked before is still not answered.
var ErrNoAnswer = errors.New("no answer")

// Silent is a failure without an answer, What, of a Redis that shortly before failed with Last: to
// others, or while the client's own connection for messages was opened. Last is about another command.
// So Silent matches it, but never as ErrUnsent or ErrClosed of the driver.
type Silent struct{ What, Last error }

// Error says both.
func (e *Silent) Error() string { return InWords(e.What) + ": " + e.Last.Error() }

// Is reports whether one of them is target.
func (e *Silent) Is(target error) bool {
	return errors.Is(e.What, target) ||
		target != driver.ErrUnsent && target != driver.ErrClosed && errors.Is(e.Last, target)
}

// As finds target in what the Redis failed with before.
func (e *Silent) As(target any) bool { return errors.As(e.Last, target) }

// InWords is the text of an error. A command's time-out must not read as the caller's.
func InWords(err error) string {
	switch err {
	case context.DeadlineExceeded:
		return "no answer in time"
	case ErrNotAsked:
		return "Redis was not asked" // "relock" stands before it
	}
	return err.Error()
}

// HeldError tells which owner was in the way.
type HeldError struct {
	Name, Holder string
	By           Card // what the holder's client says of itself, as far as it is known
	TTL          time.Duration
	Wanted       bool  // the holder was told that the lock is wanted
	Local        bool  // it waited behind another goroutine of this process
	Cause        error // why waiting ended; nil for a try
}

// Error is for logs; the root package has the words for users.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%q held by %q: %v", e.Name, e.Holder, e.Cause)
}

// NodeError is what one Redis answered, or the failure to reach it.
type NodeError struct {
	Op, Name string
	Err      error
	Cause    error // why the caller gave up; nil where Err alone ended the call
}

// Error is for logs; the root package has the words for users.
func (e *NodeError) Error() string { return fmt.Sprintf("%s %q: %v", e.Op, e.Name, e.Err) }

// Unwrap returns what failed.
func (e *NodeError) Unwrap() error { return e.Err }

// QuorumError tells why a quorum could not be had.
type QuorumError struct {
	Op, Name string
	Need, Of int
	Nodes    []*MemberError
	Cause    error // why the caller gave up; nil where the nodes alone ended the call
}

// Error is for logs; the root package has the words for users.
func (e *QuorumError) Error() string {
	return fmt.Sprintf("%s %q: no quorum of %d of %d: %v", e.Op, e.Name, e.Need, e.Of, e.Nodes)
}

// MemberError is what one node of a quorum answered, or the failure to reach it.
type MemberError struct {
	Node int // from 1
	Err  error
	Mute time.Duration // it grants nothing for so long yet, since it may have forgotten locks; 0 where it does not say so
}

// Error names the node.
func (e *MemberError) Error() string { return fmt.Sprintf("node %d: %v", e.Node, e.Err) }

// Unwrap returns the node's error.
func (e *MemberError) Unwrap() error { return e.Err }

// GivenUp returns err as the error of a caller that gave up because of cause. Redis had failed with
// err, or had not answered.
func GivenUp(op, name string, err, cause error) error {
	switch err := err.(type) {
	case *QuorumError:
		told := *err
		told.Cause = cause
		return &told
	case *NodeError:
		told := *err
		told.Cause = cause
		if left := new(link.Left); errors.As(err.Err, &left) {
			told.Err = ErrNoAnswer // why the caller left is said once
		}
		return &told
	}
	return &NodeError{Op: op, Name: name, Err: err, Cause: cause}
}

// FromRedis reports whether err is what a node, or the nodes, answered, or why they did not.
func FromRedis(err error) bool {
	switch err.(type) {
	case *NodeError, *QuorumError:
		return true
	}
	return false
}

// IsLost reports whether err says that the very lock that was asked about is lost. An error that only
// wraps ErrLost may be about another lock: about one under whose context the caller waited.
func IsLost(err error) bool { return err == ErrLost || err == ErrMaxHold }

// finalErrors are those without an answer of Redis that no repetition changes.
var finalErrors = []error{
	ErrClosed, ErrMisuse, ErrLost, ErrNotHeld, ErrNotThere, ErrNotAcquired, ErrInvalidName, ErrInvalidOption,
	ErrInvalidOwner, ErrInvalidNodes, driver.ErrClosed,
}

// Transient reports whether err is a failure that may pass without a change of the caller, the
// user's rights or the data: Lock rides those out. That a context has ended cannot be told from
// err, which may be a command's time-out: loops look at their own.
func Transient(err error) bool {
	switch e := err.(type) {
	case *QuorumError:
		final := 0
		for _, said := range e.Nodes {
			if !Transient(said.Err) {
				final++
			}
		}
		return final <= e.Of-e.Need
	case *HeldError:
		return false
	}
	reply := link.Reply(err)
	if reply == "" {
		return !slices.ContainsFunc(finalErrors, func(final error) bool { return errors.Is(err, final) })
	}
	return codes[ReplyCode(reply)].passes && !link.Astray(err)
}

// codes are all codes of replies that mean something to locks: those of servers, and those of the
// scripts. A word that is none of them is no code, however it is spelled. A client library may leave
// a plain ERR out, and what follows that may begin with a command's name, or with "ACL".
var codes = map[string]struct {
	passes bool // it may pass without a change of the caller, the user's rights or the data
	ofNode bool // it is about the node and not about one lock of it
}{
	"ASK":         {passes: true},
	"BUSY":        {passes: true, ofNode: true},
	"CLUSTERDOWN": {passes: true},
	"CROSSSLOT":   {},
	"LOADING":     {passes: true, ofNode: true},
	"MASTERDOWN":  {passes: true, ofNode: true},
	"MAXCLIENTS":  {passes: true},
	"MISCONF":     {ofNode: true},
	"MOVED":       {passes: true},
	"NOAUTH":      {ofNode: true},
	"NOPERM":      {},
	"NOREPLICAS":  {passes: true, ofNode: true},
	"NOSCRIPT":    {},
	"OOM":         {ofNode: true},
	"QUARANTINED": {passes: true},
	"READONLY":    {passes: true, ofNode: true},
	"TRYAGAIN":    {passes: true},
	"UNSEEDED":    {passes: true},
	"WRONGKIND":   {},
	"WRONGPASS":   {ofNode: true},
	"WRONGTYPE":   {},
}

// sentences are replies that servers give without a code, by what they have in common from version to
// version.
var sentences = []struct{ says, code string }{
	{"The user executing the script", "NOPERM"}, // before Redis 7.2
	{"ACL failure in script", "NOPERM"},
	{"max number of clients", "MAXCLIENTS"},
	// While a slot moves, a script finds only its KEYS checked beforehand. A key that it names by
	// itself may have gone already.
	{"attempted to access a non local key", "TRYAGAIN"},
	{"attempted to access a slot not served", "CLUSTERDOWN"},
}

// ReplyCode returns the code of an error reply, "" when it has none of codes. One that was raised
// inside a script stands behind "ERR", and before Redis 7 behind the script's place, with a dash or
// without. A few replies have no code of their own.
func ReplyCode(reply string) string {
	for rest, place := reply, true; rest != ""; {
		var word string
		word, rest, _ = strings.Cut(rest, " ")
		word = strings.TrimPrefix(word, "-")
		if _, known := codes[word]; place && known {
			return word
		}
		place = strings.HasSuffix(word, ":") || place && word == "ERR"
	}
	for _, s := range sentences {
		if strings.Contains(reply, s.says) {
			return s.code
		}
	}
	return ""
}

// PlainError reports whether a reply is an error without a code but ERR, as that of a command which
// is not known. A client library may leave the ERR out.
func PlainError(reply string) bool {
	code, _, _ := strings.Cut(reply, " ")
	return reply != "" && (code == "ERR" || !upper(code))
}

func upper(word string) bool {
	for i := range len(word) {
		if word[i] < 'A' || word[i] > 'Z' {
			return false
		}
	}
	return true
}

// CauseOf returns why ctx ended, or ErrClosed when the client did.
func CauseOf(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return ErrClosed
}
