package operator

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// trip is a batch of commands for one round trip, each with the function that takes its answer.
type trip struct {
	rdb   rueidis.Client
	cmds  []rueidis.Completed
	hears []func(rueidis.RedisResult) error
}

// ask adds a command. An error of hear is the trip's.
func (t *trip) ask(cmd rueidis.Completed, hear func(rueidis.RedisResult) error) {
	t.cmds, t.hears = append(t.cmds, cmd), append(t.hears, hear)
}

// send sends all commands in one round trip, and returns the first error. The trip is empty then.
func (t *trip) send(ctx context.Context) error {
	cmds, hears := t.cmds, t.hears
	t.cmds, t.hears = nil, nil
	if len(cmds) == 0 {
		return nil
	}
	for i, said := range t.rdb.DoMulti(ctx, cmds...) {
		if err := hears[i](said); err != nil {
			return err
		}
	}
	return nil
}

// clock is how far a Redis's clock is ahead of this machine's.
type clock time.Duration

// clockOf asks a Redis for its time, once for a whole look. If the user may not ask, this machine's
// time counts.
func clockOf(ctx context.Context, rdb rueidis.Client) clock {
	ctx, cancel := Soon(ctx)
	defer cancel()
	parts, err := rdb.Do(ctx, rdb.B().Time().Build()).AsIntSlice()
	if err != nil || len(parts) != 2 {
		return 0
	}
	return clock(time.Until(time.Unix(parts[0], parts[1]*1000)))
}

// now returns the Redis's time.
func (c clock) now() time.Time { return time.Now().Add(time.Duration(c)) }
