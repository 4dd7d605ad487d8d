package drivertest

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/relock-go/relock/internal/driver"
	"github.com/stretchr/testify/require"
)

// ear is a Handler that passes on all it is told.
type ear struct {
	subscribed chan string
	messages   chan [2]string
	busy       atomic.Bool // a call is under way
	together   atomic.Bool // two calls were under way at once
}

func newEar(t testing.TB) *ear {
	e := &ear{subscribed: make(chan string, 1000), messages: make(chan [2]string, 1000)}
	t.Cleanup(func() { require.False(t, e.together.Load(), "a connection's handler is called once at a time") })
	return e
}

func (e *ear) enter(call func()) {
	if !e.busy.CompareAndSwap(false, true) {
		e.together.Store(true)
	}
	runtime.Gosched() // so that a second call would come in between
	call()
	e.busy.Store(false)
}

func (e *ear) Subscribed(channel string) { e.enter(func() { e.subscribed <- channel }) }

func (e *ear) Message(channel, message string) {
	e.enter(func() { e.messages <- [2]string{channel, message} })
}

func (e *ear) Impaired(error) {}

// confirms waits until each of the channels was confirmed. One may be so more than once.
func (e *ear) confirms(t testing.TB, channels ...string) {
	t.Helper()
	missing := make(map[string]bool)
	for _, channel := range channels {
		missing[channel] = true
	}
	for len(missing) > 0 {
		delete(missing, within(t, e.subscribed, "Subscribed"))
	}
}

// hears requires that what is published on a channel is heard, and nothing before it.
func (e *ear) hears(t testing.TB, publish func(channel, message string), channel, message string) {
	t.Helper()
	publish(channel, message)
	require.Equal(t, [2]string{channel, message}, within(t, e.messages, "a message"))
}

// listen returns a listener that is closed at the test's end.
func listen(t testing.TB, rdb driver.Redis) (driver.Listener, *ear) {
	t.Helper()
	e := newEar(t)
	l, err := rdb.Listen(t.Context(), e)
	require.NoError(t, err)
	return l, e
}
