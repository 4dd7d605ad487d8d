package relock

import (
	"context"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// arbiter decides who holds a lock: one Redis, or a quorum of them. All that stands above it (gate, hold, watchdog) is
// written once.
type arbiter interface {
	// contend blocks until a holds the lock. After a failure a may still be queued, or own the lock unknowingly: pass it
	// to another contender or abandon it.
	contend(ctx context.Context, a *acquisition) (grant, error)
	// try takes the lock if it is free, in one round trip. After a failure a is over.
	try(ctx context.Context, a *acquisition) (grant, error)
	// release ends a, which is then over whatever is returned. With next, next is queued in the same step, behind all
	// others; the grant is next's when the bool says so. ErrLost says that a did not hold the lock any more.
	release(ctx context.Context, a, next *acquisition) (grant, bool, error)
	// abandon ends a in the background, however often it takes.
	abandon(a *acquisition)
	// attach tells where news about a held acquisition goes.
	attach(a *acquisition, h *hold)
	// forget drops a held acquisition and leaves its lease to run out.
	forget(a *acquisition)
	// recount writes a's hold count and lengthens its lease; the stamp is when the confirmed command was sent.
	recount(ctx context.Context, a *acquisition, count int, lease time.Duration) (clock.Stamp, error)
	// renew lengthens leases and calls settle once for each of them, from any goroutine.
	renew(ctx context.Context, batch []renewal, settle func(renewal, outcome, clock.Stamp))
	// silence is the error of a caller that gave up, by cause, and nothing had been heard by then.
	silence(name string, cause error) error
	inspect(ctx context.Context, n *names) (State, error)
	force(ctx context.Context, n *names) (bool, error)
	// stop makes all who contend leave, with ErrClosed.
	stop()
	// close, after stop, tries once more to end what was abandoned, and returns when no goroutine is left.
	close()
}

// grant is a lock given to an acquisition: its first fencing token, and until when it is surely held.
type grant struct {
	token int64
	sent  clock.Stamp // the lease runs from here at the latest
}

// renewal asks to lengthen one lease. The result goes to its hold.
type renewal struct {
	lock  string
	id    string
	count int // hold count to write; 0 leaves it alone
	lease time.Duration
	hold  *hold
}

// outcome is what became of a renewal.
type outcome int

const (
	unanswered outcome = iota // the lease may or may not have been lengthened
	renewed
	lost
)
