package results

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func f(v float64) *float64 { return &v }

func cellOf(results ...Result) []Result {
	for i := range results {
		results[i].Scenario = "hot-local"
	}
	return results
}

func measure(t *testing.T, name string) Measure {
	for _, m := range Measures() {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no measure %s", name)
	return Measure{}
}

func TestWinner(t *testing.T) {
	span := func(lo, hi float64) map[string]Span { return map[string]Span{"throughput": {lo, hi}} }
	cell := cellOf(
		Result{Peer: "none", Baseline: true, AcqPerS: f(900)},
		Result{Peer: "a", AcqPerS: f(100), Spread: span(90, 110)},
		Result{Peer: "b", AcqPerS: f(200), Spread: span(180, 220)},
		Result{Peer: "cheat", AcqPerS: f(500), Overlaps: 1},
		Result{Peer: "hung", AcqPerS: f(600), Error: "hung"},
		Result{Peer: "c", AcqPerS: f(170), Spread: span(150, 185)},
		Result{Peer: "silent"},
	)
	require.Equal(t, []int{2, 5}, measure(t, "throughput").Winner(cell), "c's best round was as good as b's worst")
	cell[5].Spread = span(150, 179)
	require.Equal(t, []int{2}, measure(t, "throughput").Winner(cell))
	require.Contains(t, WinnerLine(cell), "throughput b (1.18× c)")
	require.Nil(t, measure(t, "fairness").Winner(cell), "nobody has it")
	require.Nil(t, measure(t, "throughput").Winner(cell[:2]), "nobody to win against")
	lower := cellOf(Result{Peer: "a", CmdsPerAcq: f(2)},
		Result{Peer: "b", CmdsPerAcq: f(2.4)}, Result{Peer: "c", CmdsPerAcq: f(2.01)})
	require.Equal(t, []int{0, 2}, measure(t, "commands").Winner(lower), "within a percent")
}

func TestTableNamesWinnersAndTrouble(t *testing.T) {
	r := &Run{Results: cellOf(Result{Peer: "a", AcqPerS: f(100)}, Result{Peer: "b", AcqPerS: f(200)},
		Result{Peer: "cheat", AcqPerS: f(900), Overlaps: 3})}
	var out bytes.Buffer
	r.Table(&out)
	require.Contains(t, out.String(), "winner: throughput b (2.00× a)")
	require.Contains(t, out.String(), "cheat: BROKE MUTUAL EXCLUSION: 3 overlaps")
}

func TestFormats(t *testing.T) {
	for us, want := range map[float64]string{
		0.3: "0.3 µs", 2.272: "2.27 µs", 999.7: "1 ms", 18.04: "18 µs", 1234: "1.23 ms",
		99_960: "100 ms", 2_130_000: "2.13 s", -148_000: "-148 ms", 0: "0 µs"} {
		require.Equal(t, want, Micros(us))
	}
	require.Equal(t, "1,234,567", Count(1234567))
	require.Equal(t, "0.004", Decimal(0.004))
	require.Equal(t, "2.00", Decimal(2))
	require.Equal(t, "-1,200", Count(-1200))
}

func TestFileKeepsEverything(t *testing.T) {
	zero := int64(0)
	one := Result{Peer: "a", AcqPerS: f(1), Params: Params{Goroutines: 64, CSMicros: &zero}}
	before := &Run{Schema: Schema, Results: cellOf(one)}
	path := filepath.Join(t.TempDir(), "r.json")
	require.NoError(t, before.Write(path))
	after, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), `"cs_us":0`)
	require.NoError(t, before.Write(path), "over the old one")
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"other.json": `{"schema": 99}`, "text.json": "hello"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Read(path)
		require.ErrorContains(t, err, name)
	}
	_, err := Read(filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestCompare(t *testing.T) {
	run := func(rate, lo, hi float64) *Run {
		return &Run{Results: cellOf(Result{Peer: "a", AcqPerS: f(rate), Spread: map[string]Span{"throughput": {lo, hi}}})}
	}
	var out bytes.Buffer
	require.Equal(t, 1, Compare(&out, run(100, 95, 105), run(150, 140, 160)))
	require.Contains(t, out.String(), "+50.0 % better")
	out.Reset()
	Compare(&out, run(100, 95, 105), run(104, 100, 108))
	require.Contains(t, out.String(), "+4.0 % ~")
	require.Zero(t, Compare(&out, run(1, 1, 1), &Run{}))
}

func TestSummary(t *testing.T) {
	pair := func(scenario string, goroutines int, first, second Result) []Result {
		first.Scenario, second.Scenario = scenario, scenario
		first.Params.Goroutines, second.Params.Goroutines = goroutines, goroutines
		return []Result{first, second}
	}
	peer := func(name string, rate float64) Result { return Result{Peer: name, AcqPerS: f(rate)} }
	baseline := Result{Peer: "raw", Baseline: true, AcqPerS: f(9e9)}
	var all []Result
	for _, cell := range [][]Result{
		pair("hot-local", 1, peer("relock", 100), peer("redsync", 120)),
		pair("reentry", 1, peer("relock", 1000), peer("relock-remote", 1000)), // nobody but one library
		pair("hot-local", 8, peer("relock", 150), peer("redsync", 100)),
		pair("hot-local", 64, peer("relock", 400), peer("redsync", 100)),
		pair("crash", 1, peer("relock", 100), peer("redsync", 100)),
		pair("uncontended", 1, peer("redsync", 9), baseline),
	} {
		all = append(all, cell...)
	}
	r := &Run{Results: all}
	require.Equal(t, []string{"Throughput: relock leads in 2 of 4 cells by a factor of 1.50 to 4.00, " +
		"redsync in 1 (by 1.20), no clear leader in 1."}, r.Summary())
	var told []string
	for _, cells := range r.Scenarios() {
		told = append(told, cells[0][0].Scenario+" "+Headline(cells))
	}
	require.Equal(t, []string{
		"hot-local throughput: relock leads in 2 of 3 cells by a factor of 1.50 to 4.00, redsync in 1 (by 1.20).",
		"reentry ", "crash throughput: no clear leader.", "uncontended ",
	}, told)
	var out bytes.Buffer
	r.Table(&out)
	text := out.String()
	require.Less(t, strings.Index(text, "Throughput: relock leads"), strings.Index(text, "peer "), "on top of the tables")
	require.Empty(t, (&Run{}).Summary())
}

func TestSummaryWithoutAnyLeader(t *testing.T) {
	even := func(goroutines int) []Result {
		cell := cellOf(Result{Peer: "a", AcqPerS: f(5)}, Result{Peer: "b", AcqPerS: f(5)})
		cell[0].Params.Goroutines, cell[1].Params.Goroutines = goroutines, goroutines
		return cell
	}
	r := &Run{Results: append(even(1), even(2)...)}
	require.Equal(t, []string{"Throughput: no clear leader in any of 2 cells."}, r.Summary())
}

func TestChecksOfCachesAndEarlierCommits(t *testing.T) {
	q := func(p50, p99 float64) *Quantiles { return &Quantiles{P50: p50, P99: p99, N: 1} }
	cached := []Result{
		{Scenario: "cached", Peer: "relock-cached", AcqPerS: f(900_000), CmdsPerAcq: f(.001), AllocsPerAcq: f(3)},
		{Scenario: "cached", Peer: "relock", AcqPerS: f(12_000)}, // without commands there is nothing to say
		{Scenario: "cached", Peer: "redislock", AcqPerS: f(15_000)},
		{Scenario: "cached", Peer: "raw", AcqPerS: f(2e4), Baseline: true},
	}
	idle := []Result{{Scenario: "giving-way", Peer: "relock-cached", Params: Params{Holder: "idle", DelayUS: 900},
		Wait: q(1500, 3000)}, {Scenario: "giving-way", Peer: "spin"}}
	beside := []Result{{Scenario: "giving-way", Peer: "relock-cached", Params: Params{Holder: "idle"}, Wait: q(100, 300)},
		{Scenario: "giving-way", Peer: "relock", Params: Params{Holder: "busy"}, Wait: q(80, 150)}}
	turns := []Result{{Scenario: "giving-way", Peer: "relock-cached", Params: Params{Processes: 2}, AcqPerS: f(95)},
		{Scenario: "giving-way", Peer: "relock", Params: Params{Processes: 2}, AcqPerS: f(100)}}
	many := []Result{{Scenario: "many-keys", Peer: "relock", AcqPerS: f(90), WorstBest: f(.95)},
		{Scenario: "many-keys", Peer: "spin", AcqPerS: f(100)}, {Scenario: "many-keys", Peer: "rueidislock", AcqPerS: f(60)}}
	before := []Result{{Scenario: "crash", Peer: "relock", AcqPerS: f(180), Wait: q(9, 50), RedisCPU: f(90)},
		{Scenario: "crash", Peer: "relock@v1", AcqPerS: f(100), Wait: q(10, 100), RedisCPU: f(100), Baseline: true}}
	for want, cell := range map[string][]Result{
		"relock-cached: 60.0 × the acquisitions of redislock, the best of the other peers; " +
			"0.10 commands per 100 acquisitions; 3.00 allocations each": cached,
		"relock-cached: p50 wait is 1.50 and p99 3.00 × a PING's round trip, which takes 1 ms": idle,
		"relock-cached: p50 wait is 1.00 and p99 3.00 × a PING's round trip, which takes 100 µs; " +
			"1.25 × the p50 wait of relock; 2.00 × its p99": beside,
		"relock-cached: 0.95 × the acquisitions of relock": turns,
		"relock: 1.50 × the acquisitions of rueidislock; 0.90 × the acquisitions of spin; " +
			"worst/best worker 0.95": many,
		"relock to relock@v1: 1.80 × the acquisitions; 0.90 × the p50 wait; 0.50 × the p99 wait; " +
			"0.50 × Redis's CPU per acquisition": before,
	} {
		require.Equal(t, []string{want}, (&Run{Machine: Machine{RTTMicros: 100}}).Checks(cell))
	}
}

func TestChecksOfSemaphores(t *testing.T) {
	q := func(p50, p99 float64) *Quantiles { return &Quantiles{P50: p50, P99: p99, Max: p99, N: 1} }
	four := Params{Permits: 4, Processes: 32}
	lost := int64(0)
	processes := []Result{
		{Scenario: "semaphore", Params: four, Peer: "relock", AcqPerS: f(2000), Wait: q(1, 50), WorstBest: f(.95), CmdsPerAcq: f(2)},
		{Scenario: "semaphore", Params: four, Peer: "zset", AcqPerS: f(1600), Wait: q(1, 200)},
		{Scenario: "semaphore", Params: four, Peer: "mutex", AcqPerS: f(500), Baseline: true},
	}
	within := []Result{{Scenario: "semaphore", Peer: "relock", AcqPerS: f(500)}, {Scenario: "semaphore", Peer: "x/sync", AcqPerS: f(1000), Baseline: true}}
	idle := []Result{{Scenario: "semaphore", Peer: "relock", CmdsPerS: f(0), Cmds: map[string]float64{"evalsha": 1}}}
	killed := []Result{{Scenario: "semaphore", Peer: "relock", Rounds: 3, Recover: q(1, 1), OverLease: q(1, 5000), Lost: &lost}}
	for want, cell := range map[string][]Result{
		"relock: 1.25 × the acquisitions of zset, the best of the other peers; 0.25 × its p99 wait; 1.00 × 4 × the mutex; " +
			"worst/best worker 0.95; 2.00 commands per acquisition": processes,
		"relock: 0.50 × x/sync in the process":                                                                 within,
		"relock: 0.00 commands a second while all wait; sent in all: 1 evalsha":                                idle,
		"relock: 3 kills: the next had a permit 5 ms past the lease at most; 0 permits were missing 1 s after": killed,
	} {
		require.Equal(t, []string{want}, (&Run{}).Checks(cell))
	}
}

func TestChecksOfSeveralLocks(t *testing.T) {
	some := []Result{
		{Scenario: "several", Peer: "relock", AcqPerS: f(300), Wait: &Quantiles{P99: 10, N: 1}, CmdsPerAcq: f(5), WorstBest: f(.9)},
		{Scenario: "several", Peer: "redislock", AcqPerS: f(600), Wait: &Quantiles{P99: 40, N: 1}},
		{Scenario: "several", Peer: "one-by-one", AcqPerS: f(150), Baseline: true},
		{Scenario: "several", Peer: "permit", AcqPerS: f(400), Baseline: true},
	}
	require.Equal(t, []string{"relock: 0.50 × the acquisitions of redislock, the best of the other peers; 0.25 × its p99 wait; " +
		"2.00 × the acquisitions of one-by-one; 0.75 × the acquisitions of permit; 5.00 commands per acquisition; " +
		"worst/best worker 0.90"}, (&Run{}).Checks(some))
}

func TestChecks(t *testing.T) {
	q := func(p50, p99 float64) *Quantiles { return &Quantiles{P50: p50, P99: p99, N: 1} }
	ms := int64(1000)
	hot := cellOf(Result{Peer: "relock", AcqPerS: f(300), ShareMin: f(.95), ShareMax: f(1.05)},
		Result{Peer: "redsync", AcqPerS: f(5)}, Result{Peer: "redislock", AcqPerS: f(10)},
		Result{Peer: "spin", AcqPerS: f(20)})
	processes := []Result{{Scenario: "hot-processes", Peer: "relock", Params: Params{Processes: 8, CSMicros: &ms},
		CmdsPerAcq: f(2), WorstBest: f(.96), Handover: q(250, 0), Wait: q(0, 12_000)}}
	solo := []Result{{Scenario: "uncontended", Peer: "relock", Pair: q(110, 0)},
		{Scenario: "uncontended", Peer: "raw", Pair: q(100, 0)}}
	idle := []Result{{Scenario: "idle-waiters", Peer: "relock", Cmds: map[string]float64{"subscribe": 2, "evalsha": 1}}}
	five := []Result{{Scenario: "redlock", Peer: "relock", Params: Params{Nodes: 5}, Pair: q(150, 0), AcqPerS: f(1000)},
		{Scenario: "redlock", Peer: "one-node", Params: Params{Nodes: 5}, Pair: q(100, 0), AcqPerS: f(9000), Baseline: true}}
	contended := []Result{{Scenario: "redlock", Peer: "relock", WorstBest: f(.9), CmdsPerNode: f(2.5), Wait: q(0, 20_000)},
		{Scenario: "redlock", Peer: "one-node", Wait: q(0, 10_000), Baseline: true}}
	hung := []Result{{Scenario: "redlock", Peer: "relock", Params: Params{Nodes: 5, Hung: 1}, AcqPerS: f(950)}}
	for want, cell := range map[string][]Result{
		"relock: 30.0 × the acquisitions of redislock, the best of redsync, redislock and rueidislock; " +
			"workers got 0.95 to 1.05 of the mean": hot,
		"relock: 2.00 commands per acquisition; worst/best worker 0.96; " +
			"p99 wait is 1.20 × (8 × (1ms + 250 µs))": processes,
		"relock: the median Lock and Unlock takes 1.10 × two raw script calls": solo,
		"relock: sent in all: 1 evalsha, 2 subscribe":                          idle,
		"relock: the median Lock and Unlock takes 1.50 × that on one node":     five,
		"relock: p99 wait is 2.00 × that on one node; worst/best worker 0.90; " +
			"2.50 commands per acquisition and node": contended,
		"relock: 0.95 × its throughput while all nodes answered": hung,
	} {
		require.Equal(t, []string{want}, (&Run{Results: five}).Checks(cell))
	}
}
