package run

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/redistest"
)

const (
	slotCount = 16384
	formLimit = 20 * time.Second // for nodes to agree on their Cluster
)

// findMasters starts what the cells on a Cluster need, or takes them out of the plan.
func (r *runner) findMasters(ctx context.Context) {
	n := 0
	for _, c := range r.plan.cells {
		n = max(n, c.params.Masters)
	}
	if n == 0 {
		return
	}
	var err error
	if r.masters, err = startMasters(ctx, n); err != nil {
		r.note("many-keys on a Cluster left out: it cannot be started: %v", err)
		r.plan.cells = slices.DeleteFunc(r.plan.cells, func(c cell) bool { return c.params.Masters > 0 })
	}
}

// startMasters forms a Cluster of n masters, which share the slots evenly and have no replicas.
func startMasters(ctx context.Context, n int) (*nodes, error) {
	q, err := startNodes(ctx, n, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")
	if err != nil {
		return nil, err
	}
	if err := q.form(ctx); err != nil {
		q.close()
		return nil, fmt.Errorf("form a Cluster: %w", err)
	}
	return q, nil
}

// form makes the servers one Cluster.
func (q *nodes) form(ctx context.Context) error {
	n := len(q.servers)
	for i, s := range q.servers {
		slots := []string{"CLUSTER", "ADDSLOTS"}
		for slot := i * slotCount / n; slot < (i+1)*slotCount/n; slot++ {
			slots = append(slots, strconv.Itoa(slot))
		}
		for _, command := range [][]string{
			{"CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i + 1)}, // spares them resolving a collision
			slots,
			{"CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(q.servers[0].Port())},
		} {
			if _, err := s.Try(command...); err != nil {
				return err
			}
		}
	}
	limit, cancel := context.WithTimeout(ctx, formLimit)
	defer cancel()
	for _, s := range q.servers {
		for !whole(s, n) {
			if err := sleepUntil(limit, time.Now().Add(20*time.Millisecond)); err != nil {
				return fmt.Errorf("%s does not see all of it: %w", s.Addr(), err)
			}
		}
	}
	return nil
}

// whole reports whether the server sees n nodes and every slot served.
func whole(s *redistest.Server, n int) bool {
	reply, err := s.Try("CLUSTER", "INFO")
	text, _ := reply.(string)
	info := fields(text)
	return err == nil && info["cluster_state"] == "ok" && info["cluster_known_nodes"] == strconv.Itoa(n) &&
		info["cluster_slots_ok"] == strconv.Itoa(slotCount)
}
