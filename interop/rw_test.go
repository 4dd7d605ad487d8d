package interop

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// lease takes a side of a read-write lock.
func lease(t *testing.T, lock func(context.Context) (*relock.Lease, error)) *relock.Lease {
	t.Helper()
	l, err := lock(t.Context())
	require.NoError(t, err)
	return l
}

// later takes a side of a read-write lock in a goroutine.
func later(lock func(context.Context) (*relock.Lease, error)) <-chan taken {
	out := make(chan taken, 1)
	go func() {
		lease, err := lock(context.Background())
		out <- taken{lease, time.Now(), err}
	}()
	return out
}

// TestReadWriteLock runs what both languages can do with a read-write lock.
func TestReadWriteLock(t *testing.T) {
	server := redistest.Start(t)
	s := singleSite(server)
	for _, version := range []string{current, oldest} {
		jvm := startJVM(t, version, s.yaml())
		locks := s.locks(t)
		for i, name := range []string{"rw", "{tenant}:rw", "two words é"} {
			name := fmt.Sprintf("%s-%d-%s", version, i, name)
			rw := locks.RWMutex(name)
			try := func(thread, side string) string { return jvm.Do(thread, "tryLock", side+":"+name, "0", "-1") }

			r := lease(t, rw.RLock)
			require.Equal(t, "true", try("a", "read"), "beside a reader of ours")
			require.Equal(t, "false", try("b", "write"))
			st, err := rw.State(t.Context())
			require.NoError(t, err)
			require.Equal(t, 2, st.Readers)
			_, err = rw.TryLock(t.Context())
			require.ErrorIs(t, err, relock.ErrNotAcquired)
			jvm.Do("a", "lock", "read:"+name, "-1")
			jvm.Do("a", "unlock", "read:"+name)
			require.NoError(t, r.Unlock(t.Context()))
			_, err = rw.TryLock(t.Context())
			require.ErrorIs(t, err, relock.ErrNotAcquired, "a reader of Redisson's is left")
			jvm.Do("a", "unlock", "read:"+name)

			w := lease(t, rw.Lock)
			require.Equal(t, "false", try("a", "read"))
			require.Equal(t, "false", try("a", "write"))
			r, err = w.Downgrade(t.Context())
			require.NoError(t, err)
			require.Equal(t, "true", try("a", "read"))
			jvm.Do("a", "unlock", "read:"+name)
			require.NoError(t, r.Unlock(t.Context()))

			require.Equal(t, "true", try("a", "write"))
			require.Equal(t, "true", try("a", "read"), "its own downgrade")
			_, err = rw.TryRLock(t.Context())
			require.ErrorIs(t, err, relock.ErrNotAcquired)
			jvm.Do("a", "unlock", "write:"+name)
			r = lease(t, rw.TryRLock)
			_, err = rw.TryLock(t.Context())
			require.ErrorIs(t, err, relock.ErrNotAcquired)
			require.NoError(t, r.Unlock(t.Context()))
			jvm.Do("a", "unlock", "read:"+name)
			require.NoError(t, lease(t, rw.TryLock).Unlock(t.Context()))
			require.Equal(t, "0", server.Do("EXISTS", name))
		}
	}
}

// TestReadWriteWakeUps measures how soon a waiter of either side and language is woken by the other language's end.
func TestReadWriteWakeUps(t *testing.T) {
	server := redistest.Start(t)
	s := singleSite(server)
	for _, version := range []string{current, oldest} {
		jvm := startJVM(t, version, s.yaml())
		rw := s.locks(t).RWMutex("wake" + version)
		goSide := map[string]func(context.Context) (*relock.Lease, error){"read": rw.RLock, "write": rw.Lock}
		channel := "redisson_rwlock:{wake" + version + "}"
		for _, sides := range [][2]string{{"read", "write"}, {"write", "read"}, {"write", "write"}} {
			java := func(side string) string { return side + ":wake" + version }
			requireP99(t, wakeLimit, 100, func() time.Duration { // Go wakes Java
				l := lease(t, goSide[sides[0]])
				waiter := jvm.Go("a", "lock", java(sides[1]), "-1")
				eventually(t, "Java waits", func() bool {
					return server.Do("PUBSUB", "NUMSUB", channel) != channel+"\n0"
				})
				time.Sleep(2 * time.Millisecond)
				began := time.Now()
				require.NoError(t, l.Unlock(t.Context()))
				got := await(t, waiter)
				require.NoError(t, got.err)
				jvm.Do("a", "unlock", java(sides[1]))
				return got.ended.Sub(began)
			})
			requireP99(t, wakeLimit, 100, func() time.Duration { // Java wakes Go
				jvm.Do("a", "lock", java(sides[0]), "-1")
				waiter := later(goSide[sides[1]])
				eventually(t, "Go waits", func() bool {
					st, err := rw.State(t.Context())
					return err == nil && st.Waiters == 1
				})
				time.Sleep(2 * time.Millisecond)
				released := jvm.Try("a", "unlock", java(sides[0]))
				require.NoError(t, released.err)
				got := await(t, waiter)
				require.NoError(t, got.err)
				require.NoError(t, got.lease.Unlock(t.Context()))
				return got.at.Sub(released.began)
			})
		}
	}
}

