package suite_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/node"
	"github.com/relock-go/relock/internal/opening"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/single"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// passed waits until a server's clock has passed a token: then its loss cannot make tokens repeat.
func passed(t *testing.T, token int64, servers ...*redistest.Server) {
	t.Helper()
	for _, s := range servers {
		require.Eventually(t, func() bool {
			at, err := s.Client().Do(context.Background(), s.Client().B().Time().Build()).AsIntSlice()
			return err == nil && at[0]*1_000_000+at[1] > token
		}, patience, 100*time.Microsecond)
	}
}

// Tokens rise although Redis forgets how far they were counted, in each of the ways in which it may.
func TestTokensOutliveTheirRedis(t *testing.T) {
	t.Parallel()
	rounds := rounds(5, 50)
	for name, lose := range map[string]func(s *redistest.Server){
		"counter evicted": func(s *redistest.Server) { s.Do("DEL", counterOfK) },
		"FLUSHALL":        func(s *redistest.Server) { s.Do("FLUSHALL") },
		"restarted empty": func(s *redistest.Server) { s.RestartEmpty() },
		"an older file":   func(s *redistest.Server) { s.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			c := newClient(t, s.Client())
			last := int64(0)
			for i := range rounds {
				l, err := c.Mutex("k").Lock(t.Context())
				require.NoError(t, err)
				require.Greater(t, l.Token(), last)
				require.NoError(t, l.Unlock(t.Context()))
				if name == "an older file" && i%3 == 0 {
					s.Do("SAVE")
				}
				second, err := c.Mutex("k").Lock(t.Context()) // which the file does not know
				require.NoError(t, err)
				require.Greater(t, second.Token(), l.Token())
				require.NoError(t, second.Unlock(t.Context()))
				last = second.Token()
				reserved, err := strconv.ParseInt(s.Do("GET", counterOfK), 10, 64)
				require.NoError(t, err)
				passed(t, reserved, s)
				lose(s)
			}
		})
	}
}

// The same on a quorum: with a minority that forgets, which evidence would mend too, and with a majority, where nothing
// but the clock is left.
func TestTokensOutliveAQuorum(t *testing.T) {
	rounds := rounds(4, 50)
	const lease = 300 * time.Millisecond
	for name, forgetful := range map[string]int{"minority": 1, "majority": 2, "all": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nodes := masters(t, 3)
			c := newRedlock(t, nodes, relock.WithLease(lease), relock.WithRestartGuard(lease), relock.WithCommandTimeout(lease/3))
			last := int64(0)
			for i := range rounds {
				l, err := c.Mutex("k").Lock(t.Context())
				require.NoError(t, err)
				require.Greater(t, l.Token(), last)
				_ = l.Unlock(t.Context()) // lost, where the machine is slow
				last = l.Token()
				passed(t, last+defaultPasses, nodes...)
				for n := range forgetful {
					nodes[(i+n)%3].Do("FLUSHALL")
				}
			}
			for _, s := range nodes {
				for _, key := range []string{counterOfK, "relock_seed:{k}"} { // -2: it is not there, -1: it stays
					require.NotEqual(t, "-1", s.Do("PTTL", key), key)
				}
			}
		})
	}
}

// A repeated acquire, and one who shares the owner, are answered the tokens that the grant has, though the counter was
// lost or raised since, and though the block was cut.
func TestTokensOfTheGrantInForce(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *redistest.Server){
		"nothing":       func(*redistest.Server) {},
		"counter lost":  func(s *redistest.Server) { s.Do("DEL", counterOfK) },
		"counter moved": func(s *redistest.Server) { s.Do("INCRBY", counterOfK, "5000") },
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Start(t)
			ahead := time.Now().Add(time.Hour).UnixMicro()
			s.Do("SET", counterOfK, strconv.FormatInt(ahead, 10)) // as after a clock was set back: blocks are cut
			w := faulty(s)
			w.Filter(faults.Next(faults.Script("acquire"), faults.LoseReply, faults.Hold))
			c := newClient(t, w)
			granted := waitFor(t, c, "k")
			within(t, w.Told()) // it asks again
			require.Equal(t, strconv.FormatInt(ahead+32, 10), s.Do("GET", counterOfK))
			change(s)
			w.Release()
			l := within(t, granted)
			require.Equal(t, ahead+1, l.Token())
			require.Equal(t, l.Token(), stateOf(t, c.Mutex("k")).HolderToken)
			require.NoError(t, l.Unlock(t.Context()))
		})
		t.Run(name+", shared owner", func(t *testing.T) {
			s := redistest.Start(t)
			c, d := newClient(t, s.Client()), newClient(t, s.Client())
			ctx := relock.WithOwner(t.Context(), "workflow 7: a long name, so that the hash is no list any more, and its fields no order")
			l, err := c.Mutex("k").Lock(ctx)
			require.NoError(t, err)
			change(s)
			sharer, err := d.Mutex("k").Lock(ctx)
			require.NoError(t, err)
			require.Equal(t, l.Token(), sharer.Token())
			st, err := d.Mutex("k").State(ctx)
			require.NoError(t, err)
			require.Equal(t, "workflow 7: a long name, so that the hash is no list any more, and its fields no order", st.Holder)
			require.Equal(t, 2, st.Count)
			require.Equal(t, l.Token(), st.HolderToken)
			require.NoError(t, sharer.Unlock(ctx))
			require.NoError(t, l.Unlock(ctx))
		})
	}
}

