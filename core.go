package relock

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/lasting"
	"github.com/relock-go/relock/internal/presence"
	"github.com/relock-go/relock/internal/wire"
)

// core is what the locks and holds of a client share: the arbiter, the gates where goroutines wait,
// the watchdog, the names that were used, and counters.
type core struct {
	id       string // uuid: fields and inbox of the client
	cfg      config
	arbiter  claim.Arbiter
	gates    *gate.Gates[baton]
	report   claim.Report // to a gate: made once, for all that contend
	watchdog *watchdog
	presence *presence.Presence // nil where the client has no name
	idle     chan struct{}      // one slot, filled when the last call of a tally ends after Close
	closed   atomic.Bool        // every call reads it: nothing that calls write lies beside it
	known    [maxKnown]atomic.Pointer[known]
	tally    [tallies]tally
	count    atomic.Uint64 // of entries
}

// maxKnown is how many names a client keeps at most: a few thousand locks, in half a kilobyte each.
const maxKnown = 4096

var nameSeed = maphash.MakeSeed()

// known is what a name stands for. It is kept for callers that make a Mutex each time they lock,
// and never changes, but for how long its holds last. As a key of context.Value it finds the innermost lease of the lock.
type known struct {
	k      *core // of the client
	names  *wire.Names
	manner manner
	tally  *tally
	lasts  *lasting.Holds // of all kinds of locks of that name
	own    lasting.Holds  // where lasts points, unless another kind was known before
}

// same reports whether both are of one lock. A name may be forgotten and made anew.
func (n *known) same(other *known) bool {
	return n == other || n.k == other.k && n.names.Kind == other.names.Kind && n.names.Lock == other.names.Lock
}

// newEntry returns a new entry for the lock. With an owner it reserves one token: sharers of an
// owner do not pass the lock on in memory.
func (n *known) newEntry(owner string, cfg *config) wire.Entry {
	e := wire.Entry{
		Names: n.names, ID: wire.NewID(n.k.id, n.k.count.Add(1)), Owner: owner,
		Lease: cfg.firstLease, Block: cfg.block(), Timeout: cfg.commandTimeout,
	}
	if owner != "" {
		e.Block = 1
	}
	return e
}

// tallies is how many of them a client has: different locks seldom write the same one.
const tallies = 16

// tally counts for the locks whose names have one hash, on cache lines of its own.
type tally struct {
	_         [8]uint64
	calls     atomic.Int64 // that are under way
	lingering atomic.Int64 // holds that lie idle
}

// mayLinger reports whether one more hold may lie idle.
func (t *tally) mayLinger() bool { return t.lingering.Load() < maxLingering/tallies }

// tallyOf returns the tally of a lock.
func (k *core) tallyOf(names *wire.Names) *tally {
	return &k.tally[maphash.String(nameSeed, names.Lock)%tallies]
}

// begin counts a call that begins, until end: Close waits for it. On a closed client it returns
// ErrClosed and counts nothing.
func (k *core) begin(t *tally) error {
	t.calls.Add(1)
	if k.isClosed() {
		k.end(t)
		return ErrClosed
	}
	return nil
}

func (k *core) end(t *tally) {
	if t.calls.Add(-1) == 0 && k.isClosed() {
		select {
		case k.idle <- struct{}{}:
		default:
		}
	}
}

// behind runs do in the background, for a caller that must not wait. Close waits, as for a call.
func (k *core) behind(t *tally, do func()) {
	t.calls.Add(1)
	go func() {
		defer k.end(t)
		do()
	}()
}

func (k *core) isClosed() bool { return k.closed.Load() }

// underWay returns how many calls are under way. One that begins meanwhile may be missed.
func (k *core) underWay() (n int64) {
	for i := range k.tally {
		n += k.tally[i].calls.Load()
	}
	return n
}

// settle waits for the calls under way, for two command timeouts at most: they may have locks to
// give back. Where Redis answers they end within one.
func (k *core) settle() {
	t := time.NewTimer(2 * k.cfg.commandTimeout)
	defer t.Stop()
	for k.underWay() > 0 {
		select {
		case <-k.idle:
		case <-t.C:
			return
		}
	}
}

// tell tells the observer, if there is one, what became of an entry's hold. A kind of 0 tells
// nothing.
func (k *core) tell(e *wire.Entry, kind EventKind, cause error) {
	if kind != 0 {
		k.cfg.tell(Event{Kind: kind, Lock: e.Names.Name, Sort: e.Names.Kind.Name, Cause: cause})
	}
}
