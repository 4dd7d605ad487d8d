// Package opening lets modules of this repository make clients over a driver of their own: drivers
// for other client libraries, and the simulator. It also tells the tools of operators what a client is
// over. The root package sets its functions; options and
// clients travel as any, since this package stands below the root.
//
// New and NewRedlock check their arguments as relock.New and relock.NewRedlock do, and fail with
// relock.ErrInvalidOption. A client that is returned with an error is a nil *relock.Client.
package opening

import "github.com/relock-go/relock/internal/driver"

// New makes a *relock.Client over one Redis; opts are []relock.ClientOption.
var New func(rdb driver.Redis, opts any) (client any, err error)

// NewRedlock makes a *relock.Client over a quorum of nodes; opts are []relock.ClientOption.
var NewRedlock func(nodes []driver.Redis, opts any) (client any, err error)

// Beside makes a *relock.Client of another process over rdb. It takes from client, a
// *relock.Client, the settings on which clients of one Redis must agree; all others are the
// defaults.
var Beside func(client any, rdb driver.Redis) (other any, err error)

// HolderOf returns the id of the client whose lock a *relock.Lease holds, and the name of the lock's kind; ""
// for a lease that no Lock returned.
var HolderOf func(lease any) (client, kind string)

// Behind returns the drivers of the Redis that a *relock.Client is over, one or the nodes of a quorum,
// how many of them must keep a lock, and the prefix of its locks' names. A client that New did not make
// has no drivers.
var Behind func(client any) (nodes []driver.Redis, need int, prefix string)

// For the tests of internal/suite, which see inside of clients without being part of the package.
var (
	// Over makes a *relock.Client with an id over a claim.Arbiter of a test; opts are []relock.ClientOption.
	Over func(id string, arbiter, opts any) (client any, err error)
	// Inside returns what a *relock.Client is made of: its claim.Arbiter, *gate.Gates, *calls.Calls and *watchdog.Watchdog.
	Inside func(client any) (arbiter, gates, calls, watchdog any)
	// HoldOf returns the hold that a *relock.Lease is of, and that hold's claim.Claim.
	HoldOf func(lease any) (hold, claim any)
	// Outward returns what callers see of an error of internal/wire.
	Outward func(err error) error
)