// A release of a quorum that comes late carries how far tokens had been counted before a node forgot the counter. It does
// not make the node tell less than the clock: a waiter would believe in a grant of before.
func TestLateReleaseLowersNoCounter(t *testing.T) {
	nodes := masters(t, 1)
	c := newRedlock(t, nodes)
	l, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	// A grant's tokens may begin ahead of the clock, by a round trip. The counter is told by the clock once that is past them.
	passed(t, l.Token()+defaultPasses, nodes...)
	nodes[0].Do("DEL", "k", counterOfK) // the lease ran out, and the counter is forgotten
	require.ErrorIs(t, l.Unlock(t.Context()), relock.ErrLost)
	told := nodes[0].Do("GET", counterOfK)
	if told == "" {
		return // the clock tells, which is past them
	}
	counter, err := strconv.ParseInt(told, 10, 64)
	require.NoError(t, err)
	require.GreaterOrEqual(t, counter, l.Token()+defaultPasses, "above all that the grant had")
}

// An acquisition of an older client's grant has the tokens that the counter tells, and new ones where that is lost: once,
// the same for all who share the owner.
func TestTokensOfAnOlderGrant(t *testing.T) {
	s := redistest.Start(t)
	c, d := newClient(t, s.Client()), newClient(t, s.Client())
	ctx := relock.WithOwner(t.Context(), "job")
	for counter, want := range map[string]int64{"41": 41, "": 0} {
		s.Do("FLUSHALL")
		s.Do("HSET", "k", "job", "1", "00000000-0000-0000-0000-000000000000:1", "1")
		if counter != "" {
			s.Do("SET", counterOfK, counter)
		}
		l, err := c.Mutex("k").Lock(ctx)
		require.NoError(t, err)
		second, err := d.Mutex("k").Lock(ctx)
		require.NoError(t, err)
		require.Equal(t, l.Token(), second.Token())
		if want > 0 {
			require.Equal(t, want, l.Token())
		} else {
			require.Greater(t, l.Token(), int64(1e15))
		}
		st, err := d.Mutex("k").State(ctx)
		require.NoError(t, err)
		require.Equal(t, "job", st.Holder)
		require.Equal(t, 3, st.Count)
	}
}

// forgetting returns a client whose counters outlive a grant by no more than d.
func forgetting(t *testing.T, rdb rueidis.Client, d time.Duration) *relock.Client {
	t.Helper()
	id, ignore := fmt.Sprintf("00000000-0000-4000-8000-%012d", time.Now().UnixNano()%1e12), func(error) {}
	n := node.New(overrueidis.New(rdb), node.Config{
		Options: wire.Options{Retention: d}, Client: id, Timeout: 2 * time.Second,
		Reachable: ignore, Impaired: ignore, Mended: ignore,
	})
	c, err := opening.Over(id, single.New(n), []relock.ClientOption{})
	require.NoError(t, err)
	t.Cleanup(c.(*relock.Client).Close)
	return c.(*relock.Client)
}

// Names that were locked once leave nothing behind after the retention.
func TestNamesDoNotStay(t *testing.T) {
	t.Parallel()
	names := rounds(5_000, 100_000)
	s := redistest.Start(t)
	c := forgetting(t, s.Client(), 2*time.Second)
	used := func() int { return usedMemory(t, s) }
	l, err := c.Mutex("warm").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
	require.Eventually(t, func() bool { return s.Do("DBSIZE") == "0" }, patience, 10*time.Millisecond)
	before := used()

	work := make(chan int)
	failed := make(chan error, 16)
	for range 16 {
		go func() {
			var first error
			for i := range work {
				l, err := c.Mutex("name:" + strconv.Itoa(i)).TryLock(t.Context())
				if err == nil {
					err = l.Unlock(t.Context())
				}
				if first == nil {
					first = err
				}
			}
			failed <- first
		}()
	}
	for i := range names {
		work <- i
	}
	close(work)
	for range 16 {
		require.NoError(t, <-failed)
	}
	require.Eventually(t, func() bool { return s.Do("DBSIZE") == "0" }, 4*patience, 50*time.Millisecond)
	// A server gives its table of keys back by and by. 100,000 counters were some ten megabytes.
	require.Eventually(t, func() bool { return used() < before+1<<20 }, 4*patience, 50*time.Millisecond)
}

