//go:build unix

package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/integration/faultproxy"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

const analysisLease = time.Second

// fencedStore is the resource that the lock protects: it refuses a write whose token is lower than one it has seen.
type fencedStore struct{ server *redistest.Server }

var fencedWrite = []string{"EVAL", `
if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'by', ARGV[2])
return 1`, "1", "row"}

func (s fencedStore) write(token, by string) bool {
	return s.server.Do(append(fencedWrite, token, by)...) == "1"
}

var guarded = relock.WithRestartGuard(analysisLease)

// quorumOf returns a client over servers, each reached through a line of its own.
func quorumOf(t *testing.T, guard relock.ClientOption, servers []*redistest.Server) (*relock.Client, []*faultproxy.Proxy) {
	t.Helper()
	var nodes []rueidis.Client
	var lines []*faultproxy.Proxy
	for _, s := range servers {
		p := faultproxy.New(t, s.Addr())
		rdb, err := rueidis.NewClient(through(s.Option(), p))
		require.NoError(t, err)
		t.Cleanup(rdb.Close)
		nodes, lines = append(nodes, rdb), append(lines, p)
	}
	c, err := relock.NewRedlock(nodes, relock.WithLease(analysisLease), guard)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	t.Cleanup(func() { heal(lines) })
	return c, lines
}

func fiveNodes(t *testing.T) (all []*redistest.Server) {
	for range 5 {
		all = append(all, redistest.Start(t))
	}
	return all
}

func lockOn(t *testing.T, c *relock.Client) *relock.Lease {
	t.Helper()
	l, err := c.Mutex("orders").Lock(t.Context())
	require.NoError(t, err)
	return l
}

// supersede lets a second holder write, and checks that the store refuses the first one's write that comes after.
func supersede(t *testing.T, store fencedStore, stale, next *relock.Lease) {
	t.Helper()
	require.Greater(t, next.Token(), stale.Token())
	require.True(t, store.write(itoa(next.Token()), "second"))
	require.False(t, store.write(itoa(stale.Token()), "first"), "the stale write")
	require.Equal(t, "second", store.server.Do("HGET", "row", "by"))
}

// A client stops after it acquired, for longer than its lease, and writes when it goes on.
func TestKleppmannStoppedHolder(t *testing.T) {
	begin(t)
	nodes, store := fiveNodes(t), fencedStore{redistest.Start(t)}
	j := job{Lease: analysisLease, Quorum: &quorumJob{Longest: analysisLease}}
	for _, s := range nodes {
		j.Addrs = append(j.Addrs, s.Addr())
	}
	jl := newJournal()
	w := startWorker(t, jl, 1, j)
	w.order("lock orders")
	stale := jl.await(t, soon, 0, "the grant", kind(granted, "orders"))
	require.True(t, store.write(itoa(stale.token), "first"))
	w.pause()
	second, _ := quorumOf(t, guarded, nodes)
	next := lockOn(t, second)
	require.True(t, store.write(itoa(next.Token()), "second"))
	resumed := now()
	w.resume()
	jl.await(t, soon, resumed, "the loss", kind(lost, "orders"))
	require.False(t, store.write(itoa(stale.token), "first"), "the stale write")
	require.Equal(t, "second", store.server.Do("HGET", "row", "by"))
	require.NoError(t, next.Unlock(t.Context()))
	finish(t, w)
}

// The write itself is held up in the network until the lock is somebody else's.
func TestKleppmannLateWrite(t *testing.T) {
	begin(t)
	nodes, store := fiveNodes(t), fencedStore{redistest.Start(t)}
	road := faultproxy.New(t, store.server.Addr())
	rdb, err := rueidis.NewClient(through(store.server.Option(), road))
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	first, _ := quorumOf(t, guarded, nodes)
	second, _ := quorumOf(t, guarded, nodes)
	stale := lockOn(t, first)
	road.Stall()
	answer := make(chan rueidis.RedisResult, 1)
	go func() {
		words := append(fencedWrite[:len(fencedWrite):len(fencedWrite)], itoa(stale.Token()), "first")
		answer <- rdb.Do(t.Context(), rdb.B().Arbitrary(words...).Build())
	}()
	require.NoError(t, stale.Unlock(t.Context()))
	next := lockOn(t, second)
	require.True(t, store.write(itoa(next.Token()), "second"))
	road.Heal()
	got, err := (<-answer).AsInt64()
	require.NoError(t, err)
	require.Zero(t, got, "the stale write")
	require.NoError(t, next.Unlock(t.Context()))
}

