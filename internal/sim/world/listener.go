package world

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/sim"
	"github.com/relock-go/relock/internal/wire"
)

// listener is a connection with subscriptions. What comes over it keeps its order. The world's
// mutex guards it.
type listener struct {
	*line
	h       driver.Handler
	own     *sim.Conn
	dropped chan error // one slot
	over    bool
	inbox   bool // it is subscribed to the inbox
	heard   bool // its process has heard that it is
	deaf    bool // half-open: nothing comes any more, and nobody is told
	queue   []news
	last    time.Time // when the last of the queue comes
}

// news is a message, or the confirmation of a subscription where subscribed is set.
type news struct {
	channel, message string
	subscribed       bool
	trip             int // in the trace
}

// Listen opens a connection for subscriptions.
func (l *line) Listen(ctx context.Context, h driver.Handler) (driver.Listener, error) {
	w := l.w
	select {
	case <-time.After(l.listenDelay()):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.proc.dead || w.parted(l.proc, l.node) || l.node.paused {
		return nil, errRefused
	}
	e := &listener{line: l, h: h, dropped: make(chan error, 1)}
	e.own = l.node.server.Open(user, "", e.hear, func(error) { e.drop(errBroken) })
	if e.own == nil {
		return nil, errRefused
	}
	l.node.ears = append(l.node.ears, e)
	w.trace.add(entry{proc: l.proc.index, node: l.node.index, what: "listens"})
	return e, nil
}

func (l *line) listenDelay() time.Duration {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	d, _ := l.w.fates.nth(meeting{proc: l.proc.index, node: l.node.index, op: "listen"})
	return d.upTo(2 * l.w.plan.Rates.Delay)
}

// Follow is for Clusters.
func (l *line) Follow(context.Context, driver.Handler, ...string) error { return errRefused }

// hear is called inside of the command that published.
func (e *listener) hear(channel, message string) {
	e.w.says(message)
	e.w.tellsFree(channel)
	if e.over || e.deaf || e.proc.dead {
		return
	}
	e.w.turned(channel)
	delay, name, lost := e.w.fates.message(e.proc.index, e.node.index, channel)
	trip := e.w.trace.trip()
	e.w.trace.add(entry{
		proc: e.proc.index, node: e.node.index, what: "is sent", lock: lockOf(channel, message), fate: name,
		args: []string{channel, message}, trip: trip,
	})
	if name != "" && !lost {
		e.proc.disturb(time.Now().Add(delay)) // what is granted by it may have little time left
	}
	if !lost {
		e.push(news{channel: channel, message: message, trip: trip}, delay)
	}
}

// push lets something come after delay, behind all that came before it.
func (e *listener) push(n news, delay time.Duration) {
	now := time.Now()
	at := now.Add(delay)
	if !at.After(e.last) {
		at = e.last.Add(time.Nanosecond)
	}
	e.last = at
	e.queue = append(e.queue, n)
	time.AfterFunc(at.Sub(now), e.pop)
}

// pop hands the first of the queue over.
func (e *listener) pop() {
	n, ok := e.first()
	switch {
	case !ok:
	case n.subscribed:
		e.h.Subscribed(n.channel)
	default:
		e.h.Message(n.channel, n.message)
	}
}

func (e *listener) first() (news, bool) {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	if len(e.queue) == 0 {
		return news{}, false
	}
	n := e.queue[0]
	e.queue = e.queue[1:]
	if e.over || e.deaf || e.proc.dead {
		return n, false
	}
	if e.w.parted(e.proc, e.node) { // what TCP repeats comes some time after the line is well again
		delay := throw(e.w.plan.Seed, "healed", n.channel, n.message)
		e.w.whenHealed(e.proc, e.node, func() { e.push(n, delay.upTo(2*e.w.plan.Timeout())) })
		return n, false
	}
	if !n.subscribed {
		e.w.hears(n.channel, n.message)
	}
	e.heard = e.heard || n.subscribed && strings.HasPrefix(n.channel, wire.InboxPrefix)
	e.w.forcedOpen(e.proc, n.channel, n.message)
	e.w.trace.add(entry{
		proc: e.proc.index, node: e.node.index, what: "hears", lock: lockOf(n.channel, n.message),
		args: []string{n.channel, n.message}, trip: n.trip,
	})
	return n, true
}

// Subscribe subscribes with one command.
func (e *listener) Subscribe(ctx context.Context, channels ...string) error {
	return e.command(ctx, "SUBSCRIBE", channels)
}

// Unsubscribe ends subscriptions with one command.
func (e *listener) Unsubscribe(ctx context.Context, channels ...string) error {
	return e.command(ctx, "UNSUBSCRIBE", channels)
}

// SubscribeApart subscribes each with a command of its own.
func (e *listener) SubscribeApart(ctx context.Context, channels ...string) []error {
	errs := make([]error, len(channels))
	for i, channel := range channels {
		errs[i] = e.command(ctx, "SUBSCRIBE", []string{channel})
	}
	return errs
}

func (e *listener) command(ctx context.Context, name string, channels []string) error {
	c := &command{op: subscribes, lock: channels[0], args: append([]string{name}, channels...), conn: e.open, ordered: true}
	c.then = func(v driver.Value) {
		if name == "SUBSCRIBE" && v.Err() == nil {
			for _, channel := range channels {
				e.inbox = e.inbox || strings.HasPrefix(channel, wire.InboxPrefix)
				e.push(news{channel: channel, subscribed: true}, c.fate.back)
			}
		}
	}
	v, err := e.send(ctx, c)
	if err == nil {
		err = v.Err()
	}
	return err
}

// open is the connection itself, nil once it is lost.
func (e *listener) open() *sim.Conn {
	if e.over || e.own.Closed() {
		return nil
	}
	return e.own
}

// Dropped receives why the connection was lost.
func (e *listener) Dropped() <-chan error { return e.dropped }

// Close gives the connection up.
func (e *listener) Close() {
	e.w.mu.Lock()
	defer e.w.mu.Unlock()
	e.drop(nil)
}

// drop ends the connection, and tells its user why unless that is nil.
func (e *listener) drop(why error) {
	if e.over {
		return
	}
	e.over = true
	e.own.Close()
	e.node.ears = slices.DeleteFunc(e.node.ears, func(other *listener) bool { return other == e })
	if why != nil {
		e.broken()
		e.dropped <- why
	}
}
