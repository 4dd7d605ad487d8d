package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// arbiter decides who holds a lock: one Redis (pubsub.go), or a quorum of them (redlock.go). All
// that stands above it (gate, hold, watchdog) is written once. Its errors are those of
// internal/wire.
type arbiter interface {
	// claim returns the claim of an entry. It sends nothing.
	claim(e wire.Entry) claim
	// renew lengthens leases and calls settle once for each of them, by its place in the batch,
	// from any goroutine. The stamp is from before the confirmed command was sent.
	renew(ctx context.Context, batch []renewal, settle settleFunc)
	// silence is the error of a caller that gave up, by cause, and nothing had been heard by then.
	silence(op, name string, cause error) error
	inspect(ctx context.Context, n *wire.Names) (wire.State, error)
	force(ctx context.Context, k *wire.Kind, n *wire.Names) (bool, error)
	// initialize declares that no Redis has forgotten a lock that is held.
	initialize(ctx context.Context) error
	// nodes are those that decide.
	nodes() []*node.Node
	// stop makes all who contend leave, with ErrClosed.
	stop()
	// close, after stop, tries once more to end what was abandoned, and returns when no goroutine
	// is left.
	close()
}

// claim is one entry as the arbiter has it. Its methods are called by one goroutine at a time, but
// for asks.
type claim interface {
	of() *wire.Entry
	// wait blocks until the entry holds the lock. It tells remark, unless that is nil, what is
	// heard meanwhile. After a failure the entry may still be queued, or own the lock unknowingly:
	// another contender waits for it, or it has to be abandoned.
	wait(ctx context.Context, remark remark) (node.Grant, error)
	// try takes the lock if it is free, in one round trip. After a failure the claim is over.
	try(ctx context.Context) (node.Grant, error)
	// release ends the claim, which is then over whatever is returned. With next, next is queued in
	// the same step, behind all others; the grant is next's when the bool says so. ErrLost says
	// that the lock was not held any more.
	release(ctx context.Context, next claim) (node.Grant, bool, error)
	// setCount writes the hold count and lengthens the lease; the stamp is when the confirmed
	// command was sent.
	setCount(ctx context.Context, count int, lease time.Duration) (clock.Stamp, error)
	// refill asks for the tokens of another block, and tells done of them, from any goroutine. Where
	// somebody waits for the lock, and on a quorum, there are none, and nothing is told.
	refill(done func(node.Grant))
	// attend reports whether the entry, which holds the lock, hears that somebody else wants it.
	attend() bool
	// asks notes that Redis is about to be asked to keep the lock for lease.
	asks(lease time.Duration)
	// seen tells who held the lock when the entry last asked, "" for unknown, and what was left of
	// the lease.
	seen() (holder string, ttl time.Duration)
	// watch makes news about the lock go to what keeps it.
	watch(w *hub.Watcher)
	// abandon ends the claim in the background, however often it takes.
	abandon()
	// forget drops a claim that holds the lock, and leaves its lease to run out.
	forget()
}

// remark tells those who wait behind a contender in the line of key what it heard: nil that all is
// well.
type remark func(key string, heard error)

// renewal asks to lengthen one lease.
type renewal struct {
	claim claim
	count int // hold count to write; 0 leaves it alone
	lease time.Duration

	timeout time.Duration // of the command
}
