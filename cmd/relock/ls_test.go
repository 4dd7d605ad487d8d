package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/operator"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// javaOwner is an owner field as Redisson writes it.
const javaOwner = "7b8f0a34-5c1d-4f0e-9a65-0d2c3b4a5e6f:42"

// listed runs relock ls -json and returns what it prints by name.
func listed(t *testing.T, flags ...string) map[string]seenLock {
	t.Helper()
	got := relockRun(append([]string{"ls", "-json"}, flags...)...)
	require.Equal(t, statusOK, got.status, got.err)
	locks := make(map[string]seenLock)
	for line := range strings.Lines(got.out) {
		var l seenLock
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		locks[l.Name] = l
	}
	return locks
}

// held takes a lock.
func held(t *testing.T, locks *relock.Client, name string) *relock.Lease {
	t.Helper()
	lease, err := locks.Mutex(name).Lock(t.Context())
	require.NoError(t, err)
	return lease
}

// waiting lets a client wait for a lock until the test ends, and returns when it stands in the queue.
func waiting(t *testing.T, locks *relock.Client, name string) {
	t.Helper()
	go func() { _, _ = locks.Mutex(name).Lock(t.Context()) }()
	require.Eventually(t, func() bool {
		st, err := locks.Mutex(name).State(t.Context())
		return err == nil && st.Waiters > 0
	}, patience, time.Millisecond)
}

func TestLs(t *testing.T) {
	srv := redistest.Start(t)
	first, second := other(t, srv), other(t, srv)
	lease := held(t, first, "order:1")
	waiting(t, second, "order:1")
	owned, err := first.Mutex("order:2").Lock(relock.WithOwner(t.Context(), "workflow 7"))
	require.NoError(t, err)
	held(t, first, "night\nly")
	srv.Do("HSET", "java", javaOwner, "2")
	srv.Do("HSET", "java:rw", "mode", "read", javaOwner, "1")
	srv.Do("HSET", "user:1", "name", "Ada", "visits", "7")
	srv.Do("HSET", "empty:1", "visits", "7")
	srv.Do("SET", "text", "x")

	locks := listed(t, "-redis", srv.Addr())
	require.Len(t, locks, 5, "%v", locks)
	got := locks["order:1"]
	require.Equal(t, seenLock{
		Name: "order:1", Kind: operator.KindRelock, Held: true, Holder: got.Holder, Count: 1, Token: lease.Token(), Waiters: 1,
		Age: got.Age, TTL: got.TTL, Longest: got.Longest,
	}, got)
	require.Regexp(t, `^`+first.ID()+`:1\d{16}$`, got.Holder)
	require.NotNil(t, got.Age)
	require.InDelta(t, 15000, got.TTL, 15000)
	require.Equal(t, "workflow 7", locks["order:2"].Holder)
	require.Equal(t, owned.Token(), locks["order:2"].Token)
	java := seenLock{Name: "java", Kind: operator.KindRedisson, Held: true, Holder: javaOwner, Count: 2, TTL: -1}
	require.Equal(t, java, locks["java"], "its age is unknown")
	require.Equal(t, "redisson read", locks["java:rw"].Kind)
	lsReadWrite(t, srv)

	require.Len(t, listed(t, "-redis", srv.Addr(), "-match", "order:*"), 2)
	require.Len(t, listed(t, "-redis", srv.Addr(), "-prefix", "order:", "-match", "[2]"), 1)
	require.Empty(t, listed(t, "-redis", srv.Addr(), "-prefix", "*"), "a prefix is no pattern")
	table := relockRun("ls", "-redis", srv.Addr())
	require.Regexp(t, `(?m)^NAME +KIND +HOLDER +COUNT +AGE +TTL +WAITERS +LONGEST$`, table.out)
	require.Regexp(t, `(?m)^java +redisson +`+javaOwner+` +2 +- +never ends +0 +-$`, table.out)
	require.Contains(t, table.out, `"night\nly" `)
	names := relockRun("__complete", "inspect", "-redis", srv.Addr(), "order:")
	require.Contains(t, names.out, "order:1\norder:2\n")
}

