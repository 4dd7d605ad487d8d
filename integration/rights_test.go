//go:build unix

package integration

import (
	"slices"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/drivertest"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// On a Cluster, too, no lock is granted that its holder may not end: each right of docs/wire.md is taken away in turn.
func TestEachMissingRightOnACluster(t *testing.T) {
	begin(t)
	const prefix = "suite:"
	nodes := redistest.StartCluster(t, "--cluster-node-timeout", "8000") // a busy machine fails over else
	if major, _, valkey := nodes.Nodes()[0].Version(); major < 7 && !valkey {
		t.Skip("scripts cannot ask for rights before Redis 7")
	}
	every, more, _ := drivertest.Rights(t, prefix)
	plain := slices.Concat(every, more, drivertest.OptionalRights(t, prefix))
	sharded := slices.Clone(plain)
	sharded[slices.Index(sharded, "&relock_inbox:*")] = "&relock_inbox:{" + prefix + "*"
	for mode, on := range map[string]struct {
		rights []string
		opts   []relock.ClientOption
	}{
		"sharded": {sharded, nil}, "plain": {plain, []relock.ClientOption{relock.WithPlainChannels()}},
	} {
		open := func(t *testing.T, user string, rights []string) (*relock.Client, error) {
			for _, node := range nodes.Nodes() {
				node.AddUser(user, "secret", append([]string{"+hello"}, rights...)...)
			}
			rdb, err := rueidis.NewClient(nodes.Target().As(user, "secret").Rueidis())
			if err != nil {
				return nil, err
			}
			t.Cleanup(rdb.Close)
			return locktest.Client(t, rdb, on.opts...), nil
		}
		other, err := open(t, "other-"+mode, []string{"~*", "&*", "+@all"})
		require.NoError(t, err)
		for kind, its := range map[string]struct {
			rights []string
			calls  []locktest.Call
		}{
			"mutex":     {nil, locktest.MutexCalls(false)},
			"rw":        {drivertest.ReadWriteRights(t, prefix), locktest.ReadWriteCalls()},
			"semaphore": {drivertest.SemaphoreRights(t, prefix), locktest.PermitCalls()},
		} {
			t.Run(mode+" "+kind, func(t *testing.T) {
				locktest.Rights{
					Rights: append(slices.Clone(on.rights), its.rights...), Prefix: prefix + mode + kind, Calls: its.calls, Other: other,
					Open: func(t *testing.T, user string, rights []string) (*relock.Client, error) {
						return open(t, mode+kind+user, rights)
					},
				}.EachMissing(t)
			})
		}
	}
}
