package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestJavaWorker measures Redisson where the Java worker was built: mvn package in bench/redisson.
func TestJavaWorker(t *testing.T) {
	java := filepath.Join("..", "..", "redisson")
	if _, err := os.Stat(filepath.Join(java, "target", "bench-redisson.jar")); err != nil {
		t.Skip("the Java worker is not built")
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip("no java")
	}
	cfg := config(t, "hot-local,watchdog", "", "redisson", "redisson-fair", "spin")
	cfg.Java, cfg.Hold = java, 600e6
	r := measureAll(t, cfg)
	seen := 0
	for _, res := range r.Results {
		require.Empty(t, res.Error, res.Cell()+" "+res.Peer)
		require.Zero(t, res.Overlaps, res.Cell()+" "+res.Peer)
		if res.Scenario == "hot-local" && res.Params.Goroutines == 8 {
			require.Positive(t, res.Acquisitions, res.Peer)
			require.Greater(t, *res.CmdsPerAcq, 1.5, res.Peer)
			require.Positive(t, res.Wait.P50, res.Peer)
			require.Positive(t, *res.ClientCPU, res.Peer)
			seen++
		}
		if res.Scenario == "watchdog" {
			require.Zero(t, *res.Lost, res.Peer)
		}
	}
	require.Equal(t, 3, seen, "each in its cell")
}

// TestEtcd measures etcd where one is given or in PATH.
func TestEtcd(t *testing.T) {
	cfg := config(t, "uncontended,hot-local", "", "etcd", "spin")
	if cfg.Etcd = os.Getenv("RELOCK_ETCD"); cfg.Etcd == "" {
		if _, err := exec.LookPath("etcd"); err != nil {
			t.Skip("no etcd")
		}
	}
	r := measureAll(t, cfg)
	res := resultOf(t, r, "etcd")
	require.Empty(t, res.Error)
	require.Positive(t, res.Acquisitions)
	require.Zero(t, res.Overlaps)
	require.Contains(t, r.Machine.Etcd, "etcd 3.")
}
