package redistest

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClusterFailsOver(t *testing.T) {
	c := StartCluster(t)
	client := c.Client()
	write(t, client, "k", "before")
	require.Equal(t, "before", c.MasterFor("k").Do("GET", "k"))
	replica := c.Nodes()[3+slices.Index(c.Nodes(), c.MasterFor("k"))]
	require.Eventually(t, func() bool { return replica.Do("DBSIZE") == "1" }, 30*time.Second, time.Millisecond)

	old := c.KillMasterFor("k")
	master := c.WaitFailover("k", old)
	require.NotSame(t, old, master)
	require.Equal(t, "before", master.Do("GET", "k"))
	write(t, client, "k", "after")
	require.Equal(t, "after", master.Do("GET", "k"), "the client followed")

	old.Restart()
	until(t, failoverLimit, "the old master's new role", func() error { return hasRole(old, "slave") })
	require.Same(t, master, c.MasterFor("k"))
}

func TestClusterMovesSlot(t *testing.T) {
	c := StartCluster(t)
	client := c.Client()
	for i := range migrateBatch + 1 {
		write(t, client, "{tag}:"+strconv.Itoa(i), strconv.Itoa(i))
	}
	from := c.MasterFor("{tag}")

	m := c.BeginMove("{tag}")
	require.Same(t, from, m.From)
	_, err := m.From.Try("GET", "{tag}:new")
	require.ErrorContains(t, err, "ASK")
	require.Equal(t, "7", m.From.Do("GET", "{tag}:7"))
	m.Keys()
	_, err = m.From.Try("GET", "{tag}:7")
	require.ErrorContains(t, err, "ASK")
	m.Finish()
	require.Same(t, m.To, c.MasterFor("{tag}"))
	require.Equal(t, "7", m.To.Do("GET", "{tag}:7"))
	write(t, client, "{tag}:7", "moved")
	require.Equal(t, "moved", m.To.Do("GET", "{tag}:7"), "the client followed")

	back := c.MoveSlot("{tag}")
	require.NotSame(t, m.To, back)
	require.Equal(t, "moved", back.Do("GET", "{tag}:7"))
}

func TestSlotIsTheServers(t *testing.T) {
	c := &Cluster{}
	s := Start(t, "--cluster-enabled", "yes")
	for _, key := range []string{"", "k", "orders:42", "{a}b", "x{a}b", "{}a", "{", "a{b{c}d}e", "{{a}}", "héron"} {
		require.Equal(t, s.Do("CLUSTER", "KEYSLOT", key), strconv.Itoa(int(c.Slot(key))), "key %q", key)
	}
}
