package relock

import (
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/wire"
)

const (
	// MinLease is the shortest lease accepted: below it the safety margin and a renewal's round
	// trip leave too little.
	MinLease = 100 * time.Millisecond
	// MaxLease is the longest lease accepted: 366 days.
	MaxLease = wire.MaxLease
)

// An Option given to New holds for all locks of the client. Given to Mutex or RWMutex it holds for
// that lock instead. Options about the client as a whole belong to New and NewRedlock alone.
type Option struct {
	name       string
	clientOnly bool
	apply      func(*config) error
}

// WithLease sets how long a lock outlives its last renewal. The watchdog renews every third of it,
// so it is also how long others wait after a holder crashed. Redis keeps whole milliseconds.
//
// Defaults to 30 seconds, as Redisson's lockWatchdogTimeout.
func WithLease(d time.Duration) Option {
	return Option{name: "WithLease", apply: func(c *config) error {
		c.lease = d
		return leaseInRange(d)
	}}
}

// WithFixedLease grants the lock for d and never renews it: it ends after d even if the holder
// lives, and lasts d even if the holder's process ends without unlocking. Where d is longer than
// the client's lease, Lock and TryLock send one command more.
//
// By default leases are renewed.
func WithFixedLease(d time.Duration) Option {
	return Option{name: "WithFixedLease", apply: func(c *config) error {
		c.fixed = d
		return leaseInRange(d)
	}}
}

// WithMaxHold ends a hold after d although its holder lives: the lease's context is cancelled with
// ErrMaxHold and the lock is released. It caps holders that are stuck. Lease.Extend refuses more;
// Lease.Downgrade begins d anew.
//
// By default a hold is renewed as long as its process lives.
func WithMaxHold(d time.Duration) Option {
	return Option{name: "WithMaxHold", apply: func(c *config) error {
		c.maxHold = d
		return leaseInRange(d)
	}}
}

// WithWait makes Lock give up after d, also where it re-enters. It does not bound the lease's
// context. The error is as if the context's deadline had passed: it matches
// context.DeadlineExceeded, though ctx.Err is nil.
//
// By default Lock waits as long as its context allows.
func WithWait(d time.Duration) Option {
	return Option{name: "WithWait", apply: func(c *config) error {
		c.wait = d
		if d <= 0 {
			return fmt.Errorf("%v; it must be positive: use TryLock not to wait at all", d)
		}
		return nil
	}}
}

// WithLocalHandoff bounds how long a lock may pass between goroutines of this process, in memory,
// before other processes get their turn: at most passes acquisitions in a row, and none later than d
// after Redis granted the lock. WithLocalHandoff(1, 0) turns it off.
//
//   - A grant reserves as many fencing tokens as there are passes. If they would run half a second
//     (500,000) ahead of the server's clock, it reserves 32 at most.
//   - Once three quarters of the passes are used, Redis is asked whether another process waits,
//     unless the last quarter lasts for less time than an answer takes. If none waits, both bounds
//     begin anew, from that question: a lock that only this process wants is not given back.
//   - A quorum, and a Redis under WithRestartGuard, are not asked.
//
// Defaults to 256 passes and 10 milliseconds.
func WithLocalHandoff(passes int, d time.Duration) Option {
	return Option{name: "WithLocalHandoff", apply: func(c *config) error {
		c.passes, c.passTime = passes, d
		if passes < 1 || passes > 1_000_000 {
			return fmt.Errorf("%d passes; between 1 (none) and 1,000,000 are possible", passes)
		}
		if d < 0 {
			return fmt.Errorf("%v; it must not be negative", d)
		}
		return nil
	}}
}

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
//   - Nor do locks where messages cannot be heard, such as with WithPlainChannels on a Cluster. With sharded
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

