// Package driver is the seam to a Redis client library: all that the locks need of one Redis, in
// one small interface.
//
// A driver sends each command once. It never repeats one by itself: a second run must be the locks'
// own, so that they know of it. Package overrueidis has the one driver there is; others live in
// modules of their own.
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
// A command fails in one of three ways, and errors.As tells them apart: with a *ReplyError if the
// server answered so; with a *net.OpError of Op "dial" if there was no connection, so that nothing
// was sent; with any other error if the answer is missing, so that the command may have run, may
// run yet, or may have run twice.
type Redis interface {
	// Cluster reports whether this is a Redis Cluster.
	Cluster() bool

	// Slot is the Cluster slot of a key or of a sharded channel.
	Slot(key string) uint16

	// Run runs a script on the master of the keys' slot: by its hash, and by its text if the server
	// does not know the hash. It may return later than ctx ends, if the client library does. Once
	// it has returned, keys and args may be written.
	Run(ctx context.Context, s *Script, keys, args []string) (Value, error)

	// Do sends commands to a master in one round trip and returns an answer to each. A command that
	// the server refuses has a Value that is an error. The error returned says that the answers are
	// missing.
	Do(ctx context.Context, commands ...[]string) ([]Value, error)

	// Listen takes a connection of its own for plain subscriptions. It waits for one until ctx
	// ends.
	Listen(ctx context.Context, h Handler) (Listener, error)

	// Follow subscribes sharded channels of one slot. It does so at the master that owns the slot,
	// since scripts there count that master's own subscribers only. It passes on what comes until
	// ctx ends, and then tells the server. It also returns when the subscription ends, and without
	// an error if that is because the slot moved. The last of the channels must be used by no other
	// subscriber: by it the driver finds out whether it subscribed at the master.
	Follow(ctx context.Context, h Handler, channels ...string) error

	// Close returns when no goroutine of the driver is left, or ctx has ended. It leaves the client
	// library's own client open: that is the user's. Listeners and followers are to be ended
	// before.
	Close(ctx context.Context)
}

// Handler receives what comes over subscriptions, one call at a time for each connection. It must
// not block.
type Handler interface {
	// Subscribed is called for each channel when the server has confirmed its subscription.
	Subscribed(channel string)
	// Message is called for each message.
	Message(channel, message string)
	// Impaired is called, in any goroutine, with why the driver goes on but works worse than it
	// should.
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
