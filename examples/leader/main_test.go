package main

import (
	"os"
	"slices"
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

// onBoth runs a test on the embedded Redis and on a redis-server. RELOCK_LONG=1 plays fifty rounds.
func onBoth(t *testing.T, lease time.Duration, u upset, test func(*testing.T, []time.Duration)) {
	t.Parallel()
	for name, at := range map[string]embedded.Redis{
		"embedded": {},
		"redis":    {URL: "redis://" + redistest.Start(t).Addr()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rounds := workers.Rounds(2, 50)
			took, err := play(t.Context(), setting{
				Redis: at, Lease: lease, Rounds: rounds, Upsets: []upset{u}, Logf: t.Logf,
				Pause: 200 * time.Millisecond, // a process that has just begun to wait is handed nothing, and asks again
			})
			require.NoError(t, err)
			require.Len(t, took[u.name], rounds)
			slices.Sort(took[u.name])
			t.Logf("%s: the next process led after %v, median %v, %v", u.name,
				took[u.name][0], took[u.name][rounds/2], took[u.name][rounds-1])
			test(t, took[u.name])
		})
	}
}

// The leader hands over. Had the next process waited for the lease, that would have taken 40 seconds at least.
func TestSIGTERMHandsOver(t *testing.T) {
	const lease = time.Minute
	onBoth(t, lease, sigterm, func(t *testing.T, took []time.Duration) {
		require.Less(t, slices.Max(took), lease*2/3)
		if len(took) >= 50 { // on a calm machine
			require.Less(t, took[len(took)/2], 50*time.Millisecond)
		}
	})
}

// After kill -9 another process leads, once the lease has run out: play checks that.
func TestKillTakesALease(t *testing.T) {
	const lease = 2 * time.Second
	onBoth(t, lease, sigkill, func(t *testing.T, took []time.Duration) {
		if len(took) >= 50 {
			require.Less(t, slices.Max(took), lease+100*time.Millisecond)
		}
	})
}

func TestCheckFindsTwoLeaders(t *testing.T) {
	a := []event{
		{Process: 1, Token: 7, What: leads, At: 10},
		{Process: 1, Token: 7, What: works, At: 11, Until: 20},
	}
	b := func(at time.Duration, token int64) event { return event{Process: 2, Token: token, What: leads, At: at} }
	require.NoError(t, check(append(a, b(20, 8))), "the first one's lease is over")
	require.Error(t, check(append(a, b(19, 8))), "it is not")
	require.Error(t, check(append(a, b(21, 6))), "a lower token")
	require.Error(t, check(append(a, b(21, 7))), "the same token")
	gaveBack := append(a, event{Process: 1, Token: 7, What: ended, At: 13})
	require.NoError(t, check(append(gaveBack, b(14, 8))), "the first one gave the lock back")
	require.Error(t, check(append(gaveBack, b(12, 8))), "not yet")
	require.Error(t, check(append(a, event{Process: 3, What: failed})))
}
