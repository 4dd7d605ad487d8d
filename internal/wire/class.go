package wire

import (
	"errors"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/link"
)

// sentinel is an error of the library's: a class, or a finer error within the class that it wraps.
type sentinel struct {
	text  string
	class error // nil for a class
}

func (s *sentinel) Error() string { return s.text }

// Unwrap returns the class of a finer error.
func (s *sentinel) Unwrap() error { return s.class }

// These are the library's classes of errors, which exclude each other; the root package tells what they
// mean under the same names. Unsupported is this library's form of the standard ErrUnsupported: that of
// another library is no class here.
var (
	ErrNotAcquired error = &sentinel{text: "relock: lock not acquired"}
	ErrUnavailable error = &sentinel{text: "relock: Redis gave no answer"}
	ErrRefused     error = &sentinel{text: "relock: Redis refuses, and no retry helps"}
	ErrLost        error = &sentinel{text: "relock: lock lost"}
	ErrMisuse      error = &sentinel{text: "relock: misuse"}
	ErrClosed      error = &sentinel{text: "relock: client closed"}
	Unsupported    error = &sentinel{"relock: not supported", errors.ErrUnsupported}
)

// These are finer than their classes.
var (
	ErrNotAsked      error = &sentinel{"relock: Redis was not asked", ErrUnavailable}
	ErrWrongKind     error = &sentinel{"relock: wrong kind of lock", ErrRefused}
	ErrMaxHold       error = &sentinel{"relock: lock lost: held for as long as WithMaxHold allows", ErrLost}
	ErrNotHeld       error = &sentinel{"relock: lock not held", ErrMisuse}
	ErrHandedOver    error = &sentinel{"relock: lock handed over", ErrMisuse}
	ErrInvalidName   error = &sentinel{"relock: invalid lock name", ErrMisuse}
	ErrInvalidOwner  error = &sentinel{"relock: invalid owner id", ErrMisuse}
	ErrInvalidOption error = &sentinel{"relock: invalid option", ErrMisuse}
	ErrInvalidNodes  error = &sentinel{"relock: unusable nodes", ErrMisuse}
	ErrTooMany       error = &sentinel{"relock: more permits than the semaphore has", ErrMisuse}
	ErrTooLarge      error = &sentinel{"relock: result too large", ErrMisuse}
	ErrUpgrade       error = &sentinel{
		"relock: misuse: a reader cannot become the writer of the same lock: unlock the read lease first", ErrMisuse,
	}
)

// Family returns the class of a sentinel, which may be one itself. It is nil for any other error.
func Family(target error) error {
	switch s, ours := target.(*sentinel); {
	case target == errors.ErrUnsupported, ours && s.class == nil:
		return target
	case ours:
		return s.class
	}
	return nil
}

// ClassOf returns the class that err belongs to, nil for an error that is none of the library's. If a
// caller's own error joins several classes, it is the class that asks most of the caller.
func ClassOf(err error) error {
	if err == nil {
		return nil
	}
	for _, class := range [...]error{ErrLost, ErrClosed, ErrMisuse, Unsupported, ErrRefused, ErrUnavailable, ErrNotAcquired} {
		if errors.Is(err, class) {
			return Family(class)
		}
	}
	return nil
}

// Matches is errors.Is for an error that stands for the sentinel is, and has parts. No part makes it
// match another class.
func Matches(target, is error, parts ...error) bool {
	class, family := Family(is), Family(target)
	if target == is || target == class {
		return true
	}
	if family != nil && family != class {
		return false
	}
	for _, part := range parts {
		if errors.Is(part, target) {
			return true
		}
	}
	return false
}

// Undone is the error of a Do whose lock was lost, or whose Client was closed, before its function
// returned. Lost gives it its class; Fn, the function's error, does not.
type Undone struct{ Fn, Lost error }

// Error says both, once where the function's says both.
func (e *Undone) Error() string {
	if errors.Is(e.Fn, e.Lost) {
		return e.Fn.Error()
	}
	return e.Fn.Error() + "\n" + e.Lost.Error()
}

// Is reports whether the loss matches target, or the function's error does and target is of no class.
func (e *Undone) Is(target error) bool {
	return Matches(target, ClassOf(e.Lost), e.Lost, e.Fn)
}

// As finds target in the function's error, or in the loss.
func (e *Undone) As(target any) bool { return errors.As(e.Fn, target) || errors.As(e.Lost, target) }

// Said returns the sentinel for a node's error.
func Said(err error) error {
	switch _, held := err.(HeldThere); {
	case err == ErrNotThere:
		return ErrLost
	case held:
		return ErrNotAcquired
	case Final(err):
		switch ReplyCode(link.Reply(err)) {
		case "WRONGKIND", "WRONGTYPE":
			return ErrWrongKind
		case "TOOMANY":
			return ErrTooMany
		}
		return ErrRefused
	}
	for _, is := range [...]error{ErrInvalidNodes, ErrClosed, ErrNotAsked} {
		if errors.Is(err, is) {
			return is
		}
	}
	return ErrUnavailable
}

// HasNoSize reports whether err says that Redis does not keep how many permits a semaphore has.
func HasNoSize(err error) bool {
	node, is := err.(*NodeError)
	return is && ReplyCode(link.Reply(node.Err)) == "NOSIZE"
}

// Final reports whether err is an answer of Redis that a retry would get too.
func Final(err error) bool { return link.Reply(err) != "" && !Transient(err) }

// HeldThere is the error of a quorum's node where another owner has the lock. Its value is that owner.
type HeldThere string

func (holder HeldThere) Error() string { return "held by " + Shown(string(holder)) }

// finalErrors are the errors without an answer of Redis that no retry changes.
var finalErrors = []error{ErrClosed, ErrMisuse, ErrLost, ErrNotThere, ErrNotAcquired, driver.ErrClosed}
