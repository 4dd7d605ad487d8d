// Package driver is the seam to a Redis client library: all that the locks need of one Redis, in
// one small interface.
//
// A driver sends what it is told once. It never repeats a command by itself: a second run must be
// the locks' own, so that they know of it. Package overrueidis has the one driver there is; others
// live in modules of their own.
package driver

import (
	"context"
	"errors"
)

// ErrClosed is what a command fails with, perhaps wrapped, once the client library was closed.
var ErrClosed = errors.New("the Redis client is closed")

// Redis is one Redis: a single server, a Sentinel group or a Cluster. All methods may be called by
// many goroutines.
//
// A command fails in one of three ways, and errors.As tells them apart: with a *ReplyError where
// the server answered so; with a *net.OpError whose Op is "dial" where no connection was to be had,
// so that nothing was sent; with any other error where the answer is missing, and the command may
// have run, may run yet, or may have run twice.
type Redis interface {
	// Cluster reports whether this is a Redis Cluster.
	Cluster() bool

	// Slot is the Cluster slot of a key or of a sharded channel.
	Slot(key string) uint16

	// Run runs a script on the master of the keys' slot: by its hash, and by its text where the
	// server does not know the hash. It may return later than ctx ends, where the client library
	// does. Once it has returned, keys and args may be written.
	Run(ctx context.Context, s *Script, keys, args []string) (Value, error)

	// Do sends commands to a master in one round trip and returns an answer to each. What the
	// server refuses is a Value that is an error; the error returned says that the answers are
	// missing.
	Do(ctx context.Context, commands ...[]string) ([]Value, error)

	// Listen takes a connection of its own for plain subscriptions. It waits for one until ctx
	// ends.
	Listen(ctx context.Context, h Handler) (Listener, error)

	// Follow subscribes sharded channels of one slot, at the master that owns it, since scripts
	// there count its own subscribers only. It passes on what comes until the subscription ends,
	// which it also does without an error when the slot moves, or until ctx ends; then the server
	// is told. The last of the channels must be nobody else's: by it the driver finds out
	// whether it subscribed at the master.
	Follow(ctx context.Context, h Handler, channels ...string) error

	// Close returns when no goroutine of the driver is left, or ctx has ended. It leaves the client
	// library's own client open: that is the user's. Listeners and followers are to be ended
	// before.
	Close(ctx context.Context)
}

// Handler receives what comes over subscriptions, one call at a time for each connection. It must
// not block.
type Handler interface {
	// Subscribed is told of each channel whose subscription the server has confirmed.
	Subscribed(channel string)
	// Message is told of each message.
	Message(channel, message string)
	// Impaired is told, from any goroutine, why the driver cannot do its best though it goes on.
	Impaired(cause error)
}

// Listener is one connection with plain subscriptions. Its methods are called by one goroutine.
type Listener interface {
	// Subscribe subscribes channels with one command, which a server refuses as a whole.
	Subscribe(ctx context.Context, channels ...string) error
	// SubscribeApart subscribes each channel with a command of its own, in one round trip: an error
	// or nil for each.
	SubscribeApart(ctx context.Context, channels ...string) []error
	// Unsubscribe ends subscriptions with one command.
	Unsubscribe(ctx context.Context, channels ...string) error
	// Dropped receives why the connection was lost, once.
	Dropped() <-chan error
	// Close gives the connection up; nothing stays subscribed. It may take a second where the
	// server hangs.
	Close()
}
