// Package driver is the seam to a Redis client library: all that the locks need of one Redis, in
// one small interface.
//
// A driver sends each command once and never repeats it: only the locks may send a command again,
// since they must know of it. Package overrueidis has the one driver of this module; others live in
// modules of their own. Package drivertest checks what this package says of a driver.
package driver

import (
	"context"
	"errors"
	"time"
)

// ErrClosed is the error, perhaps wrapped, of a command once the client library was closed.
var ErrClosed = errors.New("the Redis client is closed")

// ErrUnsent is the error, perhaps wrapped, of a command that was surely never sent: no connection
// could be dialled, or the pool had none in time.
var ErrUnsent = errors.New("not sent")

// Unsent returns an error that is both err and ErrUnsent, with the text of err.
func Unsent(err error) error { return classed{err, ErrUnsent} }

// Closed returns an error that is both err and ErrClosed, with the text of err.
func Closed(err error) error { return classed{err, ErrClosed} }

// classed is a client library's error and its class, ErrUnsent or ErrClosed.
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
//   - with a *ReplyError if the server answered with an error;
//   - with ErrUnsent if it was surely never sent. A driver that cannot be sure does not say so;
//   - with ErrClosed if the client library was closed;
//   - with any other error if the answer is missing, so that the command may have run, may run yet,
//     or may have run twice.
type Redis interface {
	// Client is the client library's client that this driver uses, never nil. Two drivers over one
	// client are one Redis.
	Client() any

	// Cluster reports whether this is a Redis Cluster.
	Cluster() bool

	// Run runs a script on the master of the keys' slot: by its hash, and by its text if the server
	// does not know the hash. It may return later than ctx ends, if the client library does. Once
	// it has returned, the caller may overwrite keys and args. If a Cluster's master is gone, Run
	// reaches the promoted one within seconds: a failed command, not the clock alone, makes the
	// library look for masters.
	Run(ctx context.Context, s *Script, keys, args []string) (Value, error)

	// Do sends commands to the master in one round trip and returns an answer to each. In a Cluster
	// the driver chooses one node, perhaps a replica, that answers all of them: so the commands
	// must have no keys, and ask what every node can tell. The answer to a refused command is a
	// Value that is an error. Do returns an error if the answers are missing.
	Do(ctx context.Context, commands ...[]string) ([]Value, error)

	// Listen opens a connection that serves plain subscriptions alone. It may wait for the
	// connection until ctx ends. It may also return before: then Subscribe waits for the
	// connection, and fails if none is to be had.
	Listen(ctx context.Context, h Handler) (Listener, error)

	// Follow subscribes sharded channels of one slot. It does so at the master that owns the slot,
	// since scripts there count only that master's own subscribers. It passes messages to h until
	// ctx ends, and then unsubscribes. It also returns when the subscription ends, with a nil error
	// if the slot moved. If the connection is lost, or its server is silent for Silence, Follow
	// returns, or the driver subscribes again and calls h.Subscribed. If two calls share a
	// channel and one of them ends, the other goes on hearing it, or returns a nil error. No
	// subscriber but calls of this driver may use the last of the channels: the driver may ask
	// about it to find out whether it subscribed at the master.
	Follow(ctx context.Context, h Handler, channels ...string) error

	// Close returns when no goroutine of the driver is left, or ctx has ended. From then on Listen
	// and Follow fail with ErrClosed; commands still run, for locks that are being given back. It
	// leaves the client library's own client open: that is the user's. Listeners and followers have
	// ended before, except those that hang.
	Close(ctx context.Context)
}

// Reader is a Redis whose keys the tools of operators can read. Drivers over client libraries are
// Readers. A Redis that only tests have need not be one.
type Reader interface {
	Redis

	// Read sends commands that change nothing, each with its only key as the second word, and returns
	// an answer to each, as Do does. In a Cluster they go to their keys' masters, all at once, or to
	// replicas where the library's settings send reads there.
	Read(ctx context.Context, commands ...[]string) ([]Value, error)

	// Masters returns the servers that have all keys: the masters of a Cluster, else this Redis alone.
	// They serve Do, and need not be closed.
	Masters(ctx context.Context) ([]Redis, error)
}

// Handler receives the confirmations and messages of subscriptions. Those of one connection come in
// order, one call at a time. It must not block.
type Handler interface {
	// Subscribed is called for each channel when the server has confirmed its subscription, never
	// before. Another call for the same channel says that the client library may have moved the
	// subscription to another connection: messages in between are lost.
	Subscribed(channel string)
	// Message is called for each message.
	Message(channel, message string)
	// Impaired is called, in any goroutine, when the driver goes on but works worse than it should.
	// cause says why, and reaches the user's observer and logger.
	Impaired(cause error)
}

// Listener is one connection with plain subscriptions. Its methods are called by one goroutine.
type Listener interface {
	// Subscribe subscribes channels with one command, which a server refuses as a whole. It returns
	// nil only once the server has confirmed all of them.
	Subscribe(ctx context.Context, channels ...string) error
	// SubscribeApart subscribes each channel with a command of its own, in one round trip. It
	// returns an error for each channel, nil only once the server has confirmed that channel.
	SubscribeApart(ctx context.Context, channels ...string) []error
	// Unsubscribe ends subscriptions with one command.
	Unsubscribe(ctx context.Context, channels ...string) error
	// Dropped returns a channel that receives once, with why the connection was lost. If the server
	// only falls silent, that comes within Silence. From then on only Close works.
	Dropped() <-chan error
	// Close gives the connection up; nothing stays subscribed. It may take a second where the
	// server hangs.
	Close()
}
