package redistest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

func TestSentinelFailsOver(t *testing.T) {
	g := StartSentinel(t)
	require.Same(t, g.Nodes()[0], g.Master())
	client := g.Client()
	write(t, client, "k", "before")
	for _, replica := range g.Nodes()[1:] {
		require.Eventually(t, func() bool { return replica.Do("GET", "k") == "before" }, 30*time.Second, time.Millisecond)
	}

	old := g.KillMaster()
	master := g.WaitFailover(old)
	require.NotSame(t, old, master)
	require.Equal(t, "before", master.Do("GET", "k"))
	write(t, client, "k", "after")
	require.Equal(t, "after", master.Do("GET", "k"), "the client followed")

	old.Restart()
	require.Same(t, master, g.Master(), "the old master, back, is not taken for the master")
}

// write sets key through a client that may have to find a new master first.
func write(t *testing.T, client rueidis.Client, key, value string) {
	t.Helper()
	until(t, 30*time.Second, "SET "+key, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return client.Do(ctx, client.B().Set().Key(key).Value(value).Build()).Error()
	})
}
