package interop

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// site is a Redis as both languages are told of it.
type site struct {
	Kind      string // key of Redisson's configuration
	Addrs     []string
	MasterSet string
	Plain     bool          // no sharded channels on a Cluster
	Linger    time.Duration // how long Go keeps unlocked locks
}

const (
	single   = "singleServerConfig"
	sentinel = "sentinelServersConfig"
	cluster  = "clusterServersConfig"
)

func singleSite(s *redistest.Server) site { return site{Kind: single, Addrs: []string{s.Addr()}} }

func sentinelSite(g *redistest.Sentinel) site {
	option := g.Option()
	return site{Kind: sentinel, Addrs: option.InitAddress, MasterSet: option.Sentinel.MasterSet}
}

func clusterSite(c *redistest.Cluster) site {
	return site{Kind: cluster, Addrs: c.Option().InitAddress}
}

func plainSite(c *redistest.Cluster) site {
	s := clusterSite(c)
	s.Plain = true
	return s
}

// yaml is Redisson's configuration. more are further lines of it, such as "lockWatchdogTimeout: 3000".
//
// Redisson reads from replicas unless told otherwise: an increment under the lock would read an old number.
func (s site) yaml(more ...string) string {
	var urls []string
	for _, addr := range s.Addrs {
		urls = append(urls, fmt.Sprintf("%q", "redis://"+addr))
	}
	list := "[" + strings.Join(urls, ", ") + "]"
	var server []string
	switch s.Kind {
	case single:
		server = []string{"address: " + urls[0], "connectionMinimumIdleSize: 2"}
	case sentinel:
		server = []string{"sentinelAddresses: " + list, "masterName: " + s.MasterSet, "readMode: MASTER"}
	case cluster:
		server = []string{"nodeAddresses: " + list, "readMode: MASTER", "scanInterval: 1000"}
	}
	if s.Kind != single {
		server = append(server, "masterConnectionMinimumIdleSize: 2", "slaveConnectionMinimumIdleSize: 1")
	}
	lines := []string{s.Kind + ":"}
	for _, line := range server {
		lines = append(lines, "  "+line)
	}
	return strings.Join(slices.Concat(lines, more), "\n") + "\n"
}

// open returns a connection for relock, its own for each client as in processes of their own.
func (s site) open() (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress:  s.Addrs,
		DisableCache: true,
		Sentinel:     rueidis.SentinelOption{MasterSet: s.MasterSet},
	})
}

// locks returns a relock client on the site, closed at the cleanup.
func (s site) locks(t testing.TB, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	rdb, err := s.open()
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	locks, err := relock.New(rdb, append(s.options(), opts...)...)
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	return locks
}

// options are those of every relock client on the site.
func (s site) options() []relock.ClientOption {
	opts := []relock.ClientOption{relock.WithLinger(s.Linger)}
	if s.Plain {
		opts = append(opts, relock.WithPlainChannels())
	}
	return opts
}

func (s site) String() string {
	text, _ := json.Marshal(s)
	return string(text)
}
