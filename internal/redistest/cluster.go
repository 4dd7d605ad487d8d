package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/driver"
)

const (
	nodesFile   = "nodes.conf" // where a node keeps what it knows of its cluster
	masterCount = 3
	nodeCount   = 2 * masterCount
)

// Cluster is three masters with a replica each. A master that is silent for a
// second is failed over.
type Cluster struct {
	tb    TB
	nodes []*Server          // the masters at first, then their replicas in the same order
	ids   map[*Server]string // the node ids
}

// StartCluster runs the six nodes and returns when every one of them sees the
// whole cluster and the replicas follow their masters. args are further options
// of the nodes, for example "--cluster-require-full-coverage", "no".
func StartCluster(tb TB, args ...string) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, ids: make(map[*Server]string)}
	for range nodeCount {
		s := newServer(tb)
		s.args = slices.Concat([]string{
			"--port", strconv.Itoa(s.port),
			"--cluster-enabled", "yes",
			"--cluster-config-file", nodesFile,
			"--cluster-node-timeout", "2000",
			"--cluster-replica-validity-factor", "0",
			// Nodes list a replica only once its master's stream has begun, be it with a ping.
			"--repl-ping-replica-period", "1",
		}, s.bin.flags(), args)
		c.nodes = append(c.nodes, s)
	}
	startAll(c.nodes)
	c.join()
	c.replicate()
	until(tb, settleLimit, "a complete cluster", func() error { return each(c.nodes, c.complete) })
	return c
}

// join gives the masters their slots and makes the nodes know each other.
func (c *Cluster) join() {
	c.tb.Helper()
	for i, node := range c.nodes {
		c.ids[node] = node.Do("CLUSTER", "MYID")
		// Distinct epochs from the start spare the nodes resolving their collision.
		node.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i < masterCount {
			command := []string{"CLUSTER", "ADDSLOTS"}
			for slot := i * driver.Slots / masterCount; slot < (i+1)*driver.Slots/masterCount; slot++ {
				command = append(command, strconv.Itoa(slot))
			}
			node.Do(command...)
		}
	}
	for _, node := range c.nodes[1:] {
		c.nodes[0].Do("CLUSTER", "MEET", loopback, strconv.Itoa(node.port))
	}
	until(c.tb, settleLimit, "nodes that know each other", func() error {
		return each(c.nodes, func(s *Server) error { return clusterInfo(s, "cluster_known_nodes", strconv.Itoa(nodeCount)) })
	})
}

// replicate turns the second half of the nodes into replicas of the first.
func (c *Cluster) replicate() {
	c.tb.Helper()
	for i, replica := range c.nodes[masterCount:] {
		// Refused until the handshake with the master is over.
		until(c.tb, settleLimit, "replica "+replica.Addr(), func() error {
			_, err := replica.Try("CLUSTER", "REPLICATE", c.ids[c.nodes[i]])
			return err
		})
	}
}

// complete returns nil when the node s sees every slot served by a master with
// a replica, and is in sync itself.
func (c *Cluster) complete(s *Server) error {
	if err := clusterInfo(s, "cluster_state", "ok"); err != nil {
		return err
	}
	ranges, err := s.slotRanges()
	if err != nil {
		return err
	}
	for _, r := range ranges {
		if r.replicas != 1 {
			return fmt.Errorf("%s: slots %d to %d have %d replicas", s.Addr(), r.first, r.last, r.replicas)
		}
	}
	if hasRole(s, "master") == nil {
		return replicasInSync(s, 1)
	}
	return hasRole(s, "slave")
}

// clusterInfo returns nil when the field of CLUSTER INFO has the wanted value.
func clusterInfo(s *Server, field, want string) error {
	reply, err := s.probe("CLUSTER", "INFO")
	if err != nil {
		return err
	}
	if got := infoField(text(reply), field); got != want {
		return fmt.Errorf("%s: %s is %s", s.Addr(), field, got)
	}
	return nil
}

// Option returns the options of a cluster client that knows every node.
func (c *Cluster) Option() rueidis.ClientOption { return c.Target().Rueidis() }

// Client returns a client with [Cluster.Option] that is closed at the cleanup.
func (c *Cluster) Client() rueidis.Client {
	c.tb.Helper()
	return openClient(c.tb, c.Option(), c.nodes...)
}

// Nodes returns all nodes: the first masters, then their replicas in the same
// order.
func (c *Cluster) Nodes() []*Server { return slices.Clone(c.nodes) }

