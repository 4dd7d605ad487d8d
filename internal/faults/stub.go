package faults

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/relock-go/relock/internal/driver"
)

// Stub is a Redis whose answers a test gives. It has no goroutines and no connections, so it also
// serves in the fake time of synctest. The zero Stub answers no command, and confirms every
// subscription.
type Stub struct {
	OnRun    func(ctx context.Context, s *driver.Script, keys, args []string) (driver.Value, error)
	OnDo     func(ctx context.Context, command []string) (driver.Value, error)
	OnListen func(ctx context.Context) error            // why there is no connection, or nil
	OnSub    func(ctx context.Context, ch string) error // why a channel may not be subscribed, or nil
	Slots    bool                                       // it is a Cluster
	mu       sync.Mutex                                 // guards ears
	ears     []*ear                                     // the open connections
}

var errNotStubbed = errors.New("faults: the stub has no answer")

// Cluster reports whether keys have slots.
func (s *Stub) Cluster() bool { return s.Slots }

// Client is the stub itself.
func (s *Stub) Client() any { return s }

// Run is answered by OnRun.
func (s *Stub) Run(ctx context.Context, script *driver.Script, keys, args []string) (driver.Value, error) {
	if s.OnRun == nil {
		return driver.Value{}, errNotStubbed
	}
	return s.OnRun(ctx, script, keys, args)
}

// Do is answered by OnDo, command by command.
func (s *Stub) Do(ctx context.Context, commands ...[]string) ([]driver.Value, error) {
	values := make([]driver.Value, len(commands))
	for i, command := range commands {
		if s.OnDo == nil {
			return nil, errNotStubbed
		}
		value, err := s.OnDo(ctx, command)
		if err != nil {
			return nil, err
		}
		values[i] = value
	}
	return values, nil
}

// Close does nothing.
func (s *Stub) Close(context.Context) {}

// Listen gives a connection unless OnListen says why not.
func (s *Stub) Listen(ctx context.Context, h driver.Handler) (driver.Listener, error) {
	if s.OnListen != nil {
		if err := s.OnListen(ctx); err != nil {
			return nil, err
		}
	}
	return s.hear(h), nil
}

// Follow hears the channels until ctx or the connection ends.
func (s *Stub) Follow(ctx context.Context, h driver.Handler, channels ...string) error {
	e := s.hear(h)
	defer e.Close()
	if err := e.Subscribe(ctx, channels...); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-e.dropped:
		return err
	}
}

// Publish sends a message to all subscribers of the channel, and returns their number.
func (s *Stub) Publish(channel, message string) int {
	n := 0
	for _, e := range s.all() {
		if e.hears(channel) {
			e.h.Message(channel, message)
			n++
		}
	}
	return n
}

// Drop loses every open connection.
func (s *Stub) Drop(why error) {
	for _, e := range s.all() {
		select {
		case e.dropped <- why:
		default:
		}
		e.Close()
	}
}

func (s *Stub) all() []*ear {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ears)
}

// hear opens a connection.
func (s *Stub) hear(h driver.Handler) *ear {
	e := &ear{s: s, h: h, channels: make(map[string]bool), dropped: make(chan error, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ears = append(s.ears, e)
	return e
}

// ear is a connection of a Stub.
type ear struct {
	s        *Stub
	h        driver.Handler
	dropped  chan error
	mu       sync.Mutex
	channels map[string]bool // guarded by mu
}

func (e *ear) hears(channel string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.channels[channel]
}

func (e *ear) set(channel string, subscribed bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.channels[channel] = subscribed
}

// Subscribe subscribes all channels, or none where one is refused.
func (e *ear) Subscribe(ctx context.Context, channels ...string) error {
	for _, channel := range channels {
		if e.s.OnSub == nil {
			continue
		}
		if err := e.s.OnSub(ctx, channel); err != nil {
			return err
		}
	}
	for _, channel := range channels {
		e.set(channel, true)
		e.h.Subscribed(channel)
	}
	return nil
}

// SubscribeApart subscribes each channel unless it is refused.
func (e *ear) SubscribeApart(ctx context.Context, channels ...string) []error {
	errs := make([]error, len(channels))
	for i, channel := range channels {
		errs[i] = e.Subscribe(ctx, channel)
	}
	return errs
}

// Unsubscribe ends subscriptions.
func (e *ear) Unsubscribe(_ context.Context, channels ...string) error {
	for _, channel := range channels {
		e.set(channel, false)
	}
	return nil
}

// Dropped receives the reason given to Drop.
func (e *ear) Dropped() <-chan error { return e.dropped }

// Close ends all subscriptions.
func (e *ear) Close() {
	e.s.mu.Lock()
	defer e.s.mu.Unlock()
	e.s.ears = slices.DeleteFunc(e.s.ears, func(other *ear) bool { return other == e })
}
