// Package opening lets modules of this repository make clients over a driver of their own: drivers
// for other client libraries, and the simulator. The root package sets its functions; options and
// clients travel as any, since this package stands below the root.
//
// Both functions check what they are given as relock.New and relock.NewRedlock do, and fail with
// relock.ErrInvalidOption. A client that is returned with an error is a nil *relock.Client.
package opening

import "github.com/relock-go/relock/internal/driver"

// New makes a *relock.Client over one Redis; opts are []relock.Option.
var New func(rdb driver.Redis, opts any) (client any, err error)

// NewRedlock makes a *relock.Client over a quorum of nodes; opts are []relock.Option.
var NewRedlock func(nodes []driver.Redis, opts any) (client any, err error)
