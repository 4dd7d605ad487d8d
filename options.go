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

// An Option changes how locks behave. Given to New it is the default of every lock of the client,
// given to Mutex it overrides that default, but for those that are about the client as a whole.
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
// ErrMaxHold and the lock is released. It caps holders that are stuck. Lease.Extend refuses what
// would last longer.
//
// By default a hold is renewed as long as its process lives.
func WithMaxHold(d time.Duration) Option {
	return Option{name: "WithMaxHold", apply: func(c *config) error {
		c.maxHold = d
		return leaseInRange(d)
	}}
}

// WithWait makes Lock give up after d, a re-entry included, without touching the context that the
// lease derives from. The error is as if the context's deadline had passed: it matches
// context.DeadlineExceeded, while ctx.Err is nil.
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
//   - passes is also how many fencing tokens a grant reserves. Where they would run half a second
//     (500,000) ahead of the server's clock, the grant has 32 at most.
//   - While the last quarter of passes is used, Redis is asked whether anyone else waits, if the
//     quarter lasts longer than the answer takes. If no one does, both bounds begin anew, from that
//     question: so a lock that only this process wants is not given back.
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

// WithStrictOrder makes the goroutines of this process get the lock in exactly the order in which
// they asked for it. The unlocking Mutex's option counts: give it to every Mutex of the name.
//
// By default a goroutine that asks while the next one is being woken may overtake that one, which is
// overtaken three times at most. That happens only after holds of a few microseconds. Where critical
// sections are that short it nearly doubles how often a lock is taken.
func WithStrictOrder() Option {
	return Option{name: "WithStrictOrder", apply: func(c *config) error {
		c.strict = true
		return nil
	}}
}

// WithCommandTimeout sets how long one command to Redis may take before it counts as unanswered.
// Lock then tries again, safely. It must be shorter than a third of the lease.
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

// PubSubMode is the kind of Pub/Sub channels that is used on a Redis Cluster: Redisson's
// shardedSubscriptionMode.
type PubSubMode int

const (
	// PubSubAuto uses sharded channels on a Cluster that knows them (Redis 7), as Redisson does.
	PubSubAuto PubSubMode = iota
	// PubSubPlain uses plain channels on a Cluster too. Waiters then race for a freed lock instead
	// of being handed it.
	PubSubPlain
	// PubSubSharded uses sharded channels on a Cluster without asking it first.
	PubSubSharded
)

