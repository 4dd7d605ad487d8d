package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/bench/internal/run"
	"github.com/relock-go/relock/internal/redistest"
)

// The tests' own program is the members' too.
func TestMain(m *testing.M) {
	candidates["sloppy"] = newSloppy
	if task := os.Getenv(Env); task != "" {
		if Serve(task, os.Stdin, os.Stdout) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// sloppy believes for a while longer than its lease that it leads.
type sloppy struct{ candidate }

const sloppiness = 300 * time.Millisecond

func newSloppy(t task) (candidate, error) {
	c, err := newRelock(t)
	return sloppy{c}, err
}

func (s sloppy) run(ctx context.Context, lead func(func() bool)) error {
	return s.candidate.run(ctx, func(trusted func() bool) {
		var over time.Time
		lead(func() bool {
			if over.IsZero() && !trusted() {
				over = time.Now()
			}
			return over.IsZero() || time.Since(over) < sloppiness
		})
	})
}

// elected are the lines about one round of each upset.
func elected(t *testing.T, peer, addr string) (lines []string) {
	t.Helper()
	var out strings.Builder
	require.NoError(t, Elect(t.Context(), &out, peer, addr, 1))
	lines = strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, len(upsets)+1)
	for _, line := range lines[:len(upsets)] {
		require.Contains(t, line, "1 rounds: the next leader after median ")
	}
	return lines[:len(upsets)]
}

func TestElect(t *testing.T) {
	t.Parallel()
	for _, line := range elected(t, "relock", redistest.Start(t).Addr()) {
		require.Contains(t, line, "two led in 0 rounds")
	}
}

// Two that lead at once are seen, where the old leader goes on and another one leads.
func TestTwoLeadersAreSeen(t *testing.T) {
	t.Parallel()
	for _, line := range elected(t, "sloppy", redistest.Start(t).Addr()) {
		two := strings.HasPrefix(line, "sloppy, cut") || strings.HasPrefix(line, "sloppy, SIGSTOP")
		require.Equal(t, two, strings.Contains(line, "two led in 1 rounds"), line)
	}
}

func TestElectOfEtcd(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Skip("no etcd")
	}
	addr, closes, err := run.OwnEtcd(t.Context())
	require.NoError(t, err)
	defer closes()
	elected(t, "etcd", addr)
}

// A short job runs once a tick under relockgocron, and in each scheduler under gocron's own lock.
func TestSchedule(t *testing.T) {
	t.Parallel()
	const ticks = 5
	for _, peer := range SchedulerPeers() {
		t.Run(peer, func(t *testing.T) {
			t.Parallel()
			runs, err := Schedule(t.Context(), peer, redistest.Start(t).Addr(), time.Millisecond, ticks)
			require.NoError(t, err)
			all := 0
			for _, n := range runs {
				all += n
			}
			require.Positive(t, all)
			require.Equal(t, peer == "relockgocron", all <= ticks+1, runs)
		})
	}
}

// A member that fails ends the comparison.
func TestAMemberFails(t *testing.T) {
	t.Parallel()
	nowhere := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	_, err := Schedule(t.Context(), "gocron-redis-lock", nowhere, 0, 1)
	require.ErrorContains(t, err, "connect")
}

func TestRunsAreCounted(t *testing.T) {
	t.Parallel()
	require.Equal(t, "8 runs in 4 ticks; never in 1, once in 1, twice in 0, three times or more in 2", Runs{0, 1, 3, 4}.String())
}