// A lock that waits to be taken over is told from one that is held.
func TestHandleIsToldFromAHolder(t *testing.T) {
	srv := redistest.Start(t)
	giver := other(t, srv)
	handle, err := held(t, giver, "orders").HandOver(t.Context(), time.Minute)
	require.NoError(t, err)
	held(t, giver, "bills")
	show := func(args ...string) string { return relockRun(append(args, "-redis", srv.Addr())...).out }
	who := "a handle of " + giver.ID() + ", to be taken over"
	require.Regexp(t, `(?m)^orders +relock +`+who+` +1 `, show("ls"))
	require.Regexp(t, `(?m) orders +`+who+`$`, show("top", "-once"))
	require.Contains(t, show("inspect", "orders"), "holder    "+who+"\n")
	require.NotContains(t, show("ls")+show("inspect", "-json", "orders"), handle)
	locks := listed(t, "-redis", srv.Addr())
	require.True(t, locks["orders"].Handed)
	require.Equal(t, operator.KindRelock, locks["orders"].Kind)
	require.False(t, locks["bills"].Handed)
	work, err := giver.Mutex("orders").TakeOver(t.Context(), handle)
	require.NoError(t, err)
	require.False(t, listed(t, "-redis", srv.Addr())["orders"].Handed)
	require.NoError(t, work.Unlock(t.Context()))
}

// How long the first waiter has waited is told by its ticket. Where none waits nothing is told, and a wait of no time is told too:
// a ticket may be ahead of the clock.
func TestLsShowsTheFirstWait(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do("EVAL", `local now = redis.call('TIME')[1] * 1000000
	local function wait(name, ago)
		redis.call('ZADD', 'relock_queue:{' .. name .. '}', string.format('%.0f', now - ago * 1000000), '30000:1:' .. ARGV[1] .. ago .. ':')
	end
	for _, name in ipairs({'long', 'ahead', 'turn', 'none'}) do
		redis.call('HSET', name, ARGV[1], 1, 'relock:first', string.format('%.0f:1', now - 7200000000))
	end
	wait('long', 600)
	wait('long', 60)
	wait('ahead', -3600)
	redis.call('ZADD', 'relock_queue:{turn}', string.format('%.0f', -now), 'turn')`, "0", javaOwner)

	waits := make(map[string]any)
	for line := range strings.Lines(relockRun("ls", "-json", "-redis", srv.Addr()).out) {
		l := make(map[string]any) // as a script reads it, by the names in JSON
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		waits[l["name"].(string)] = l["longest_wait_ms"]
	}
	require.InDelta(t, 600_000, waits["long"], 30_000)
	require.Equal(t, map[string]any{"long": waits["long"], "ahead": 0.0, "turn": nil, "none": nil}, waits)
	table := relockRun("ls", "-redis", srv.Addr()).out
	require.Regexp(t, `(?m)^long .* 2 +10m\d+s$`, table)
	require.Regexp(t, `(?m)^ahead .* 1 +0\.0s$`, table)
	require.Regexp(t, `(?m)^turn .* 0 +-$`, table)
	require.Regexp(t, `(?m)^none .* 0 +-$`, table)
}

// lsReadWrite looks at a read-write lock that is read by two, that is written, and that is forced open.
func lsReadWrite(t *testing.T, srv *redistest.Server) {
	t.Helper()
	a, b := other(t, srv).RWMutex("{rw}"), other(t, srv).RWMutex("{rw}")
	for _, rw := range []*relock.RWMutex{a, b} {
		_, err := rw.RLock(t.Context())
		require.NoError(t, err)
	}
	waiting := make(chan *relock.Lease, 1)
	go func() {
		l, _ := a.Lock(t.Context())
		waiting <- l
	}()
	require.Eventually(t, func() bool {
		s := listed(t, "-redis", srv.Addr(), "-match", "*rw*")["{rw}"]
		return s.Kind == "relock read" && s.Count == 2 && s.Waiters == 1
	}, 10*time.Second, 10*time.Millisecond)
	forced := relockRun("unlock", "-redis", srv.Addr(), "-force", "-y", "{rw}")
	require.Equal(t, statusOK, forced.status, forced.err)
	lease := <-waiting
	s := listed(t, "-redis", srv.Addr(), "-match", "*rw*")["{rw}"]
	require.Equal(t, []any{"relock write", 1, lease.Token()}, []any{s.Kind, s.Count, s.Token})
	require.NoError(t, lease.Unlock(t.Context()))
}

