package main

import (
	"os"
	"testing"
	"time"

	"github.com/relock-go/relock/examples/internal/embedded"
	"github.com/relock-go/relock/examples/internal/workers"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	work()
	os.Exit(m.Run())
}

// Three processes run the job once each tick, though the one that runs it is killed in the middle. RELOCK_LONG=1 plays 200
// ticks.
func TestOncePerTick(t *testing.T) {
	t.Parallel()
	ticks := workers.Rounds(5, 200)
	for _, name := range []string{"embedded", "redis"} {
		for killed, killAt := range map[string]int{"all live": 0, "one is killed": ticks / 2} {
			t.Run(name+", "+killed, func(t *testing.T) {
				t.Parallel()
				var at embedded.Redis
				if name == "redis" {
					at.URL = "redis://" + redistest.Start(t).Addr()
				}
				s := setting{Redis: at, Every: time.Second, Ticks: ticks, KillAt: killAt, Logf: t.Logf}
				got, err := play(t.Context(), s)
				require.NoError(t, err)
				t.Logf("%d ticks, %d runs; %d under a plain lock; late by %v at most; %d without an answer",
					ticks, got.Once, got.Plain, got.Late, got.Failed)
				require.Positive(t, got.Once)
				require.Greater(t, got.Plain, got.Once, "the control shows nothing: its lock keeps processes apart too")
				// On a slow machine another process may run the job, sooner or later than the last one.
				if got.Late < s.slack() && got.Failed == 0 {
					require.Equal(t, ticks, got.Once)
				}
			})
		}
	}
}

func TestCheck(t *testing.T) {
	try := func(process int, did string, at time.Duration) event {
		at *= time.Second
		return event{Process: process, Tick: int(at), Way: onceWay, Did: did, Before: at, After: at + 1}
	}
	const atLeast = 10 * time.Second
	first := []event{try(1, ran, 0), try(2, busy, 3)}
	require.NoError(t, check(first, atLeast))
	require.NoError(t, check(append(first, try(2, ran, 10)), atLeast))
	require.ErrorContains(t, check(append(first, try(2, ran, 9)), atLeast), "again")
	require.ErrorContains(t, check(append(first, try(3, busy, 11)), atLeast), "no other process ran it")
	require.NoError(t, check(append(first, try(3, busy, 11), try(1, ran, 10)), atLeast))
	require.NoError(t, check(append(first, try(2, failed, 11), try(3, busy, 12)), atLeast), "that one may have the lock")
	require.NoError(t, check(append(first, try(2, asks, 11), try(3, busy, 40)), atLeast), "so may one that was killed")
	require.Error(t, check(append(first, try(2, asks, 11), try(2, busy, 11)), atLeast), "it has no lock")
	require.Len(t, runs(append(first, try(2, ran, 10)), onceWay), 2)
}
