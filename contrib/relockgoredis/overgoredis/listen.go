package overgoredis

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock/internal/driver"
)

// Listen makes a connection beside the user's pool. The first Subscribe dials it.
func (d *Redis) Listen(ctx context.Context, h driver.Handler) (driver.Listener, error) {
	if d.crew.Ended() {
		return nil, driver.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dropped := make(chan error, 1)
	l := &listener{dropped: dropped}
	l.line = d.newLine(d.pubSub(ctx), events{
		subscribed: h.Subscribed,
		left:       func(string) {},
		message:    h.Message,
		alive:      func() {},
		ended: func(cause error) {
			if !errors.Is(cause, driver.ErrClosed) {
				// The next PubSub dials the master that the library knows for the first channel's slot.
				d.reloadMasters(cause)
			}
			dropped <- cause
		},
	})
	return l, nil
}

// pubSub returns a PubSub of the library that has no connection yet.
func (d *Redis) pubSub(ctx context.Context) *redis.PubSub {
	if d.cluster != nil {
		return d.cluster.Subscribe(ctx)
	}
	return d.node.Subscribe(ctx)
}

// listener is one connection with plain subscriptions.
type listener struct {
	line    *line
	dropped <-chan error
}

// Subscribe subscribes channels with one command.
func (l *listener) Subscribe(ctx context.Context, channels ...string) error {
	return l.line.ask(ctx, "subscribe", channels...)
}

// Unsubscribe ends subscriptions with one command.
func (l *listener) Unsubscribe(ctx context.Context, channels ...string) error {
	return l.line.ask(ctx, "unsubscribe", channels...)
}

// SubscribeApart subscribes each channel with a command of its own. It writes all commands before
// it waits for an answer.
func (l *listener) SubscribeApart(ctx context.Context, channels ...string) []error {
	errs := make([]error, len(channels))
	sent := make([]*request, len(channels))
	for i, channel := range channels {
		sent[i], errs[i] = l.line.send(ctx, "subscribe", func() []string { return []string{channel} })
	}
	for i, r := range sent {
		if errs[i] == nil {
			errs[i] = l.line.answer(ctx, r)
		}
	}
	return errs
}

// Dropped receives why the connection was lost.
func (l *listener) Dropped() <-chan error { return l.dropped }

// Close gives the connection up.
func (l *listener) Close() { l.line.close() }
