package overrueidis

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/driver"
)

// Listen takes a connection out of the user's pool.
func (d *Redis) Listen(ctx context.Context, h driver.Handler) (driver.Listener, error) {
	conn, release, err := d.dedicate(ctx)
	if err != nil {
		return nil, err
	}
	dropped := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { h.Message(m.Channel, m.Message) },
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "subscribe" {
				h.Subscribed(s.Channel)
			}
		},
	})
	return &listener{conn: conn, release: release, dropped: dropped}, nil
}

// dedicate takes a connection out of the user's pool. If all are in use the client library waits
// for one without a bound. When ctx ends, dedicate leaves that wait behind: whenever the connection
// comes, it is given back unused.
func (d *Redis) dedicate(ctx context.Context) (rueidis.DedicatedClient, func(), error) {
	type dedicated struct {
		conn    rueidis.DedicatedClient
		release func()
	}
	got := make(chan dedicated) // without a slot: a connection that nothing receives must not stay in it
	if !d.crew.Start(func() {
		conn, release := d.rdb.Dedicate()
		select {
		case got <- dedicated{conn, release}:
		case <-ctx.Done():
			release()
		}
	}) {
		return nil, nil, driver.ErrClosed
	}
	select {
	case d := <-got:
		return d.conn, d.release, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// listener is one connection out of the user's pool.
type listener struct {
	conn    rueidis.DedicatedClient
	release func()
	dropped <-chan error // receives the reason, then is closed
}

// Subscribe subscribes channels with one command.
func (l *listener) Subscribe(ctx context.Context, channels ...string) error {
	return l.do(ctx, l.conn.B().Subscribe().Channel(channels...).Build())
}

// Unsubscribe ends subscriptions with one command.
func (l *listener) Unsubscribe(ctx context.Context, channels ...string) error {
	return l.do(ctx, l.conn.B().Unsubscribe().Channel(channels...).Build())
}

func (l *listener) do(ctx context.Context, cmd rueidis.Completed) error {
	return failure(l.conn.Do(ctx, cmd).Error())
}

// SubscribeApart subscribes each channel with a command of its own.
func (l *listener) SubscribeApart(ctx context.Context, channels ...string) []error {
	cmds := make([]rueidis.Completed, len(channels))
	for i, channel := range channels {
		cmds[i] = l.conn.B().Subscribe().Channel(channel).Build()
	}
	errs := make([]error, len(channels))
	for i, res := range l.conn.DoMulti(ctx, cmds...) {
		errs[i] = failure(res.Error())
	}
	return errs
}

// Dropped receives why the connection was lost.
func (l *listener) Dropped() <-chan error { return l.dropped }

// Close gives the connection up. No subscription of ours may stay on a connection that goes back to
// the user's pool: so it is closed, unless it was lost. If its server hangs, that takes the client
// library a second.
func (l *listener) Close() {
	select {
	case <-l.dropped:
		l.release()
	default:
		l.conn.Close()
	}
}