// usedMemory is what a server says of its memory, in bytes.
func usedMemory(t *testing.T, s *redistest.Server) int {
	t.Helper()
	_, rest, _ := strings.Cut(s.Do("INFO", "memory"), "used_memory:")
	n, err := strconv.Atoi(rest[:strings.IndexAny(rest, "\r\n")])
	require.NoError(t, err)
	return n
}

// Where each name is new, the keys of Redis rise for as long as a counter outlives its grant, and its memory with them; from
// then on both are flat. With RELOCK_NEW_NAMES=25m it runs for so long, with the default retention, and tells every minute.
func TestNewNamesKeepRedisFlat(t *testing.T) {
	t.Parallel()
	const rate = 1_000 // names a second
	lasting, every, retention := 6*time.Second, 500*time.Millisecond, time.Second
	if long := os.Getenv("RELOCK_NEW_NAMES"); long != "" {
		var err error
		lasting, err = time.ParseDuration(long)
		require.NoError(t, err)
		every, retention = time.Minute, defaultRetention
		require.Greater(t, lasting, retention+5*every, "it is to be seen flat")
	}
	s := redistest.Start(t)
	c := forgetting(t, s.Client(), retention)

	names, failed := make(chan int), make(chan error, 8)
	for range cap(failed) {
		go func() {
			var first error
			for i := range names {
				l, err := c.Mutex("orders:" + strconv.Itoa(i)).TryLock(t.Context())
				if err == nil {
					err = l.Unlock(t.Context())
				}
				if first == nil {
					first = err
				}
			}
			failed <- first
		}()
	}
	// A counter is kept a quarter of the retention longer at most, or 17 seconds. A server looks for what is over in samples,
	// and is content while that is some: a quarter of all keys, where 1,000 a second end.
	kept := retention + min(retention/4, 17*time.Second)
	most := int(kept.Seconds()*rate)*3/2 + rate/2
	begun := time.Now()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var flat []int // memory
	made, told := 0, every
	for now := time.Duration(0); now < lasting; now = time.Since(begun) {
		for due := min(int(now.Seconds()*rate), made+rate/100); made < due; made++ { // what is late is left out
			names <- made
		}
		if now >= told {
			keys, _ := strconv.Atoi(s.Do("DBSIZE"))
			memory := usedMemory(t, s)
			t.Logf("after %v: %d names, %d keys, %d bytes", told, made, keys, memory)
			require.LessOrEqual(t, keys, most)
			if now > kept*3/2 {
				flat = append(flat, memory)
			}
			told += every
		}
		<-tick.C
	}
	close(names)
	for range cap(failed) {
		require.NoError(t, <-failed)
	}
	left, err := strconv.Atoi(s.Do("DBSIZE"))
	require.NoError(t, err)
	require.Less(t, left, made, "some are over")
	require.NotEmpty(t, flat)
	for _, memory := range flat {
		require.InDelta(t, flat[0], memory, float64(flat[0])/10+1<<19)
	}
	if lasting < time.Minute {
		require.Eventually(t, func() bool { return s.Do("DBSIZE") == "0" }, patience, 50*time.Millisecond)
	}
}

// A hand-over that fails at a broken counter wakes the waiters, who are told why.
func TestBrokenCounterLeavesNobodyAsleep(t *testing.T) {
	s := redistest.Start(t)
	c, d := newClient(t, s.Client(), relock.WithLease(far)), newClient(t, s.Client(), relock.WithLease(far))
	for name, free := range map[string]func(*relock.Lease) error{
		"unlocked": func(l *relock.Lease) error { return l.Unlock(context.Background()) },
		"forced": func(*relock.Lease) error {
			_, err := c.Mutex("forced").ForceUnlock(context.Background())
			return err
		},
	} {
		l, err := c.Mutex(name).Lock(context.Background())
		require.NoError(t, err)
		told := make(chan error, 1)
		go func() {
			_, err := d.Mutex(name).Lock(context.Background())
			told <- err
		}()
		queued(t, s, name, 1)
		require.Eventually(t, func() bool {
			return strings.HasSuffix(s.Do("PUBSUB", "NUMSUB", "redisson_lock__channel:{"+name+"}"), "\n1")
		}, patience, time.Millisecond)
		s.Do("DEL", "redisson_lock_token:{"+name+"}")
		s.Do("RPUSH", "redisson_lock_token:{"+name+"}", "a")
		require.NoError(t, free(l), "the lock is free, whatever the counter is")
		var node *relock.NodeError
		require.ErrorAs(t, within(t, told), &node)
		require.Equal(t, "0", s.Do("EXISTS", name))
	}
}
