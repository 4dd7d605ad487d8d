package relock

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/relock-go/relock/internal/eventlog"
	"github.com/relock-go/relock/internal/tenure"
	"github.com/relock-go/relock/internal/wire"
)

const (
	defaultLease    = 30 * time.Second // Redisson's lockWatchdogTimeout
	defaultPasses   = 256
	defaultPassTime = 10 * time.Millisecond

	defaultRetention = 10 * time.Minute
	minRetention     = time.Minute
	maxRetention     = 10 * maxLease

	minLease = 100 * time.Millisecond // the safety margin and a renewal's round trip have to fit in
	maxLease = wire.MaxLease

	// lingerBlock is how many fencing tokens a grant reserves if the lock may linger: enough for a few
	// milliseconds, even if callers do nothing under the lock.
	lingerBlock = 8192
	// maxLingering is how many holds of a client linger at one time at most. Each tally counts a part.
	maxLingering = 16384
)

// config is what options set. A lock with options of its own has a copy of its client's.
type config struct {
	// How long a lock is held, and waited for.
	lease   time.Duration // of the watchdog
	fixed   time.Duration // 0: renewed by the watchdog
	maxHold time.Duration // 0: no cap
	minHold time.Duration // 0: a lock goes back with its last Unlock
	wait    time.Duration // 0: as long as ctx allows
	timeout time.Duration // of one command; 0: derived from the lease
	javaDog time.Duration // lockWatchdogTimeout of Redisson's readers; 0: there are none
	trust   time.Duration // longest lease that a reader may rely on; 0: maxLease

	// How a lock passes between the goroutines of a process.
	passes   int // local hand-overs in a row; 1: none
	passTime time.Duration
	strict   bool          // no goroutine overtakes one that is being woken
	linger   time.Duration // how long an unlocked lock may be kept; 0: not at all

	// Each Redis, and the client as a whole.
	plain     bool             // plain channels, even on a Cluster that has sharded ones
	retention time.Duration    // how long Redis keeps a fencing counter after its last grant; 0: for ever
	retained  bool             // the user gave retention
	prefix    string           // of all names in Redis
	name      string           // the client's, which it writes to Redis; "": none
	logged    *logged          // writes events to the logger; nil for none
	observers observers        // nil for none
	panics    *eventlog.Panics // recovers observers' panics

	// A quorum of them, and the restart guard.
	nodes   int           // of a quorum; 0: one Redis decides alone
	quorum  int           // how many nodes must agree; 0: more than half
	longest time.Duration // how long the restart guard waits; 0: there is no guard
	wary    bool          // the guard takes no node for new
	guarded bool          // the user gave longest, or 0

	// What derive computes from the fields above.
	firstLease     time.Duration // lease of an entry: it is queued and granted with it
	rules          tenure.Rules  // how long a hold's leases last
	commandTimeout time.Duration // how long one command may take
}

func defaultConfig() config {
	return config{
		lease: defaultLease, javaDog: defaultLease, passes: defaultPasses, passTime: defaultPassTime, retention: defaultRetention,
	}
}

func leaseInRange(d time.Duration) error { return inRange(d, minLease, maxLease) }

func inRange(d, least, most time.Duration) error {
	if d < least || d > most {
		return fmt.Errorf("%v is out of range, between %v and %v are possible", d, least, most)
	}
	return nil
}

func wrongIf(bad bool, text string, args ...any) error {
	if !bad {
		return nil
	}
	return fmt.Errorf(text, args...)
}

// with returns c changed by opts. They were given to that type of lock, to New if what is "". The error is
// ErrInvalidOption, and names the option and what is wrong with it.
func with[O ClientOption](c config, opts []O, what string) (config, error) {
	for _, opt := range opts {
		if ClientOption(opt) == nil {
			return c, fmt.Errorf("%w: a nil option", ErrInvalidOption)
		}
		switch o := opt.made(); {
		case o.wrong != nil:
			return c, fmt.Errorf("%w: %s: %w", ErrInvalidOption, o.name, o.wrong)
		case what != "" && !o.fits(what):
			return c, fmt.Errorf("%w: %s: not for %s", ErrInvalidOption, o.name, what)
		default:
			o.set(&c)
		}
	}
	if what == "" {
		if c.nodes > 0 && !c.guarded {
			c.longest = max(c.longest, c.lease)
		}
		if !c.retained {
			c.retention = max(c.retention, 4*c.lease, 4*c.fixed, 4*c.longest)
		}
		c.panics = new(eventlog.Panics)
		if c.logged != nil {
			c.observers, c.panics = append(c.observers, c.logged), c.logged.Panics
		}
	}
	c.derive()
	if err := c.clash(); err != nil {
		return c, fmt.Errorf("%w: %w", ErrInvalidOption, err)
	}
	return c, nil
}

