package relock

import (
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/clock"
)

// Cached leases. A hold whose last lease was unlocked may linger: Redis keeps it for this process,
// it lies at its lock's gate, and the next Lock takes it from there without a command, with the
// next token of its block. It may do so
//
//   - if nobody waited when it was granted, which only the answer to a first question proves, and
//     for the option's time from when that question was sent. No later command moves that: neither
//     a renewal, which does not ask who waits, nor a question that was sent again.
//   - as long as no message says that somebody else wants the lock, or was missed. So a hold lingers
//     only where such messages are heard.
//   - while Redis confirmed more than a third of the lease, so that a process which was stopped finds
//     it over, whatever its timers have seen.
//
// It ends as any hold that is over: once, and released until Redis has answered. internal/model
// explores that, with each of these rules taken away.

const (
	// lingerBlock is how many fencing tokens a grant reserves that may linger: a few milliseconds'
	// worth, even where nothing is done under the lock.
	lingerBlock = 8192
	// lingerGrain is by how much a hold lingers less than WithLinger says, at most.
	lingerGrain = 5 * time.Millisecond
	// maxLingering bounds how many holds of a client linger at one time; each tally has a share.
	maxLingering = 16384
)

// WithLinger keeps a lock that is unlocked for this process, for up to d, as long as nobody else
// wants it: the next Lock or TryLock here takes it without a command to Redis, with a fencing token
// of its own. The lock managers of VMS and Lustre call that lock caching.
//
// It lingers for d at most, counted from when the process asked for it and nobody waited. Then it is
// given back, idle or with its next Unlock, and asked for anew. Whoever waits for it, or tries, in
// another process makes the holder's process give it back at once if it lies idle, else with its next
// Unlock, whatever WithLocalHandoff says; so others wait about twice as long as for a free lock if it
// idles. A lock that was granted while others waited passes on as without this option. All this takes
// a message. Where it is lost it is repeated with each poll of the one who waits, at the latest d ends
// it. Redisson's waiters send none, and so wait for d: keep it at some ten milliseconds where Java
// shares the lock. A lock that is held for longer than d at a time does not linger.
//
// To others an idle lock looks held: State shows it, TryLock fails with HeldError.Wanted set, and
// finds it free a moment later. If the process dies it stays held for the rest of its lease. Close
// gives idle locks back. A lease from the cache is worth what every lease is: it ends with ErrLost
// before another can have the lock, also where the process was stopped while the lock lay idle.
//
// Within d and while nobody else wants the lock, it passes between the goroutines of this process
// regardless of WithLocalHandoff. A grant reserves 8,192 fencing tokens, if they do not run half a
// second ahead of the server's clock, so tokens have larger gaps. At most 16,384 locks of a client
// lie idle at one time. Locks of WithFixedLease and of WithOwner do not linger, nor any where
// messages cannot be heard, such as with PubSubPlain on a Cluster; with sharded channels each lock
// that lingers costs a subscription.
//
// Where each name is locked once it still pays for one goroutine at a time: Unlock does not wait for
// Redis, and what is given back within a millisecond goes together.
//
// By default, and with 0, a lock is given back with its last Unlock.
func WithLinger(d time.Duration) Option {
	return Option{name: "WithLinger", apply: func(c *config) error {
		c.linger = d
		if d < 0 || d > MaxLease {
			return fmt.Errorf("%v is out of range, 0 (not at all) to %v are possible", d, MaxLease)
		}
		return nil
	}}
}

// lingers reports whether locks with this config linger.
func (c *config) lingers() bool { return c.linger > 0 && c.fixed == 0 }

// block is how many tokens an entry without an owner asks for.
func (c *config) block() int {
	if c.lingers() {
		return max(c.passes, lingerBlock)
	}
	return c.passes
}

// lingering is what a hold knows of whether it may linger. It is guarded by the hold's mutex.
type lingering struct {
	fresh  bool        // nobody waited when it was granted, and messages are heard
	asked  clock.Stamp // when the question was sent that this was the answer to
	stale  bool        // somebody may have begun to wait since
	wanted bool        // somebody has
	doubt  clock.Stamp // a message said that the lock may be lost, and no renewal sent since was answered
	idle   bool        // it has no lease, and lies at the gate
	notice chan struct{}
}

// cacheable reports whether the hold may be kept for another lease of this process. The caller holds
// h.mu.
func (h *hold) cacheable(now clock.Stamp) bool {
	return h.fresh && !h.stale && h.cfg.lingers() && h.state == holdLive && h.left > 0 &&
		!h.lingerEnd().Reached(now) && h.until.Until(now) > h.entry.Lease/3 &&
		h.kept.Until(now) <= h.entry.Lease && !h.countUnsure && !h.k.isClosed()
}

