package hub

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// A Watcher keeps a lock that was granted. Its methods may be called with the hub's mutex held, but
// for Wanted when sure: they must neither block nor call the hub.
type Watcher interface {
	// Doubt says that the lock may have been lost.
	Doubt()
	// Wanted says that another process wants the lock, or when not sure, that word of that may have
	// been missed.
	Wanted(sure bool)
}

// Hints are what messages told a waiter beside grants: that it should look again, and that a client
// with a lower ticket may wait for what it has.
type Hints struct{ Look, Nudged bool }

// Ear is what one entry hears. It lives: waiting, held, releasing, closed. Its methods are called
// by the goroutine that has the entry, one at a time. As long as no one waits for the lock the ear
// is quiet: then only Register and Close ask the hub.
type Ear struct {
	hub   *Hub
	entry *wire.Entry
	wake  clock.Signal // wakes the contender: it looks for grants, then asks Redis

	// These are read by the goroutine that receives messages.
	phase   atomic.Int32
	watcher atomic.Pointer[Watcher]
	// regranted is set when a grant arrives while a release is unanswered: unless the release found
	// the lock held, it may have run before that grant.
	regranted atomic.Bool

	// wanted and deposed remember what the watcher is to be told, which may come before there is one:
	// a message may overtake the answer that grants the lock.
	wanted  atomic.Int32
	deposed atomic.Bool

	// unvetted is set when the lock was granted before it was known whether the inbox may be
	// subscribed.
	unvetted bool

	// room is written with the hub's mutex held, and only by the goroutine that has the entry: so
	// that one may read it without.
	room *room

	// Guarded by the hub's mutex.
	voter bool        // at a node of a quorum, which may grant again what was given back
	grant wire.Tokens // of the message that granted it, zero when taken
	last  int64       // the first token that a message told of last, 0 for none yet
	hints Hints
}

const (
	notWanted = iota
	maybeWanted
	surelyWanted
)

const (
	earWaits = iota
	earHolds
	earReleases
)

// Register makes an entry known before its first command is sent; otherwise a grant could arrive
// for an unknown id. If the lock's channel is subscribed already the ear hears it from now on, and
// its first answer needs no second look.
func (e *Ear) Register(h *Hub, entry *wire.Entry, wake clock.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.hub, e.entry, e.wake = h, entry, wake
	h.ears[entry.ID] = e
	if r := h.rooms[entry.Names.Unlock]; r != nil && e.room == nil {
		h.join(r, e)
	}
}

// RegisterVoter is Register at a node of a quorum, where an entry may have to wait without hearing
// the unlock channel.
func (e *Ear) RegisterVoter(h *Hub, entry *wire.Entry, wake clock.Signal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.hub, e.entry, e.wake, e.voter = h, entry, wake, true
	h.ears[entry.ID] = e
	h.expect()
}

// Listen makes the ear hear its client's inbox and the lock's unlock channel. It is woken once the
// subscription is confirmed, for what it may have missed before.
func (e *Ear) Listen() {
	if e.room != nil {
		return
	}
	h := e.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feed == nil {
		return
	}
	h.expect()
	r := h.rooms[e.entry.Names.Unlock]
	if r == nil {
		r = &room{names: e.entry.Names}
		h.rooms[r.names.Unlock], h.beside[r.names.Listen] = r, r
		h.feed.open(r)
	} else if r.ready {
		e.wake.Poke() // what was published since the last look went unheard
	}
	h.join(r, e)
}