// WithPubSub chooses the channels on a Redis Cluster; all clients and Redisson's must agree.
// Elsewhere channels are plain.
//
// Defaults to PubSubAuto.
func WithPubSub(mode PubSubMode) Option {
	return Option{name: "WithPubSub", clientOnly: true, apply: func(c *config) error {
		c.pubsub = mode
		if mode < PubSubAuto || mode > PubSubSharded {
			return fmt.Errorf("unknown PubSubMode %d", mode)
		}
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

// WithClientName makes the client say its name in Redis, so that a holder is shown by more than a
// uuid: by name, which is the service's, say "billing", and beside it host, process id, when the
// client was made, and the library's version. State.By and the command relock tell it.
//
//   - It is written in the background beside the first hold, and renewed each third of the client's
//     lease as long as there are holds. No Lock is slower or fails for it. On a quorum it is written
//     to every node that takes it.
//   - It stays for a lease, so it is gone a lease after the process died. Close takes it away, unless
//     a lock is left to its lease.
//   - A user without the right to the key (docs/wire.md) locks as without the option: the commands for
//     it are refused twice in a lease at most.
//
// Only a client that has a name itself asks for those of holders. State sends one command more. Lock
// and TryLock ask in the background, when a Lock waits or fails or a TryLock fails, and once in a
// third of a lease for each client that holds what they want. Nothing waits for the answer, so the
// first *HeldError for a new holder may show a uuid, and later ones its name.
//
// By default, and with "", nothing is written: what is not asked for should not stand in Redis, nor
// need a right. A name has up to 256 bytes that can be printed.
func WithClientName(name string) Option {
	return Option{name: "WithClientName", clientOnly: true, apply: func(c *config) error {
		c.name = name
		return wire.ValidClientName(name)
	}}
}

// WithQuorum sets how many nodes of NewRedlock must keep a lock. It must be more than half of them,
// or two could hold the same lock. More than that survives fewer nodes that are down, and more that
// forget.
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

// GuardMode says what happens on a Redis that may have forgotten locks.
type GuardMode int

const (
	// GuardOff trusts that Redis never forgets.
	GuardOff GuardMode = iota
	// GuardAuto keeps a Redis that was restarted, promoted or emptied out until the longest lease
	// has passed. Nodes that are all fresh when a client first uses them are taken for new, and
	// used at once.
	GuardAuto
	// GuardStrict takes no node for new: each must have been initialised, by Client.Initialize, or
	// waits.
	GuardStrict
)

// WithRestartGuard keeps a Redis that may have forgotten locks from granting any until longest has
// passed, when every lease it may have forgotten is over. It is the delayed restart of the Redlock
// paper.
//
//   - No lease may be longer than longest, and all clients of the same nodes must give the same.
//     GuardOff takes 0.
//   - A restart is noticed by the server's run id and by a marker key, inside the same scripts.
//     Without the right to run INFO every lock is refused.
//   - On a single Redis or a Sentinel group no lock is granted for that long after each restart or
//     failover.
//
// Defaults to GuardAuto and 30 seconds in NewRedlock, or the client's lease if that is longer, and
// to GuardOff in New.
func WithRestartGuard(mode GuardMode, longest time.Duration) Option {
	return Option{name: "WithRestartGuard", clientOnly: true, apply: func(c *config) error {
		c.guard, c.longest, c.guarded = mode, longest, true
		if mode < GuardOff || mode > GuardStrict {
			return fmt.Errorf("unknown GuardMode %d", mode)
		}
		if mode == GuardOff && longest == 0 {
			return nil
		}
		return leaseInRange(longest)
	}}
}

// WithTokenRetention sets how long Redis keeps a lock's fencing counter after the lock was last
// granted, so that names used once do not stay. Redis keeps it a quarter of d longer at most, or 17
// seconds.
//
// Tokens rise after a counter is gone, too: each grant's is at least the server's clock in
// microseconds. The counter protects from that clock, where it is set back, or a replica is promoted
// whose clock is behind. The next grant's token is still above all before it, as long as the clock
// lacks less than d. Give a longer d where clocks may be off by more than minutes: without NTP, in
// virtual machines that are put back to a snapshot, or where clocks are set by hand.
//
//   - d must be a minute or more, and four times each lease that is given to New or Mutex beside it.
//     0 keeps the counters for ever.
//   - Give 0 where Redisson's RFencedLock uses the same names, since it starts at 1 again where a
//     counter is gone; and while clients older than this option use the same Redis. docs/safety.md
//     says how to roll out.
//   - A counter that has no expiry keeps none, whatever d is: Redisson made it so, or an operator
//     wants it to stay.
//   - All clients of a name are to give the same d.
//
// Defaults to 10 minutes, or four times the longest lease that New is told of by WithLease,
// WithFixedLease or WithRestartGuard, if that is longer. A lease may be longer than d, by Extend or
// by an option of Mutex where New had the default: its counter may be gone before it ends.
func WithTokenRetention(d time.Duration) Option {
	return Option{name: "WithTokenRetention", clientOnly: true, apply: func(c *config) error {
		c.retention, c.retained = d, true
		if d != 0 && (d < minRetention || d > maxRetention) {
			return fmt.Errorf("%v is out of range, 0 (for ever) and between %v and %v are possible", d, minRetention, maxRetention)
		}
		return nil
	}}
}
