package hub

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/wire"
)

// A Watcher keeps a lock that was granted to an entry, and is told what its ear hears. Its methods
// may be called with the hub's mutex held, except Wanted(true). They must neither block nor call
// the hub.
type Watcher interface {
	// Doubt says that the lock may have been lost.
	Doubt()
	// Wanted says that another process wants the lock; if not sure, that a message which says so may
	// have been missed.
	Wanted(sure bool)
}

// Hints are what messages told a waiter beside grants.
type Hints struct {
	Look    bool // ask Redis
	Nudged  bool // a client with a lower ticket may wait for what the entry has
	Deposed bool // what Redis granted before is taken away
}

// Ear is what one entry hears. Its phase goes from earWaits to earHolds to earReleases, and Close
// ends it. Its methods are called by the goroutine that has the entry, one at a time. As long as no
// process waits for the lock, only Register and Close lock the hub's mutex.
type Ear struct {
	hub   *Hub
	entry *wire.Entry
	wake  clock.Signal // wakes the contender: it looks for a grant here, then asks Redis
	code  string       // of the owner that the entry shares, see wire.SharersCode; "" for none

	// These are read by the goroutine that receives messages, too.
	phase   atomic.Int32
	watcher atomic.Pointer[Watcher]
	// regranted is set if a grant arrives while a release is unanswered. The release may have run
	// before that grant, unless it found the lock held.
	regranted atomic.Bool

	// wanted and deposed keep what the watcher is to be told until there is one: a message may overtake
	// the answer that grants the lock.
	wanted  atomic.Int32
	deposed atomic.Bool

	// unvetted is set if the lock was granted before it was known whether the inbox may be subscribed.
	unvetted bool

	// sub is the lock's subscription, nil if the ear does not hear it. Only the goroutine that has the
	// entry writes it, with the hub's mutex held. So that goroutine reads it without the mutex, any
	// other goroutine with it.
	sub *subscription

	// Guarded by the hub's mutex.
	voter bool        // at a node of a quorum, which may grant again what was given back
	grant wire.Tokens // of the grant that a message told of; zero once taken, or if messages differed
	last  int64       // the first token of the last message's grant, 0 for none yet
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

// Register makes an entry known. It must come before the entry's first command: otherwise a grant
// could arrive for an unknown id. If the lock's channels are subscribed already, the ear hears them
// from now on, and its first answer needs no second look. A voter, which is an entry at a node of a
// quorum, hears only the inbox.
func (e *Ear) Register(h *Hub, entry *wire.Entry, wake clock.Signal, voter bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.hub, e.entry, e.wake, e.voter = h, entry, wake, voter
	if entry.Owner != "" {
		e.code = wire.SharersCode(entry.Owner)
	}
	h.ears[entry.ID] = e
	if voter {
		h.wantInbox()
	} else if sub := h.subs[entry.Names.Unlock]; sub != nil && e.sub == nil {
		h.join(sub, e)
	}
}

// Listen makes the ear hear the inbox and the lock's channels. Once the subscription is confirmed,
// the ear's goroutine is woken: it may have missed something before.
func (e *Ear) Listen() {
	if e.sub != nil {
		return
	}
	h := e.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.feed == nil {
		return
	}
	h.wantInbox()
	sub := h.subs[e.entry.Names.Unlock]
	if sub == nil {
		sub = &subscription{names: e.entry.Names}
		h.subs[sub.names.Unlock], h.subs[sub.names.Listen] = sub, sub
		h.feed.open(sub)
	} else if sub.ready {
		e.wake.Poke() // messages since the last look went unheard
	}
	h.join(sub, e)
}

// Granted notes that the entry was granted its lock, and returns how many of the grant's tokens may
// be used in a row.
func (e *Ear) Granted(given wire.Tokens) int {
	passes := given.Among(e.entry.Asks())
	e.phase.Store(earHolds)
	h, sub := e.hub, e.sub
	if sub == nil && h.settled.Load() {
		return passes // without the mutex: this is the way of a lock that no process waits for
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wantInbox()
	e.unvetted = h.inboxWanted && !h.isVetted()
	if sub != nil {
		now := time.Now()
		sub.turns.granted(now)
		if sub.turns.near(now) {
			return min(passes, turnPasses)
		}
	}
	return passes
}

// Verdict returns why the entry must not keep the lock that it was granted: no message can reach its
// client. If it is not known yet whether the inbox may be subscribed, Verdict waits for that, for
// vetTimeout at most. So a missing right makes the first Lock of a client fail, even if its lock was
// free. Otherwise the first Lock that has to wait would fail, perhaps much later.
func (e *Ear) Verdict(ctx context.Context) error {
	if !e.unvetted {
		return nil
	}
	e.unvetted = false
	late := time.NewTimer(min(vetTimeout, e.entry.Timeout))
	defer late.Stop()
	select {
	case <-e.hub.vetted:
	case <-late.C:
	case <-ctx.Done():
	}
	return e.Deafness()
}

// Watch makes w hear what comes for the entry, which holds the lock now. w may be told at once what
// came before.
func (e *Ear) Watch(w *Watcher) {
	e.watcher.Store(w)
	e.tellWanted()
	if e.deposed.Load() {
		(*w).Doubt()
	}
}

// Attend makes the ear hear that another process wants the lock, and reports whether it does so by
// now. Such a message comes over the inbox. If each lock has an inbox of its own, the lock's
// subscription has to be confirmed, and Attend asks for it.
func (e *Ear) Attend() bool {
	h := e.hub
	if h.hears.Load() {
		return true
	}
	h.mu.Lock()
	_, lockByLock := h.feed.(*shardedFeed)
	ready := lockByLock && e.sub != nil && e.sub.ready
	h.mu.Unlock()
	if lockByLock {
		e.Listen()
	}
	return ready
}

// granted takes a grant that a message told of. Before the first such message only clients that read
// the lock's keys know the entry's id. After it, every client that listens to the inbox knows the id,
// and could forge a second message. So if two messages differ, neither is believed, and the waiter
// asks Redis. A voter may be granted again what it gave back: it believes a new grant once it has
// taken the grant before. The caller holds the hub's mutex.
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

// want notes that another process wants the lock or, if not sure, that this may be so. It tells the
// watcher of news. If sure, the caller does not hold the hub's mutex.
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

// tellWanted tells the watcher, if there is one, that the lock is wanted or may be.
func (e *Ear) tellWanted() {
	news := e.wanted.Load()
	if w := e.watcher.Load(); w != nil && news != notWanted {
		(*w).Wanted(news == surelyWanted)
	}
}

// WantFrom tells the entry that has the lock, if it is one of this client's, that this ear's entry wants it.
// Redis sends a client no message about its own entries.
func (e *Ear) WantFrom(holder string) {
	e.hub.mu.Lock()
	other := e.hub.ears[holder]
	e.hub.mu.Unlock()
	if other != nil && other.entry.Names.Lock == e.entry.Names.Lock {
		other.want(true)
	}
}

// Releasing notes that a release is about to be sent.
func (e *Ear) Releasing() { e.phase.Store(earReleases) }

// Regranted reports whether a grant arrived since Releasing.
func (e *Ear) Regranted() bool { return e.regranted.Load() }

// Turns returns the name of the last turn of Redisson's waiters if they used it, "" otherwise. It
// also reports whether a release may give them another turn.
func (e *Ear) Turns() (used string, due bool) {
	if e.sub == nil {
		return "", true
	}
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	return e.sub.turns.over(), e.sub.turns.due(time.Now())
}

// Heard takes what came since the last call: the tokens of a grant, zero for none, and the hints.
func (e *Ear) Heard() (wire.Tokens, Hints) {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	given, told := e.grant, e.hints
	e.grant, e.hints = wire.Tokens{}, Hints{}
	return given, told
}

// Close ends the ear: a grant that comes for its entry from now on is an orphan. An ear that was
// never registered has nothing to end.
func (e *Ear) Close() {
	h := e.hub
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.ears, e.entry.ID)
	if sub := e.sub; sub != nil {
		sub.ears = slices.DeleteFunc(sub.ears, func(other *Ear) bool { return other == e })
		e.sub = nil
		if len(sub.ears) == 0 {
			sub.idle, sub.idleSince = h.idle.PushBack(sub), time.Now()
		}
	}
}

// join makes an ear hear a subscription. The caller holds the hub's mutex.
func (h *Hub) join(sub *subscription, e *Ear) {
	if sub.idle != nil {
		h.idle.Remove(sub.idle)
		sub.idle = nil
	}
	sub.ears = append(sub.ears, e)
	e.sub = sub
}

// news makes a waiter ask Redis, and a holder ask whether it still holds. The caller holds the
// hub's mutex.
func (e *Ear) news() {
	if e.phase.Load() == earWaits {
		e.hints.Look = true
		e.wake.Poke()
	} else {
		e.doubt()
	}
}

// depose notes that the entry was deposed, and tells the watcher. If there is none yet, Watch will.
func (e *Ear) depose() {
	e.deposed.Store(true) // before doubt reads watcher: Watch stores watcher before it reads deposed
	e.doubt()
}

// doubt tells the watcher, if there is one, that the lock may be lost.
func (e *Ear) doubt() {
	if w := e.watcher.Load(); w != nil {
		(*w).Doubt()
	}
}