// A shared owner's lock has a field for each who shares it.
func TestLsManySharers(t *testing.T) {
	srv := redistest.Start(t)
	locks := other(t, srv)
	ctx := relock.WithOwner(t.Context(), "workflow 7")
	for range 300 {
		_, err := locks.Mutex("orders").Lock(ctx)
		require.NoError(t, err)
	}
	got := listed(t, "-redis", srv.Addr())["orders"]
	require.Equal(t, "workflow 7", got.Holder)
	require.Equal(t, 300, got.Count)
	require.Equal(t, operator.KindRelock, got.Kind)
}

// reading are the commands that looking at locks may cost, none of which walks more than some keys.
var reading = []string{"scan", "hscan", "pttl", "zcount", "zrangebyscore", "time", "hmget", "hlen",
	"hello", "ping", "auth", "select", "client", "client|setinfo", "cluster|slots", "cluster|shards", "command", "cluster"}

func TestLsTenThousand(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	const locks = 10_000
	srv.Do("EVAL", `for i = 1, tonumber(ARGV[1]) do
		redis.call('HSET', 'order:' .. i, ARGV[2], 1, 'relock:first', '1800000000000000:256')
		redis.call('PEXPIRE', 'order:' .. i, 600000)
		redis.call('SET', 'redisson_lock_token:{order:' .. i .. '}', 1)
		redis.call('HSET', 'read:' .. i, ARGV[2], 1, 'mode', 'read')
	end`, "0", fmt.Sprint(locks), javaOwner)
	srv.ResetCommandCounts()
	require.Len(t, listed(t, "-redis", srv.Addr()), 2*locks)
	counts := srv.CommandCounts()
	for name := range counts {
		require.Contains(t, reading, name, "%v", counts)
	}
	require.GreaterOrEqual(t, counts["scan"], int64(locks/200))
	require.GreaterOrEqual(t, counts["pttl"], int64(locks))
}

func TestLsOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	locks, err := relock.New(cluster.Client())
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	var want []string
	for i := range 20 {
		name := fmt.Sprintf("order:%02d", i)
		held(t, locks, name)
		want = append(want, name)
	}
	var got []string
	for name := range listed(t, "-redis", cluster.Nodes()[1].Addr()) {
		got = append(got, name)
	}
	slices.Sort(got)
	require.Equal(t, want, got)
}

func TestLsOnAQuorum(t *testing.T) {
	t.Parallel()
	var flags []string
	var nodes []*redistest.Server
	for range 3 {
		nodes = append(nodes, redistest.Start(t))
		flags = append(flags, "-redis", nodes[len(nodes)-1].Addr())
	}
	// Two of three keep it for one owner, the third for another.
	for i, srv := range nodes {
		owner := javaOwner
		if i == 2 {
			owner = "0" + javaOwner[1:]
		}
		srv.Do("HSET", "orders", owner, "1", "relock:vote", "1800000000000000:1")
		srv.Do("PEXPIRE", "orders", fmt.Sprint(100_000*(i+1)))
	}
	got := listed(t, flags...)["orders"]
	require.True(t, got.Held)
	require.Equal(t, javaOwner, got.Holder)
	require.Equal(t, 2, got.Nodes)
	require.InDelta(t, 100_000, got.TTL, 50_000, "it is kept as long as two keep it")

	nodes[0].Kill()
	got = listed(t, flags...)["orders"]
	require.False(t, got.Held)
	require.Equal(t, 1, got.Nodes)
	require.Contains(t, relockRun(append([]string{"inspect", "orders"}, flags...)...).out, "nobody; 1 nodes keep it for ")
	nodes[1].Kill()
	require.Equal(t, statusBroken, relockRun(append([]string{"ls"}, flags...)...).status)
}

