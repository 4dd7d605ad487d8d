package operator_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/operator"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// readerOf returns a reader of the locks on a server.
func readerOf(s *redistest.Server) *operator.Reader {
	return over(s.Client())
}

// over returns a reader of the locks behind a client.
func over(rdb rueidis.Client) *operator.Reader {
	return operator.NewReader([]driver.Reader{overrueidis.New(rdb)}, "")
}

// nodes are the servers that a reader asks.
func nodes(servers ...*redistest.Server) (all []driver.Reader) {
	for _, s := range servers {
		all = append(all, overrueidis.New(s.Client()))
	}
	return all
}

// one looks at a lock.
func one(t *testing.T, r *operator.Reader, name string) operator.Sighting {
	t.Helper()
	s, err := r.One(t.Context(), name)
	require.NoError(t, err)
	return s
}

// read takes a read-write lock for reading.
func read(t *testing.T, c *relock.Client, name string) *relock.Lease {
	t.Helper()
	l, err := c.RWMutex(name).RLock(t.Context())
	require.NoError(t, err)
	return l
}

// seedReaders makes n read-write locks, rw1 and so on, each of a reader of its own, with a writer and a
// reader that wait for it and came a minute ago.
func seedReaders(s *redistest.Server, n int) {
	s.Do("EVAL", `local now = redis.call('TIME')[1] * 1000000
	for i = 1, tonumber(ARGV[1]) do
		local name, reader = 'rw' .. i, string.format('%08x-0000-4000-8000-000000000000:1%016d', i, i)
		redis.call('HSET', name, 'mode', 'read', reader, 1)
		redis.call('SET', '{' .. name .. '}:' .. reader .. ':rwlock_timeout:1', 1)
		redis.call('ZADD', 'relock_writers:{' .. name .. '}', now - 50000000, '30000:1:writer:1:')
		redis.call('ZADD', 'relock_readers:{' .. name .. '}:' .. name, now - 60000000, '30000:1:reader:1:')
	end`, "0", fmt.Sprint(n))
}

// counting counts how often a client waits for Redis.
type counting struct {
	rueidis.Client
	trips atomic.Int64
}

func (c *counting) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	c.trips.Add(1)
	return c.Client.Do(ctx, cmd)
}

func (c *counting) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	c.trips.Add(1)
	return c.Client.DoMulti(ctx, cmds...)
}

// However many read-write locks there are, and wait for, a look asks for some hundred of them at a time.
func TestALookTakesFewRoundTrips(t *testing.T) {
	s := redistest.Start(t)
	const locks = 1000
	seedReaders(s, locks)
	rdb := &counting{Client: s.Client()}
	seen, err := over(rdb).All(t.Context(), "*")
	require.NoError(t, err)
	require.Len(t, seen, locks)
	require.Less(t, rdb.trips.Load(), int64(locks/10))
	for _, s := range seen {
		require.Equal(t, []any{"relock read", true, 1, 2}, []any{s.Kind, s.Held, s.Count, s.Waiters}, s.Names.Name)
		require.Greater(t, s.Longest, 55*time.Second, "the reader came first")
	}
}

// On a quorum a lock has waited for as long as a node tells, as a node that was cut off knows no earlier waiter.
func TestTheFirstWaitOnAQuorum(t *testing.T) {
	three := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	for _, s := range three {
		s.Do("HSET", "orders", "6f1c2a34-5c1d-4f0e-9a65-0d2c3b4a5e6f:1", "1", "relock:vote", "1800000000000000:1")
	}
	r := operator.NewReader(nodes(three...), "")
	seen := one(t, r, "orders")
	require.Equal(t, []any{0, time.Duration(0), "-"}, []any{seen.Waiters, seen.Longest, seen.WaitText()})
	for i, ago := range []time.Duration{time.Minute, time.Hour} { // the third knows of no waiter
		three[i].Do("ZADD", "relock_queue:{orders}", fmt.Sprint(time.Now().Add(-ago).UnixMicro()), "30000:1:waiter:1:")
	}
	require.InDelta(t, time.Hour, one(t, r, "orders").Longest, float64(30*time.Second))
}

// RESP2 answers scores behind their members, RESP3 in pairs with them.
func TestScoresInBothProtocols(t *testing.T) {
	s := redistest.Start(t)
	seedReaders(s, 1)
	to := s.Target()
	for _, to.RESP2 = range []bool{false, true} {
		rdb, err := rueidis.NewClient(to.Rueidis())
		require.NoError(t, err)
		defer rdb.Close()
		r := over(rdb)
		seen := one(t, r, "rw1")
		require.InDelta(t, time.Minute, seen.Longest, float64(30*time.Second))
		places, _, err := r.Line(t.Context(), seen.Names)
		require.NoError(t, err)
		require.Len(t, places, 2)
		require.InDelta(t, 50*time.Second, places[1].Waited, float64(30*time.Second))
	}
}

