// Code generated from internal/driver/overrueidis by go generate. DO NOT EDIT.

package overvalkey

import (
	"context"
	"fmt"

	"github.com/relock-go/relock/internal/driver"
	"github.com/valkey-io/valkey-go"
)

// Read sends commands of one key each, to its master. They are built as Arbitrary, as in Do.
func (d *Redis) Read(ctx context.Context, commands ...[]string) ([]driver.Value, error) {
	cmds := make([]valkey.Completed, len(commands))
	for i, c := range commands {
		cmds[i] = d.rdb.B().Arbitrary(c[0]).Keys(c[1]).Args(c[2:]...).Build()
	}
	return d.send(ctx, cmds)
}

// Masters returns a driver of each master.
func (d *Redis) Masters(ctx context.Context) ([]driver.Redis, error) {
	if !d.Cluster() {
		return []driver.Redis{d}, nil
	}
	ranges, err := d.rdb.Do(ctx, d.rdb.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil, fmt.Errorf("CLUSTER SLOTS: %w", failure(err))
	}
	nodes, known := d.rdb.Nodes(), make(map[string]bool)
	var all []driver.Redis
	for _, r := range ranges {
		addr, _, _, ok := masterIn(r)
		switch {
		case !ok || known[addr]:
			continue
		case nodes[addr] == nil:
			return nil, fmt.Errorf("the Cluster's master %s is not connected", addr)
		}
		known[addr] = true
		all = append(all, New(nodes[addr]))
	}
	return all, nil
}