// The first holder has three nodes. The clock of one of them jumps ahead, which ends the lease there; the second gets
// that node and the two others. The lock is held twice, the tokens tell who came later.
func TestKleppmannClockJump(t *testing.T) {
	begin(t)
	ordinary := fiveNodes(t)[:4]
	jumpy, jump := startJumpy(t)
	nodes := append(ordinary, jumpy)
	first, lines := quorumOf(t, relock.WithoutRestartGuard(), nodes)
	second, _ := quorumOf(t, relock.WithoutRestartGuard(), nodes)
	require.NoError(t, first.Mutex("warm").Do(t.Context(), nothing))
	lines[0].Cut()
	lines[1].Cut()
	stale := lockOn(t, first) // on nodes 3, 4 and 5
	for _, p := range lines {
		p.Cut() // so that it cannot renew
	}
	jump(time.Minute)
	next := lockOn(t, second)
	require.NoError(t, stale.Context().Err(), "two holders: the model's assumption on clocks is violated")
	supersede(t, fencedStore{redistest.Start(t)}, stale, next)
	require.NoError(t, next.Unlock(t.Context()))
}

// With the restart guard a node whose clock is off does not count: the second holder waits for the first one's leases.
func TestKleppmannClockJumpGuarded(t *testing.T) {
	begin(t)
	ordinary := fiveNodes(t)[:4]
	jumpy, jump := startJumpy(t)
	nodes := append(ordinary, jumpy)
	first, lines := quorumOf(t, guarded, nodes)
	second, _ := quorumOf(t, guarded, nodes)
	require.NoError(t, first.Mutex("warm").Do(t.Context(), nothing))
	lines[0].Cut()
	lines[1].Cut()
	stale := lockOn(t, first) // on nodes 3, 4 and 5
	for _, p := range lines {
		p.Cut() // so that it cannot renew
	}
	jump(time.Minute)
	next := lockOn(t, second)
	require.Error(t, stale.Context().Err(), "one holder")
	require.Greater(t, next.Token(), stale.Token())
	require.NoError(t, next.Unlock(t.Context()))
}

// startJumpy starts a server whose wall clock can be set ahead by seconds.
func startJumpy(t *testing.T) (s *redistest.Server, jump func(time.Duration)) {
	t.Helper()
	usual := os.Getenv(redistest.ServerEnv)
	jump = clockOf(t)
	defer t.Setenv(redistest.ServerEnv, usual)
	return redistest.Start(t), jump
}

// clockOf gives the servers that the test starts from now on a wall clock of their own, which jump sets ahead.
func clockOf(t *testing.T) (jump func(time.Duration)) {
	t.Helper()
	dir := t.TempDir()
	library, ahead := filepath.Join(dir, "clock.so"), filepath.Join(dir, "ahead")
	out, err := exec.Command("cc", "-shared", "-fPIC", "-o", library, filepath.Join("testdata", "clock.c")).CombinedOutput()
	require.NoError(t, err, "a C compiler is needed to move a server's clock: %s", out)
	program := os.Getenv(redistest.ServerEnv)
	if program == "" {
		program = "redis-server"
	}
	script := "#!/bin/sh\nLD_PRELOAD=" + library + " RELOCK_CLOCK_FILE=" + ahead + " exec " + program + " \"$@\"\n"
	wrapper := filepath.Join(dir, "redis-server")
	require.NoError(t, os.WriteFile(wrapper, []byte(script), 0o700))
	t.Setenv(redistest.ServerEnv, wrapper)
	return func(d time.Duration) {
		require.NoError(t, os.WriteFile(ahead, []byte(strconv.FormatInt(d.Microseconds(), 10)), 0o600))
	}
}

