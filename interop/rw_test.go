package interop

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
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

// TestReadWriteBelief kills a JVM whose watchdog shortens a lock beside readers in Go that cannot renew theirs any more: each has
// heard that its lease is over before a writer of either language comes in.
func TestReadWriteBelief(t *testing.T) {
	const names = 100
	const yaml = "lockWatchdogTimeout: 4000"
	server := redistest.Start(t)
	s := singleSite(server)
	dying, java := startJVM(t, current, s.yaml(yaml)), startJVM(t, oldest, s.yaml(yaml))
	rdb, err := rueidis.NewClient(server.AddUser("reader", "secret", "~*", "&*", "+@all"))
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	readers, err := relock.New(rdb, relock.WithLease(2*time.Minute), relock.WithRedissonWatchdog(4*time.Second))
	require.NoError(t, err)
	t.Cleanup(readers.Close)
	writers := s.locks(t)
	ended, inGo, inJava := make([]time.Time, names), make([]<-chan taken, names), make([]<-chan answer, names)
	var over sync.WaitGroup
	for i := range names {
		name := fmt.Sprintf("belief-%d", i)
		l := lease(t, readers.RWMutex(name).RLock)
		over.Go(func() {
			<-l.Context().Done()
			ended[i] = time.Now()
		})
		dying.Do("a", "lock", "read:"+name, "-1")
		if i%2 == 0 {
			inGo[i] = later(writers.RWMutex(name).Lock)
		} else {
			inJava[i] = java.Go(name, "lock", "write:"+name, "-1")
		}
	}
	time.Sleep(2 * time.Second) // the JVM renews
	server.Do("ACL", "SETUSER", "reader", "-evalsha", "-eval")
	dying.Kill()
	over.Wait()
	for i := range names {
		var came time.Time
		if i%2 == 0 {
			got := await(t, inGo[i])
			require.NoError(t, got.err)
			came = got.at
		} else {
			got := await(t, inJava[i])
			require.NoError(t, got.err)
			came = got.ended
		}
		require.False(t, came.Before(ended[i]), "a writer came in %v before the reader %d had heard of its end", ended[i].Sub(came), i)
	}
}

// TestReadWriteCached measures how long a writer waits beside eight processes that read all the time and keep the lock for a
// second: one of relock's for what runs; one whose request to give way no reader hears, and one of Redisson's, which makes none,
// for that second.
func TestReadWriteCached(t *testing.T) {
	const kept = time.Second
	server := redistest.Start(t)
	s := singleSite(server)
	deaf, dropped := withoutWanted(t, server)
	few, many := 5, 100
	if os.Getenv("RELOCK_LONG") != "" {
		few, many = 100, 1000
	}
	heard := beside(t, server, s, "heard", kept, many, writer(t, s, "heard"))
	require.Less(t, heard[many/2], kept/2)
	waits := beside(t, server, deaf, "unheard", kept, few, writer(t, s, "unheard"))
	require.NotZero(t, dropped.Load(), "no request to give way was dropped")
	require.Less(t, waits[few-1], kept+500*time.Millisecond)
	jvm := startJVM(t, current, s.yaml())
	waits = beside(t, server, s, "redisson", kept, few, func() func() {
		jvm.Do("w", "lock", "write:redisson", "-1")
		return func() { jvm.Do("w", "unlock", "write:redisson") }
	})
	require.Less(t, waits[few-1], kept+500*time.Millisecond)
}

// TestReadWriteSaturated measures how long a writer waits beside eight processes that read all the time, and how evenly writers
// of as many processes come in beside them. Readers that came without a pause and without regard to it would keep it out for ever.
func TestReadWriteSaturated(t *testing.T) {
	server := redistest.Start(t)
	s := singleSite(server)
	n, lasts := 60, 2*time.Second
	if os.Getenv("RELOCK_LONG") != "" {
		n, lasts = 1000, time.Minute
	}
	beside(t, server, s, "one", 0, n, writer(t, s, "one"))

	saturate(t, server, s, "all", 0)
	var answers []<-chan answer
	for range 8 {
		p := startGo(t, s, 10*time.Second)
		answers = append(answers, p.Go("w", "writes", "all", "2", "1000", strconv.FormatInt(lasts.Milliseconds(), 10)))
	}
	var counts []int
	for _, a := range answers {
		got := await(t, a)
		require.NoError(t, got.err)
		for count := range strings.FieldsSeq(got.value) {
			n, err := strconv.Atoi(count)
			require.NoError(t, err)
			require.NotZero(t, n, "a writer never came in")
			counts = append(counts, n)
		}
	}
	t.Logf("writers came in %v times, worst/best %.2f", counts, float64(slices.Min(counts))/float64(slices.Max(counts)))
}

// section is how long each of these readers reads.
const section = 20 * time.Millisecond

