package world

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// toy fails where two rounds, a fault and a name are left, and violates something else where another fault is left alone.
func toy(runs *int) func(Options) *Result {
	left := func(list []string, all ...string) []string {
		if list == nil {
			return all
		}
		return list
	}
	return func(o Options) *Result {
		*runs++
		res := &Result{
			Plan: Draw(7, "net", "alone"), Where: "orders-0", Names: left(o.Names, "orders-0", "orders-1", "item-4"),
			Rounds: left(o.Rounds, "p0a0r0@0s", "p0a1r0@0s", "p1a0r0@1ms", "p1a0r1@2ms", "p1a2r0@3ms", "p1a2r1@4ms", "p2a0r0@5ms", "p2a0r1@6ms"),
			Fired:  left(o.Only, "a #0 lost", "b #1 slow", "event 3 step@4ms", "c #2 lost", "d #3 slow"),
		}
		has := func(list []string, entry string) bool { return slices.Contains(list, entry) }
		switch {
		case has(res.Rounds, "p1a0r1@2ms") && has(res.Rounds, "p2a0r1@6ms") && has(res.Fired, "event 3 step@4ms") &&
			has(res.Names, "orders-0"):
			res.Violation = "two holders: p1 has had token 51 since 2.5ms, p2 is given " + time.Duration(len(res.Rounds)).String()
		case has(res.Fired, "c #2 lost"):
			res.Violation = "a storm"
		}
		return res
	}
}

// What does not matter is left out, of every sort; a run that violates something else does not count.
func TestShrinking(t *testing.T) {
	runs := 0
	play := toy(&runs)
	small := Shrink(play, Options{}, play(Options{}), time.Minute)
	require.Equal(t, []string{"p1a0r1@2ms", "p2a0r1@6ms"}, small.Rounds)
	require.Equal(t, []string{"event 3 step@4ms"}, small.Fired)
	require.Equal(t, []string{"orders-0"}, small.Names)
	require.Equal(t, []string{"ROUNDS", "NAMES", "FAULTS"}, small.Spare)
	require.Equal(t, `again: make sim SEED=7:net:alone FAULTS='event 3 step@4ms' ROUNDS='p1a0r1@2ms p2a0r1@6ms' NAMES='orders-0'
       SEED alone repeats the whole run, which fails alike; this one fails without ROUNDS, or without NAMES, or without FAULTS too.`,
		small.Again())
	require.Less(t, runs, 300)
}

// Without patience what failed stands as it is.
func TestShrinkingWithoutPatience(t *testing.T) {
	runs := 0
	play := toy(&runs)
	whole := play(Options{})
	require.Same(t, whole, Shrink(play, Options{}, whole, 0))
	require.Len(t, whole.Rounds, 8)
}

// misled fails where an actor is given a lock while a node's clock is off.
type misled struct{ Mutexes }

func (k misled) Round(a *Actor, r *rand.Rand) {
	k.Mutexes.Round(a, r)
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	if off := a.w.nodes[0].off; off && a.place == 1 && a.index == 1 {
		a.w.failed(a.w.plan.Names[0], "made up: p1 ends a round with token %d after the clock was set", epoch+4321)
	}
}

// misledSeed plays a seed whose events set clocks.
func misledSeed(t *testing.T) func(Options) *Result {
	return func(o Options) *Result {
		o.Kind, o.Class, o.Topology = misled{}, "clock", "quorum of 3"
		plan := Draw(13, o.Class, o.Topology)
		plan.Procs, plan.Actors, plan.Rounds, plan.Names = 3, 2, 5, []string{"orders-0", "orders-1"}
		plan.Events = []event{
			{Name: "event 0 step", Round: 10, What: step, Step: plan.Lease}, {Name: "event 1 step", Round: 15, What: step, Step: plan.Lease},
		}
		return perform(t, plan, o)
	}
}

// A run that failed is shrunk to one round and the event that it takes, and what it prints repeats it.
func TestShrunkRunsRepeat(t *testing.T) {
	play := misledSeed(t)
	failed := play(Options{})
	require.Contains(t, failed.Violation, "made up: p1 ends a round with token @4.321")
	require.Greater(t, len(failed.Rounds), 10)
	small := Shrink(play, Options{}, failed, time.Minute)
	require.Len(t, small.Rounds, 1)
	require.Regexp(t, `^p1a1r\d@`, small.Rounds[0])
	require.Len(t, small.Fired, 1)
	require.Regexp(t, `^event \d step@`, small.Fired[0])

	line, _, _ := strings.Cut(small.Again(), "\n")
	value := func(name string) string {
		_, rest, _ := strings.Cut(line, name+"='")
		text, _, _ := strings.Cut(rest, "'")
		return text
	}
	again := play(Options{
		Only: ParseList(value("FAULTS"), ";"), Rounds: ParseList(value("ROUNDS"), " "), Names: ParseList(value("NAMES"), " "),
	})
	require.True(t, again.Alike(small), again.Violation)
	require.True(t, play(Options{Only: ParseList(value("FAULTS"), ";")}).Alike(small), "with its faults alone")
	require.Empty(t, play(Options{Only: ParseList("none", ";")}).Violation, "without any")
}

func TestWords(t *testing.T) {
	for _, topology := range topologies {
		seed, class, topo, err := ParseWord(Word(1795410211956, "clock", topology.Name))
		require.NoError(t, err)
		require.Equal(t, []any{uint64(1795410211956), "clock", topology.Name}, []any{seed, class, topo})
	}
	require.Equal(t, "7", Word(7, "", ""))
	require.Equal(t, "7::quorum-of-5", Word(7, "", "quorum of 5"))
	for _, word := range []string{"", "x", "7:net:nowhere"} {
		_, _, _, err := ParseWord(word)
		require.Error(t, err, word)
	}
}
