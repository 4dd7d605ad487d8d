package overgoredis

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/relock-go/relock/internal/driver"
)

const (
	askAlive = 3 * time.Second  // a connection that is silent for so long is asked whether it lives
	lost     = 10 * time.Second // a connection that is silent for so long is given up
	byeWait  = time.Second      // how long a Close waits for the library
)

var errSilent = errors.New("the server says no more")

// line is one connection for subscriptions. The library's Subscribe returns once the command is
// written, and a refusal names no channel. So one goroutine receives the answers, and gives them to
// the waiting requests in the order of writing: the server answers in that order.
//
// The library would connect a PubSub again by itself. But the owner of the line must know that
// messages were missed. So the first error that is no answer ends the line.
type line struct {
	d       *Redis
	ps      *redis.PubSub
	ctx     context.Context // ends with the line
	cancel  context.CancelCauseFunc
	writing chan struct{} // holds a token while a request is written
	on      events

	mu      sync.Mutex // guards what follows
	started bool       // receive and watch run
	asked   []*request // written, not answered
	heard   time.Time
}

// events are called for what happens on a line: subscribed, left and message by the goroutine that
// receives.
type events struct {
	subscribed func(channel string)
	left       func(channel string) // the server ended a subscription by itself
	message    func(channel, payload string)
	alive      func()            // now and then
	ended      func(cause error) // once
}

// request is a command that waits for its answer.
type request struct {
	kind  string
	names []string // channels that are not confirmed yet
	done  chan error
}

// newLine returns a line over a PubSub that has no connection yet.
func (d *Redis) newLine(ps *redis.PubSub, on events) *line {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &line{d: d, ps: ps, ctx: ctx, cancel: cancel, writing: make(chan struct{}, 1), on: on}
}

// ask sends a command for channels and returns when the server has answered it, or ctx has ended.
func (l *line) ask(ctx context.Context, kind string, channels ...string) error {
	r, err := l.send(ctx, kind, func() []string { return channels })
	if err != nil {
		return err
	}
	return l.answer(ctx, r)
}

// send waits for its turn, then calls channels and writes a command for the result. For no channels
// it writes nothing. A goroutine does the writing: on a full connection the library may be busy
// beyond ctx.
func (l *line) send(ctx context.Context, kind string, channels func() []string) (*request, error) {
	select {
	case l.writing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
	r := &request{kind: kind, names: slices.Clone(channels()), done: make(chan error, 1)}
	if len(r.names) == 0 {
		<-l.writing
		r.done <- nil
		return r, nil
	}
	wrote := make(chan error, 1)
	if !l.d.crew.Start(func() {
		err := l.write(r)
		<-l.writing
		wrote <- err
	}) {
		<-l.writing
		return nil, driver.ErrClosed
	}
	select {
	case err := <-wrote:
		return r, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// write notes a request and writes it.
func (l *line) write(r *request) error {
	l.mu.Lock()
	if l.ctx.Err() != nil {
		l.mu.Unlock()
		return context.Cause(l.ctx)
	}
	l.asked = append(l.asked, r)
	l.mu.Unlock()
	var err error
	switch r.kind {
	case "subscribe":
		err = l.ps.Subscribe(l.ctx, r.names...)
	case "unsubscribe":
		err = l.ps.Unsubscribe(l.ctx, r.names...)
	case "ssubscribe":
		err = l.ps.SSubscribe(l.ctx, r.names...)
	case "sunsubscribe":
		err = l.ps.SUnsubscribe(l.ctx, r.names...)
	}
	if err != nil {
		err = failure(err)
		l.end(err)
		return err
	}
	l.start()
	return nil
}

// start begins to receive once the first command has made a connection: before that, the library's
// Receive would dial.
func (l *line) start() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.started || l.ctx.Err() != nil {
		return
	}
	l.started, l.heard = true, time.Now()
	if !l.d.crew.Start(l.receive) || !l.d.crew.Start(l.watch) {
		l.cancel(driver.ErrClosed)
	}
}

// answer waits for the answer to a request.
func (l *line) answer(ctx context.Context, r *request) error {
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ctx.Done():
		select {
		case err := <-r.done:
			return err
		default:
			return context.Cause(l.ctx)
		}
	}
}

// receive passes answers and messages on, until the line ends.
func (l *line) receive() {
	for {
		got, err := l.ps.Receive(l.ctx)
		var reply redis.Error
		switch {
		case l.ctx.Err() != nil:
			return
		case errors.As(err, &reply):
			// A refusal names no channel. If no request waits, it answers a subscription that the
			// library repeated by itself: its channels are not heard.
			if !l.refuse(failure(err)) {
				l.end(failure(err))
				return
			}
		case err != nil:
			l.end(failure(err))
			return
		}
		l.mu.Lock()
		l.heard = time.Now()
		l.mu.Unlock()
		switch got := got.(type) {
		case *redis.Subscription:
			l.confirm(got)
		case *redis.Message:
			l.on.message(got.Channel, got.Payload)
		}
	}
}

// confirm takes the confirmation of one channel.
func (l *line) confirm(s *redis.Subscription) {
	if s.Kind == "subscribe" || s.Kind == "ssubscribe" {
		l.on.subscribed(s.Channel)
	}
	l.mu.Lock()
	confirmed := false
	if len(l.asked) > 0 && l.asked[0].kind == s.Kind {
		r := l.asked[0]
		if i := slices.Index(r.names, s.Channel); i >= 0 {
			confirmed = true
			r.names = slices.Delete(r.names, i, i+1)
		}
		if len(r.names) == 0 {
			l.asked = l.asked[1:]
			r.done <- nil
		}
	}
	l.mu.Unlock()
	if !confirmed && (s.Kind == "unsubscribe" || s.Kind == "sunsubscribe") {
		l.on.left(s.Channel)
	}
}

// refuse fails the first of the waiting requests, and reports whether there is one.
func (l *line) refuse(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.asked) == 0 {
		return false
	}
	r := l.asked[0]
	l.asked = l.asked[1:]
	r.done <- err
	return true
}

// watch asks a silent server whether it lives, and ends the line if the silence lasts. The
// library's Receive would wait for ever for a server that is gone without a word.
func (l *line) watch() {
	t := time.NewTicker(askAlive / 3)
	defer t.Stop()
	asking := false
	answered := make(chan struct{}, 1)
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-answered:
			asking = false
		case <-t.C:
			l.on.alive()
			l.mu.Lock()
			silent := time.Since(l.heard)
			l.mu.Unlock()
			switch {
			case silent >= lost:
				l.end(errSilent)
				return
			case silent >= askAlive && !asking:
				// In a goroutine: on a full connection the library may take its time.
				asking = l.d.crew.Start(func() {
					_ = l.ps.Ping(l.ctx)
					answered <- struct{}{}
				})
			}
		}
	}
}

// end gives the connection up. Only the first cause counts.
func (l *line) end(cause error) {
	l.mu.Lock()
	first := l.ctx.Err() == nil
	l.cancel(cause) // before the PubSub is closed, which would wait for a dial
	l.mu.Unlock()
	if !first {
		return
	}
	l.on.ended(cause)
}

// close ends the line, and returns when the library has closed the connection, or after a second.
func (l *line) close() {
	l.end(driver.ErrClosed)
	closed := make(chan struct{})
	if !l.d.crew.Start(func() {
		defer close(closed)
		_ = l.ps.Close()
	}) {
		_ = l.ps.Close()
		return
	}
	late := time.NewTimer(byeWait)
	defer late.Stop()
	select {
	case <-closed:
	case <-late.C:
	}
}