// A node that granted crashes before it wrote to disk. The guard keeps it out until the first holder's lease is over.
func TestKleppmannAmnesia(t *testing.T) {
	begin(t)
	nodes := fiveNodes(t)
	first, lines := quorumOf(t, guarded, nodes)
	second, _ := quorumOf(t, guarded, nodes)
	require.NoError(t, first.Mutex("warm").Do(t.Context(), nothing))
	lines[0].Cut()
	lines[1].Cut()
	stale := lockOn(t, first) // on nodes 3, 4 and 5
	for _, p := range lines {
		p.Cut()
	}
	nodes[4].RestartEmpty()
	next := lockOn(t, second)
	require.Error(t, stale.Context().Err(), "no two holders")
	supersede(t, fencedStore{redistest.Start(t)}, stale, next)
	require.NoError(t, next.Unlock(t.Context()))
}

// pauseBeforeGrants orders a lock and stops the worker when a node has granted it but the answer is on its way. Should
// this machine be too slow for that once, it tries again.
func pauseBeforeGrants(t *testing.T, jl *journal, w *worker, node *redistest.Server) {
	t.Helper()
	for range 10 {
		ordered := now()
		w.order("lock orders")
		taken := func() bool { return node.Do("EXISTS", "orders") == "1" }
		require.Eventually(t, taken, soon, 2*time.Millisecond)
		w.pause()
		e, early := jl.last(granted, ordered)
		if !early {
			return
		}
		w.resume()
		w.order("unlock orders")
		jl.await(t, soon, e.at, "the unlock", kind(unlocked, "orders"))
		require.Eventually(t, func() bool { return !taken() }, soon, 2*time.Millisecond)
	}
	t.Fatal("the worker is never stopped in time")
}

func nothing(context.Context) error { return nil }

func itoa(token int64) string { return strconv.FormatInt(token, 10) }

// A client stops while the grants are on their way to it, and reads them when its lease there is over and somebody else
// has held the lock: it believes none of them, so there is no token to write with until it is granted the lock again.
func TestKleppmannStoppedBeforeTheGrants(t *testing.T) {
	begin(t)
	nodes := fiveNodes(t)
	const lease = 8 * time.Second
	jl, store := newJournal(), fencedStore{redistest.Start(t)}
	j := job{Lease: lease, Quorum: &quorumJob{Longest: lease}}
	var lines []*faultproxy.Proxy
	for _, s := range nodes {
		lines = append(lines, faultproxy.New(t, s.Addr()))
		j.Addrs = append(j.Addrs, lines[len(lines)-1].Addr())
	}
	w := startWorker(t, jl, 1, j)
	w.order("lock warm")
	jl.await(t, soon, 0, "a first grant", kind(granted, "warm"))
	for _, p := range lines {
		p.Latency(150 * time.Millisecond)
	}
	pauseBeforeGrants(t, jl, w, nodes[4])
	stopped := now()
	var direct []rueidis.Client
	for _, s := range nodes {
		direct = append(direct, s.Client())
	}
	second, err := relock.NewRedlock(direct, relock.WithLease(lease), relock.WithRestartGuard(lease))
	require.NoError(t, err)
	t.Cleanup(second.Close)
	next := lockOn(t, second)
	heal(lines)
	w.resume()
	require.True(t, store.write(itoa(next.Token()), "second"))
	require.NoError(t, next.Context().Err())
	_, believed := jl.last(granted, stopped)
	require.False(t, believed, "nothing to write with")
	released := now()
	require.NoError(t, next.Unlock(t.Context()))
	late := jl.await(t, soon, released, "its own grant", kind(granted, "orders"))
	require.Greater(t, late.token, next.Token())
	finish(t, w)
}