// WithStrictOrder makes the goroutines of this process get the lock in exactly the order in which
// they asked for it. The unlocking Mutex's option counts: give it to every Mutex of the name.
//
// By default a goroutine that asks may overtake the next one in line while that is being woken. It
// happens only after holds of a few microseconds, and to one goroutine three times at most. With
// critical sections that short, a lock is taken nearly twice as often.
func WithStrictOrder() Option {
	return Option{name: "WithStrictOrder", apply: func(c *config) error {
		c.strict = true
		return nil
	}}
}

// WithCommandTimeout sets how long one command to Redis may take before it counts as unanswered.
// Lock then tries again, safely. It may be a third of the lease at most. For readers of an RWMutex,
// whose lease WithRedissonWatchdog may make shorter, it is cut to a third of that.
//
// Defaults to a sixth of the lease, at most 2 seconds; for a node of a quorum to a twentieth, at
// most 1 second.
func WithCommandTimeout(d time.Duration) Option {
	return Option{name: "WithCommandTimeout", apply: func(c *config) error {
		c.timeout = d
		if d <= 0 {
			return fmt.Errorf("%v; it must be positive", d)
		}
		return nil
	}}
}

// WithPlainChannels makes locks on a Redis Cluster use plain Pub/Sub channels though it has sharded
// ones, as Redisson does before 3.22 and with shardedSubscriptionMode OFF. All clients of a Cluster
// must agree on that, Redisson's too: otherwise waiters sleep until they ask again by themselves.
//
// On plain channels of a Cluster no waiter is handed the lock: those of a Mutex race for a freed one,
// those of an RWMutex come in their order by asking for it.
//
// By default a Cluster that has sharded channels (Redis 7) is used with them. Elsewhere channels are
// always plain.
func WithPlainChannels() Option {
	return Option{name: "WithPlainChannels", clientOnly: true, apply: func(c *config) error {
		c.plain = true
		return nil
	}}
}

// WithNamePrefix puts prefix before the name of every lock in Redis, as a NameMapper of Redisson's
// does: Mutex("orders") is then the lock of Java's getLock("orders") behind a mapper that adds the
// same prefix. Mutex.Name and errors keep the name without it; keys, channels and rights have it.
//
// By default names stand in Redis as they are.
func WithNamePrefix(prefix string) Option {
	return Option{name: "WithNamePrefix", clientOnly: true, apply: func(c *config) error {
		c.prefix = prefix
		if len(prefix) >= wire.MaxName {
			return fmt.Errorf("%d bytes; a name has %d with its prefix", len(prefix), wire.MaxName)
		}
		return nil
	}}
}

// WithClientName makes the client write its name to Redis, so that a holder is shown by more than a
// uuid: by that name, which is the service's, say "billing", by host and process id, by when the
// client was made and by the library's version. State.Client and HeldError.Client have it.
//
//   - The name is written in the background beside the first hold, or once the client waits for a
//     lock, and renewed each third of the client's lease while it holds or waits. No Lock is slower or
//     fails for it. On a quorum it is written to every node that takes it.
//   - It is gone a lease after the process died. Close removes it, unless locks are still held.
//   - A user without the right to the key (docs/wire.md) locks as without the option. Redis then
//     refuses two commands in a lease at most.
//
// Only a client with a name asks for the names of others. State sends one command more for that.
// Lock and TryLock ask once in a third of a lease for each client that holds what they want. The
// first TryLock that is refused for the sake of a new holder waits for the answer, for a quarter of
// a second at most. Where none comes, its *HeldError shows a uuid.
//
// By default, and with "", nothing is written. A name has up to 256 bytes that can be printed.
func WithClientName(name string) Option {
	return Option{name: "WithClientName", clientOnly: true, apply: func(c *config) error {
		c.name = name
		return wire.ValidClientName(name)
	}}
}

