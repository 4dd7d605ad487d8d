package relock

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/relock-go/relock/internal/calls"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/lasting"
	"github.com/relock-go/relock/internal/lookup"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/pool"
	"github.com/relock-go/relock/internal/presence"
	"github.com/relock-go/relock/internal/watchdog"
	"github.com/relock-go/relock/internal/wire"
)

// core is what the locks and holds of a client share: the arbiter, the gates where goroutines wait,
// the watchdog, a table of names, and counters.
type core struct {
	id       string // uuid: fields and inbox of the client
	cfg      config
	arbiter  claim.Arbiter
	gates    *gate.Gates[baton]
	report   claim.Report // reports to a gate; made once, for all contenders
	watchdog *watchdog.Watchdog
	presence *presence.Presence // nil if the client has no name
	calls    *calls.Calls
	lookups  lookup.Lookups // of Flights
	giving   sync.RWMutex   // for reading while All gives its caller the leases, if the client is not closed
	known    [maxKnown]atomic.Pointer[known]
	_        [8]uint64     // every call reads the fields above, and writes the field below
	count    atomic.Uint64 // of entries
}

// maxKnown is how many names a client keeps at most: a few thousand locks, in half a kilobyte each.
const maxKnown = 4096

var nameSeed = maphash.MakeSeed()

// known is what a client keeps of a lock's name, for callers that make a Mutex each time they lock. It
// never changes, except for the times of holds in lasts, the idle holds in pool, and compared. As a key of
// context.Value it finds the innermost lease of the lock.
type known struct {
	k        *core
	names    *wire.Names
	manner   manner
	tally    *calls.Tally
	lasts    *holds           // how long holds last, and which is this client's; one for all kinds of locks of that name
	pool     pool.Pool[*hold] // idle holds, where several may hold
	compared atomic.Bool      // how much there is of the lock was compared with what the program says
	own      holds            // lasts points to it, unless another kind of that name was known before
}

// holds is what a client knows of the holds of a name.
type holds struct {
	lasting.Holds
	ours atomic.Pointer[hold] // the latest hold of this client that is not over, nil for none
}

// same reports whether both stand for one lock. A name that was displaced has a new known.
func (n *known) same(other *known) bool {
	return n == other || n.k == other.k && n.names.Kind == other.names.Kind && n.names.Lock == other.names.Lock
}

// named returns err or, if it says of no lock that it is lost, the same of this lock.
func (n *known) named(err error) error {
	if wire.IsLost(err) {
		return &LostError{n.names.Name, err}
	}
	return err
}

// newEntry returns a new entry for the lock. With an owner it reserves one token: sharers of an
// owner do not pass the lock on in memory.
func (n *known) newEntry(owner string, cfg *config) wire.Entry {
	e := wire.Entry{
		Names: n.names, ID: wire.NewID(n.k.id, n.k.count.Add(1)), Owner: owner, Past: !n.manner.usesGate(cfg),
		Lease: cfg.firstLease, Block: n.manner.asks(cfg), Timeout: cfg.commandTimeout,
	}
	if owner != "" {
		e.Block = 1
	}
	return e
}

// mayLinger reports whether one more hold may lie idle.
func (n *known) mayLinger() bool { return n.tally.Lingering.Load() < maxLingering/calls.Tallies }

func (k *core) isClosed() bool { return k.calls.Closed() }

// tell tells the observer, if there is one, what became of the lock's hold. A kind of 0 tells nothing.
func (n *known) tell(kind EventKind, cause error) {
	if kind != 0 {
		e := n.event(kind)
		e.Cause = cause
		n.k.cfg.tell(e)
	}
}

// event returns an event of the lock.
func (n *known) event(kind EventKind) Event {
	return Event{Kind: kind, Lock: n.names.Name, LockKind: n.names.Kind.Name}
}

// explained is outward, for an error of the arbiter: of a silent node, it
// also says how that node failed shortly before, if this client knows.
func (k *core) explained(err error) error {
	if err == nil {
		return nil // the usual case, which is not to allocate the slice of nodes
	}
	return outward(node.Explained(err, k.arbiter.Nodes(), k.cfg.nodes > 0))
}
