package wire

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/link"
)

// ErrNotThere is the error of a quorum's node that does not keep a lock. It is no ErrNotHeld: other
// nodes may keep the lock.
var ErrNotThere = errors.New("not held there")

// ErrBusy is why a contender that gave up was not granted the lock, although Redis answered: another
// owner has it.
var ErrBusy = errors.New("busy")

// ErrNoAnswer says that a question is still not answered.
var ErrNoAnswer = errors.New("no answer")

// ErrWaited is the cause when WithWait's time is up. It matches what ends a context whose own time is up.
var ErrWaited error = waited{}

type waited struct{}

func (waited) Error() string { return "the time to wait is up" }

func (waited) Unwrap() error { return context.DeadlineExceeded }

// Silent is a failure without an answer, What, of a Redis that shortly before failed with Last: in
// another command, or when the client's connection for messages was opened. Since Last is not about
// this command, it never makes Silent match ErrUnsent or ErrClosed of the driver.
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

// InWords returns the text of an error behind "relock:". A command's time-out must not read as the
// caller's. If the text has a code that says what is wrong, it leaves out the script's place.
func InWords(err error) string {
	if err == context.DeadlineExceeded {
		return "no answer in time"
	}
	text := strings.TrimPrefix(err.Error(), "relock: ")
	if ReplyCode(text) != "" {
		text = scriptsPlace.ReplaceAllString(text, "")
	}
	return text
}

// scriptsPlace is how servers name the script, and the line in it, at which an error was raised.
var scriptsPlace = regexp.MustCompile(
	`^(ERR )?(Error running script \(call to f_\w+\): )?(@?user_script: ?\d+: -?)+| script: [0-9a-f]{40}, on @user_script:\d+\.?$`)

// Began returns the beginning of the text of an error: of what, a command or a lock, and of the lock's name.
func Began(what, name string) string {
	if name == "" {
		return fmt.Sprintf("relock: %s: ", what)
	}
	return fmt.Sprintf("relock: %s %q: ", what, name)
}

// GaveUp adds to an error's text why the caller gave up, if it did.
func GaveUp(msg string, cause error) string {
	if cause == nil {
		return msg
	}
	return fmt.Sprintf("%s: gave up waiting: %v", msg, cause)
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
	Op    driver.Op
	Name  string
	Node  int // of a quorum, from 1; 0 where one Redis decides alone
	Err   error
	Mute  time.Duration // how long it still grants nothing, since it may have forgotten locks; 0 if it does not say so
	Cause error         // why the caller gave up; nil where Err alone ended the call
}

// Error is for logs; the root package has the words for users.
func (e *NodeError) Error() string {
	return fmt.Sprintf("%s %q: node %d: %v", e.Op, e.Name, e.Node, e.Err)
}

// Unwrap returns what failed.
func (e *NodeError) Unwrap() error { return e.Err }

// QuorumError tells why a quorum could not be had.
type QuorumError struct {
	Op       driver.Op
	Name     string
	Need, Of int
	Nodes    []*NodeError
	Cause    error // why the caller gave up; nil where the nodes alone ended the call
}

// Error is for logs; the root package has the words for users.
func (e *QuorumError) Error() string {
	return fmt.Sprintf("%s %q: no quorum of %d of %d: %v", e.Op, e.Name, e.Need, e.Of, e.Nodes)
}

// GivenUp returns err as the error of a caller that gave up because of cause. Redis had failed with
// err, or had not answered.
func GivenUp(op driver.Op, name string, err, cause error) error {
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

// FromRedis reports whether err is an answer of a node or of the nodes, or why there was none.
func FromRedis(err error) bool {
	switch err.(type) {
	case *NodeError, *QuorumError:
		return true
	}
	return false
}

// IsLost reports whether err says that the very lock that was asked about is lost. An error that only
// wraps ErrLost may be about another lock, under whose context the caller waited.
func IsLost(err error) bool { return err == ErrLost || err == ErrMaxHold }

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
	return codes[ReplyCode(reply)].passes && !link.Astray(err) && !link.Stranger(err)
}

// CauseOf returns why ctx ended, or ErrClosed when the client did.
func CauseOf(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return ErrClosed
}
