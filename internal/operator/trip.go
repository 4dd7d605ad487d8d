package operator

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/driver"
)

// trip is a batch of commands for one round trip, each with the function that takes its answer.
type trip struct {
	rdb   driver.Reader
	cmds  [][]string
	hears []func(driver.Value) error
}

// ask adds a command, whose second word is its key. An error of hear is the trip's.
func (t *trip) ask(hear func(driver.Value) error, cmd ...string) {
	t.cmds, t.hears = append(t.cmds, cmd), append(t.hears, hear)
}

// send sends all commands in one round trip, and returns the first error. The trip is empty then.
func (t *trip) send(ctx context.Context) error {
	cmds, hears := t.cmds, t.hears
	t.cmds, t.hears = nil, nil
	if len(cmds) == 0 {
		return nil
	}
	answers, err := t.rdb.Read(ctx, cmds...)
	if err != nil {
		return err
	}
	for i, said := range answers {
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
func clockOf(ctx context.Context, rdb driver.Reader) clock {
	ctx, cancel := Soon(ctx)
	defer cancel()
	said, err := rdb.Do(ctx, []string{"TIME"})
	if err != nil {
		return 0
	}
	parts, err := said[0].Ints()
	if err != nil || len(parts) != 2 {
		return 0
	}
	return clock(time.Until(time.Unix(parts[0], parts[1]*1000)))
}

// now returns the Redis's time.
func (c clock) now() time.Time { return time.Now().Add(time.Duration(c)) }