// WithQuorum sets how many nodes of NewRedlock must keep a lock. n must be more than half of them:
// any two quorums then share a node, which grants the lock to one owner only. Of five nodes,
//
//   - with 3, two may be down. A second owner is possible if one node has forgotten the lock, the
//     one that both quorums share.
//   - with 4, one may be down. Quorums share three nodes, and all of them must have forgotten it.
//
// WithRestartGuard keeps out nodes that may have forgotten.
//
// Defaults to the smallest number that is more than half.
func WithQuorum(n int) Option {
	return Option{name: "WithQuorum", clientOnly: true, apply: func(c *config) error {
		c.quorum = n
		if c.nodes == 0 {
			return fmt.Errorf("it belongs to NewRedlock")
		}
		if n <= c.nodes/2 || n > c.nodes {
			return fmt.Errorf("%d of %d nodes; between %d and %d are possible", n, c.nodes, c.nodes/2+1, c.nodes)
		}
		return nil
	}}
}

// WithRestartGuard keeps a Redis that was restarted, promoted or emptied from granting locks until
// longest has passed: then every lease that it may have forgotten is over. Nodes that are all fresh
// when a client first uses them are taken for new, and used at once.
//
//   - No lease may be longer than longest, and all clients of a Redis must give the same.
//   - A single Redis or Sentinel group grants no lock for longest after each restart or failover.
//   - The user must have the right to run INFO: without it every lock is refused.
//
// By default New has no guard, and NewRedlock one of 30 seconds, or of the client's lease if that is
// longer. See docs/safety.md.
func WithRestartGuard(longest time.Duration) Option {
	return restartGuard("WithRestartGuard", longest, false)
}

// WithStrictRestartGuard is WithRestartGuard, but takes no node for new: a Redis that does not know
// its past grants no lock for longest, unless Client.TrustNodes was called.
func WithStrictRestartGuard(longest time.Duration) Option {
	return restartGuard("WithStrictRestartGuard", longest, true)
}

func restartGuard(name string, longest time.Duration, strict bool) Option {
	return Option{name: name, clientOnly: true, apply: func(c *config) error {
		c.longest, c.wary, c.guarded = longest, strict, true
		return leaseInRange(longest)
	}}
}

// WithoutRestartGuard makes NewRedlock trust that no node forgets a lock. If nodes forget one after
// all, a second owner can be granted it while the first holds it.
//
// New has no guard by default, NewRedlock has that of WithRestartGuard.
func WithoutRestartGuard() Option {
	return Option{name: "WithoutRestartGuard", clientOnly: true, apply: func(c *config) error {
		c.longest, c.wary, c.guarded = 0, false, true
		return nil
	}}
}

// WithTokenRetention sets how long Redis keeps a lock's fencing counter after the lock was last
// granted, so that names used once do not stay. It may keep it for longer, by a quarter of d or by
// 17 seconds, whichever is less.
//
// Tokens go on rising once a counter is gone, since each is at least the server's clock in
// microseconds. They can fall only if that clock is behind by d or more: because it was set back, or
// a replica was promoted whose clock is behind. Give a longer d where clocks may be off by more than
// minutes, as without NTP or in virtual machines that go back to a snapshot. See docs/safety.md.
//
//   - d must be a minute or more, and at least four times each lease that is given to the same New, or
//     to a Mutex of that client. With 0 counters stay for ever.
//   - All clients of a name are to give the same d.
//   - Give 0 where Redisson's RFencedLock uses the same names: it starts at 1 where a counter is
//     gone. Give 0 also while clients older than this option use the same Redis.
//   - A counter that has no expiry keeps none, whatever d is: Redisson or an operator made it so.
//
// Defaults to 10 minutes, or to four times the longest lease that New is told of (WithLease,
// WithFixedLease, WithRestartGuard) if that is longer. A lease may still be longer than d, by
// Extend or by an option of Mutex: then its counter may be gone before it ends.
func WithTokenRetention(d time.Duration) Option {
	return Option{name: "WithTokenRetention", clientOnly: true, apply: func(c *config) error {
		c.retention, c.retained = d, true
		if d != 0 && (d < minRetention || d > maxRetention) {
			return fmt.Errorf("%v is out of range, 0 (for ever) and between %v and %v are possible", d, minRetention, maxRetention)
		}
		return nil
	}}
}