// A user who may only read sees all, and changes nothing.
func TestReadOnlyUser(t *testing.T) {
	srv := redistest.Start(t)
	srv.AddUser("watcher", "pw", "~*", "+@read")
	locks := other(t, srv)
	held(t, locks, "orders")
	waiting(t, other(t, srv), "orders")
	flags := []string{"-redis", "redis://watcher:pw@" + srv.Addr()}
	require.Equal(t, 1, listed(t, flags...)["orders"].Waiters)
	got := relockRun(append([]string{"inspect", "orders"}, flags...)...)
	require.Equal(t, statusOK, got.status, got.err)
	require.Contains(t, got.out, "waiters   1\n")
	got = relockRun(append([]string{"unlock", "--force", "-yes", "orders"}, flags...)...)
	require.Equal(t, statusBroken, got.status)
	require.Contains(t, got.err, "NOPERM")
	st, err := locks.Mutex("orders").State(t.Context())
	require.NoError(t, err)
	require.True(t, st.Held)
}

// Where clients say who they are, that is what is shown of holders and waiters.
func TestHoldersByName(t *testing.T) {
	host, _ := os.Hostname()
	who := fmt.Sprintf("billing on %s (pid %d)", host, os.Getpid())
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			var rdbs []rueidis.Client
			var flags []string
			for range nodes {
				srv := redistest.Start(t)
				srv.AddUser("watcher", "pw", "~*", "+@read")
				rdbs, flags = append(rdbs, srv.Client()), append(flags, "-redis", "redis://watcher:pw@"+srv.Addr())
			}
			access := &access{rdbs: rdbs}
			named, err := access.locks(relock.WithClientName("billing"))
			require.NoError(t, err)
			t.Cleanup(named.Close)
			other, err := access.locks()
			require.NoError(t, err)
			t.Cleanup(other.Close)
			held(t, named, "orders")
			held(t, other, "bills")
			waiting(t, named, "bills")
			require.Eventually(t, func() bool { return listed(t, flags...)["orders"].By != nil }, patience, 10*time.Millisecond)
			got := listed(t, flags...)
			by := got["orders"].By
			require.Equal(t, seenClient{Name: "billing", Host: host, PID: os.Getpid(), Started: by.Started, Version: by.Version}, *by)
			require.Regexp(t, `^`+named.ID()+`:1\d{16}$`, got["orders"].Holder)
			require.Nil(t, got["bills"].By)

			show := func(args ...string) string { return relockRun(append(args, flags...)...).out }
			require.Regexp(t, `(?m)^orders +relock +`+regexp.QuoteMeta(who)+` +1 `, show("ls"))
			require.Regexp(t, `(?m) orders +`+regexp.QuoteMeta(who)+`$`, show("top", "-once"))
			require.Contains(t, show("inspect", "orders"), "holder    "+who+"\n")
			require.Regexp(t, `(?m)^owner     `+named.ID()+`:1\d{16}$`, show("inspect", "orders"))
			var l seenLock
			require.NoError(t, json.Unmarshal([]byte(show("inspect", "-json", "bills")), &l))
			require.Equal(t, "billing", l.Queue[0].By.Name)
		})
	}
}

