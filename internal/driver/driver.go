// Package driver is the seam to a Redis client library: all that the locks need of one Redis, in
// one small interface.
//
// A driver sends each command once. It never repeats one by itself: a second run must be the locks'
// own, so that they know of it. Package overrueidis has the one driver there is; others live in
// modules of their own. What this package says of a driver is checked by package drivertest.
package driver

import (
	"context"
	"errors"
	"time"
)

// ErrClosed is what a command fails with, perhaps wrapped, once the client library was closed.
var ErrClosed = errors.New("the Redis client is closed")

// ErrUnsent is what a command fails with, perhaps wrapped, if it was surely never sent: no connection
// could be dialled, or none of a pool was to be had in time.
var ErrUnsent = errors.New("not sent")

// Unsent returns err as a failure that is ErrUnsent as well. Its text is err's.
func Unsent(err error) error { return classed{err, ErrUnsent} }

// Closed returns err as a failure that is ErrClosed as well. Its text is err's.
func Closed(err error) error { return classed{err, ErrClosed} }

// classed is a client library's error, with what it means to the locks.
type classed struct {
	error
	class error
}

func (e classed) Unwrap() []error { return []error{e.class, e.error} }

// Silence is how long, at most, a subscription may last after its server has fallen silent. A driver
// keeps to it with the client library's default settings.
const Silence = 15 * time.Second

// Redis is one Redis: a single server, a Sentinel group or a Cluster. All methods may be called by
// many goroutines.
//
// A command fails in one of four ways, which errors.As and errors.Is tell apart:
//   - with a *ReplyError if the server answered so;
//   - with ErrUnsent if it was surely never sent. A driver that cannot be sure does not say so;
//   - with ErrClosed if the client library was closed;
//   - with any other error if the answer is missing, so that the command may have run, may run yet,
//     or may have run twice.
type Redis interface {
	// Client is the client of the library that this driver uses, never nil. Two drivers over one
	// client are one Redis.
	Client() any

	// Cluster reports whether this is a Redis Cluster.
	Cluster() bool

	// Run runs a script on the master of the keys' slot: by its hash, and by its text if the server
	// does not know the hash. It may return later than ctx ends, if the client library does. Once
	// it has returned, keys and args may be written. Where a Cluster's master is gone, it reaches
	// the one that was promoted in seconds: a failure has the library look, not the clock alone.
	Run(ctx context.Context, s *Script, keys, args []string) (Value, error)

	// Do sends commands to the master in one round trip and returns an answer to each. In a Cluster
	// one node answers them all, of the driver's choosing and perhaps a replica: so the commands
	// must have no keys, and ask what every node can tell. A command that the server refuses has a
	// Value that is an error. The error returned says that the answers are missing.
	Do(ctx context.Context, commands ...[]string) ([]Value, error)

	// Listen opens a connection of its own for plain subscriptions. If it has to wait for one, it
	// waits until ctx ends. It may also return before it has one. Then Subscribe waits for the
	// connection, and fails if there is none to be had.
	Listen(ctx context.Context, h Handler) (Listener, error)

	// Follow subscribes sharded channels of one slot. It does so at the master that owns the slot,
	// since scripts there count that master's own subscribers only. It passes on what comes until
	// ctx ends, and then tells the server. It also returns when the subscription ends, without an
	// error if that is because the slot moved. A connection that is lost, or whose server says no
	// more for Silence, ends it; or the driver subscribes anew by itself, as Subscribed then tells.
	// The last of the channels must be used by no other subscriber: by it the driver may find out
	// whether it subscribed at the master.
	Follow(ctx context.Context, h Handler, channels ...string) error

	// Close returns when no goroutine of the driver is left, or ctx has ended. From then on Listen
	// and Follow fail with ErrClosed; commands still run, for locks that are on their way back. It
	// leaves the client library's own client open: that is the user's. Listeners and followers end
	// before, but for those that hang.
	Close(ctx context.Context)
}

// Handler receives what comes over subscriptions, in its order and one call at a time for each
// connection. It must not block.
type Handler interface {
	// Subscribed is called for each channel when the server has confirmed its subscription, never
	// before. It may be called again for a channel that is subscribed: the client library may have
	// moved the subscription to another connection, and messages between the two are lost.
	Subscribed(channel string)
	// Message is called for each message.
	Message(channel, message string)
	// Impaired is called, in any goroutine, with why the driver goes on but works worse than it
	// should. It reaches the user's observer and logger.
	Impaired(cause error)
}

// Listener is one connection with plain subscriptions. Its methods are called by one goroutine.
type Listener interface {
	// Subscribe subscribes channels with one command, which a server refuses as a whole. It returns
	// nil only once the server has confirmed all of them.
	Subscribe(ctx context.Context, channels ...string) error
	// SubscribeApart subscribes each channel with a command of its own, in one round trip: an error
	// for each, nil only once the server has confirmed that channel.
	SubscribeApart(ctx context.Context, channels ...string) []error
	// Unsubscribe ends subscriptions with one command.
	Unsubscribe(ctx context.Context, channels ...string) error
	// Dropped receives why the connection was lost, once. It does so within Silence if the server
	// says no more, though no byte tells. From then on no method works but Close.
	Dropped() <-chan error
	// Close gives the connection up; nothing stays subscribed. It may take a second where the
	// server hangs.
	Close()
}
