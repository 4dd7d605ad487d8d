package redistest

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/rueidis"
)

// Target says how to reach servers that a test has started, in no client library's terms. Fields
// that are empty ask for nothing.
type Target struct {
	Addrs          []string // of one server, of the sentinels, or of a Cluster's nodes
	MasterSet      string   // what the sentinels in Addrs call their master
	Cluster        bool     // Addrs are a Cluster's nodes
	Replicas       bool     // of a Cluster: commands that only read go to replicas
	User, Password string
	DB             int
	TLS            *tls.Config
	RESP2          bool
	// Dial connects in place of the client library, without TLS.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// As returns the target for another user.
func (t Target) As(user, password string) Target {
	t.User, t.Password = user, password
	return t
}

// Target is this server alone, also when it is a node of a cluster.
func (s *Server) Target() Target { return Target{Addrs: addrsOf(s), TLS: s.secure} }

// Target is the master that the sentinels name.
func (g *Sentinel) Target() Target {
	return Target{Addrs: addrsOf(g.sentinels...), MasterSet: masterSet}
}

// Target is the whole cluster.
func (c *Cluster) Target() Target { return Target{Addrs: addrsOf(c.nodes...), Cluster: true} }

func addrsOf(servers ...*Server) []string {
	addrs := make([]string, len(servers))
	for i, s := range servers {
		addrs[i] = s.Addr()
	}
	return addrs
}

// Rueidis returns the options of a client of rueidis: no client-side caching, 2 seconds to connect,
// 3 seconds without an answer until a connection counts as broken. A Sentinel group is asked for
// its master every second, in case a change was missed.
func (t Target) Rueidis() rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress:         t.Addrs,
		Username:            t.User,
		Password:            t.Password,
		SelectDB:            t.DB,
		TLSConfig:           t.TLS,
		AlwaysRESP2:         t.RESP2,
		ForceSingleClient:   !t.Cluster && t.MasterSet == "",
		DisableCache:        true,
		Dialer:              net.Dialer{Timeout: dialTimeout},
		ConnWriteTimeout:    connTimeout,
		ReadBufferEachConn:  bufferSize,
		WriteBufferEachConn: bufferSize,
	}
	if t.MasterSet != "" {
		o.Sentinel = rueidis.SentinelOption{Dialer: o.Dialer, MasterSet: t.MasterSet, TopologyRefreshInterval: time.Second}
	}
	if t.Dial != nil {
		o.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return t.Dial(ctx, "tcp", addr)
		}
	}
	if t.Replicas {
		o.SendToReplicas = func(cmd rueidis.Completed) bool { return cmd.IsReadOnly() }
	}
	return o
}
