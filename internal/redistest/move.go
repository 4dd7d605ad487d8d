package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/relock-go/relock/internal/driver"
)

const (
	migrateBatch = 100
	migrateLimit = "5000" // milliseconds a MIGRATE may take
)

// Move is the migration of one slot from a master to another, step by step, so
// that a test can look at the moments between. Until Finish, From serves the
// keys that it still has and answers ASK for the others.
type Move struct {
	From, To *Server

	cluster *Cluster
	slot    uint16
}

// BeginMove opens the migration of key's slot to another master: From is
// migrating, To importing, no key has moved.
func (c *Cluster) BeginMove(key string) *Move {
	c.tb.Helper()
	from := c.MasterFor(key)
	m := &Move{From: from, To: c.otherMaster(from), cluster: c, slot: driver.Slot(key)}
	m.setSlot(m.To, "IMPORTING", m.From)
	m.setSlot(m.From, "MIGRATING", m.To)
	return m
}

// Keys moves the keys that the slot holds.
func (m *Move) Keys() {
	m.cluster.tb.Helper()
	for {
		reply, err := m.From.Try("CLUSTER", "GETKEYSINSLOT", strconv.Itoa(int(m.slot)), strconv.Itoa(migrateBatch))
		if err != nil {
			m.cluster.tb.Fatalf("redistest: keys of slot %d: %v", m.slot, err)
		}
		keys, _ := reply.([]any)
		if len(keys) == 0 {
			return
		}
		names := make([]string, 0, len(keys))
		for _, key := range keys {
			names = append(names, text(key))
		}
		m.Take(names...)
	}
}

// Take moves some of the slot's keys.
func (m *Move) Take(keys ...string) {
	m.cluster.tb.Helper()
	m.From.Do(append([]string{"MIGRATE", loopback, strconv.Itoa(m.To.port), "", "0", migrateLimit, "KEYS"}, keys...)...)
}

// Finish moves the keys left and makes To the owner. It returns when every node
// that answers knows.
func (m *Move) Finish() {
	c := m.cluster
	c.tb.Helper()
	m.Keys()
	// The new owner first: it must know before the old one sends clients there.
	m.setSlot(m.To, "NODE", m.To)
	m.setSlot(m.From, "NODE", m.To)
	for _, node := range c.nodes {
		if node != m.To && node != m.From && hasRole(node, "master") == nil {
			m.setSlot(node, "NODE", m.To)
		}
	}
	until(c.tb, settleLimit, fmt.Sprintf("move of slot %d to %s", m.slot, m.To.Addr()), func() error {
		owner, err := c.agreed(m.slot, nil)
		if err == nil && owner != m.To {
			err = fmt.Errorf("%s serves it", owner.Addr())
		}
		return err
	})
}

// MoveSlot moves key's slot with all its keys to another master, while clients
// may go on working, and returns the new owner when every node knows it.
func (c *Cluster) MoveSlot(key string) *Server {
	c.tb.Helper()
	m := c.BeginMove(key)
	m.Finish()
	return m.To
}

// setSlot tells a node of the slot's move. Valkey 8 waits two seconds for the node's replicas. If
// they do not confirm by then, on a busy machine or while one is on its way down, it refuses with
// NOREPLICAS and has changed nothing: setSlot tries again.
func (m *Move) setSlot(node *Server, state string, peer *Server) {
	m.cluster.tb.Helper()
	until(m.cluster.tb, settleLimit, fmt.Sprintf("slot %d %s at %s", m.slot, state, node.Addr()), func() error {
		_, err := node.Try("CLUSTER", "SETSLOT", strconv.Itoa(int(m.slot)), state, m.cluster.ids[peer])
		if err != nil && !strings.HasPrefix(err.Error(), "NOREPLICAS ") {
			m.cluster.tb.Fatalf("redistest: %s: CLUSTER SETSLOT %s: %v", node.Addr(), state, err)
		}
		return err
	})
}

// otherMaster returns a master that answers and is not s.
func (c *Cluster) otherMaster(s *Server) *Server {
	c.tb.Helper()
	i := slices.IndexFunc(c.nodes, func(node *Server) bool {
		return node != s && hasRole(node, "master") == nil
	})
	if i < 0 {
		c.tb.Fatalf("redistest: %s is the only master", s.Addr())
		return nil
	}
	return c.nodes[i]
}
