package suite_test

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/calls"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/hub"
	"github.com/relock-go/relock/internal/opening"
	"github.com/relock-go/relock/internal/watchdog"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// over returns a client over an arbiter of the test.
func over(t *testing.T, a claim.Arbiter, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	c, err := opening.Over("c", a, opts)
	require.NoError(t, err)
	return c.(*relock.Client)
}

func arbiterOf(c *relock.Client) claim.Arbiter {
	a, _, _, _ := opening.Inside(c)
	return a.(claim.Arbiter)
}

// gates are where the goroutines of a client wait for one another.
type gates interface {
	Waiting(gate string) bool // whether a goroutine waits behind another one
	Len() int
}

func gatesOf(c *relock.Client) gates {
	_, g, _, _ := opening.Inside(c)
	return g.(gates)
}

func callsOf(c *relock.Client) *calls.Calls {
	_, _, k, _ := opening.Inside(c)
	return k.(*calls.Calls)
}

func watchdogOf(c *relock.Client) *watchdog.Watchdog {
	_, _, _, d := opening.Inside(c)
	return d.(*watchdog.Watchdog)
}

// heldBy is a hold, as the hub and the watchdog know it.
type heldBy interface {
	hub.Watcher
	watchdog.Watched
}

func holdOf(l *relock.Lease) heldBy {
	h, _ := opening.HoldOf(l)
	return h.(heldBy)
}

func claimOf(l *relock.Lease) claim.Claim {
	_, c := opening.HoldOf(l)
	return c.(claim.Claim)
}

func entryOf(l *relock.Lease) *wire.Entry { return claimOf(l).Of() }

// namesOf are the names of a lock of a client without a prefix.
func namesOf(kind *wire.Kind, name string) *wire.Names {
	names, err := kind.Names("", name)
	if err != nil {
		panic(err)
	}
	return names
}

// newEntry is an entry of c's for a lock that no caller wants.
func newEntry(c *relock.Client, kind *wire.Kind, name string) wire.Entry {
	return wire.Entry{
		Names: namesOf(kind, name), ID: wire.NewID(c.ID(), 1<<40), Lease: 30 * time.Second, Block: 1, Timeout: 2 * time.Second,
	}
}

// leaseOf is the lease by which a permit is held.
func leaseOf(p *relock.Permit) *relock.Lease { return opening.LeaseOf(p).(*relock.Lease) }

// lose has a renewal find that Redis has forgotten the lease's hold.
func lose(l *relock.Lease) { holdOf(l).Settle(claim.Renewal{}, wire.Lost, clock.Now(), nil) }

// outward is what callers see of an error of internal/wire.
func outward(err error) error { return opening.Outward(err) }

// What options are by default.
const (
	defaultLease     = 30 * time.Second
	defaultPasses    = 256
	defaultRetention = 10 * time.Minute
)