// saturate starts eight processes that read all the time, 16 goroutines in each, under a lock that lingers.
func saturate(t *testing.T, server *redistest.Server, s site, name string, linger time.Duration) (stop func()) {
	var all []*peer
	for range 8 {
		p := startGo(t, s, 10*time.Second)
		p.Go("r", "reads", name, "16", strconv.FormatInt(section.Microseconds(), 10), strconv.FormatInt(linger.Milliseconds(), 10), "600000")
		all = append(all, p)
	}
	eventually(t, "all read", func() bool { n, _ := strconv.Atoi(server.Do("HLEN", name)); return n >= 8 })
	return func() {
		for _, p := range all {
			p.Kill()
		}
	}
}

// beside returns how long each of n calls of write waited beside such readers, sorted.
func beside(t *testing.T, server *redistest.Server, s site, name string, linger time.Duration, n int, write func() func()) []time.Duration {
	defer saturate(t, server, s, name, linger)()
	waits := make([]time.Duration, n)
	for i := range waits {
		time.Sleep(3*section + rand.N(section)) // the readers have the lock for themselves again
		began := time.Now()
		unlock := write()
		waits[i] = time.Since(began)
		unlock()
	}
	slices.Sort(waits)
	t.Logf("%s: %d writers waited %v in the median, %v p99, %v at most, beside sections of %v",
		name, n, waits[n/2], waits[n*99/100], waits[n-1], section)
	return waits
}

// writer is relock's own, of this process.
func writer(t *testing.T, s site, name string) func() func() {
	rw := s.locks(t).RWMutex(name)
	return func() func() {
		l := lease(t, rw.Lock)
		return func() { require.NoError(t, l.Unlock(t.Context())) }
	}
}

// wantedMessage is a message that tells a holder's client that its lock is wanted, as Redis sends it in RESP3.
var wantedMessage = regexp.MustCompile(`>3\r\n\$7\r\nmessage\r\n\$\d+\r\n[^\r]*\r\n\$\d+\r\n0 2 [^\r]*\r\n`)

// withoutWanted returns the server behind a proxy that drops these messages, and how many it has dropped.
func withoutWanted(t *testing.T, server *redistest.Server) (site, *atomic.Int64) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dropped := new(atomic.Int64)
	var open sync.WaitGroup
	t.Cleanup(open.Wait)
	t.Cleanup(func() { listener.Close() })
	open.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			redis, err := net.Dial("tcp", server.Addr())
			if err != nil {
				client.Close()
				continue
			}
			open.Go(func() {
				_, _ = io.Copy(redis, client)
				redis.Close()
			})
			open.Go(func() {
				defer client.Close()
				for chunk := make([]byte, 1<<20); ; { // Redis writes a message at once
					n, err := redis.Read(chunk)
					if err != nil {
						return
					}
					kept := wantedMessage.ReplaceAllFunc(chunk[:n], func([]byte) []byte { dropped.Add(1); return nil })
					if _, err := client.Write(kept); err != nil {
						return
					}
				}
			})
		}
	})
	return site{Kind: single, Addrs: []string{listener.Addr().String()}}, dropped
}

// TestReadWriteReadersGetTheirTurn has readers in Go beside readers in Java that never pause and a writer in Java that waits: what
// lets that writer come in keeps no reader out for long.
func TestReadWriteReadersGetTheirTurn(t *testing.T) {
	s := singleSite(redistest.Start(t))
	const lasts = 4 * time.Second
	readers, writer := startJVM(t, current, s.yaml()), startJVM(t, current, s.yaml())
	all := readers.Go("r", "load", load{which: "rw:100:turns", counter: "n", threads: 4, duration: lasts}.args(t.TempDir()+"/r")...)
	writes := writer.Go("w", "load", load{which: "rw:0:turns", counter: "n", threads: 1, duration: lasts}.args(t.TempDir()+"/w")...)
	rw := s.locks(t).RWMutex("turns")
	end := time.Now().Add(lasts)
	longest, count := make([]time.Duration, 4), make([]int, 4)
	var wg sync.WaitGroup
	for i := range longest {
		wg.Go(func() {
			for time.Now().Before(end) {
				began := time.Now()
				l, err := rw.RLock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				longest[i] = max(longest[i], time.Since(began))
				count[i]++
				time.Sleep(time.Millisecond)
				_ = l.Unlock(t.Context())
			}
		})
	}
	wg.Wait()
	read, wrote := await(t, all), await(t, writes)
	require.NoError(t, read.err)
	require.NoError(t, wrote.err)
	t.Logf("reads in Go %v, the longest waits %v; reads in Java %s, writes %s", count, longest, read.value, wrote.value)
	require.Less(t, slices.Max(longest), 1500*time.Millisecond)
}
