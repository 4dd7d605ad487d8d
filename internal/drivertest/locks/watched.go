package locks

import (
	"context"
	"strings"
	"sync"

	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/wire"
)

// watched is a driver that notes when its client's subscriptions are confirmed, and its tries for
// locks answered.
type watched struct {
	driver.Redis

	mu        sync.Mutex     // guards what follows
	events    int            // confirmations and sent tries so far: they are numbered by it
	confirmed map[string]int // by channel: the number of the last confirmation
	asked     map[string]int // by lock: the number of the last try that was answered
	follows   bool           // Follow was called: channels are sharded
	inbox     bool           // an inbox channel was confirmed
}

// Run notes tries for locks.
func (w *watched) Run(ctx context.Context, s *driver.Script, keys, args []string) (driver.Value, error) {
	sent := w.next()
	v, err := w.Redis.Run(ctx, s, keys, args)
	if s.For == driver.Acquire && err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.asked == nil {
			w.asked = make(map[string]int)
		}
		w.asked[keys[0]] = max(w.asked[keys[0]], sent)
	}
	return v, err
}

// next numbers an event.
func (w *watched) next() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events++
	return w.events
}

// Listen notes confirmations.
func (w *watched) Listen(ctx context.Context, h driver.Handler) (driver.Listener, error) {
	return w.Redis.Listen(ctx, hearing{h, w})
}

// Follow notes confirmations.
func (w *watched) Follow(ctx context.Context, h driver.Handler, channels ...string) error {
	w.mu.Lock()
	w.follows = true
	w.mu.Unlock()
	return w.Redis.Follow(ctx, hearing{h, w}, channels...)
}

type hearing struct {
	driver.Handler
	w *watched
}

func (h hearing) Subscribed(channel string) {
	h.w.note(channel)
	h.Handler.Subscribed(channel)
}

func (w *watched) note(channel string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.confirmed == nil {
		w.confirmed = make(map[string]int)
	}
	w.events++
	w.confirmed[channel] = w.events
	w.inbox = w.inbox || strings.HasPrefix(channel, wire.InboxPrefix)
}

// settled reports whether a waiter for lock hears all its channels, and has tried again since. A
// confirmed inbox does not count with sharded channels: they are subscribed by one command, whose
// first confirmation wakes the waiter, so it may try before the last one is noted.
func (w *watched) settled(lock string) bool {
	names, err := wire.Mutex.Names("", lock)
	if err != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.confirmed[names.Unlock]
	for channel, when := range w.confirmed {
		if !w.follows && strings.HasPrefix(channel, wire.InboxPrefix) {
			last = max(last, when)
		}
	}
	return w.confirmed[names.Unlock] > 0 && w.asked[names.Lock] > last
}

// mode returns how the client is told of its turns. It is known once the client waits for one.
func (w *watched) mode() Mode {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.follows:
		return Sharded
	case w.inbox:
		return Plain
	}
	return Raced
}
