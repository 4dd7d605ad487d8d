package relock

import (
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/tenure"
)

const (
	defaultLease    = 30 * time.Second // Redisson's lockWatchdogTimeout
	defaultPasses   = 256
	defaultPassTime = 10 * time.Millisecond

	defaultRetention = 10 * time.Minute
	minRetention     = time.Minute
	maxRetention     = 10 * MaxLease
)

// config is what options set. A Mutex copies its client's and changes its own.
type config struct {
	leaseConfig
	lineConfig
	nodeConfig
	quorumConfig
	derivedConfig
}

// derivedConfig follows from the rest, see derive.
type derivedConfig struct {
	// firstLease is what a lock is taken and queued with. A longer fixed lease is set once the lock
	// is held, so that a command that comes late can never hold a lock longer than the watchdog's
	// lease.
	firstLease time.Duration
	// maxLease is when a hold ends whatever is renewed, counted from the grant; 0 when nothing caps
	// it.
	maxLease time.Duration
	// rules are what of all this a hold goes by.
	rules tenure.Rules
	// commandTimeout is how long one command may take.
	commandTimeout time.Duration
}

// leaseConfig is how long a lock is held, and waited for.
type leaseConfig struct {
	lease   time.Duration // of the watchdog
	fixed   time.Duration // 0: renewed by the watchdog
	maxHold time.Duration // 0: no cap
	wait    time.Duration // 0: as long as ctx allows
	timeout time.Duration // of one command; 0: derived from the lease
	javaDog time.Duration // lockWatchdogTimeout of Redisson's readers; 0: there are none
	most    time.Duration // that a lease may be extended to; 0: MaxLease
}

// lineConfig is how a lock passes between the goroutines of a process.
type lineConfig struct {
	passes   int // local hand-overs in a row; 1: none
	passTime time.Duration
	strict   bool          // no goroutine overtakes one that is being woken
	linger   time.Duration // how long an unlocked lock may be kept; 0: not at all
}

// nodeConfig is about each Redis, and the client as a whole.
type nodeConfig struct {
	pubsub    PubSubMode
	retention time.Duration // how long Redis keeps a fencing counter after its last grant; 0: for ever
	retained  bool          // retention is what the user said
	prefix    string        // of all names in Redis
	name      string        // by which the client is known to others; "": by none
	logged    *logged       // writes events to the logger; nil for none
	observer  Observer      // nil for none
}

// quorumConfig is about several of them, and the restart guard.
type quorumConfig struct {
	nodes   int // of a quorum; 0: one Redis decides alone
	quorum  int // how many of them must agree; 0: more than half
	guard   GuardMode
	longest time.Duration // lease, as far as the guard knows
	guarded bool          // the guard was asked for by an option: longest is what the user said
}

func defaultConfig() config {
	return config{
		leaseConfig: leaseConfig{lease: defaultLease, javaDog: defaultLease},
		lineConfig:  lineConfig{passes: defaultPasses, passTime: defaultPassTime},
		nodeConfig:  nodeConfig{retention: defaultRetention},
	}
}

func leaseInRange(d time.Duration) error {
	if d < MinLease || d > MaxLease {
		return fmt.Errorf("%v is out of range, between %v and %v are possible", d, MinLease, MaxLease)
	}
	return nil
}

// with returns the config changed by opts, or ErrInvalidOption naming the option and what is wrong
// with it.
func (c config) with(opts []Option, client bool) (config, error) {
	for _, o := range opts {
		if o.apply == nil {
			return c, fmt.Errorf("%w: the zero Option; use a With function", ErrInvalidOption)
		}
		if o.clientOnly && !client {
			return c, fmt.Errorf("%w: %s belongs to New, not to a Mutex", ErrInvalidOption, o.name)
		}
		if err := o.apply(&c); err != nil {
			return c, fmt.Errorf("%w: %s: %w", ErrInvalidOption, o.name, err)
		}
	}
	if client && c.nodes > 0 && !c.guarded {
		c.longest = max(c.longest, c.lease)
	}
	if d := max(c.lease, c.fixed); c.guard != GuardOff && d > c.longest {
		return c, fmt.Errorf("%w: a lease of %v is longer than the %v that the restart guard waits; see WithRestartGuard",
			ErrInvalidOption, d, c.longest)
	}
	least := 4 * max(c.lease, c.fixed)
	if client && !c.retained {
		c.retention = max(c.retention, least, 4*c.longest)
	}
	if c.retained && c.retention > 0 && c.retention < least {
		return c, fmt.Errorf("%w: a lease of %v wants fencing counters kept for %v at least, not %v; see WithTokenRetention",
			ErrInvalidOption, max(c.lease, c.fixed), least, c.retention)
	}
	if client {
		c.addLogged()
	}
	c.derive()
	if c.timeout > 0 && c.timeout > c.firstLease/3 {
		return c, fmt.Errorf("%w: a command timeout of %v leaves a lease of %v no renewal; it may be a third of it at most",
			ErrInvalidOption, c.timeout, c.firstLease)
	}
	return c, nil
}

// derive sets what follows from the rest.
func (c *config) derive() {
	c.firstLease, c.maxLease = c.lease, max(c.fixed, c.maxHold)
	if c.fixed > 0 && c.maxHold > 0 {
		c.maxLease = min(c.fixed, c.maxHold)
	}
	if c.maxLease > 0 {
		c.firstLease = min(c.firstLease, c.maxLease)
	}
	c.rules = tenure.Rules{Lease: c.lease, Fixed: c.fixed, MaxHold: c.maxHold, Max: c.maxLease}
	switch {
	case c.timeout > 0:
		c.commandTimeout = c.timeout
	case c.nodes > 0:
		c.commandTimeout = min(c.firstLease/20, time.Second)
	default:
		c.commandTimeout = min(c.firstLease/6, 2*time.Second)
	}
}

func (c *config) quorumSize() int {
	if c.quorum > 0 {
		return c.quorum
	}
	return c.nodes/2 + 1
}
