// Package claim is the interface between a lock in this process and the arbiter that decides which
// owner holds it: one Redis, or a quorum of them. So gate, hold and watchdog are written once, for
// both. The errors that its methods return are those of internal/wire.
package claim

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/wire"
)

// Arbiter decides which owner holds a lock.
type Arbiter interface {
	// Claim returns the claim of an entry. It sends nothing.
	Claim(e wire.Entry) Claim
	// Renew lengthens leases and calls settle once for each of them.
	Renew(ctx context.Context, batch []Renewal, settle Settle)
	// Silence returns the error of a caller that gave up, for cause, before Redis had answered
	// anything. why is wire.ErrNoAnswer, or wire.ErrNotAsked if Redis was not even asked.
	Silence(op driver.Op, name string, why, cause error) error
	// Inspect reads a lock's state.
	Inspect(ctx context.Context, n *wire.Names) (wire.State, error)
	// Force frees a lock, whichever owner holds it. It returns false if none did.
	Force(ctx context.Context, n *wire.Names) (bool, error)
	// TrustNodes declares that no Redis has forgotten a lock that is held.
	TrustNodes(ctx context.Context) error
	// Nodes returns the nodes that decide.
	Nodes() []*node.Node
	// Stop makes all contenders leave, with ErrClosed.
	Stop()
	// Close, after Stop, tries once more to end the abandoned claims, and returns when no goroutine
	// is left.
	Close()
}

// Resizer is an arbiter of semaphores.
type Resizer interface {
	Arbiter
	// Resize says how many permits a semaphore has: if Redis keeps no number yet, or in any case if anew is
	// set. told reports whether Redis has it from this command.
	Resize(ctx context.Context, n *wire.Names, permits int, anew bool) (told bool, err error)
}

// Gatherer is an arbiter that takes several locks in one command.
type Gatherer interface {
	Arbiter
	// Gather takes the free locks of several claims, which are of one kind and, in a Cluster, of one slot:
	// all of them or, if one is set, the first that is free. It returns the grants, in the order of the
	// claims. Claims without a grant are over. If too few are free, it returns no grant, and why as Try does.
	Gather(ctx context.Context, claims []Claim, one bool) ([]node.Grant, error)
}

// Keeper is an arbiter that keeps the results of runs under a lock.
type Keeper interface {
	Arbiter
	// Result reads the result that stands, if one is found. With again the question is repeated until Redis
	// answers or ctx ends.
	Result(ctx context.Context, n *wire.Names, again bool) (result string, found bool, err error)
	// Keep leaves the result of the run of an entry for others, for as long as stays says, if the entry
	// holds the lock by the grant with that first token. It asks even if ctx has ended, and repeats its command until Redis answers or ctx ends.
	Keep(ctx context.Context, e *wire.Entry, grant int64, result string, stays time.Duration) (wire.Kept, error)
	// Forget takes the result away. A run that holds the lock then leaves none.
	Forget(ctx context.Context, n *wire.Names) error
}

// Claim is one entry as the arbiter has it. Its methods are called by one goroutine at a time,
// except for Asks, which any goroutine may call.
type Claim interface {
	// Of returns the entry.
	Of() *wire.Entry
	// Wait blocks until the entry holds the lock. Meanwhile it calls report, unless report is nil, with
	// each failure, and with nil when Redis answers. After a failure Redis may still have the entry
	// queued, or give it the lock: the caller has to Abandon the claim, or to let another goroutine
	// Wait for it.
	Wait(ctx context.Context, report Report) (node.Grant, error)
	// Try takes the lock if it is free, in one round trip. After a failure the claim is over.
	Try(ctx context.Context) (node.Grant, error)
	// Release ends the claim. The claim is then over, whatever is returned. Unless next is nil, the same
	// step queues next, behind all others. If next is granted the lock at once, Release returns that
	// grant and true. ErrLost says that the lock was not held any more.
	Release(ctx context.Context, next Claim) (node.Grant, bool, error)
	// SetCount writes the hold count and lengthens the lease. The stamp is when the command was sent.
	SetCount(ctx context.Context, count int, lease time.Duration) (clock.Stamp, error)
	// Refill asks for the tokens of another block, and calls done with them, from any goroutine. It
	// does not call done if another entry waits for the lock, or if a quorum decides.
	Refill(done func(node.Grant))
	// Attend reports whether the entry, which holds the lock, would hear that another one wants it.
	Attend() bool
	// Asks notes that Redis is about to be asked to keep the lock for lease.
	Asks(lease time.Duration)
	// Seen returns which owner held the lock when the entry last asked, "" for unknown, and what
	// was left of that owner's lease.
	Seen() (holder string, ttl time.Duration)
	// Watch makes w hear what messages say of the entry, which holds the lock now.
	Watch(w *hub.Watcher)
	// Abandon ends the claim in the background, in as many tries as that takes.
	Abandon()
	// Forget drops a claim that holds the lock, and leaves its lease to run out.
	Forget()
}

// Movable is a claim whose hold can move to another process, by a handle. Meanwhile the lock stands for the
// field that wire.HandleField makes of the handle: that field is the argument of the methods.
type Movable interface {
	Claim
	// HandOver ends the claim, which holds the lock, and lets handle have the lock for stays. ErrLost says
	// that the lock was not held any more. After any other error the lock is freed in the background, or at
	// the end of stays.
	HandOver(ctx context.Context, handle string, stays time.Duration) error
	// TakeOver makes the claim hold the lock that handle has. It repeats its command until Redis answers or
	// ctx ends. An error that wraps ErrLost says why the handle has no lock. After a failure the claim is over.
	TakeOver(ctx context.Context, handle string) (node.Grant, error)
}

// Report takes a contender's failure, or nil when Redis answers, for the goroutines that wait behind
// the contender in the gate's line for key.
type Report func(key string, heard error)

// Renewal asks to lengthen one lease.
type Renewal = wire.Renewal

// Settle takes the result of the i-th renewal of a batch, in any goroutine. If the renewal was not
// answered, err says why. sent is from before the command was sent.
type Settle func(i int, r wire.Result, sent clock.Stamp, err error)
