package redistest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

const (
	masterSet = "relock" // the name under which the sentinels know the master

	settleLimit   = 30 * time.Second // for a group of servers to form
	failoverLimit = 60 * time.Second // a failed election is repeated only after two failover timeouts
)

// Sentinel is a master with two replicas, watched by three sentinels of which
// two must agree. A master that is silent for a second is failed over.
type Sentinel struct {
	tb        TB
	nodes     []*Server
	sentinels []*Server
}

// StartSentinel runs the six servers and returns when every sentinel sees both
// replicas in sync and both other sentinels. args are further options of the
// master and its replicas.
func StartSentinel(tb TB, args ...string) *Sentinel {
	tb.Helper()
	g := &Sentinel{tb: tb}
	for range 3 {
		g.nodes = append(g.nodes, newServer(tb))
		g.sentinels = append(g.sentinels, newServer(tb))
	}
	for i, node := range g.nodes {
		node.args = slices.Concat([]string{"--port", strconv.Itoa(node.port)}, node.bin.flags(), args)
		if i > 0 {
			node.args = append(node.args, "--replicaof", loopback, strconv.Itoa(g.nodes[0].port))
		}
	}
	startAll(g.nodes)
	until(tb, settleLimit, "replicas in sync", func() error { return replicasInSync(g.nodes[0], 2) })
	g.configure()
	startAll(g.sentinels)
	until(tb, settleLimit, "sentinels in sight of everyone", func() error {
		return each(g.sentinels, seesEveryone)
	})
	return g
}

// configure writes the configuration file of each sentinel. It holds what a
// sentinel would find out by itself within seconds, in the form in which a
// sentinel saves what it knows.
func (g *Sentinel) configure() {
	g.tb.Helper()
	ids := make([]string, len(g.sentinels))
	for i := range ids {
		id := make([]byte, 20)
		_, _ = rand.Read(id)
		ids[i] = hex.EncodeToString(id)
	}
	for i, s := range g.sentinels {
		var conf strings.Builder
		fmt.Fprintf(&conf, "port %d\nsentinel myid %s\n", s.port, ids[i])
		fmt.Fprintf(&conf, "sentinel monitor %s %s %d 2\n", masterSet, loopback, g.nodes[0].port)
		fmt.Fprintf(&conf, "sentinel down-after-milliseconds %s 2000\n", masterSet)
		fmt.Fprintf(&conf, "sentinel failover-timeout %s 6000\n", masterSet)
		fmt.Fprintf(&conf, "sentinel parallel-syncs %s 1\n", masterSet)
		for _, replica := range g.nodes[1:] {
			fmt.Fprintf(&conf, "sentinel known-replica %s %s %d\n", masterSet, loopback, replica.port)
		}
		for j, other := range g.sentinels {
			if j != i {
				fmt.Fprintf(&conf, "sentinel known-sentinel %s %s %d %s\n", masterSet, loopback, other.port, ids[j])
			}
		}
		path := filepath.Join(s.dir, "sentinel.conf")
		if err := os.WriteFile(path, []byte(conf.String()), 0o600); err != nil {
			g.tb.Fatalf("redistest: %v", err)
		}
		s.args = []string{path, "--sentinel"}
	}
}

// Option returns the options of a client that finds the master through the
// sentinels, and asks them every second in case it missed a change.
func (g *Sentinel) Option() rueidis.ClientOption { return g.Target().Rueidis() }

// Client returns a client with [Sentinel.Option] that is closed at the cleanup.
func (g *Sentinel) Client() rueidis.Client {
	g.tb.Helper()
	return openClient(g.tb, g.Option(), slices.Concat(g.nodes, g.sentinels)...)
}

// Nodes returns the servers that hold data, the first master first.
func (g *Sentinel) Nodes() []*Server { return slices.Clone(g.nodes) }

// Sentinels returns the three sentinel processes.
func (g *Sentinel) Sentinels() []*Server { return slices.Clone(g.sentinels) }

