package overgoredis

import (
	"cmp"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock/internal/driver"
)

// answer returns what a command was answered, or why there is no answer.
func answer(c *command, err error) (driver.Value, error) {
	if err != nil && !errors.Is(err, redis.Nil) {
		return driver.Value{}, failure(err)
	}
	return valueOf(c.Val()), nil
}

// valueOf returns an answer of the library as a Value. Types that only RESP3 has are spelled as in
// RESP2.
func valueOf(v any) driver.Value {
	switch v := v.(type) {
	case nil:
		return driver.Value{}
	case int64:
		return driver.Int(v)
	case string:
		return driver.String(v)
	case []any:
		list := make([]driver.Value, len(v))
		for i := range v {
			list[i] = valueOf(v[i])
		}
		return driver.List(list...)
	case map[any]any:
		return pairsOf(v)
	case bool:
		if v {
			return driver.Int(1)
		}
		return driver.Int(0)
	case float64:
		return driver.String(strconv.FormatFloat(v, 'g', -1, 64))
	case *big.Int:
		return driver.String(v.String())
	case error:
		if errors.Is(v, redis.Nil) {
			return driver.Value{}
		}
		return driver.Error(&driver.ReplyError{Text: v.Error(), Err: v})
	}
	return driver.String(fmt.Sprint(v))
}

// pairsOf returns a map as a list of keys and values by turns, sorted by key: the library does not
// tell in which order they came.
func pairsOf(pairs map[any]any) driver.Value {
	keys := make([]any, 0, len(pairs))
	for key := range pairs {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	list := make([]driver.Value, 0, 2*len(keys))
	for _, key := range keys {
		list = append(list, valueOf(key), valueOf(pairs[key]))
	}
	return driver.List(list...)
}

// failure returns an error of the library as an error that driver.Redis promises.
func failure(err error) error {
	var reply redis.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &reply):
		if strings.HasPrefix(reply.Error(), "ERR Protocol error: unauthenticated") {
			// Without a password the library takes a refused HELLO for an old server, and sends the
			// first command, which is refused. A script's command has more words than a server
			// reads before the login: its refusal does not say NOAUTH.
			err = fmt.Errorf("NOAUTH Authentication required: %w", err)
			return &driver.ReplyError{Text: err.Error(), Err: err}
		}
		return &driver.ReplyError{Text: reply.Error(), Err: err}
	case errors.Is(err, redis.ErrClosed):
		return closedError{err}
	case unsent(err):
		return driver.Unsent(err)
	}
	return err
}

// unsent reports whether a command failed because it had no connection: none could be dialled, or
// none of the pool was free in time.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}

// closedError is the library's error for a client that the user has closed.
type closedError struct{ error }

// Unwrap returns driver.ErrClosed and the library's error.
func (e closedError) Unwrap() []error { return []error{driver.ErrClosed, e.error} }