// Slot returns the hash slot of key: that of the part between the first "{" and
// the next "}" if it is not empty, of the whole key otherwise.
func (c *Cluster) Slot(key string) uint16 { return driver.Slot(key) }

// MasterFor returns the master that serves key. All nodes that answer must name the same one:
// during a failover MasterFor waits until they do.
func (c *Cluster) MasterFor(key string) *Server {
	c.tb.Helper()
	var master *Server
	until(c.tb, failoverLimit, "nodes of one mind about "+key, func() (err error) {
		master, err = c.agreed(driver.Slot(key), nil)
		return err
	})
	return master
}

// KillMasterFor kills the master that serves key and returns it.
func (c *Cluster) KillMasterFor(key string) *Server {
	c.tb.Helper()
	master := c.MasterFor(key)
	master.Kill()
	return master
}

// WaitFailover returns the new master of key, once all other nodes that answer name the same one in
// place of old, and find the cluster whole. It fails the test after a minute.
func (c *Cluster) WaitFailover(key string, old *Server) *Server {
	c.tb.Helper()
	var master *Server
	until(c.tb, failoverLimit, "failover from "+old.Addr(), func() (err error) {
		master, err = c.agreed(driver.Slot(key), old)
		if err != nil {
			return err
		}
		if master == old {
			return fmt.Errorf("%s is the master still", old.Addr())
		}
		if err := hasRole(master, "master"); err != nil {
			return err
		}
		return c.whole(old)
	})
	return master
}

// Promote makes the replica of old, the dead master that served key, take over
// at once, and returns it when all nodes know.
func (c *Cluster) Promote(key string, old *Server) *Server {
	c.tb.Helper()
	until(c.tb, failoverLimit, "takeover from "+old.Addr(), func() error {
		for _, s := range c.nodes {
			if s == old {
				continue
			}
			if reply, err := s.probe("CLUSTER", "NODES"); err == nil && isReplicaOf(text(reply), c.ids[old]) {
				_, err := s.Try("CLUSTER", "FAILOVER", "TAKEOVER")
				return err
			}
		}
		return fmt.Errorf("%s has no replica", old.Addr())
	})
	return c.WaitFailover(key, old)
}

// isReplicaOf reports whether the node that sent these CLUSTER NODES replicates
// the one with that id.
func isReplicaOf(nodes, id string) bool {
	for line := range strings.Lines(nodes) {
		if fields := strings.Fields(line); len(fields) > 3 && strings.HasPrefix(fields[2], "myself,") {
			return fields[3] == id
		}
	}
	return false
}

// Return restarts a master that was failed over, and returns when it is a
// replica in sync and all nodes know.
func (c *Cluster) Return(old *Server) {
	c.tb.Helper()
	old.Restart()
	until(c.tb, settleLimit, "a complete cluster", func() error { return each(c.nodes, c.complete) })
}

// agreed returns the owner of slot if a majority of the nodes answers and all that answer name the
// same one. except is not asked.
func (c *Cluster) agreed(slot uint16, except *Server) (*Server, error) {
	owners := make(map[*Server]int)
	answers := 0
	for _, s := range c.nodes {
		if s == except {
			continue
		}
		ranges, err := s.slotRanges()
		if err != nil {
			continue
		}
		owner, err := c.owner(ranges, slot)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Addr(), err)
		}
		owners[owner]++
		answers++
	}
	if answers <= masterCount {
		return nil, fmt.Errorf("%d nodes answer", answers)
	}
	for owner, votes := range owners {
		if votes == answers {
			return owner, nil
		}
	}
	return nil, fmt.Errorf("the nodes disagree about slot %d", slot)
}

// whole returns nil when all nodes that answer say that every slot is served. except is not asked.
func (c *Cluster) whole(except *Server) error {
	return each(c.nodes, func(s *Server) error {
		if s == except || s.PID() == 0 {
			return nil
		}
		return clusterInfo(s, "cluster_state", "ok")
	})
}

// owner returns the server that serves slot by the layout in ranges.
func (c *Cluster) owner(ranges []slotRange, slot uint16) (*Server, error) {
	for _, r := range ranges {
		if r.first <= int64(slot) && int64(slot) <= r.last {
			return byPort(c.nodes, r.port)
		}
	}
	return nil, fmt.Errorf("slot %d is served by none of %s", slot, strings.Join(addrsOf(c.nodes...), " "))
}