// Readers, writers and waiters of a read-write lock are shown by their clients' names, and its queue says who waits to
// read and who to write.
func TestReadWriteByName(t *testing.T) {
	srv := redistest.Start(t)
	access := &access{rdbs: []rueidis.Client{srv.Client()}}
	client := func(name string) *relock.RWMutex {
		locks, err := access.locks(relock.WithClientName(name))
		require.NoError(t, err)
		t.Cleanup(locks.Close)
		return locks.RWMutex("orders")
	}
	for _, name := range []string{"a", "b"} {
		_, err := client(name).RLock(t.Context())
		require.NoError(t, err)
	}
	show := func(args ...string) string { return relockRun(append(args, "-redis", srv.Addr())...).out }
	inspected := func() (l seenLock) {
		require.NoError(t, json.Unmarshal([]byte(show("inspect", "-json", "orders")), &l))
		return l
	}
	writes, reads := client("writes"), client("reads")
	go func() { _, _ = writes.Lock(t.Context()) }()
	require.Eventually(t, func() bool { return inspected().Waiters == 1 }, patience, 10*time.Millisecond)
	go func() { _, _ = reads.RLock(t.Context()) }()
	said := func() string {
		l, text := inspected(), ""
		for _, r := range l.Readers {
			text += r.By.name() + " "
		}
		for _, p := range l.Queue {
			text += p.By.name() + ":" + p.Side + " "
		}
		return text
	}
	require.Eventually(t, func() bool { return said() == "a b writes:write reads:read " }, patience, 10*time.Millisecond)
	host, _ := os.Hostname()
	who := fmt.Sprintf(" on %s (pid %d)", host, os.Getpid())
	require.Regexp(t, `(?m)^orders +relock read +a`+regexp.QuoteMeta(who)+` and 1 more +2 `, show("ls"))
	require.Regexp(t, `(?m) orders +a`+regexp.QuoteMeta(who)+` and 1 more$`, show("top", "-once"))
	text := show("inspect", "orders")
	require.Contains(t, text, "holder    a"+who+" and 1 more\n")
	require.Contains(t, text, "reader    a"+who+"\nreader    b"+who+"\n")
}

// name is that of a client, "" for one that is not known.
func (c *seenClient) name() string {
	if c == nil {
		return ""
	}
	return c.Name
}

func TestInspectJSON(t *testing.T) {
	srv := redistest.Start(t)
	first, second := other(t, srv), other(t, srv)
	lease := held(t, first, "orders")
	waiting(t, second, "orders")
	got := relockRun("inspect", "-json", "-redis", srv.Addr(), "orders")
	require.Equal(t, statusOK, got.status, got.err)
	var l seenLock
	require.NoError(t, json.Unmarshal([]byte(got.out), &l))
	require.Equal(t, lease.Token(), l.Token)
	require.GreaterOrEqual(t, l.Last, l.Token)
	require.Equal(t, []seenPlace{{Client: second.ID(), Owner: second.ID() + ":1", Waited: l.Queue[0].Waited}}, l.Queue)

	got = relockRun("inspect", "-json", "-redis", srv.Addr(), "free")
	require.JSONEq(t, `{"name": "free", "held": false, "count": 0, "ttl_ms": 0, "waiters": 0}`, got.out)
}

func TestUnlock(t *testing.T) {
	srv := redistest.Start(t)
	locks := other(t, srv)
	lease := held(t, locks, "orders")
	unlock := func(answer string, args ...string) result {
		var out, errs safeBuffer
		std := stdio{in: strings.NewReader(answer), out: &out, err: &errs}
		status := run(std, append([]string{"unlock", "-redis", srv.Addr()}, args...))
		return result{status, out.String(), errs.String()}
	}
	got := unlock("y\n", "orders")
	require.Equal(t, statusUsage, got.status)
	require.Contains(t, got.err, "say --force")
	for _, answer := range []string{"", "n\n", "\n", "yup\n"} {
		got := unlock(answer, "--force", "orders")
		require.Equal(t, statusFailed, got.status)
		require.Regexp(t, `Free "orders", held by `+locks.ID()+`:1\d{16} for `, got.err)
		require.Contains(t, got.err, `"orders" was left as it is`)
	}
	require.NoError(t, lease.Context().Err())
	require.Equal(t, "freed \"orders\"\n", unlock("y\n", "-force", "orders").out)
	<-lease.Context().Done()
	require.Equal(t, result{out: "nobody holds \"orders\"\n"}, unlock("", "--force", "orders"))
	require.Equal(t, result{out: "nobody holds \"orders\"\n"}, unlock("", "--force", "-yes", "orders"))
	held(t, locks, "orders")
	require.Equal(t, result{out: "freed \"orders\"\n"}, unlock("", "--force", "-y", "orders"))
	require.Equal(t, statusUsage, unlock("", "--force", "-y", "a{}").status)
}