// Master returns the server that all answering sentinels name as the master. During a failover that
// is the old one or the new one.
func (g *Sentinel) Master() *Server {
	g.tb.Helper()
	var master *Server
	until(g.tb, failoverLimit, "sentinels of one mind", func() (err error) {
		master, err = g.agreed()
		return err
	})
	return master
}

// KillMaster kills the master and returns it.
func (g *Sentinel) KillMaster() *Server {
	g.tb.Helper()
	master := g.Master()
	master.Kill()
	return master
}

// Promote makes the sentinels fail over from the master, dead or alive, without
// waiting until they find out that it is dead, and returns the new one.
func (g *Sentinel) Promote(old *Server) *Server {
	g.tb.Helper()
	until(g.tb, failoverLimit, "failover from "+old.Addr(), func() error {
		_, err := g.sentinels[0].Try("SENTINEL", "FAILOVER", masterSet)
		var refused ServerError
		if errors.As(err, &refused) && strings.HasPrefix(string(refused), "INPROG") {
			return nil // begun by a sentinel that has found out
		}
		return err
	})
	return g.WaitFailover(old)
}

// Return restarts a master that was failed over, as a replica of master.
func (g *Sentinel) Return(old, master *Server) {
	g.tb.Helper()
	old.Restart()
	old.Do("REPLICAOF", loopback, strconv.Itoa(master.port))
	until(g.tb, settleLimit, "sentinels in sight of everyone", func() error {
		return each(g.sentinels, seesEveryone)
	})
}

// WaitFailover returns the new master, once all answering sentinels name the same one in place of
// old, and it has taken over. It fails the test after a minute.
func (g *Sentinel) WaitFailover(old *Server) *Server {
	g.tb.Helper()
	var master *Server
	until(g.tb, failoverLimit, "failover from "+old.Addr(), func() (err error) {
		master, err = g.agreed()
		if err != nil {
			return err
		}
		if master == old {
			return fmt.Errorf("%s is the master still", old.Addr())
		}
		return hasRole(master, "master")
	})
	return master
}

// agreed returns the master if at least two sentinels answer, and all that answer name the same
// one.
func (g *Sentinel) agreed() (*Server, error) {
	var port string
	answers := 0
	for _, s := range g.sentinels {
		reply, err := s.probe("SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterSet)
		addr, ok := reply.([]any)
		if err != nil || !ok || len(addr) != 2 {
			continue
		}
		if answers > 0 && port != text(addr[1]) {
			return nil, fmt.Errorf("sentinels disagree: ports %s and %s", port, text(addr[1]))
		}
		port = text(addr[1])
		answers++
	}
	if answers < 2 {
		return nil, fmt.Errorf("%d sentinels answer", answers)
	}
	return byPort(g.nodes, port)
}

// seesEveryone returns nil when the sentinel s could lead a failover: it knows
// two replicas in sync and two other sentinels, and has all of them connected.
func seesEveryone(s *Server) error {
	for about, want := range map[string]map[string]string{
		"MASTER":    {"flags": "master"},
		"REPLICAS":  {"flags": "slave", "master-link-status": "ok"},
		"SENTINELS": {"flags": "sentinel"},
	} {
		reply, err := s.probe("SENTINEL", about, masterSet)
		if err != nil {
			return err
		}
		members, _ := reply.([]any)
		if about == "MASTER" {
			members = []any{reply}
		} else if len(members) != 2 {
			return fmt.Errorf("%s sees %d %s", s.Addr(), len(members), strings.ToLower(about))
		}
		for _, member := range members {
			for field, value := range want {
				if got := pairField(member, field); got != value {
					return fmt.Errorf("%s: %s of one of %s is %q", s.Addr(), field, strings.ToLower(about), got)
				}
			}
		}
	}
	_, err := s.probe("SENTINEL", "CKQUORUM", masterSet)
	return err
}
