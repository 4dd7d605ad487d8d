package driver

import (
	"fmt"
	"strconv"
)

// ReplyError is an error that the server answered. Text is as the server sent it, but for a plain ERR
// in front, which a client library may leave out. Err is the client library's own error for it, nil
// where there is none, as inside of a list.
type ReplyError struct {
	Text string
	Err  error

	// Astray says that the server is one of a Cluster, that the keys are at another one, and that this
	// Redis's client knows no other: it was made for a single server. The link sets it.
	Astray bool
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

// Error is an error that stands for an answer, alone or in a list.
func Error(err *ReplyError) Value { return Value{kind: kindError, err: err} }

// IsNil reports whether the server answered nil.
func (v Value) IsNil() bool { return v.kind == kindNil }

// IsList reports whether the answer is a list.
func (v Value) IsList() bool { return v.kind == kindList }

// Err returns the server's error, nil where the answer is none.
func (v Value) Err() error {
	if v.kind != kindError {
		return nil
	}
	return v.err
}

// Int64 returns an integer, also one that is spelled as a string.
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
	return 0, v.not("an integer")
}

// Text returns a string, also for an integer.
func (v Value) Text() (string, error) {
	switch v.kind {
	case kindString:
		return v.s, nil
	case kindInt:
		return strconv.FormatInt(v.n, 10), nil
	}
	return "", v.not("a string")
}

// Values returns the parts of a list.
func (v Value) Values() ([]Value, error) {
	if v.kind != kindList {
		return nil, v.not("a list")
	}
	return v.list, nil
}

// Ints returns a list of integers.
func (v Value) Ints() ([]int64, error) { return each(v, Value.Int64) }

// Texts returns a list of strings.
func (v Value) Texts() ([]string, error) { return each(v, Value.Text) }

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

// not is the error for an answer that is not what was asked for: the server's own where it is one.
func (v Value) not(what string) error {
	switch v.kind {
	case kindError:
		return v.err
	case kindNil:
		return fmt.Errorf("the answer is nil, not %s", what)
	}
	return fmt.Errorf("the answer is not %s", what)
}
