package interop

import (
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// failoverLimit is a lease and a second: Redisson's waiter sleeps to the end of the lease it last saw when a message is
// lost with its connection.
const failoverLimit = 31 * time.Second

// TestSentinelFailover kills the master while each language holds a lock that the other waits for. Both holders keep
// their locks, both waiters get them, and both go on taking turns on the new master. Redisson asks for no acknowledgement
// of replicas: while they are being moved to the new master there is none to be had.
func TestSentinelFailover(t *testing.T) {
	group := redistest.StartSentinel(t)
	s := sentinelSite(group)
	jvm, locks := startJVM(t, current, s.yaml("checkLockSyncedSlaves: false")), s.locks(t)
	ofGo, ofJava := locks.Mutex("of Go"), locks.Mutex("of Java")
	lease, err := ofGo.Lock(t.Context())
	require.NoError(t, err)
	jvm.Do("a", "lock", "lock:of Java", "-1")
	javaWaits, goWaits := jvm.Go("b", "lock", "lock:of Go", "-1"), wait(ofJava)
	master := group.Master()
	eventually(t, "waiters, known to the replicas", func() bool {
		return master.Do("WAIT", "2", "1000") == "2" && master.Do("ZCARD", "relock_queue:{of Java}") == "1" &&
			master.Do("PUBSUB", "NUMSUB", channelOf("of Go")) == channelOf("of Go")+"\n1"
	})

	group.WaitFailover(group.KillMaster())
	began := time.Now()
	require.NoError(t, lease.Context().Err(), "the Go holder lost its lock")
	require.NoError(t, lease.Unlock(t.Context()))
	jvm.Do("a", "unlock", "lock:of Java")
	got := await(t, javaWaits)
	require.NoError(t, got.err)
	t.Logf("Java had Go's lock %v after the failover", got.ended.Sub(began))
	require.Less(t, got.ended.Sub(began), failoverLimit)
	taken := await(t, goWaits)
	require.NoError(t, taken.err)
	t.Logf("Go had Java's lock %v after the failover", taken.at.Sub(began))
	require.Less(t, taken.at.Sub(began), failoverLimit)
	require.NoError(t, taken.lease.Unlock(t.Context()))
	unlock := jvm.Try("b", "unlock", "lock:of Go")
	t.Logf("Java's unlock of Go's lock: %v", unlock.err)
	freed, err := ofGo.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, freed.Unlock(t.Context()))

	p := pair{t: t, jvm: jvm, kind: "fenced", name: "after", mutex: locks.Mutex("after")}
	p.javaHolds()
	p.goHolds()
	p.tokensRise()
}
