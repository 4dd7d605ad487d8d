//go:build unix

package integration

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// stock is what a server keeps.
type stock struct{ keys, memory int }

func stockOf(t *testing.T, s *redistest.Server) stock {
	t.Helper()
	keys, err := strconv.Atoi(s.Do("DBSIZE"))
	require.NoError(t, err)
	for line := range strings.Lines(s.Do("INFO", "memory")) {
		if used, found := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); found {
			memory, err := strconv.Atoi(used)
			require.NoError(t, err)
			return stock{keys, memory}
		}
	}
	t.Fatal("the server does not tell its memory")
	return stock{}
}

// lockOnce locks as many names once each, and returns when nothing of that is under way any more.
func lockOnce(t *testing.T, names int, nodes []rueidis.Client) {
	t.Helper()
	c, err := relock.NewRedlock(nodes)
	require.NoError(t, err)
	defer c.Close()
	var next atomic.Int64
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for n := next.Add(1); n <= int64(names); n = next.Add(1) {
				if err := c.Mutex(fmt.Sprintf("orders:%d", n)).Do(t.Context(), nothing); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// Names that are locked once leave nothing behind on any node of a quorum: when the default retention is over, keys and
// memory are back at what they were. The nodes' clock goes there at once.
func TestNamesDoNotStayOnAQuorum(t *testing.T) {
	begin(t)
	const names, over = 5_000, 11 * time.Minute
	jump := clockOf(t)
	nodes := fiveNodes(t)
	var rdbs []rueidis.Client
	for _, s := range nodes {
		rdbs = append(rdbs, s.Client())
	}
	lockOnce(t, 1_000, rdbs) // scripts and connections are there
	jump(over)
	var before []stock
	for _, s := range nodes {
		marker := func() bool { return stockOf(t, s).keys == 1 && s.Do("KEYS", "*") == "relock_incarnation" }
		require.Eventually(t, marker, soon, 50*time.Millisecond)
		before = append(before, stockOf(t, s))
	}
	lockOnce(t, names, rdbs)
	for i, s := range nodes {
		full := stockOf(t, s)
		require.Greater(t, full.keys, names/2)
		t.Logf("node %d: %+v before, %+v with %d names", i, before[i], full, names)
	}
	jump(2 * over)
	for i, s := range nodes {
		back := func() bool {
			at := stockOf(t, s)
			return at.keys <= before[i].keys && at.memory < before[i].memory+512<<10
		}
		require.Eventually(t, back, soon, 50*time.Millisecond, "node %d keeps something", i)
		t.Logf("node %d: %+v in the end", i, stockOf(t, s))
	}
}
