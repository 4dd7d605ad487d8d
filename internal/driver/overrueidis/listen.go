package overrueidis

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/driver"
)

// Listen takes a connection out of the user's pool.
func (d *Redis) Listen(ctx context.Context, h driver.Handler) (driver.Listener, error) {
	conn, err := d.dedicate(ctx)
	if err != nil {
		return nil, err
	}
	l := &listener{conn: conn, dropped: make(chan error, 1)}
	l.works, l.lose = context.WithCancelCause(context.Background())
	lost := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { h.Message(m.Channel, m.Message) },
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "subscribe" {
				h.Subscribed(s.Channel)
				l.confirm(s.Channel)
			}
		},
	})
	if !d.crew.Start(func() { l.watch(lost) }) {
		conn.Close()
		return nil, driver.ErrClosed
	}
	return l, nil
}

// dedicate takes a connection out of the user's pool. If all are in use, the client library waits
// without a bound. So a goroutine waits for it, which dedicate leaves behind when ctx ends. If the
// connection comes later, the goroutine gives it back unused.
func (d *Redis) dedicate(ctx context.Context) (rueidis.DedicatedClient, error) {
	// Unbuffered: a connection that is not received must not stay in the channel.
	got := make(chan rueidis.DedicatedClient)
	if !d.crew.Start(func() {
		conn, release := d.rdb.Dedicate()
		select {
		case got <- conn:
		case <-ctx.Done():
			release()
		}
	}) {
		return nil, driver.ErrClosed
	}
	select {
	case conn := <-got:
		return conn, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// listener is one connection out of the user's pool.
type listener struct {
	conn    rueidis.DedicatedClient
	dropped chan error              // one slot
	works   context.Context         // ends when the connection is lost
	lose    context.CancelCauseFunc // ends works

	mu      sync.Mutex      // guards what follows
	missing map[string]bool // channels of the last Subscribe that are not confirmed yet
	all     chan struct{}   // closed once none is missing
}

// watch waits for the end of the connection, and passes on why it was lost. The library sends the
// reason to lost. If Close ended the connection, it only closes lost.
func (l *listener) watch(lost <-chan error) {
	why := <-lost
	if why == nil {
		why = rueidis.ErrClosing
	}
	l.lose(why)
	l.dropped <- why
}

// Subscribe subscribes channels with one command. The library returns at the first confirmation;
// Subscribe waits for all.
func (l *listener) Subscribe(ctx context.Context, channels ...string) error {
	all := l.expect(channels)
	if err := l.do(ctx, l.conn.B().Subscribe().Channel(channels...).Build()); err != nil {
		return err
	}
	select {
	case <-all:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.works.Done():
		return failure(context.Cause(l.works))
	}
}

// expect returns a Go channel that is closed once the server has confirmed all of channels. Only
// confirmations from now on count.
func (l *listener) expect(channels []string) (all <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.missing, l.all = make(map[string]bool, len(channels)), make(chan struct{})
	for _, channel := range channels {
		l.missing[channel] = true
	}
	return l.all
}

// confirm notes that a channel is subscribed.
func (l *listener) confirm(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.missing[channel] {
		if delete(l.missing, channel); len(l.missing) == 0 {
			close(l.all)
		}
	}
}

// Unsubscribe ends subscriptions with one command.
func (l *listener) Unsubscribe(ctx context.Context, channels ...string) error {
	return l.do(ctx, l.conn.B().Unsubscribe().Channel(channels...).Build())
}

// do sends a command while the connection works.
func (l *listener) do(ctx context.Context, cmd rueidis.Completed) (err error) {
	l.whileConnected(ctx, func(ctx context.Context) { err = l.failure(l.conn.Do(ctx, cmd).Error()) })
	return err
}

// whileConnected calls send with a context that ends with ctx, or when the connection is lost.
// Without it the library would try to subscribe over a lost connection for as long as ctx lives.
func (l *listener) whileConnected(ctx context.Context, send func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.works, cancel)()
	send(ctx)
}

// failure translates an error of the library. If the loss of the connection caused it, the result
// says why the connection was lost.
func (l *listener) failure(err error) error {
	if lost := context.Cause(l.works); lost != nil && errors.Is(err, context.Canceled) {
		err = lost
	}
	return failure(err)
}

// SubscribeApart subscribes each channel with a command of its own.
func (l *listener) SubscribeApart(ctx context.Context, channels ...string) []error {
	cmds := make([]rueidis.Completed, len(channels))
	for i, channel := range channels {
		cmds[i] = l.conn.B().Subscribe().Channel(channel).Build()
	}
	errs := make([]error, len(channels))
	l.whileConnected(ctx, func(ctx context.Context) {
		for i, res := range l.conn.DoMulti(ctx, cmds...) {
			errs[i] = l.failure(res.Error())
		}
	})
	return errs
}

// Dropped receives why the connection was lost.
func (l *listener) Dropped() <-chan error { return l.dropped }

// Close closes the connection, even a lost one: a connection with subscriptions of ours must not go
// back to the user's pool. In RESP2 it is a pair of connections. The one that subscribes may be
// lost alone, and the pool would take the pair for one that works. If the server hangs, the client
// library takes a second to close.
func (l *listener) Close() { l.conn.Close() }
