// Package overrueidis is the driver over the client library rueidis.
package overrueidis

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/crew"
	"github.com/relock-go/relock/internal/driver"
)

// Redis is one Redis behind a client of rueidis.
type Redis struct {
	rdb     rueidis.Client
	scripts sync.Map // *rueidis.Lua by *driver.Script
	crew    crew.Crew

	// atReplicas is set once a subscription was found at a replica: a client that reads from
	// replicas subscribes there, too. But a master that hands a lock over counts only its own
	// subscribers. So from then on each subscription goes straight to its master.
	atReplicas atomic.Bool
	warned     atomic.Bool // the user was told that subscriptions stay at replicas
}

var _ driver.Reader = (*Redis)(nil)

// New returns the driver over rdb, which stays the caller's.
func New(rdb rueidis.Client) *Redis { return &Redis{rdb: rdb} }

// Client is the client that New was given.
func (d *Redis) Client() any { return d.rdb }

// Cluster reports whether this is a Redis Cluster.
func (d *Redis) Cluster() bool { return d.rdb.Mode() == rueidis.ClientModeCluster }

// Run runs a script on the master of the keys' slot.
func (d *Redis) Run(ctx context.Context, s *driver.Script, keys, args []string) (driver.Value, error) {
	return answer(d.lua(s).Exec(ctx, d.rdb, keys, args))
}

// lua returns the library's form of a script. Of its several forms this is the one that the library
// never repeats.
func (d *Redis) lua(s *driver.Script) *rueidis.Lua {
	lua, known := d.scripts.Load(s)
	if !known {
		lua, _ = d.scripts.LoadOrStore(s, rueidis.NewLuaScript(s.Text))
	}
	return lua.(*rueidis.Lua)
}

// Do sends commands in one round trip. They are built as Arbitrary, so that the library never takes
// one for a read, which it may repeat or send to a replica.
func (d *Redis) Do(ctx context.Context, commands ...[]string) ([]driver.Value, error) {
	cmds := make([]rueidis.Completed, len(commands))
	for i, c := range commands {
		cmds[i] = d.rdb.B().Arbitrary(c[0]).Args(c[1:]...).Build()
	}
	return d.send(ctx, cmds)
}

// send sends commands in one round trip, in a Cluster to each server that has some.
func (d *Redis) send(ctx context.Context, cmds []rueidis.Completed) ([]driver.Value, error) {
	answers := make([]driver.Value, len(cmds))
	for i, res := range d.rdb.DoMulti(ctx, cmds...) {
		if err := res.NonRedisError(); err != nil {
			return nil, failure(err)
		}
		msg, _ := res.ToMessage()
		answers[i] = valueOf(&msg)
	}
	return answers, nil
}

// Close lets no goroutine of the driver start any more. It returns when none is left, or ctx has
// ended.
func (d *Redis) Close(ctx context.Context) { d.crew.End(ctx) }
