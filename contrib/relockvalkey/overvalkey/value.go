// Code generated from internal/driver/overrueidis by go generate. DO NOT EDIT.

package overvalkey

import (
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/relock-go/relock/internal/driver"
	"github.com/valkey-io/valkey-go"
)

// answer is what a command came to.
func answer(res valkey.ValkeyResult) (driver.Value, error) {
	msg, err := res.ToMessage()
	if err != nil && !valkey.IsValkeyNil(err) {
		return driver.Value{}, failure(err)
	}
	return valueOf(&msg), nil
}

// valueOf is a message of the library as a Value.
func valueOf(m *valkey.ValkeyMessage) driver.Value {
	switch {
	case m.IsInt64():
		n, _ := m.ToInt64()
		return driver.Int(n)
	case m.IsString():
		s, _ := m.ToString()
		return driver.String(s)
	case m.IsArray():
		return listOf(m)
	case m.IsMap():
		return pairsOf(m)
	case m.IsNil():
		return driver.Value{}
	}
	if err := m.Error(); err != nil {
		return driver.Error(&driver.ReplyError{Text: err.Error(), Err: err})
	}
	return typedValueOf(m)
}

func listOf(m *valkey.ValkeyMessage) driver.Value {
	parts, _ := m.ToArray()
	list := make([]driver.Value, len(parts))
	for i := range parts {
		list[i] = valueOf(&parts[i])
	}
	return driver.List(list...)
}

// typedValueOf is a message of another type that only RESP3 has, as RESP2 would spell it.
func typedValueOf(m *valkey.ValkeyMessage) driver.Value {
	switch known, _ := m.ToAny(); known := known.(type) {
	case bool:
		if known {
			return driver.Int(1)
		}
		return driver.Int(0)
	case float64:
		return driver.String(strconv.FormatFloat(known, 'g', -1, 64))
	case string:
		if _, text, found := strings.Cut(known, ":"); found {
			known = text // of a verbatim string, "txt:" mostly; a big number has no colon
		}
		return driver.String(known)
	}
	return driver.Value{}
}

// pairsOf is a map's keys, in order, and values by turns: the library does not tell in which order
// they came.
func pairsOf(m *valkey.ValkeyMessage) driver.Value {
	pairs, _ := m.ToMap()
	list := make([]driver.Value, 0, 2*len(pairs))
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		value := pairs[key]
		list = append(list, driver.String(key), valueOf(&value))
	}
	return driver.List(list...)
}

// failure is an error of the library as driver.Redis promises it. The library leaves out a plain ERR
// that a server's text begins with.
func failure(err error) error {
	var reply *valkey.ValkeyError
	switch {
	case errors.As(err, &reply):
		return &driver.ReplyError{Text: reply.Error(), Err: err}
	case errors.Is(err, valkey.ErrClosing):
		return driver.Closed(err)
	case undialled(err):
		return driver.Unsent(err)
	}
	return err
}

// undialled reports whether a command failed because no connection was to be had: one that is
// refused carries nothing.
func undialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
