package relock

import (
	"fmt"
	"time"
)

// Cached leases. A hold whose last lease was unlocked may linger: Redis keeps it for this process, it
// lies at its lock's gate, and the next Lock takes it from there without a command, with the next
// token of its block. tenure.Rest says when, and handover.go does it.

const (
	// lingerBlock is how many fencing tokens a grant reserves that may linger: a few milliseconds'
	// worth, even where nothing is done under the lock.
	lingerBlock = 8192
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

// rests is for how long locks with this config linger, 0 for not at all.
func (c *config) rests() time.Duration {
	if c.fixed > 0 {
		return 0
	}
	return c.linger
}

// lingers reports whether locks with this config linger.
func (c *config) lingers() bool { return c.rests() > 0 }

// block is how many tokens an entry without an owner asks for.
func (c *config) block() int {
	if c.lingers() {
		return max(c.passes, lingerBlock)
	}
	return c.passes
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
	case h.rest.IsWanted():
		return closedNotice
	case h.notice == nil:
		h.notice = make(chan struct{})
	}
	return h.notice
}