// TestReadWriteUnderLoad has both languages read and write under one lock: no writer is beside anybody.
func TestReadWriteUnderLoad(t *testing.T) {
	server := redistest.Start(t)
	s := singleSite(server)
	l := load{which: "rw:70:both", counter: "number", threads: 4, rounds: 1250}
	peers := map[string]*peer{
		"java " + current: startJVM(t, current, s.yaml()), "java " + oldest: startJVM(t, oldest, s.yaml()),
		"go 1": startGo(t, s, 10*time.Second), "go 2": startGo(t, s, 10*time.Second),
	}
	type run struct {
		who, path string
		answer    <-chan answer
	}
	var runs []run
	for who, p := range peers {
		path := fmt.Sprintf("%s/%s", t.TempDir(), who)
		runs = append(runs, run{who, path, p.Go("load", "load", l.args(path)...)})
	}
	var entries []entry
	for _, r := range runs {
		require.NoError(t, await(t, r.answer).err, r.who)
		entries = append(entries, readJournal(t, r.who, r.path)...)
	}
	require.Len(t, entries, 4*l.threads*l.rounds)
	writes := requireNoWriterBeside(t, entries)
	require.Equal(t, strconv.Itoa(writes), server.Do("GET", "number"))
	require.Equal(t, "0", server.Do("EXISTS", "both"))
	longest := make(map[string]time.Duration)
	for _, e := range entries {
		longest[e.who] = max(longest[e.who], e.wait())
	}
	t.Logf("%d operations, %d of them writes; longest waits %v", len(entries), writes, longest)
}

// requireNoWriterBeside fails the test when a writer, whose token is 1, overlaps with another entry. It returns how many
// writers there were.
func requireNoWriterBeside(t *testing.T, entries []entry) (writes int) {
	t.Helper()
	slices.SortFunc(entries, order)
	var readers, writer entry // those that end last so far
	for _, e := range entries {
		require.False(t, overlap(writer, e), "%+v and %+v", writer, e)
		if e.token == 0 {
			if e.unlocking > readers.unlocking {
				readers = e
			}
			continue
		}
		require.False(t, overlap(readers, e), "%+v and %+v", readers, e)
		writer = e
		writes++
	}
	return writes
}

// TestReadWriteCrashes kills a holder of one language: the other goes on within a lease and a second.
func TestReadWriteCrashes(t *testing.T) {
	s := singleSite(redistest.Start(t))
	for _, side := range []string{"read", "write"} {
		name := "crash" + side
		jvm, rw := startJVM(t, current, s.yaml(crashYAML)), s.locks(t, relock.WithLease(crashLease)).RWMutex(name)
		jvm.Do("a", "lock", side+":"+name, "-1")
		waiter := later(rw.Lock)
		jvm.Kill()
		began := time.Now()
		got := await(t, waiter)
		require.NoError(t, got.err)
		require.Less(t, got.at.Sub(began), crashLimit, side)
		require.NoError(t, got.lease.Unlock(t.Context()))

		jvm, process := startJVM(t, current, s.yaml(crashYAML)), startGo(t, s, crashLease)
		process.Do("a", map[string]string{"read": "rlock", "write": "wlock"}[side], name)
		java := jvm.Go("a", "lock", "write:"+name, "-1")
		process.Kill()
		began = time.Now()
		was := await(t, java)
		require.NoError(t, was.err)
		require.Less(t, was.ended.Sub(began), crashLimit, side)
	}
}
