//go:build unix

package integration

import (
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// What a killed process said of itself is gone a lease later, as its lock is; until then it says who left the lock behind.
// The other process goes on being known.
func TestKilledProcessIsForgotten(t *testing.T) {
	begin(t)
	s := redistest.Start(t)
	const lease = 4 * time.Second
	jl := newJournal()
	named := func(lease time.Duration) job {
		j := jobFor(s.Option(), lease)
		j.Name = "billing"
		return j
	}
	dies, lives := startWorker(t, jl, 1, named(lease)), startWorker(t, jl, 2, named(time.Minute))
	look, err := relock.New(s.Client(), relock.WithClientName("ops"))
	require.NoError(t, err)
	t.Cleanup(look.Close)
	for name, w := range map[string]*worker{"one": dies, "two": lives} {
		w.order("lock %s", name)
		require.Eventually(t, func() bool {
			st, err := look.Mutex(name).State(t.Context())
			return err == nil && st.Client.Name == "billing" && st.Client.PID == w.cmd.Process.Pid
		}, soon, time.Millisecond)
	}
	dies.kill()
	killed := time.Now()
	left, err := s.Try("PTTL", "relock_client:"+dies.client)
	require.NoError(t, err)
	require.NotEqual(t, int64(-1), left, "nothing ends it")
	absent(t, soon, s, "relock_client:"+dies.client)
	t.Logf("forgotten %v after it was killed", time.Since(killed))
	require.Equal(t, "1", s.Do("EXISTS", "relock_client:"+lives.client))
	finish(t, lives)
	absent(t, soon, s, "relock_client:"+lives.client)
}