// clash says which options cannot go together.
func (c *config) clash() error {
	switch lease, most := max(c.lease, c.fixed), c.rules.Cap; {
	case c.quorum > 0 && c.nodes == 0:
		return errors.New("WithQuorum: it belongs to NewRedlock")
	case c.quorum > 0 && (c.quorum <= c.nodes/2 || c.quorum > c.nodes):
		return fmt.Errorf("WithQuorum: %d of %d nodes; between %d and %d are possible", c.quorum, c.nodes, c.nodes/2+1, c.nodes)
	case c.longest > 0 && lease > c.longest:
		return fmt.Errorf("a lease of %v is longer than the %v that the restart guard waits; see WithRestartGuard", lease, c.longest)
	case c.retained && c.retention > 0 && c.retention < 4*lease:
		return fmt.Errorf("a lease of %v needs fencing counters kept for at least %v, not %v; see WithTokenRetention",
			lease, 4*lease, c.retention)
	case most > 0 && c.minHold > most:
		return fmt.Errorf("WithMinHold: %v is longer than the %v for which WithFixedLease and WithMaxHold let a lock be held",
			c.minHold, most)
	case c.timeout > 0 && c.timeout > c.firstLease/3:
		return fmt.Errorf("a command timeout of %v leaves a lease of %v no renewal; it may be a third of it at most",
			c.timeout, c.firstLease)
	}
	return nil
}

// derive computes the last fields. A command that asks for a lock never asks for a longer lease than
// the watchdog's: if it runs late, after its caller has left, it keeps others out for no longer. Another
// command sets a longer fixed lease once the lock is held. The command timeout is a small part of the
// lease, so that several tries fit in. It is smaller on a quorum: a grant may take several rounds there.
func (c *config) derive() {
	end := max(c.fixed, c.maxHold) // how long after its start a lease ends at the latest; 0: never
	if c.fixed > 0 && c.maxHold > 0 {
		end = min(c.fixed, c.maxHold)
	}
	if c.fixed > 0 {
		c.linger = 0 // its end does not move
	}
	c.firstLease = c.lease
	if end > 0 {
		c.firstLease = min(c.lease, end)
	}
	c.rules = tenure.Rules{Lease: c.lease, Fixed: c.fixed, MaxHold: c.maxHold, Cap: end}
	switch {
	case c.timeout > 0:
		c.commandTimeout = min(c.timeout, c.firstLease/3) // with refuses a longer one, but ofReaders shortens the lease
	case c.nodes > 0:
		c.commandTimeout = min(c.firstLease/20, time.Second)
	default:
		c.commandTimeout = min(c.firstLease/6, 2*time.Second)
	}
}

// looser reports whether c lets a hold be extended further than other does. A trust of 0 is no limit.
func (c *config) looser(other *config) bool {
	return other.trust > 0 && (c.trust == 0 || c.trust > other.trust)
}

// trusts reports whether a reader with this config may rely on a lease for d.
func (c *config) trusts(d time.Duration) bool { return c.trust == 0 || d <= c.trust }

// quorumSize is how many nodes must agree: 1 if one Redis decides alone.
func (c *config) quorumSize() int { return cmp.Or(c.quorum, c.nodes/2+1) }

// sharesFor is how long goroutines of this process may share one hold with this config.
func (c *config) sharesFor() time.Duration { return max(c.passTime, c.linger) }

// block is how many tokens an entry asks for: one for each time the lock may pass in memory, and more
// if it may linger, since one grant then serves many leases. newEntry replaces it by 1 for an owner.
func (c *config) block() int {
	if c.linger > 0 {
		return max(c.passes, lingerBlock)
	}
	return c.passes
}
