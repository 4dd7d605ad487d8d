//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// What a worker writes of a Flight.
const (
	runs   = "runs"   // the function has begun
	ran    = "ran"    // it is about to return; note: what
	result = "result" // Do has returned; token: 1 if it ran the function; note: what, or "lost"
)

// flight calls Do, with a function that takes hold.
func (p *performer) flight(name string, hold, ttl time.Duration, who int) {
	p.write(now(), want, name, who, 0, "-")
	value, did, err := p.locks.Flight(name, ttl).Do(p.ctx, func(ctx context.Context) ([]byte, error) {
		p.write(now(), runs, name, who, relock.Token(ctx), "-")
		time.Sleep(hold)
		made := fmt.Sprintf("w%d.%d", p.id, who)
		p.write(now(), ran, name, who, relock.Token(ctx), made)
		return []byte(made), nil
	})
	token := int64(0)
	if did {
		token = 1
	}
	switch {
	case err == nil:
		p.write(now(), result, name, who, token, string(value))
	case errors.Is(err, relock.ErrLost):
		p.write(now(), result, name, who, token, "lost")
	case p.ctx.Err() == nil:
		p.write(now(), failed, name, who, token, err.Error())
	}
}

// flights calls Do for so many names, in an order of its own, by a few goroutines.
func (p *performer) flights(name string, n int, hold, ttl time.Duration, who int) {
	const goroutines = 4
	order := rand.Perm(n)
	for g := range goroutines {
		p.wg.Go(func() {
			for i := g; i < n; i += goroutines {
				p.flight(numbered(name, order[i]), rand.N(hold), ttl, 1000*who+g)
			}
		})
	}
}

// Processes that ask for the same results in any order run each function once, one at a time, and all get the same bytes.
func TestFlightOverProcesses(t *testing.T) {
	begin(t)
	processes, keys := rounds(8, 50), rounds(100, 1000)
	s := redistest.Start(t)
	jl := newJournal()
	var workers []*worker
	for id := range processes {
		workers = append(workers, startWorker(t, jl, id+1, jobFor(s.Option(), 30*time.Second)))
	}
	began := time.Now()
	for _, w := range workers {
		w.order("flights report %d %v %v", keys, 4*time.Millisecond, time.Hour)
	}
	all := func() []event { return only(jl.all(), func(e event) bool { return e.kind == result }) }
	require.Eventually(t, func() bool { return len(all()) == processes*keys }, 20*time.Minute, 100*time.Millisecond)
	took := time.Since(began)
	finish(t, workers...)
	events := jl.all()
	nothingFailed(t, events)
	given := make(map[string]map[string]int)
	for _, e := range all() {
		if given[e.lock] == nil {
			given[e.lock] = make(map[string]int)
		}
		given[e.lock][e.note]++
	}
	require.Len(t, given, keys)
	for key, values := range given {
		require.Len(t, values, 1, "%s: %v", key, values)
		require.Len(t, only(events, kind(runs, key)), 1, key)
	}
	require.Equal(t, fmt.Sprint(keys), s.Do("EVAL", "return #redis.call('KEYS', 'relock_once:*')", "0"))
	t.Logf("%d processes have each of %d results in %v", processes, keys, took.Round(time.Millisecond))
}

// The runner's process dies: the next one runs within its lease and a second, and both others get that result.
func TestFlightRunnerKilled(t *testing.T) {
	begin(t)
	const lease, slack = 500 * time.Millisecond, time.Second
	s := redistest.Start(t)
	jl, j := newJournal(), jobFor(s.Option(), lease)
	others := []*worker{startWorker(t, jl, 1, j), startWorker(t, jl, 2, j)}
	var took figures
	machine := startDrag(t)
	for i := range rounds(10, 200) {
		key, begun := numbered("report", i), now()
		runner := startWorker(t, jl, 10+i, j)
		runner.order("flight %s 1 %v %v", key, time.Hour, time.Hour)
		jl.await(t, soon, begun, "the first run", kind(runs, key))
		for _, w := range others {
			w.order("flight %s 1 1ms %v", key, time.Hour)
		}
		queued(t, s, key, 2)
		time.Sleep(rand.N(lease / 3))
		killed := now()
		runner.kill()
		took = append(took, jl.await(t, soon, killed, "the next run", kind(runs, key)).at-killed)
		given := func() []event { return only(jl.all(), kind(result, key)) }
		require.Eventually(t, func() bool { return len(given()) == 2 }, soon, time.Millisecond)
		require.Equal(t, given()[0].note, given()[1].note)
		require.Len(t, only(jl.all(), kind(runs, key)), 2)
	}
	held := machine.end()
	t.Logf("from SIGKILL of a runner to the next run, lease %v: %v (machine held up %v)", lease, took, held)
	finish(t, others...)
	require.LessOrEqual(t, took.max(), lease+slack+3*held)
	nothingFailed(t, jl.all())
}

