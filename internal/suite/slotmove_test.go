package suite_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// While a Cluster moves a slot, however long that takes, holds of all kinds are renewed and extended: before their keys have
// moved, and after. Where a reader's two keys are apart, its renewals wait for the second, as long as its lease does.
func TestHoldsOutliveASlowSlotMove(t *testing.T) {
	t.Parallel()
	const lease = 1500 * time.Millisecond
	nodes := redistest.StartCluster(t)
	rdb, err := rueidis.NewClient(nodes.Option())
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	c := newClient(t, rdb, relock.WithLease(lease))
	held := map[string]*relock.Lease{
		"mutex":      taken(t, c.Mutex("{t}mutex").Lock),
		"writer":     taken(t, c.RWMutex("{t}writer").Lock),
		"reader":     taken(t, c.RWMutex("{t}reader").RLock),
		"downgraded": nil,
	}
	for i := range 3 { // so that renewals go in batches
		held["mutex "+strconv.Itoa(i)] = taken(t, c.Mutex("{t}mutex"+strconv.Itoa(i)).Lock)
		held["reader "+strconv.Itoa(i)] = taken(t, c.RWMutex("{t}reader"+strconv.Itoa(i)).RLock)
	}
	held["downgraded"], err = taken(t, c.RWMutex("{t}downgraded").Lock).Downgrade(t.Context())
	require.NoError(t, err)
	live := func(when string, waited time.Duration) {
		t.Helper()
		time.Sleep(waited)
		for name, l := range held {
			require.NoError(t, context.Cause(l.Context()), "%s, %s", name, when)
		}
	}
	lengthened := func(when string) {
		t.Helper()
		for name, l := range held {
			require.NoError(t, l.Extend(t.Context(), lease+time.Second), "%s, %s", name, when)
		}
	}
	move := nodes.BeginMove("{t}")
	live("no key has moved", lease*7/5)
	lengthened("no key has moved")
	id := entryOf(held["reader"]).ID
	move.Take("{t}reader0", "{t}mutex0", "{t}mutex1")
	live("some keys have moved", lease/4)
	move.Take("{t}reader:" + id + ":rwlock_timeout:1")
	live("some keys have moved", lease/8)
	move.Keys()
	live("all keys have moved", lease*7/5)
	lengthened("all keys have moved")
	move.Finish()
	live("the slot has moved", lease*7/5)
	for name, l := range held {
		require.NoError(t, l.Unlock(t.Context()), name)
	}
}
