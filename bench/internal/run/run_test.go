package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/bench/internal/peer"
	"github.com/relock-go/relock/bench/internal/results"
	"github.com/relock-go/relock/bench/internal/worker"
	"github.com/relock-go/relock/internal/redistest"
)

// TestMain lets the test binary be its own worker.
func TestMain(m *testing.M) {
	if os.Getenv(worker.Env) == "" {
		os.Exit(m.Run())
	}
	if err := worker.Serve(os.Stdin, os.Stdout, specs()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// specs are the peers of the bench and some that fail.
func specs() []peer.Spec {
	return append(peer.All(),
		leakySpec(),
		peer.Spec{Name: "stuck", Open: func(peer.Env) (peer.Peer, error) { return stuck{}, nil }},
		peer.Spec{Name: "mute", Open: func(peer.Env) (peer.Peer, error) { select {} }},
		peer.Spec{Name: "dying", Open: func(peer.Env) (peer.Peer, error) { panic("out of sorts") }},
		peer.Spec{Name: "refusing", Open: func(peer.Env) (peer.Peer, error) { return nil, errors.New("not today") }},
	)
}

// leaky is a semaphore in which the first permit that a process takes stays its own for an hour.
type leaky struct {
	peer.Peer
	first peer.Peer
	taken atomic.Bool
}

func leakySpec() peer.Spec {
	all := peer.All()
	s := all[slices.IndexFunc(all, func(s peer.Spec) bool { return s.Name == "zset" })]
	zset := s.Open
	s.Name = "leaky"
	s.Open = func(e peer.Env) (peer.Peer, error) {
		short, err := zset(e)
		if err != nil {
			return nil, err
		}
		e.Lease = time.Hour
		long, err := zset(e)
		return &leaky{Peer: short, first: long}, err
	}
	return s
}

func (p *leaky) Acquire(ctx context.Context, key string, n, k int) (peer.Held, error) {
	of := p.Peer
	if !p.taken.Swap(true) {
		of = p.first
	}
	return of.(peer.Semaphores).Acquire(ctx, key, n, k)
}

// stuck is a lock whose Lock does not come back, whatever becomes of its context.
type stuck struct{}

func (stuck) Lock(context.Context, string) (peer.Held, error) { select {} }
func (stuck) Close()                                          {}

func config(t *testing.T, scenario, match string, peers ...string) Config {
	self, err := os.Executable()
	require.NoError(t, err)
	return Config{
		Quick: true, Scenarios: strings.Split(scenario, ","), Match: match, Peers: peers, For: time.Second, Rounds: 2,
		Worker: []string{self}, Specs: specs(),
	}
}

// measureAll runs a bench. What it measures depends on how busy the machine is, which the short tests do without.
func measureAll(t *testing.T, cfg Config) *results.Run {
	if testing.Short() {
		t.Skip("measures")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // the bench of another commit is built
	defer cancel()
	r, err := Run(ctx, cfg)
	require.NoError(t, err)
	return r
}

func resultOf(t *testing.T, r *results.Run, name string) results.Result {
	for _, res := range r.Results {
		if res.Peer == name {
			return res
		}
	}
	t.Fatalf("no result of %s among %d", name, len(r.Results))
	return results.Result{}
}

func TestBrokenLockIsCaught(t *testing.T) {
	r := measureAll(t, config(t, "hot-local,hot-processes", "8 ", "none", "spin"))
	found := 0
	for _, res := range r.Results {
		switch res.Peer {
		case "none":
			require.Positive(t, res.Overlaps, res.Cell())
			require.True(t, res.Broken())
			found++
		case "spin":
			require.Zero(t, res.Overlaps, res.Cell())
			require.Positive(t, res.Acquisitions, res.Cell())
		}
	}
	require.Equal(t, 2, found, "within a process and across processes")
}

// Semaphores are measured with those that have them, and nothing else with peers that have nothing else.
func TestSemaphoresAreApart(t *testing.T) {
	for _, c := range append(fullCells(0), quickCells(0)...) {
		mutex := peer.Spec{Name: "mutex", Keeps: true, Reentrant: true, Quorum: true, Cluster: true, Several: true, AnyOf: true}
		require.NotEqual(t, c.scenario == "semaphore", c.takes(mutex), c.title())
		only := peer.Spec{Name: "only", Semaphore: true, Weighted: true, NoMutex: true}
		require.Equal(t, c.scenario == "semaphore", c.takes(only), c.title())
		only.Weighted = false
		require.Equal(t, c.scenario == "semaphore" && c.params.Weights == 0, c.takes(only), c.title())
	}
}

// Several locks are measured with those that take them together, or any one of them.
func TestSeveralLocksAreApart(t *testing.T) {
	for _, c := range append(fullCells(0), quickCells(0)...) {
		if c.scenario == "several" {
			require.False(t, c.takes(peer.Spec{Name: "mutex"}), c.title())
			require.Equal(t, c.params.Together > 0, c.takes(peer.Spec{Name: "all", Several: true}), c.title())
			require.Equal(t, c.params.Together == 0, c.takes(peer.Spec{Name: "any", AnyOf: true}), c.title())
		}
	}
}

func TestTwoHoldersOfOneOfSeveralLocksAreCaught(t *testing.T) {
	cfg := config(t, "several", "8 processes", "none", "relock", "redislock")
	cfg.Rounds = 1
	r := measureAll(t, cfg)
	require.Len(t, r.Cells(), 2, "all and any")
	for _, res := range r.Results {
		if res.Peer == "none" {
			require.Positive(t, res.Overlaps, res.Cell())
			continue
		}
		require.Empty(t, res.Error, res.Cell()+" "+res.Peer)
		require.Zero(t, res.Overlaps, res.Cell()+" "+res.Peer)
		require.Positive(t, res.Acquisitions, res.Cell()+" "+res.Peer)
	}
}

func TestTooManyHoldersOfASemaphoreAreCaught(t *testing.T) {
	cfg := config(t, "semaphore", "1 goroutine", "none", "zset")
	cfg.Rounds = 1
	r := measureAll(t, cfg)
	require.Len(t, r.Cells(), 2, "with weights and without")
	for _, res := range r.Results {
		switch res.Peer {
		case "none":
			require.Positive(t, res.Overlaps, res.Cell())
			require.Contains(t, results.Trouble(&res), "HELD MORE THAN 4")
		case "zset":
			require.Zero(t, res.Overlaps, res.Cell())
			require.Positive(t, res.Acquisitions, res.Cell())
			require.Equal(t, res.Params.Weights > 0, res.PassedMost != nil && *res.PassedMost > 0, "it lets small ones pass")
		}
	}
}

func TestPermitsOfAKilledProcessAreCounted(t *testing.T) {
	cfg := config(t, "semaphore", "killed", "leaky", "zset", "relock")
	r := measureAll(t, cfg)
	for _, res := range r.Results {
		require.Empty(t, res.Error, res.Peer)
		require.Zero(t, res.Overlaps, res.Peer)
		require.Positive(t, res.Recover.P50, res.Peer)
		want := int64(0)
		if res.Peer == "leaky" {
			want = 1
		}
		require.Equal(t, want, *res.Lost, res.Peer)
	}
	require.Len(t, r.Results, 3)
}

func TestPassedAreCounted(t *testing.T) {
	var p passed
	p.add(0, []worker.Reply{{}, {Counts: []int64{1}}})
	require.False(t, p.seen)
	// One waits from 0 to 100 in an empty line, and two that came later pass it. Those wait behind it, and no waiter passes them.
	p.add(0, []worker.Reply{{Arrived: []int64{10, 0}, Granted: []int64{20, 100}}, {Arrived: []int64{30}, Granted: []int64{40}}})
	require.Equal(t, passed{seen: true, most: 2, over: 1}, p)
	// Behind two in line, one may be passed by two, not by three.
	p = passed{}
	line := worker.Reply{Arrived: []int64{0, 1, 2, 3, 4}, Granted: []int64{10, 10, 50, 20, 30}}
	p.add(0, []worker.Reply{line})
	require.Equal(t, passed{seen: true, most: 2}, p)
	p = passed{}
	p.add(3, []worker.Reply{line})
	require.Equal(t, passed{seen: true}, p, "only those from then on are judged")
	p = passed{}
	p.add(0, []worker.Reply{line, {Arrived: []int64{31}, Granted: []int64{32}}})
	require.Equal(t, passed{seen: true, most: 3, over: 1}, p)
}

func TestOverheadIsMeasured(t *testing.T) {
	r := measureAll(t, config(t, "uncontended", "", "spin"))
	require.Positive(t, r.Machine.OverheadNS)
	require.Less(t, r.Machine.OverheadNS, 1e6)
	var out bytes.Buffer
	r.Table(&out)
	require.Contains(t, out.String(), "the bench itself costs")
}

func TestHangingPeerIsReportedAndTheRunGoesOn(t *testing.T) {
	r := measureAll(t, config(t, "hot-local", "8 goroutines", "stuck", "dying", "refusing", "spin"))
	require.Contains(t, resultOf(t, r, "stuck").Error, "hung: 8 goroutines")
	require.Contains(t, resultOf(t, r, "dying").Error, "out of sorts")
	require.Contains(t, resultOf(t, r, "refusing").Error, "not today")
	require.Positive(t, resultOf(t, r, "spin").Acquisitions)
}

func TestWorkerThatDoesNotAnswerIsKilled(t *testing.T) {
	cfg := config(t, "hot-local", "")
	p, err := start(cfg.Worker)
	require.NoError(t, err)
	defer p.kill()
	path := t.TempDir() + "/board"
	require.NoError(t, os.WriteFile(path, make([]byte, 4096), 0o600))
	_, err = p.ask(context.Background(), worker.Request{Do: worker.Open, Peer: "mute", Board: path}, 200*time.Millisecond)
	require.ErrorIs(t, err, errHung)
	require.False(t, p.alive())
}

func TestFiguresOfAFreeLock(t *testing.T) {
	r := measureAll(t, config(t, "uncontended", "", "relock", "redsync"))
	for _, name := range []string{"relock", "redsync", "raw"} {
		res := resultOf(t, r, name)
		require.Empty(t, res.Error, name)
		require.InDelta(t, 2, *res.CmdsPerAcq, 0.2, name)
		require.Greater(t, *res.CallsPerAcq, *res.CmdsPerAcq, "%s: its scripts call commands too", name)
		require.Positive(t, *res.RedisCPU, name)
		require.Positive(t, *res.ClientCPU, name)
		require.Positive(t, *res.AllocsPerAcq, name)
		require.Equal(t, 2, res.Rounds, name)
		require.Greater(t, res.Pair.P50, res.Wait.P50, name)
		require.LessOrEqual(t, res.Spread["throughput"][0], *res.AcqPerS, name)
		require.GreaterOrEqual(t, res.Spread["throughput"][1], *res.AcqPerS, name)
	}
}

func TestLongHolds(t *testing.T) {
	cfg := config(t, "idle-waiters,watchdog,crash,reentry", "", "relock", "spin")
	cfg.Hold = 3 * time.Second // the leases are twice as long: long enough on a machine that is busy
	r := measureAll(t, cfg)
	for _, res := range r.Results {
		require.Empty(t, res.Error, res.Cell()+" "+res.Peer)
		require.Zero(t, res.Overlaps, res.Cell()+" "+res.Peer)
		switch {
		case res.Scenario == "idle-waiters" && res.Peer == "relock":
			require.LessOrEqual(t, *res.CmdsTotal, int64(10))
			require.Positive(t, *res.PerWaiter)
		case res.Scenario == "idle-waiters":
			require.Greater(t, *res.CmdsTotal, int64(1000), "spinning")
		case res.Scenario == "watchdog":
			require.Zero(t, *res.Lost)
			require.Positive(t, *res.CmdsPer100)
		case res.Params.Crash == "holder":
			require.Positive(t, res.Recover.P50)
			require.Less(t, res.OverLease.Max, 1e6)
		}
	}
	require.Len(t, r.Results, 2+1+4+2)
}

func TestForeignDataIsRefused(t *testing.T) {
	s := redistest.Start(t)
	s.Do("SET", "orders:1", "mine")
	s.Do("SET", keyPrefix+"old", "the bench's")
	cfg := config(t, "uncontended", "", "spin")
	cfg.Redis = "redis://" + s.Addr()
	_, err := Run(context.Background(), cfg)
	require.ErrorIs(t, err, ErrForeign)
	require.ErrorContains(t, err, "orders:1")
	require.Equal(t, "mine", s.Do("GET", "orders:1"))

	s.Do("DEL", "orders:1")
	r := measureAll(t, cfg)
	require.Positive(t, resultOf(t, r, "spin").Acquisitions)
	require.Equal(t, "0", s.Do("DBSIZE"), "nothing is left behind")
}

func TestRedisThatIsNotThere(t *testing.T) {
	for url, want := range map[string]error{"redis://127.0.0.1:1": ErrUnreachable, "nowhere": nil} {
		cfg := config(t, "uncontended", "", "spin")
		cfg.Redis = url
		_, err := Run(context.Background(), cfg)
		require.ErrorContains(t, err, url)
		if want != nil {
			require.ErrorIs(t, err, want)
		}
	}
}

func TestEmbeddedRedisIsForALook(t *testing.T) {
	t.Setenv(redistest.ServerEnv, "/nowhere/redis-server")
	r := measureAll(t, config(t, "uncontended", "", "relock", "redsync", "rueidislock"))
	for _, name := range []string{"relock", "redsync", "rueidislock"} {
		require.Positive(t, resultOf(t, r, name).Acquisitions, name)
	}
	require.Contains(t, strings.Join(r.Notes, "\n"), "for a look only")
}

func TestUnknownNames(t *testing.T) {
	for _, c := range []struct{ scenario, match, peer, want string }{
		{"hot-locl", "", "spin", `did you mean "hot-local"?`},
		{"hot-local", "", "redsnc", `did you mean "redsync"?`},
		{"hot-local", "9000 goroutines", "spin", "hot-local 64 goroutines"},
	} {
		_, err := Run(context.Background(), config(t, c.scenario, c.match, c.peer))
		require.ErrorContains(t, err, c.want)
	}
}

func TestQuorumOutlivesHungNode(t *testing.T) {
	r := measureAll(t, config(t, "redlock", "8 processes", "relock", "redsync", "spin"))
	healthy, hung := r.Cells()[0], r.Cells()[1]
	require.Len(t, healthy, 3, "relock, redsync and one node to compare with")
	require.Len(t, hung, 2)
	for _, res := range slices.Concat(healthy, hung) {
		require.Empty(t, res.Error, res.Peer)
		require.Zero(t, res.Overlaps, res.Peer)
		require.Equal(t, 5, res.Params.Nodes)
	}
	for _, res := range healthy {
		require.Positive(t, res.Acquisitions, res.Peer)
		require.Positive(t, *res.CallsPerAcq, res.Peer)
	}
	require.InEpsilon(t, *healthy[0].CmdsPerAcq/5, *healthy[0].CmdsPerNode, 0.001)
	one := healthy[2]
	require.True(t, one.Baseline)
	require.InEpsilon(t, *one.CmdsPerAcq, *one.CmdsPerNode, 0.001)
	relock, redsync := hung[0], hung[1]
	require.Equal(t, 1, relock.Params.Hung)
	require.Greater(t, relock.Acquisitions, 10*redsync.Acquisitions, "redsync waits for every node")
}

func TestQuorumWithoutServers(t *testing.T) {
	t.Setenv(redistest.ServerEnv, "/nowhere/redis-server")
	r := measureAll(t, config(t, "redlock", "", "relock"))
	require.Empty(t, r.Results)
	require.Contains(t, strings.Join(r.Notes, "\n"), "redlock left out")
}

func TestCachesTakePartWhereALockMayStay(t *testing.T) {
	keeper := peer.Spec{Name: "keeper", Cached: true, Quorum: true, Cluster: true, Keeps: true, Reentrant: true}
	for _, c := range append(fullCells(0), quickCells(0)...) {
		want := c.scenario == "cached" || c.scenario == "giving-way" || c.scenario == "rw"
		require.Equal(t, want, c.takes(keeper), c.title())
		simple := c.takes(peer.Spec{Name: "simple", Keeps: true, Reentrant: true, Semaphore: true, Weighted: true, Several: true, AnyOf: true})
		require.Equal(t, c.params.Nodes == 0 && c.params.Masters == 0, simple, c.title())
	}
}

func TestManyKeysOnACluster(t *testing.T) {
	cfg := config(t, "many-keys", "3 masters", "relock", "redsync", "redislock", "rueidislock", "spin", "retry", "etcd")
	cfg.Quick, cfg.For, cfg.Rounds = false, 8*time.Second, 1 // everybody's goroutines need a moment for their first lock
	r := measureAll(t, cfg)
	require.Len(t, r.Cells(), 1)
	cell := r.Cells()[0]
	require.Equal(t, "many-keys 3 masters, 1000 goroutines", cell[0].Cell())
	require.Len(t, cell, 7, "all but etcd, and relock on a single Redis beside them")
	for _, res := range cell {
		require.Empty(t, res.Error, res.Peer)
		require.Zero(t, res.Overlaps, res.Peer)
		require.Positive(t, res.Acquisitions, res.Peer)
		require.Positive(t, *res.CallsPerAcq, "%s: the masters' counters add up", res.Peer)
	}
	require.Equal(t, "one-node", cell[6].Peer)
	require.True(t, cell[6].Baseline)
}

func TestClusterWithoutServers(t *testing.T) {
	t.Setenv(redistest.ServerEnv, "/nowhere/redis-server")
	cfg := config(t, "many-keys", "3 masters", "relock")
	cfg.Quick = false
	r := measureAll(t, cfg)
	require.Empty(t, r.Results)
	require.Contains(t, strings.Join(r.Notes, "\n"), "many-keys on a Cluster left out")
}

func TestGivingWay(t *testing.T) {
	cfg := config(t, "giving-way", "", "relock", "spin")
	cfg.Quick, cfg.For, cfg.Rounds = false, 6*time.Second, 1
	r := measureAll(t, cfg)
	require.Len(t, r.Cells(), 6)
	for _, res := range r.Results {
		require.Empty(t, res.Error, res.Cell()+" "+res.Peer)
		require.NotNil(t, res.Wait, res.Cell()+" "+res.Peer)
		visits := res.Params.Holder != ""
		require.Equal(t, visits, res.AcqPerS == nil, "visits have pauses: nothing can be said per second")
		require.Zero(t, res.Overlaps, res.Cell()+" "+res.Peer)
		require.Positive(t, res.Acquisitions, res.Cell()+" "+res.Peer)
		require.Positive(t, *res.CmdsPerAcq, res.Cell()+" "+res.Peer)
		if visits {
			require.Nil(t, res.Jain, res.Cell())
			require.Contains(t, res.Spread, "wait p99", res.Cell())
		}
		if res.Params.DelayUS > 0 {
			require.Greater(t, res.Wait.P50, 1000.0, "the proxy's delay")
		}
	}
}

func TestVisitsCatchABrokenLock(t *testing.T) {
	cfg := config(t, "giving-way", "busy, 64", "none")
	cfg.Quick, cfg.For, cfg.Rounds = false, 2*time.Second, 1
	require.Positive(t, resultOf(t, measureAll(t, cfg), "none").Overlaps)
}

func TestRelockOfAnotherCommit(t *testing.T) {
	cfg := config(t, "uncontended,crash", "", "relock")
	cfg.Earlier = []string{"HEAD"}
	r := measureAll(t, cfg)
	now, before := resultOf(t, r, "relock"), resultOf(t, r, "relock@HEAD")
	require.Positive(t, now.Acquisitions)
	require.Positive(t, before.Acquisitions)
	require.Empty(t, before.Error)
	require.True(t, before.Baseline, "relock does not compete with itself")
	require.Len(t, before.Version, 10)
	require.Len(t, r.Results, 3+4)
	for _, res := range r.Results {
		require.Empty(t, res.Error, res.Cell()+" "+res.Peer)
	}
}

func TestCommitThatIsNotThere(t *testing.T) {
	cfg := config(t, "uncontended", "", "relock")
	cfg.Earlier = []string{"no-such-ref"}
	_, err := Run(context.Background(), cfg)
	require.ErrorContains(t, err, "relock at no-such-ref: the git repository of the current directory has no such commit")
}

func TestWorkerThatCannotDoIt(t *testing.T) {
	answer := `read line; echo '{"error": "unknown request \"visit\""}'; exec cat`
	p, err := start([]string{"sh", "-c", answer})
	require.NoError(t, err)
	defer p.kill()
	_, err = p.ask(context.Background(), worker.Request{Do: worker.Visit}, time.Minute)
	require.ErrorIs(t, err, errUnknown)
}

// stopper ends a run once it has come to some cell.
type stopper struct {
	at   string
	stop context.CancelFunc
}

func (s stopper) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.at) {
		s.stop()
	}
	return len(p), nil
}

func TestInterruptedRunKeepsWhatItHas(t *testing.T) {
	if testing.Short() {
		t.Skip("measures")
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cfg := config(t, "uncontended,hot-local", "", "spin")
	cfg.Progress = stopper{at: "hot-local 64", stop: cancel}
	r, err := Run(ctx, cfg)
	require.NoError(t, err)
	require.True(t, r.Interrupted)
	require.Positive(t, resultOf(t, r, "spin").Acquisitions)
	for _, res := range r.Results {
		require.NotContains(t, res.Cell(), "hot-local 512")
		require.Empty(t, res.Error)
	}
}

func TestPlanFitsItsTime(t *testing.T) {
	chosen := peer.All()[:7]
	for _, budget := range []time.Duration{time.Minute, 9 * time.Minute} {
		p := plan{cells: fullCells(0), rounds: 3}
		p.fit(chosen, peer.All(), budget)
		if total := p.total(chosen, peer.All()); p.slice > leastSlice {
			require.LessOrEqual(t, total, budget)
		}
	}
}
