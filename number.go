package relock

import (
	"context"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/eventlog"
	"github.com/relock-go/relock/internal/wire"
)

// The number of a semaphore's permits. Redis keeps it, and is told by the first client that finds none.

// maxSize is the most permits that a semaphore has.
const maxSize = 1_000_000

func sizeInRange(n int) error {
	if n < 1 || n > maxSize {
		return fmt.Errorf("%w: %d permits; a semaphore has 1 to %d", ErrInvalidOption, n, maxSize)
	}
	return nil
}

// tellSize tells Redis how many permits there are, for a caller that found no number there, for as many
// times before as found says. If the caller waits, tellSize goes on until Redis answers or the client is
// closed.
func (lk *lock) tellSize(ctx context.Context, m mode, found int) error {
	pause := clock.Backoff{Least: 5 * time.Millisecond, Most: 250 * time.Millisecond}
	for range min(found, 8) { // a number that is lost again and again is told ever more seldom
		pause.Next()
	}
	if found > 0 {
		clock.Sleep(ctx, pause.Next())
	}
	for {
		err := lk.resize(ctx, lk.size, false)
		if err == nil {
			return nil
		}
		if m == trying || !wire.Transient(err) || !clock.Sleep(ctx, pause.Next()) {
			return lk.waitedFor(ctx, err, nil)
		}
		if lk.k.isClosed() {
			return ErrClosed
		}
	}
}

// resize tells Redis how many permits there are, unless it keeps a number and anew is not set.
func (n *known) resize(ctx context.Context, size int, anew bool) error {
	told, err := n.k.arbiter.(claim.Resizer).Resize(ctx, n.names, size, anew) // a quorum has no semaphores
	if told {
		n.compared.Store(true)
	}
	return err
}

// compare warns in the log, once for a name that the client knows, if Redis keeps another number of permits
// than the caller says. It asks in the background. What this client has told Redis itself is not compared.
func (lk *lock) compare() {
	if lk.k.cfg.logged == nil || lk.compared.Swap(true) {
		return
	}
	lk.tally.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), lk.cfg.commandTimeout)
		defer cancel()
		st, err := lk.k.arbiter.Inspect(ctx, lk.names)
		switch {
		case err != nil && wire.Transient(err), err == nil && st.Permits == 0: // there was none by then
			lk.compared.Store(false)
		case err == nil && st.Permits != lk.size:
			why := fmt.Errorf("it has %d in Redis, and this process says %d; only SetPermits changes it", st.Permits, lk.size)
			lk.k.cfg.logged.Tell(eventlog.Record{
				Rank: eventlog.Alarm, Name: "number", Alarm: "a semaphore has another number of permits", Topic: why,
				Lock: lk.names.Name, LockKind: lk.names.Kind.Name, Cause: why,
			})
		}
	})
}
