package interop

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The locks of one caller in the order of their names in Redis, which All takes them in, and in the other one.
const (
	inOrder  = "multi:lock:a,lock:b,lock:c"
	opposite = "multi:lock:c,lock:b,lock:a"
)

// multiRound is how long Redisson's RMultiLock of three tries before it gives back what it has, and begins anew.
const multiRound = 3 * 1500 * time.Millisecond

// abc are mutexes of those names.
func abc(locks *relock.Client) (parts []relock.Locker) {
	for _, name := range []string{"c", "a", "b"} {
		parts = append(parts, locks.Mutex(name))
	}
	return parts
}

// takenAll is the end of a wait for All.
type takenAll struct {
	lease *relock.MultiLease
	at    time.Time
	err   error
}

// laterAll takes all in a goroutine.
func laterAll(t *testing.T, all *relock.MultiLock) <-chan takenAll {
	out := make(chan takenAll, 1)
	go func() {
		lease, err := all.Lock(t.Context())
		out <- takenAll{lease, time.Now(), err}
	}()
	return out
}

// TestMultiLock has relock's All and Redisson's RMultiLock take the same locks.
func TestMultiLock(t *testing.T) {
	for _, version := range []string{current, oldest} {
		t.Run(version, func(t *testing.T) {
			server := redistest.Start(t)
			s := singleSite(server)
			jvm, locks := startJVM(t, version, s.yaml()), s.locks(t)
			all := relock.All(abc(locks)...)
			for _, which := range []string{inOrder, opposite} {
				jvm.Do("a", "lock", which, "-1")
				for _, m := range abc(locks) {
					_, err := m.TryLock(t.Context())
					require.ErrorIs(t, err, relock.ErrNotAcquired)
				}
				_, err := all.TryLock(t.Context())
				require.ErrorIs(t, err, relock.ErrNotAcquired)
				waiter := laterAll(t, all)
				eventually(t, "a Go waiter", func() bool { return server.Do("ZCARD", "relock_queue:{a}") == "1" })
				unlock := jvm.Try("a", "unlock", which)
				require.NoError(t, unlock.err)
				got := await(t, waiter)
				require.NoError(t, got.err)
				require.Less(t, got.at.Sub(unlock.began), promptly, "the Go waiter polled")

				require.Equal(t, "false", jvm.Do("a", "tryLock", which, "-1", "-1"))
				first := channelOf(strings.TrimPrefix(strings.Split(which, ",")[0], "multi:lock:"))
				java := jvm.Go("a", "lock", which, "-1")
				eventually(t, "a Java waiter", func() bool {
					return server.Do("PUBSUB", "NUMSUB", first) == first+"\n1"
				})
				began := time.Now()
				require.NoError(t, got.lease.Unlock(t.Context()))
				had := await(t, java)
				require.NoError(t, had.err)
				require.Less(t, had.ended.Sub(began), promptly, "the Java waiter slept")
				jvm.Do("a", "unlock", which)
			}
			require.Equal(t, "0", server.Do("EXISTS", "a", "b", "c"))
			crossing(t, jvm, server, locks, s.locks(t))
		})
	}
}

// crossing has a Java thread that takes c, b, a meet a Go caller that takes a, b, c: the thread gives way.
func crossing(t *testing.T, jvm *peer, server *redistest.Server, locks, other *relock.Client) {
	between, err := other.Mutex("b").Lock(t.Context())
	require.NoError(t, err)
	java := jvm.Go("a", "lock", opposite, "-1")
	began := time.Now()
	eventually(t, "c is Java's", func() bool { return server.Do("EXISTS", "c") == "1" })
	waiter := laterAll(t, relock.All(abc(locks)...))
	eventually(t, "a Go waiter for b", func() bool { return server.Do("ZCARD", "relock_queue:{b}") == "1" })
	require.NoError(t, between.Unlock(t.Context()))
	got := await(t, waiter)
	require.NoError(t, got.err)
	took := got.at.Sub(began)
	t.Logf("the Go caller had all %v after the Java thread began", took)
	require.Greater(t, took, multiRound-promptly)
	require.Less(t, took, multiRound+promptly)
	select {
	case a := <-java:
		t.Fatalf("Java has what Go has: %+v", a)
	default:
	}
	require.NoError(t, got.lease.Unlock(t.Context()))
	require.NoError(t, await(t, java).err)
	jvm.Do("a", "unlock", opposite)
}

// TestMultiLockUnderLoad has processes of both languages take three locks together as fast as they can: only one of them ever
// has them. Where Java takes them as All does, no caller waits for another in a circle. Where it takes them in the other order,
// callers cross, and wait for a round of Redisson's to end.
func TestMultiLockUnderLoad(t *testing.T) {
	server := redistest.Start(t)
	s := singleSite(server)
	peers := pairs(t, s)
	run := func(l load, channels ...string) []entry {
		server.Do("DEL", l.counter)
		barrier, err := relock.All(abc(s.locks(t))...).Lock(t.Context())
		require.NoError(t, err)
		entries := runBehind(t, s, server, map[string]load{java: l, golang: l}, peers,
			func() error { return barrier.Unlock(t.Context()) }, channels...)
		requireExclusive(t, entries)
		require.Equal(t, strconv.Itoa(len(entries)), server.Do("GET", l.counter))
		require.Equal(t, "0", server.Do("EXISTS", "a", "b", "c"))
		took := time.Duration(entries[len(entries)-1].unlocking-entries[0].locked) * time.Microsecond
		t.Logf("%s: %.1f holdings a second", l.which, float64(len(entries))/took.Seconds())
		return entries
	}
	same := run(load{which: inOrder, counter: "n", threads: 4, duration: 3 * time.Second}, channelOf("a"))
	require.Empty(t, unequal(t, same, 4))
	unequal(t, run(load{which: opposite, counter: "n", threads: 1, rounds: 3}, channelOf("a"), channelOf("c")), 0)
}
