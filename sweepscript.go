package relock

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
)

// sweepKeys is how many keys a release has, and an unvote.
const sweepKeys = 5

// sweepCall gathers the keys and arguments of many releases for one command.
type sweepCall struct{ keys, args []string }

func (c *sweepCall) add(keys, args []string) {
	if c.args == nil {
		c.args = append(c.args, strconv.Itoa(len(args)))
	}
	c.keys, c.args = append(c.keys, keys...), append(c.args, args...)
}

// send answers for each acquisition whether it was ended.
func (c *sweepCall) send(ctx context.Context, l *link, lua *rueidis.Lua) ([]bool, error) {
	got, err := l.do(ctx, l.timeout, lua, c.keys, c.args, nil).AsIntSlice()
	if err != nil {
		return nil, err
	}
	if len(got)*sweepKeys != len(c.keys) {
		return nil, fmt.Errorf("sweep: %d answers to %d keys", len(got), len(c.keys))
	}
	ended := make([]bool, len(got))
	for i, n := range got {
		ended[i] = n >= 0
	}
	return ended, nil
}