// What Redis refuses or leaves unanswered is an error, and no queue without waiters.
func TestAnUnreadQueueIsAnError(t *testing.T) {
	s := redistest.Start(t)
	seedReaders(s, 1)
	s.Do("HSET", "mutex", "owner", "1", "relock:first", "1800000000000000:1:owner")
	for name, queues := range map[string][]string{
		"mutex": {"relock_queue:{mutex}"},
		"rw1":   {"relock_queue:{rw1}", "relock_readers:{rw1}:rw1", "relock_writers:{rw1}"},
	} {
		t.Run(name, func(t *testing.T) {
			rdb, err := rueidis.NewClient(s.AddUser("watcher", "pw", "~"+name, "~{"+name+"}:*", "+@read", "+time"))
			require.NoError(t, err)
			defer rdb.Close()
			r := over(rdb)
			look := func() error {
				_, err := r.One(t.Context(), name)
				return err
			}
			for _, queue := range queues {
				require.ErrorContains(t, look(), `read lock "`+name+`": NOPERM`)
				_, err := r.All(t.Context(), name)
				require.ErrorContains(t, err, `read lock "`+name+`": NOPERM`)
				s.Do("ACL", "SETUSER", "watcher", "~"+queue)
			}
			require.NoError(t, look())
		})
	}
}

// Readers, writers and those that wait are shown by the names of their clients, though such a client holds nothing
// else, and each with the side that it waits for.
func TestNamesOnReadWriteLocks(t *testing.T) {
	s := redistest.Start(t)
	client := func(name string) *relock.Client {
		return locktest.Client(t, s.Client(), relock.WithClientName(name))
	}
	a, b, writes, reads := client("a"), client("b"), client("writes"), client("reads")
	leases := []*relock.Lease{read(t, a, "orders"), read(t, b, "orders")}
	r := readerOf(s)
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	granted := make(chan *relock.Lease, 1)
	go func() {
		l, _ := writes.RWMutex("orders").Lock(ctx)
		granted <- l
	}()
	waits(t, r, "orders", 1)
	go func() { _, _ = reads.RWMutex("orders").RLock(ctx) }()
	waits(t, r, "orders", 2)

	named := func(s operator.Sighting, names ...string) bool {
		var got []string
		for _, h := range s.Holders {
			got = append(got, h.By.Name)
		}
		return fmt.Sprint(got) == fmt.Sprint(names)
	}
	require.Eventually(t, func() bool {
		s := one(t, r, "orders")
		return named(s, "a", "b") && s.By.Name == "a"
	}, locktest.Patience, 10*time.Millisecond)
	orders := one(t, r, "orders")
	require.Regexp(t, `^a on .* \(pid \d+\) and 1 more$`, orders.HolderText())
	queue := func() string {
		places, _, err := r.Line(t.Context(), one(t, r, "orders").Names)
		require.NoError(t, err)
		said := ""
		for _, w := range places {
			said += fmt.Sprintf("%s %s,", w.By.Name, w.Side)
		}
		return said
	}
	require.Eventually(t, func() bool { return queue() == "writes write,reads read," }, locktest.Patience, 10*time.Millisecond, "%s", queue())
	for _, l := range leases {
		require.NoError(t, l.Unlock(t.Context()))
	}
	writer := <-granted
	require.Eventually(t, func() bool {
		s := one(t, r, "orders")
		return s.Kind == "relock write" && s.By.Name == "writes" && s.Token == writer.Token()
	}, locktest.Patience, 10*time.Millisecond)
	require.Equal(t, "reads read,", queue())
	require.Greater(t, one(t, r, "orders").Longest, time.Duration(0), "a reader waits")
}

// waits waits until so many wait for a lock.
func waits(t *testing.T, r *operator.Reader, name string, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return one(t, r, name).Waiters == n }, locktest.Patience, 10*time.Millisecond)
}

// A client that waits for a mutex, and has held nothing yet, stands in its queue by name.
func TestAWaiterThatHoldsNothingHasAName(t *testing.T) {
	s := redistest.Start(t)
	_, err := locktest.Client(t, s.Client()).Mutex("orders").Lock(t.Context())
	require.NoError(t, err)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	waiting := locktest.Client(t, s.Client(), relock.WithClientName("billing"))
	go func() { _, _ = waiting.Mutex("orders").Lock(ctx) }()
	r := readerOf(s)
	require.Eventually(t, func() bool {
		places, _, err := r.Line(t.Context(), one(t, r, "orders").Names)
		return err == nil && len(places) == 1 && places[0].By.Name == "billing"
	}, locktest.Patience, 10*time.Millisecond)
}

// pulse is the key by which a reader lives.
func pulse(name, reader string) string { return "{" + name + "}:" + reader + ":rwlock_timeout:1" }

