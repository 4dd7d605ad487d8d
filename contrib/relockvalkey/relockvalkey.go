// Package relockvalkey makes clients of package relock over valkey-go, for services that have a
// client of valkey-go already. Everything else is package relock's. A Valkey server does not need
// this package: package relock's client of rueidis works with it.
package relockvalkey

import (
	"github.com/valkey-io/valkey-go"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockvalkey/overvalkey"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/opening"
)

//go:generate go run ./generate

// New returns a client over rdb as relock.New does: a single server, a Sentinel group or a Cluster.
// rdb stays the caller's: close it after the Client.
//
// New sends no command of its own. It fails with relock.ErrInvalidOption for a nil rdb or an option
// that cannot work. With ForceSingleClient, at one server of a Cluster, locks that another server keeps
// fail at once, and say why.
func New(rdb valkey.Client, opts ...relock.ClientOption) (*relock.Client, error) {
	c, err := opening.New(overvalkey.New(rdb), opts)
	return c.(*relock.Client), err
}

// NewRedlock returns a client whose locks are held by a quorum of nodes, as relock.NewRedlock does.
//
// It fails with relock.ErrInvalidOption for no node, a nil or doubled client, a Cluster, or an option
// that cannot work.
func NewRedlock(nodes []valkey.Client, opts ...relock.ClientOption) (*relock.Client, error) {
	drivers := make([]driver.Redis, len(nodes))
	for i, rdb := range nodes {
		drivers[i] = overvalkey.New(rdb)
	}
	c, err := opening.NewRedlock(drivers, opts)
	return c.(*relock.Client), err
}
