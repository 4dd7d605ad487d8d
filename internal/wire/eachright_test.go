package wire_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/drivertest"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// Without one of the rights of docs/wire.md either a call works, or it is refused before anything is held: no lock
// is granted that its holder may not end.
func TestEachMissingRight(t *testing.T) {
	if major, _, valkey := redistest.Start(t).Version(); major < 7 && !valkey {
		t.Skip("scripts cannot ask for rights before Redis 7")
	}
	const prefix = "suite:"
	every, _, quorum := drivertest.Rights(t, prefix)
	every = append(every, drivertest.OptionalRights(t, prefix)...)
	for name, c := range map[string]struct {
		nodes  int
		rights []string
		calls  []locktest.Call
	}{
		"mutex":     {1, every, locktest.MutexCalls(false)},
		"quorum":    {3, slices.Concat(every, quorum), locktest.MutexCalls(true)},
		"rw":        {1, slices.Concat(every, drivertest.ReadWriteRights(t, prefix)), locktest.ReadWriteCalls()},
		"semaphore": {1, slices.Concat(every, drivertest.SemaphoreRights(t, prefix)), locktest.PermitCalls()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := locktest.Masters(t, c.nodes)
			over := func(t *testing.T, user string, rights []string) (*relock.Client, error) {
				var nodes []rueidis.Client
				for _, s := range servers {
					rdb, err := rueidis.NewClient(s.AddUser(user, "secret", append([]string{"+hello"}, rights...)...))
					if err != nil {
						return nil, err
					}
					t.Cleanup(rdb.Close)
					nodes = append(nodes, rdb)
				}
				return locktest.Over(t, nodes), nil
			}
			other, err := over(t, "other", []string{"~*", "&*", "+@all"})
			require.NoError(t, err)
			locktest.Rights{Rights: c.rights, Prefix: prefix, Calls: c.calls, Open: over, Other: other}.EachMissing(t)
		})
	}
}

// The lists of rights in docs/wire.md have a pattern for each key and channel of each kind of lock, and no other.
func TestTheRightsAreToTheKeys(t *testing.T) {
	const prefix = "suite:"
	// rightsTo are the patterns of a key, or a channel, of the lock suite:1.
	rightsTo := func(sort string, keys ...string) (rights []string) {
		for _, key := range keys {
			before, _, named := strings.Cut(key, prefix+"1")
			if named {
				before += prefix
			}
			if named || strings.HasSuffix(key, ":") {
				before += "*"
			}
			rights = append(rights, sort+before)
		}
		return rights
	}
	of := func(k *wire.Kind) []string {
		n, err := k.Names("", prefix+"1")
		require.NoError(t, err)
		keys := []string{n.Lock, n.Queue, n.Counter, n.Unlock, n.Listen}
		for _, key := range append(slices.Clone(k.Further), k.Keeps...) {
			keys = append(keys, strings.NewReplacer("{}", n.Tag, "[]", n.Lock).Replace(key))
		}
		return append(rightsTo("~", keys...), rightsTo("&", n.Unlock, n.Listen, wire.InboxPrefix)...)
	}
	mutex, err := wire.Mutex.Names("", prefix+"1")
	require.NoError(t, err)
	every, cluster, quorum := drivertest.Rights(t, prefix)
	inDoc := map[string][]string{
		"mutex":     every,
		"read":      slices.Concat(every, drivertest.ReadWriteRights(t, prefix)),
		"write":     slices.Concat(every, drivertest.ReadWriteRights(t, prefix)),
		"semaphore": slices.Concat(every, drivertest.SemaphoreRights(t, prefix)),
		"quorum":    quorum,
		"cluster":   cluster,
	}
	inCode := map[string][]string{
		"mutex":     of(wire.Mutex),
		"read":      slices.Concat(of(wire.Mutex), of(wire.Read)),
		"write":     slices.Concat(of(wire.Mutex), of(wire.Write), of(wire.Read)),
		"semaphore": slices.Concat(of(wire.Mutex), of(wire.Semaphore)),
		"quorum":    rightsTo("~", mutex.Seed, wire.IncarnationKey),
		"cluster":   nil,
	}
	require.Len(t, inDoc, int(wire.Kinds())+2, "each kind of lock has a list")
	for sort, rights := range inDoc {
		patterns := slices.DeleteFunc(slices.Clone(rights), func(right string) bool { return right[0] == '+' })
		require.ElementsMatch(t, uniq(inCode[sort]), uniq(patterns), sort)
	}
	require.Equal(t, []string{"~relock_once:{suite:*"}, rightsTo("~", mutex.Result()))
	require.Equal(t, []string{"~relock_client:*"}, rightsTo("~", wire.ClientKey("")))
	for _, right := range []string{"~relock_once:{suite:*", "~relock_client:*"} {
		require.Contains(t, drivertest.OptionalRights(t, prefix), right)
	}
}

func uniq(all []string) []string { return slices.Compact(slices.Sorted(slices.Values(all))) }