// alone reports whether nobody else wanted the lock, as far as is known. Where somebody does, a grant
// ends with the bounds of passing on, and a block for longer would only carry the counter ahead of
// the server's clock, until few tokens are left for a grant.
func (h *hold) alone() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fresh && !h.stale
}

// layDown notes that the hold lies at the gate, which the caller has left by that. The caller holds
// h.mu: whoever ends the hold from here on finds it there, or with one who took it.
func (h *hold) layDown(now clock.Stamp) {
	h.tally.lingering.Add(1)
	h.idle, h.atGate, h.cap = true, false, clock.Never()
	if h.lookAt.IsZero() { // granted for a waiter that had left, so it never began
		due := h.next(now)
		h.lookAt = due.at
		h.k.dog.schedule(h, due, now)
	}
}

// resume takes up a hold that lay at the gate, for a caller that is at the gate now. It returns false
// where the lock has to be asked for: then the hold is over.
func (h *hold) resume(now clock.Stamp) bool {
	h.mu.Lock()
	if h.idle && h.cacheable(now) && h.doubt.IsZero() {
		h.pickUp()
		h.atGate = true
		h.mu.Unlock()
		return true
	}
	h.mu.Unlock()
	h.giveBack()
	return false
}

// pickUp ends the idleness of a hold. The caller holds h.mu.
func (h *hold) pickUp() {
	h.idle = false
	h.tally.lingering.Add(-1)
}

// giveBack ends a hold that lies idle. It acts once, whoever calls it.
func (h *hold) giveBack() {
	h.mu.Lock()
	if !h.idle {
		h.mu.Unlock()
		return
	}
	h.withdraw()
	h.state = holdEnded
	h.mu.Unlock()
	h.k.dog.remove(h)
	h.claim.Abandon()
}

// withdraw takes an idle hold away from the gate, unless somebody just took it up there, who will
// find it over. The caller holds h.mu, and ends the hold.
func (h *hold) withdraw() {
	h.pickUp()
	h.k.gates.Withdraw(h.entry.Names.Lock, baton{hold: h, idle: true})
}

// outstayed reports whether the hold lies idle and must not.
func (h *hold) outstayed(now clock.Stamp) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.idle && !h.cacheable(now)
}

// lingersUntil is when to look whether the hold lies idle for too long. The caller holds h.mu.
func (h *hold) lingersUntil(now clock.Stamp) clock.Stamp {
	if !h.fresh || !h.cfg.lingers() {
		return clock.Never()
	}
	if end := h.lingerEnd(); !end.Reached(now) || h.idle {
		return end
	}
	return clock.Never()
}

// lingerEnd is until when the hold may linger. Of many holds those end together that would end at
// about the same time: so one of them wakes the watchdog. The caller holds h.mu.
func (h *hold) lingerEnd() clock.Stamp {
	end, grain := h.asked.Add(h.cfg.linger), min(h.cfg.linger/8, lingerGrain)
	return end.Add(-time.Duration(end.Wall().UnixNano() % max(1, int64(grain))))
}

// Wanted notes that somebody else wants the lock, or when not sure that word of that may have been
// missed. An idle hold is ended by the watchdog: the caller may hold the hub's mutex, when not sure.
func (h *hold) Wanted(sure bool) {
	now := clock.Now()
	h.mu.Lock()
	h.stale = true
	first := sure && !h.wanted
	if first {
		h.wanted = true
		if h.notice != nil {
			close(h.notice)
		}
	}
	if h.idle {
		h.k.dog.schedule(h, look{at: now}, now)
	}
	h.mu.Unlock()
	if first {
		h.tell(EventWanted, nil)
	}
}

// closedNotice is for those who ask when it is known already.
var closedNotice = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Wanted returns a channel that is closed once another process of relock's waits for the lock, or has
// tried to take it: a leader or a long batch may then give way by itself, by Unlock. It is a hint.
// Where the message is lost it is repeated with each poll of the one who waits, at first a twelfth
// and a sixth of that one's lease apart, then a third. It is not closed for goroutines of this
// process that wait behind the lease, nor for Redisson's waiters, and never for leases under
// WithOwner. Once closed it is closed for all later leases too that the same grant of Redis's is
// passed on to.
func (l *Lease) Wanted() <-chan struct{} {
	if l.zero() {
		return nil
	}
	h := l.h
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.wanted:
		return closedNotice
	case h.notice == nil:
		h.notice = make(chan struct{})
	}
	return h.notice
}
