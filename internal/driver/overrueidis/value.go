package overrueidis

import (
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/driver"
)

// answer returns what a command was answered, or why there is no answer.
func answer(res rueidis.RedisResult) (driver.Value, error) {
	msg, err := res.ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		return driver.Value{}, failure(err)
	}
	return valueOf(&msg), nil
}

// valueOf returns a message of the library as a Value.
func valueOf(m *rueidis.RedisMessage) driver.Value {
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

func listOf(m *rueidis.RedisMessage) driver.Value {
	parts, _ := m.ToArray()
	list := make([]driver.Value, len(parts))
	for i := range parts {
		list[i] = valueOf(&parts[i])
	}
	return driver.List(list...)
}

// typedValueOf returns a message of a type that only RESP3 has, spelled as in RESP2.
func typedValueOf(m *rueidis.RedisMessage) driver.Value {
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

// pairsOf returns a map as a list of keys and values by turns, sorted by key: the library does not
// tell in which order they came.
func pairsOf(m *rueidis.RedisMessage) driver.Value {
	pairs, _ := m.ToMap()
	list := make([]driver.Value, 0, 2*len(pairs))
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		value := pairs[key]
		list = append(list, driver.String(key), valueOf(&value))
	}
	return driver.List(list...)
}

// failure returns an error of the library as an error that driver.Redis promises. From a server's
// text the library leaves out a plain ERR in front.
func failure(err error) error {
	var reply *rueidis.RedisError
	switch {
	case errors.As(err, &reply):
		return &driver.ReplyError{Text: reply.Error(), Err: err}
	case errors.Is(err, rueidis.ErrClosing):
		return driver.Closed(err)
	case undialled(err):
		return driver.Unsent(err)
	}
	return err
}

// undialled reports whether a command failed because no connection could be opened: then it was
// never sent.
func undialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
