package relock

import (
	"time"

	"github.com/relock-go/relock/internal/wire"
)

// A ClientOption changes how a Client works. New, NewRedlock and the constructors of the other modules
// take it. Each Option is a ClientOption too, which then holds for all locks of the client that it is for;
// only WithMinHold, given to New, is refused by those that cannot keep it.
// This package's functions make all options there are. If the value of one cannot work, New fails with
// ErrInvalidOption.
type ClientOption interface{ made() *option }

// An Option changes how a lock works. Mutex, RWMutex, Semaphore and Flight take it: it then holds for that
// lock, instead of what New was given. If its value cannot work, or it is for other kinds of locks, the
// lock's methods fail with ErrInvalidOption.
type Option interface {
	ClientOption
	ofLocks()
}

// option is what an option does. It is a ClientOption.
type option struct {
	name  string
	wrong error // what is wrong with the value
	set   func(*config)
}

func (o *option) made() *option { return o }

// lockOption is an Option.
type lockOption struct{ *option }

func (lockOption) ofLocks() {}

// fits reports whether an option has a meaning for that type of lock.
func (o *option) fits(what string) bool {
	switch o.name {
	case "WithRedissonWatchdog":
		return what == "an RWMutex"
	case "WithLinger", "WithLocalHandoff", "WithStrictOrder":
		return what != "a Flight"
	}
	return true
}

// WithLease sets how long a lock outlives its last renewal, and so how long others wait after a holder
// crashed: 100 ms to 366 days. The watchdog renews every third of it. Redis keeps whole milliseconds.
//
// Defaults to 30 seconds, as Redisson's lockWatchdogTimeout.
func WithLease(d time.Duration) Option {
	return lockOption{&option{"WithLease", leaseInRange(d), func(c *config) { c.lease = d }}}
}

// WithFixedLease grants the lock for d and never renews it: it ends after d even if the holder
// lives, and lasts d even if the holder's process ends without unlocking. If d is longer than the
// client's lease, Lock and TryLock send one command more.
//
// d is as for WithLease. By default leases are renewed.
func WithFixedLease(d time.Duration) Option {
	return lockOption{&option{"WithFixedLease", leaseInRange(d), func(c *config) { c.fixed = d }}}
}

// WithMaxHold ends a lease after d although its holder lives: the lease's context is cancelled with
// ErrMaxHold and the lock is released. It caps holders that are stuck. Lease.Extend refuses more;
// Lease.Downgrade begins d anew.
//
// d is as for WithLease. By default a hold is renewed as long as its process lives.
func WithMaxHold(d time.Duration) Option {
	return lockOption{&option{"WithMaxHold", leaseInRange(d), func(c *config) { c.maxHold = d }}}
}

// WithMinHold keeps a Mutex taken for d at least, counted from when the caller got it, even if the
// caller unlocks it sooner: a job that several processes start at about the same time runs once.
//
// An Unlock before d ends the lease as always, but no other owner gets the lock before d, in this
// process or another. At d it goes to the next waiter at once. An Unlock after d gives it back at
// once. Each lease counts from its own start, but a re-entry's d has no effect.
//
// The process may exit after Unlock, with or without Close: Redis then ends the lock by itself, at d,
// or later by up to 2 % of the remaining time or of the lease, whichever is more. Waiters learn of that with
// their next poll. The lock may end with the lease it had instead
//
//   - if Unlock fails with ErrUnavailable or ErrRefused, or one of the lock's commands runs late;
//   - if other callers of the same WithOwner share it;
//   - if more of d is left than WithRestartGuard waits, also on a quorum: while the process lives it
//     renews the lock until d.
//
// If the process dies before Unlock, the lock ends with its lease; Extend makes that longer.
// ForceUnlock frees a lock that is kept, and HandOver leaves it to the handle's time. State shows it as held, with a Count of 0.
//
// d is up to 366 days, and may not be longer than WithFixedLease and WithMaxHold let a lock be held. Other
// types of locks refuse the option, even if New was given it. By default, and with 0, the last Unlock gives
// a lock back.
func WithMinHold(d time.Duration) Option {
	return lockOption{&option{"WithMinHold", inRange(d, 0, maxLease), func(c *config) { c.minHold = d }}}
}

