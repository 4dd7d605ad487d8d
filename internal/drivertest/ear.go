package drivertest

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/relock-go/relock/internal/driver"
	"github.com/stretchr/testify/require"
)

// ear is a Handler that sends all it is told to channels.
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

// enter runs call. It notes if two calls are under way at once.
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

// confirms waits until each of the channels was confirmed, in any order. A channel may be confirmed
// more than once.
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

// hears publishes a message, and requires that it is the next one that is heard.
func (e *ear) hears(t testing.TB, publish func(channel, message string), channel, message string) {
	t.Helper()
	publish(channel, message)
	require.Equal(t, [2]string{channel, message}, within(t, e.messages, "a message"))
}

// listen returns a listener, which the caller closes, and the ear that hears for it.
func listen(t testing.TB, rdb driver.Redis) (driver.Listener, *ear) {
	t.Helper()
	e := newEar(t)
	l, err := rdb.Listen(t.Context(), e)
	require.NoError(t, err)
	return l, e
}
