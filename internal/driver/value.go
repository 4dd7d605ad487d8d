package driver

import (
	"fmt"
	"strconv"
)

// ReplyError is an error that the server answered with. Text is the server's text, from which a
// client library may leave out a plain ERR in front. Err is the client library's own error for it,
// nil if it has none, as for an error in a list.
type ReplyError struct {
	Text string
	Err  error

	// Astray says that the client, made for a single server, reached a server of a Cluster that
	// does not have the keys, and knows no other. Package link sets it.
	Astray bool

	// Stranger says that the server refused the client's login, and has not let it in before. A later
	// refusal may pass: a password is being changed. Remembering sets it.
	Stranger bool
}

// Error is the server's text.
func (e *ReplyError) Error() string { return e.Text }

// Unwrap returns the client library's error.
func (e *ReplyError) Unwrap() error { return e.Err }

// Value is an answer of the server. The zero Value is the answer nil.
type Value struct {
	kind kind
	n    int64
	s    string
	list []Value
	err  *ReplyError
}

type kind uint8

const (
	kindNil kind = iota
	kindInt
	kindString
	kindList
	kindError
)

// Int is an integer.
func Int(n int64) Value { return Value{kind: kindInt, n: n} }

// String is a string, simple or bulk.
func String(s string) Value { return Value{kind: kindString, s: s} }

// List is a list of answers; a map is a list of its keys and values by turns.
func List(list ...Value) Value { return Value{kind: kindList, list: list} }

// Error is an answer that is an error, alone or in a list.
func Error(err *ReplyError) Value { return Value{kind: kindError, err: err} }

// IsNil reports whether the server answered nil.
func (v Value) IsNil() bool { return v.kind == kindNil }

// IsList reports whether the answer is a list.
func (v Value) IsList() bool { return v.kind == kindList }

// Err returns the server's error, nil if the answer is no error.
func (v Value) Err() error {
	if v.kind != kindError {
		return nil
	}
	return v.err
}

// Int64 returns an integer, which may be spelled as a string.
func (v Value) Int64() (int64, error) {
	switch v.kind {
	case kindInt:
		return v.n, nil
	case kindString:
		n, err := strconv.ParseInt(v.s, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("answer %q is no integer", v.s)
		}
		return n, nil
	}
	return 0, v.mismatch("an integer")
}

// Text returns a string, or an integer as a string.
func (v Value) Text() (string, error) {
	switch v.kind {
	case kindString:
		return v.s, nil
	case kindInt:
		return strconv.FormatInt(v.n, 10), nil
	}
	return "", v.mismatch("a string")
}

// Values returns the parts of a list.
func (v Value) Values() ([]Value, error) {
	if v.kind != kindList {
		return nil, v.mismatch("a list")
	}
	return v.list, nil
}

// Ints returns a list of integers.
func (v Value) Ints() ([]int64, error) { return each(v, Value.Int64) }

// Texts returns a list of strings.
func (v Value) Texts() ([]string, error) { return each(v, Value.Text) }

// each reads every part of a list.
func each[T any](v Value, read func(Value) (T, error)) ([]T, error) {
	list, err := v.Values()
	if err != nil {
		return nil, err
	}
	all := make([]T, len(list))
	for i, part := range list {
		if all[i], err = read(part); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// mismatch is the error for an answer of another type than what. If the answer is an error, it is
// that.
func (v Value) mismatch(what string) error {
	switch v.kind {
	case kindError:
		return v.err
	case kindNil:
		return fmt.Errorf("the answer is nil, not %s", what)
	}
	return fmt.Errorf("the answer is not %s", what)
}