// A runner that is stopped past its lease, just before it returns, overwrites nothing when it goes on. Its caller hears of the
// loss.
func TestFlightRunnerStopped(t *testing.T) {
	begin(t)
	const lease = 500 * time.Millisecond
	s := redistest.Start(t)
	jl, j := newJournal(), jobFor(s.Option(), lease)
	runner, other := startWorker(t, jl, 1, j), startWorker(t, jl, 2, j)
	for i := range rounds(10, 200) {
		key, begun := numbered("report", i), now()
		runner.order("flight %s 1 5ms %v", key, time.Hour)
		jl.await(t, soon, begun, "the first run", kind(runs, key))
		runner.pause()
		if s.Do("EXISTS", "relock_once:{"+key+"}") == "1" {
			runner.resume() // it was stopped too late
			continue
		}
		other.order("flight %s 1 1ms %v", key, time.Hour)
		next := jl.await(t, soon, begun, "the other's result", func(e event) bool { return e.kind == result && e.lock == key && other.owns(e) })
		stands := s.Do("GET", "relock_once:{"+key+"}")
		require.Contains(t, stands, next.note)
		runner.resume()
		late := jl.await(t, soon, begun, "the runner's result", func(e event) bool { return e.kind == result && e.lock == key && runner.owns(e) })
		if next.token == 1 {
			require.Equal(t, "lost", late.note)
		}
		time.Sleep(5 * time.Millisecond)
		require.Equal(t, stands, s.Do("GET", "relock_once:{"+key+"}"))
	}
	finish(t, runner, other)
	nothingFailed(t, jl.all())
}

// A thousand callers of eight processes wait for one run: they cost two commands each at most, since those of one process
// share one question.
func TestFlightCallersShare(t *testing.T) {
	begin(t)
	const processes, callers = 8, 125
	s := redistest.Start(t)
	jl := newJournal()
	var workers []*worker
	for id := range processes {
		workers = append(workers, startWorker(t, jl, id+1, jobFor(s.Option(), 30*time.Second)))
	}
	before, begun := scriptsRun(t, s), now()
	workers[0].order("flight report 1 %v %v", 3*time.Second, time.Hour)
	jl.await(t, soon, begun, "the run", kind(runs, "report"))
	for _, w := range workers {
		w.order("flight report %d %v %v", callers, time.Second, time.Hour)
	}
	given := func() []event { return only(jl.all(), kind(result, "report")) }
	require.Eventually(t, func() bool { return len(given()) == 1+processes*callers }, soon, time.Millisecond)
	cost := scriptsRun(t, s) - before
	finish(t, workers...)
	nothingFailed(t, jl.all())
	require.Len(t, only(jl.all(), kind(runs, "report")), 1)
	t.Logf("%d callers of %d processes cost %d commands", 1+processes*callers, processes, cost)
	require.LessOrEqual(t, cost, 2*processes*callers)
	require.LessOrEqual(t, cost, 12*processes, "a process asks for one caller at a time")
}

// scriptsRun is how many scripts the server has run.
func scriptsRun(t *testing.T, s *redistest.Server) (n int) {
	t.Helper()
	for line := range strings.Lines(s.Do("INFO", "commandstats")) {
		for _, command := range []string{"cmdstat_evalsha:calls=", "cmdstat_eval:calls="} {
			if rest, is := strings.CutPrefix(line, command); is {
				calls, _, _ := strings.Cut(rest, ",")
				count, err := strconv.Atoi(calls)
				require.NoError(t, err)
				n += count
			}
		}
	}
	return n
}
