package driver

import (
	"context"
	"errors"
	"sync/atomic"
)

// Op is the purpose of a command. Commands are counted by purpose.
type Op uint8

// The purposes. That of a script is in Script.For.
const (
	Check     Op = iota // to ask about the Redis itself: whether it forgot, which channels it has
	Subscribe           // to begin and end subscriptions
	Acquire
	Release
	Renew
	Recount
	Refill
	Move
	Resize
	Sweep
	Force
	Inspect
	Introduce
	Fence
	Flight
	Ops int = iota
)

var opNames = [Ops]string{
	Check: "check", Subscribe: "subscribe", Acquire: "acquire", Release: "release", Renew: "renew", Recount: "recount",
	Refill: "refill", Move: "move", Resize: "resize", Sweep: "sweep", Force: "force", Inspect: "inspect", Introduce: "introduce",
	Fence: "fence", Flight: "flight",
}

// String returns the purpose as a word.
func (o Op) String() string { return opNames[o] }

// Counts are the numbers of commands sent to one Redis, by purpose and outcome. A command is
// counted once its outcome is known: until then it is in no count.
type Counts struct{ answered, refused, unanswered [Ops]atomic.Uint64 }

// Of returns what was counted for an op so far.
func (c *Counts) Of(o Op) (answered, refused, unanswered uint64) {
	return c.answered[o].Load(), c.refused[o].Load(), c.unanswered[o].Load()
}

// note counts a command, by its error.
func (c *Counts) note(o Op, err error) {
	if err == nil {
		c.answered[o].Add(1)
		return
	}
	var reply *ReplyError
	if errors.As(err, &reply) {
		c.refused[o].Add(1)
	} else {
		c.unanswered[o].Add(1)
	}
}

// Counted wraps rdb and counts its commands. A driver's own retry counts once.
func (c *Counts) Counted(rdb Redis) Redis { return &counted{rdb, c} }

// counted is a Redis whose commands are counted.
type counted struct {
	Redis
	by *Counts
}

func (r *counted) Run(ctx context.Context, s *Script, keys, args []string) (Value, error) {
	v, err := r.Redis.Run(ctx, s, keys, args)
	r.by.note(s.For, err)
	return v, err
}

// Do counts as Check: a command outside a script asks about the Redis itself.
func (r *counted) Do(ctx context.Context, commands ...[]string) ([]Value, error) {
	answers, err := r.Redis.Do(ctx, commands...)
	for i := range commands {
		failure := err
		if err == nil {
			failure = answers[i].Err()
		}
		r.by.note(Check, failure)
	}
	return answers, err
}

func (r *counted) Listen(ctx context.Context, h Handler) (Listener, error) {
	l, err := r.Redis.Listen(ctx, h)
	if err != nil {
		return l, err
	}
	return &countedListener{l, r.by}, nil
}

func (r *counted) Follow(ctx context.Context, h Handler, channels ...string) error {
	seen := &confirmed{Handler: h, by: r.by}
	err := r.Redis.Follow(ctx, seen, channels...)
	if !seen.once.Load() {
		r.by.note(Subscribe, err)
	}
	return err
}

// confirmed counts a subscription once its first channel is confirmed. To count when it ends would
// be too late: it may last as long as the client.
type confirmed struct {
	Handler
	by   *Counts
	once atomic.Bool
}

func (c *confirmed) Subscribed(channel string) {
	if c.once.CompareAndSwap(false, true) {
		c.by.note(Subscribe, nil)
	}
	c.Handler.Subscribed(channel)
}

// countedListener counts the commands of a connection.
type countedListener struct {
	Listener
	by *Counts
}

func (l *countedListener) Subscribe(ctx context.Context, channels ...string) error {
	err := l.Listener.Subscribe(ctx, channels...)
	l.by.note(Subscribe, err)
	return err
}

func (l *countedListener) SubscribeApart(ctx context.Context, channels ...string) []error {
	errs := l.Listener.SubscribeApart(ctx, channels...)
	for _, err := range errs {
		l.by.note(Subscribe, err)
	}
	return errs
}

func (l *countedListener) Unsubscribe(ctx context.Context, channels ...string) error {
	err := l.Listener.Unsubscribe(ctx, channels...)
	l.by.note(Subscribe, err)
	return err
}
