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

// WithLinger keeps an unlocked lock for this process, for up to d, as long as no other process wants
// it. The next Lock or TryLock here takes it without a command to Redis, with a fencing token of its
// own. The lock managers of VMS and Lustre call that lock caching.
//
// How long: d at most, counted from when the process asked for the lock and no one waited. Then the
// lock is given back, idle or with its next Unlock, and asked for anew. A lock that is held for longer
// than d at a time does not linger. Within d it passes between the goroutines of this process
// regardless of WithLocalHandoff, as long as no other process wants it.
//
// What others see:
//
//   - An idle lock looks held: State shows it. TryLock fails with HeldError.Wanted set, and finds it
//     free a moment later.
//   - A process that waits or tries is told of to the holder's process, which gives an idle lock back
//     at once, else with its next Unlock, whatever WithLocalHandoff says. So others wait about twice
//     as long for an idle lock as for a free one.
//   - That takes a message. A lost one is repeated with each poll of the waiter; at the latest d ends
//     the wait. Redisson's waiters send none and wait for d: keep it at some ten milliseconds where
//     Java shares the lock.
//   - If the process dies, the lock stays held for the rest of its lease. Close gives idle locks back.
//
// A lease from the cache is worth what every lease is: it ends with ErrLost before another can have
// the lock, also where the process was stopped while the lock lay idle.
//
// Limits:
//
//   - A grant reserves 8,192 fencing tokens, if they do not run half a second ahead of the server's
//     clock, so tokens have larger gaps.
//   - At most 16,384 locks of a client lie idle at one time.
//   - Locks of WithFixedLease and of WithOwner do not linger.
//   - Nor do locks where messages cannot be heard, such as with PubSubPlain on a Cluster. With sharded
//     channels each lock that lingers costs a subscription.
//   - A lock that was granted while others waited passes on as without this option.
//
// Where each name is locked only once it still pays for one goroutine at a time: Unlock does not wait
// for Redis, and what is given back within a millisecond goes together.
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

// shares is for how long the goroutines of this process may share one hold with this config.
func (c *config) shares() time.Duration { return max(c.passTime, c.rests()) }

// lingers reports whether locks with this config linger.
func (c *config) lingers() bool { return c.rests() > 0 }

// block is how many tokens an entry without an owner asks for.
func (c *config) block() int {
	if c.lingers() {
		return max(c.passes, lingerBlock)
	}
	return c.passes
}