// WithWait makes Lock give up after d, also where it re-enters. It does not bound the lease's
// context. The error is as if the context's deadline had passed: it matches
// context.DeadlineExceeded, though ctx.Err is nil.
//
// By default Lock waits as long as its context allows.
func WithWait(d time.Duration) Option {
	wrong := wrongIf(d <= 0, "%v; it must be positive: use TryLock not to wait at all", d)
	return lockOption{&option{"WithWait", wrong, func(c *config) { c.wait = d }}}
}

// WithLocalHandoff bounds how long a lock may pass between goroutines of this process, in memory,
// before other processes get their turn: at most passes acquisitions in a row, and none later than d
// after Redis granted the lock. WithLocalHandoff(1, 0) turns it off; passes may be 1 to 1,000,000.
//
// A grant reserves as many fencing tokens as there are passes, so tokens have gaps. If Redis answers in
// time that no other process waits, both bounds begin anew: a lock that only this process wants is not
// given back. A quorum, and a Redis under WithRestartGuard, are not asked.
//
// Defaults to 256 passes and 10 milliseconds.
func WithLocalHandoff(passes int, d time.Duration) Option {
	wrong := wrongIf(passes < 1 || passes > 1_000_000 || d < 0,
		"%d passes in %v; 1 (none) to 1,000,000 are possible, and no negative time", passes, d)
	return lockOption{&option{"WithLocalHandoff", wrong, func(c *config) { c.passes, c.passTime = passes, d }}}
}

// WithLinger keeps an unlocked lock in Redis for this process, for up to d, as long as no other
// process wants it. The next Lock or TryLock here takes it without a command to Redis, with a fencing
// token of its own. Such a lease is as good as any other. d counts from when the process asked Redis for
// the lock; a lock that is held for longer than d does not linger.
//
// To others an idle lock looks held, and they wait about twice as long for it as for a free one.
// Redisson's waiters wait for d: keep it at some ten milliseconds where Java shares the lock.
// docs/choosing.md has the limits.
//
// d is up to 366 days. By default, and with 0, a lock is given back with its last Unlock.
func WithLinger(d time.Duration) Option {
	return lockOption{&option{"WithLinger", inRange(d, 0, maxLease), func(c *config) { c.linger = d }}}
}

// WithStrictOrder makes the goroutines of this process get the lock in exactly the order in which
// they asked for it. The unlocking Mutex's option counts: give it to every Mutex of the name.
//
// By default a goroutine that asks may overtake the next one in line while that is being woken. It
// happens only after holds of a few microseconds, and to one goroutine three times at most. With
// critical sections that short, a lock is taken nearly twice as often.
func WithStrictOrder() Option {
	return lockOption{&option{"WithStrictOrder", nil, func(c *config) { c.strict = true }}}
}

// WithCommandTimeout sets how long one command to Redis may take before it counts as unanswered.
// Lock then tries again, safely. It may be a third of the lease at most. For readers of an RWMutex,
// whose lease WithRedissonWatchdog may make shorter, it is cut to a third of that.
//
// Defaults to a sixth of the lease, at most 2 seconds; for a node of a quorum to a twentieth, at
// most 1 second.
func WithCommandTimeout(d time.Duration) Option {
	return lockOption{&option{"WithCommandTimeout", wrongIf(d <= 0, "%v; it must be positive", d), func(c *config) { c.timeout = d }}}
}

// WithNamePrefix puts prefix before the name of every lock in Redis, as a NameMapper of Redisson's
// does: Mutex("orders") is then the lock of Java's getLock("orders") behind a mapper that adds the
// same prefix. Mutex.Name and errors keep the name without it; keys, channels and rights have it.
//
// By default names stand in Redis as they are.
func WithNamePrefix(prefix string) ClientOption {
	wrong := wrongIf(len(prefix) >= wire.MaxName, "%d bytes; a name has %d with its prefix", len(prefix), wire.MaxName)
	return &option{"WithNamePrefix", wrong, func(c *config) { c.prefix = prefix }}
}

