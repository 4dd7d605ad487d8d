package relock

import (
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/gate"
	"github.com/relock-go/relock/internal/presence"
	"github.com/relock-go/relock/internal/wire"
)

// core is what the locks and holds of a client have in common: what decides, the goroutines that wait here, and
// what is kept.
type core struct {
	id       string // uuid: fields and inbox of the client
	cfg      config
	arbiter  claim.Arbiter
	gates    *gate.Gates[baton]
	report   claim.Report // at a gate
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

// knownAs looks a name up, or works out what it stands for. A name that was kept in the same place
// before is forgotten.
func (k *core) knownAs(kind *wire.Kind, name string) (*known, error) {
	place := &k.known[(maphash.String(nameSeed, name)+kind.Nr)%maxKnown]
	if was := place.Load(); was != nil && was.names.Name == name && was.names.Kind == kind {
		return was, nil
	}
	names, err := kind.Names(k.cfg.prefix, name)
	if err != nil {
		return nil, err
	}
	is := &known{k: k, names: names, tally: k.tallyOf(names)}
	place.Store(is)
	return is, nil
}

// known is what a name stands for, kept for callers that make a Mutex each time they lock. It never
// changes. As the key of a context's value it finds the innermost lease of the lock.
type known struct {
	k     *core // of the client
	names *wire.Names
	tally *tally
}

// same reports whether both are one lock's: a name that was forgotten is made anew.
func (n *known) same(other *known) bool {
	return n == other || n.k == other.k && n.names.Kind == other.names.Kind && n.names.Lock == other.names.Lock
}

// entry is a new one. Sharers of an owner do not pass the lock on in memory.
func (k *core) entry(names *wire.Names, owner string, cfg *config) wire.Entry {
	e := wire.Entry{
		Names: names, ID: wire.NewID(k.id, k.count.Add(1)), Owner: owner,
		Lease: cfg.firstLease, Block: cfg.block(), Timeout: cfg.commandTimeout,
	}
	if owner != "" {
		e.Block = 1
	}
	return e
}

// tallies is how many counters of a kind a client has, so that locks which have nothing to do with
// each other seldom write the same one.
const tallies = 16

// tally counts what goes on at the locks whose names have one hash, on cache lines of its own.
type tally struct {
	_         [8]uint64
	calls     atomic.Int64 // that are under way
	lingering atomic.Int64 // holds that lie idle
}

// tallyOf returns where a lock counts.
func (k *core) tallyOf(names *wire.Names) *tally {
	return &k.tally[maphash.String(nameSeed, names.Lock)%tallies]
}

// begin counts at t a call that is under way, which Close waits for. On a closed client it returns
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

// behind does what a caller that gave up must not wait for. Close waits for it, as for a call.
func (k *core) behind(t *tally, do func()) {
	t.calls.Add(1)
	go func() {
		defer k.end(t)
		do()
	}()
}

func (k *core) isClosed() bool { return k.closed.Load() }

// underWay is how many calls are. One that begins while they are added up may be missed.
func (k *core) underWay() (n int64) {
	for i := range k.tally {
		n += k.tally[i].calls.Load()
	}
	return n
}

// settle waits for the calls under way. They may hold what they have to give back, and leave within
// a command timeout where Redis answers.
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

// tell tells of what becomes of an entry's hold, unless that is nothing.
func (k *core) tell(e *wire.Entry, kind EventKind, cause error) {
	if kind != 0 {
		k.cfg.tell(Event{Kind: kind, Lock: e.Names.Name, Sort: e.Names.Kind.Name, Cause: cause})
	}
}
