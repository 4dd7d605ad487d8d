package faults

import (
	"context"
	"slices"
	"strconv"

	"github.com/relock-go/relock/internal/driver"
)

// Redis is a driver's Redis with faults. A script is a call of EVALSHA, whether the server knows it
// or not.
type Redis struct {
	driver.Redis
	*Line
}

// NewRedis puts faults around a Redis.
func NewRedis(inner driver.Redis) *Redis { return &Redis{inner, newLine()} }

// reply is the result of a command.
type reply struct {
	value driver.Value
	err   error
}

func noReply(err error) reply { return reply{err: err} }

// Run is one call.
func (r *Redis) Run(ctx context.Context, s *driver.Script, keys, args []string) (driver.Value, error) {
	// A call may be sent again after Run has returned.
	keys, args = slices.Clone(keys), slices.Clone(args)
	words := append([]string{"EVALSHA", s.SHA, strconv.Itoa(len(keys))}, keys...)
	got := carry(r.Line, &Call{Context: ctx, Words: append(words, args...), Script: s.Text}, way[reply]{
		send: func(ctx context.Context) reply {
			value, err := r.Redis.Run(ctx, s, keys, args)
			return reply{value, err}
		},
		refuse: func(text string) reply { return noReply(&driver.ReplyError{Text: text}) },
		fail:   noReply,
	})
	return got.value, got.err
}

// Do is one call for each command. With a filter, the commands go one after the other, until one is
// not answered.
func (r *Redis) Do(ctx context.Context, commands ...[]string) ([]driver.Value, error) {
	if r.passes() {
		return r.Redis.Do(ctx, commands...)
	}
	values := make([]driver.Value, len(commands))
	for i, words := range commands {
		got := carry(r.Line, &Call{Context: ctx, Words: words}, way[reply]{
			send: func(ctx context.Context) reply {
				values, err := r.Redis.Do(ctx, words)
				if err != nil {
					return noReply(err)
				}
				return reply{value: values[0]}
			},
			refuse: func(text string) reply { return reply{value: driver.Error(&driver.ReplyError{Text: text})} },
			fail:   noReply,
		})
		if got.err != nil {
			return nil, got.err
		}
		values[i] = got.value
	}
	return values, nil
}

// Listen takes a connection with the same faults: subscriptions, messages and its Close are calls.
func (r *Redis) Listen(ctx context.Context, h driver.Handler) (driver.Listener, error) {
	inner, err := r.Redis.Listen(ctx, handler{h, r.Line})
	if err != nil {
		return nil, err
	}
	return listener{inner, r.Line}, nil
}

// Follow is a call of SSUBSCRIBE, and each message is a call.
func (r *Redis) Follow(ctx context.Context, h driver.Handler, channels ...string) error {
	return r.subscribe(ctx, "SSUBSCRIBE", channels, func(ctx context.Context) error {
		return r.Redis.Follow(ctx, handler{h, r.Line}, channels...)
	})
}

// subscribe carries a call that has channels, and answers with an error alone.
func (l *Line) subscribe(ctx context.Context, name string, channels []string, pass func(context.Context) error) error {
	return carry(l, &Call{Context: ctx, Words: append([]string{name}, channels...)}, way[error]{
		send:   pass,
		refuse: func(text string) error { return &driver.ReplyError{Text: text} },
		fail:   func(err error) error { return err },
	})
}

// handler is a Handler whose messages are calls.
type handler struct {
	driver.Handler
	l *Line
}

func (h handler) Message(channel, message string) {
	h.l.deliver(channel, message, func() { h.Handler.Message(channel, message) })
}

// listener is a connection whose subscriptions and Close are calls.
type listener struct {
	driver.Listener
	l *Line
}

func (n listener) Subscribe(ctx context.Context, channels ...string) error {
	return n.l.subscribe(ctx, "SUBSCRIBE", channels, func(ctx context.Context) error {
		return n.Listener.Subscribe(ctx, channels...)
	})
}

func (n listener) SubscribeApart(ctx context.Context, channels ...string) []error {
	if n.l.passes() {
		return n.Listener.SubscribeApart(ctx, channels...)
	}
	errs := make([]error, len(channels))
	for i, channel := range channels {
		errs[i] = n.Subscribe(ctx, channel)
	}
	return errs
}

func (n listener) Unsubscribe(ctx context.Context, channels ...string) error {
	return n.l.subscribe(ctx, "UNSUBSCRIBE", channels, func(ctx context.Context) error {
		return n.Listener.Unsubscribe(ctx, channels...)
	})
}

func (n listener) Close() { n.l.signal([]string{"CLOSE"}, n.Listener.Close) }