// WithClientName makes the client write its name to Redis, which is the service's, say "billing".
// State.Client and HeldError.Client then say by it which process holds a lock, with its host and
// process id. It has up to 256 bytes that can be printed.
//
// The name is written in the background while the client holds locks or waits: no Lock is slower or
// fails for it. It expires one lease after the process died. Only a client with a name asks for the
// names of others, which costs State one command more. A refused TryLock waits for a holder's name that
// was not asked for before, for a quarter of a second at most. docs/wire.md has the key and the right.
//
// By default, and with "", nothing is written.
func WithClientName(name string) ClientOption {
	return &option{"WithClientName", wire.ValidClientName(name), func(c *config) { c.name = name }}
}

// WithQuorum sets how many nodes of NewRedlock must keep a lock. n must be more than half of them:
// any two quorums then share a node, which grants the lock to one owner only. With 3 of five nodes,
// two may be down; a second owner is possible if the node that two quorums share forgot the lock.
// With 4, one may be down, and three nodes must have forgotten it. WithRestartGuard keeps out nodes
// that may have forgotten.
//
// Defaults to the smallest number that is more than half.
func WithQuorum(n int) ClientOption {
	return &option{"WithQuorum", wrongIf(n < 1, "%d is no number of nodes", n), func(c *config) { c.quorum = n }}
}

// WithRestartGuard keeps a Redis that was restarted, promoted or emptied from granting locks until
// longest has passed: then every lease that it may have forgotten is over. Nodes that are all fresh
// when a client first uses them are taken for new, and used at once.
//
//   - No lease may be longer than longest, and all clients of a Redis must give the same.
//   - A single Redis or Sentinel group grants no lock for longest after each restart or failover.
//   - The user must have the right to run INFO: without it every lock is refused.
//   - An RWMutex, a Semaphore, a Flight and a hand-over fail with errors.ErrUnsupported.
//
// By default New has no guard, and NewRedlock one of 30 seconds, or of the client's lease if that is
// longer. See docs/safety.md.
func WithRestartGuard(longest time.Duration) ClientOption {
	return restartGuard("WithRestartGuard", longest, false)
}

// WithStrictRestartGuard is WithRestartGuard, but takes no node for new: a Redis that does not know
// its past grants no lock for longest, unless Client.TrustNodes was called.
func WithStrictRestartGuard(longest time.Duration) ClientOption {
	return restartGuard("WithStrictRestartGuard", longest, true)
}

func restartGuard(name string, longest time.Duration, strict bool) ClientOption {
	return &option{name, leaseInRange(longest), func(c *config) { c.longest, c.wary, c.guarded = longest, strict, true }}
}

// WithoutRestartGuard makes NewRedlock trust that no node forgets a lock. If nodes forget one after
// all, a second owner can be granted it while the first holds it.
//
// By default New has no guard, and NewRedlock the guard that WithRestartGuard describes.
func WithoutRestartGuard() ClientOption {
	return &option{"WithoutRestartGuard", nil, func(c *config) { c.longest, c.wary, c.guarded = 0, false, true }}
}

// WithTokenRetention sets how long Redis keeps a lock's fencing counter after the lock was last
// granted, so that names used once do not stay. Tokens go on rising once it is gone, unless the
// server's clock was set back by d or more: give a longer d where clocks may be off by minutes.
//
//   - d is a minute or more, and four times each lease given to New or its locks, or 0: for ever.
//   - All clients of a name must give the same d.
//   - Give 0 where Redisson's RFencedLock uses the same names: it starts at 1 without a counter.
//   - Redis keeps the number of a Semaphore's permits as long after its last use, unless SetPermits or
//     Redisson set it. Redisson lengthens none: see docs/redisson.md where Java uses the semaphore too.
//
// Defaults to 10 minutes, or to four times the longest lease that New is told of (WithLease,
// WithFixedLease, WithRestartGuard) if that is longer. See docs/safety.md.
func WithTokenRetention(d time.Duration) ClientOption {
	wrong := wrongIf(d != 0 && (d < minRetention || d > maxRetention),
		"%v is out of range, 0 (for ever) and between %v and %v are possible", d, minRetention, maxRetention)
	return &option{"WithTokenRetention", wrong, func(c *config) { c.retention, c.retained = d, true }}
}