// Readers whose processes crashed are counted no more than the lock counts them, though their fields stand, and a lock
// ends with the last reader's lease, though the hash stays.
func TestCrashedReadersAreNotCounted(t *testing.T) {
	s := redistest.Start(t)
	c, r := locktest.Client(t, s.Client()), readerOf(s)
	crashed := func(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000:1%016d", i, i) }
	s.Do("HSET", "orders", "mode", "read", crashed(1), "1", crashed(2), "1")
	s.Do("PEXPIRE", "orders", "3600000")
	s.Do("SET", pulse("orders", crashed(2)), "1", "PX", "60000")
	lease := read(t, c, "orders")
	seen := one(t, r, "orders")
	require.Equal(t, 2, seen.Count)
	require.Len(t, seen.Holders, 2)
	require.Equal(t, crashed(2), seen.Holder)
	require.InDelta(t, time.Minute, seen.TTL, float64(40*time.Second))
	s.Do("DEL", pulse("orders", crashed(2)))
	seen = one(t, r, "orders")
	require.Equal(t, 1, seen.Count)
	require.Regexp(t, "^"+c.ID()+":", seen.Holder)
	require.LessOrEqual(t, seen.TTL, 30*time.Second)

	s.Do("DEL", pulse("orders", seen.Holder))
	for _, seen := range []operator.Sighting{one(t, r, "orders"), all(t, r)["orders"]} {
		require.Equal(t, []any{"relock read", false, "", 0, time.Duration(0)}, []any{seen.Kind, seen.Held, seen.Holder, seen.Count, seen.TTL})
	}
	_ = lease.Unlock(t.Context())
}

// all looks at all locks.
func all(t *testing.T, r *operator.Reader) map[string]operator.Sighting {
	t.Helper()
	found, err := r.All(t.Context(), "*")
	require.NoError(t, err)
	seen := make(map[string]operator.Sighting)
	for _, s := range found {
		seen[s.Names.Name] = s
	}
	return seen
}

// A thread of Redisson's that entered twice lives by two keys.
func TestRedissonsReadersLiveByAnyKey(t *testing.T) {
	s := redistest.Start(t)
	const thread = "7b8f0a34-5c1d-4f0e-9a65-0d2c3b4a5e6f:42"
	s.Do("HSET", "orders", "mode", "read", thread, "2")
	s.Do("SET", "{orders}:"+thread+":rwlock_timeout:2", "1", "PX", "60000")
	seen := one(t, readerOf(s), "orders")
	require.Equal(t, []any{"redisson read", true, thread, 1}, []any{seen.Kind, seen.Held, seen.Holder, seen.Count})
	require.Positive(t, seen.TTL)
}

// A lock that very many read is counted, though no more than some are looked at.
func TestManyReadersAreCounted(t *testing.T) {
	s := redistest.Start(t)
	const readers = 1000
	s.Do("EVAL", `redis.call('HSET', 'orders', 'mode', 'read')
	for i = 1, tonumber(ARGV[1]) do
		local reader = string.format('%08x-0000-4000-8000-000000000000:1%016d', i, i)
		redis.call('HSET', 'orders', reader, 1)
		redis.call('SET', '{orders}:' .. reader .. ':rwlock_timeout:1', 1, 'PX', 60000)
	end
	redis.call('PEXPIRE', 'orders', 60000)`, "0", fmt.Sprint(readers))
	s.ResetCommandCounts()
	seen := one(t, readerOf(s), "orders")
	require.Equal(t, []any{"relock read", true, readers}, []any{seen.Kind, seen.Held, seen.Count})
	require.Less(t, len(seen.Holders), readers)
	require.NotEmpty(t, seen.Holders)
	require.NotContains(t, s.CommandCounts(), "hgetall")
	require.Contains(t, seen.HolderText(), " and 999 more")
}

// What is looked at again, as the rows of a screen are, says the same again. That holds for a name whose lock has become
// one of another kind, too.
func TestALookAtWhatWasSeen(t *testing.T) {
	s := redistest.Start(t)
	seedReaders(s, 1)
	r := readerOf(s)
	first := one(t, r, "rw1")
	again, err := r.These(t.Context(), []*wire.Names{first.Names})
	require.NoError(t, err)
	require.Equal(t, []int{2, 2}, []int{first.Waiters, again[0].Waiters})

	s.Do("DEL", "rw1")
	free := one(t, r, "rw1")
	require.False(t, free.Held)
	require.Equal(t, 2, free.Waiters, "they wait for the first poll, though nobody holds the lock")
	places, _, err := r.Line(t.Context(), free.Names)
	require.NoError(t, err)
	require.Len(t, places, 2)
	s.Do("HSET", "rw1", "owner", "1", "relock:first", "1800000000000000:1:owner")
	now, err := r.These(t.Context(), []*wire.Names{free.Names})
	require.NoError(t, err)
	require.Equal(t, []any{operator.KindRelock, 0}, []any{now[0].Kind, now[0].Waiters})
}

// On a Cluster the keys of a look are on several nodes.
func TestReadWriteLocksOnACluster(t *testing.T) {
	g := redistest.StartCluster(t)
	c := locktest.Client(t, g.Client())
	r := over(g.Client())
	for i := range 20 {
		read(t, c, fmt.Sprintf("rw%d", i))
	}
	seen := all(t, r)
	require.Len(t, seen, 20)
	for name, s := range seen {
		require.Equal(t, []any{"relock read", true, 1}, []any{s.Kind, s.Held, s.Count}, name)
	}
	require.True(t, one(t, r, "rw0").Held)
}
