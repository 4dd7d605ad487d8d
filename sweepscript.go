package relock

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
)

//go:embed lua/sweep.lua
var sweepLua string

// sweepText is a script that runs another one, body, for many acquisitions: KEYS and ARGV become locals, which the loop
// sets anew for each of them.
func sweepText(prelude, body string) string {
	return "local KEYS, ARGV = KEYS, ARGV\n" + prelude + "local function one()\n" + body + "end\n" + sweepLua
}

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