// Granted notes that the entry was granted its lock, and returns how many of the grant's tokens may
// be used in a row.
func (e *Ear) Granted(given wire.Tokens) int {
	passes := given.Among(e.entry.Block)
	e.phase.Store(earHolds)
	h := e.hub
	if e.room == nil && h.settled.Load() {
		return passes
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expect()
	e.unvetted = h.inbox && !h.isVetted()
	if r := e.room; r != nil {
		now := time.Now()
		r.turns.granted(now)
		if r.turns.near(now) {
			return min(passes, turnPasses)
		}
	}
	return passes
}

// Verdict tells why the entry must not keep the lock that it was granted: no message can reach its
// client. That is asked once, of the first entries of a client.
func (e *Ear) Verdict(ctx context.Context) error {
	if !e.unvetted {
		return nil
	}
	e.unvetted = false
	return e.verdict(ctx)
}

// Watch makes news about the entry go to what keeps the lock. It may be told at once what came
// before.
func (e *Ear) Watch(w *Watcher) {
	e.watcher.Store(w)
	e.tellWanted()
	if e.deposed.Load() {
		(*w).Doubt()
	}
}

// Attend makes the ear hear that another process wants the lock, and reports whether it does by now.
func (e *Ear) Attend() bool {
	h := e.hub
	if h.hears.Load() {
		return true
	}
	h.mu.Lock()
	_, lockByLock := h.feed.(*shardedFeed)
	ready := lockByLock && e.room != nil && e.room.ready
	h.mu.Unlock()
	if lockByLock {
		e.Listen()
	}
	return ready
}

// granted takes the grant of a message. Before the grant only readers of the lock's keys know the
// entry's id; from then on all listeners to the inbox do, and can forge a second grant. So where two
// differ neither is believed: the waiter asks. The caller holds the hub's mutex.
func (e *Ear) granted(t wire.Tokens) {
	switch {
	case t.First == e.last: // the message came twice
	case e.last == 0, e.voter && e.grant.First == 0:
		e.grant, e.last = t, t.First
	default:
		e.grant, e.last, e.hints.Look = wire.Tokens{}, t.First, true
	}
	e.wake.Poke()
}

// want notes that another process wants the lock, or when not sure that it may be so. When sure, the
// caller does not hold the hub's mutex.
func (e *Ear) want(sure bool) {
	news := int32(maybeWanted)
	if sure {
		news = surelyWanted
	}
	for had := e.wanted.Load(); had < news; had = e.wanted.Load() {
		if e.wanted.CompareAndSwap(had, news) {
			e.tellWanted()
			return
		}
	}
}

// tellWanted tells the watcher what is known, if there is one and something is.
func (e *Ear) tellWanted() {
	news := e.wanted.Load()
	if w := e.watcher.Load(); w != nil && news != notWanted {
		(*w).Wanted(news == surelyWanted)
	}
}

// Releasing notes that a release is about to be sent.
func (e *Ear) Releasing() { e.phase.Store(earReleases) }

// Regranted reports whether a grant arrived since.
func (e *Ear) Regranted() bool { return e.regranted.Load() }

// TurnDue reports whether a release may leave the lock to Redisson's waiters.
func (e *Ear) TurnDue() bool {
	if e.room == nil {
		return true
	}
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	return e.room.turns.due(time.Now())
}

// TurnOver names the last turn of Redisson's waiters if it was used, "" otherwise.
func (e *Ear) TurnOver() string {
	if e.room == nil {
		return ""
	}
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	return e.room.turns.over()
}

// Heard returns the tokens of the last grant that came, none when there is none, and the hints.
func (e *Ear) Heard() (wire.Tokens, Hints) {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	given, told := e.grant, e.hints
	e.grant, e.hints = wire.Tokens{}, Hints{}
	return given, told
}

// Close ends the ear: a grant that still comes for its entry is an orphan.
func (e *Ear) Close() {
	h := e.hub
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ears[e.entry.ID] == e {
		delete(h.ears, e.entry.ID)
	}
	if r := e.room; r != nil {
		r.members = slices.DeleteFunc(r.members, func(m *Ear) bool { return m == e })
		e.room = nil
		if len(r.members) == 0 {
			r.empty, r.vacancy = time.Now(), h.vacant.PushBack(r)
		}
	}
}

// join puts an ear into a room. The caller holds the hub's mutex.
func (h *Hub) join(r *room, e *Ear) {
	if r.vacancy != nil {
		h.vacant.Remove(r.vacancy)
		r.vacancy = nil
	}
	r.members = append(r.members, e)
	e.room = r
}

// news makes a waiter look and a holder ask whether it still holds. The caller holds the hub's
// mutex.
func (e *Ear) news() {
	if e.phase.Load() == earWaits {
		e.hints.Look = true
		e.wake.Poke()
	} else {
		e.doubt()
	}
}

// depose notes that the entry was deposed, and tells the watcher: now, or as soon as there is one.
func (e *Ear) depose() {
	e.deposed.Store(true) // before the watcher is looked for, as Watch looks after it is there
	e.doubt()
}

// doubt tells the watcher, if there is one, that the lock may be lost.
func (e *Ear) doubt() {
	if w := e.watcher.Load(); w != nil {
		(*w).Doubt()
	}
}
