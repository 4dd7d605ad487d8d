//go:build unix

package integration

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/integration/faultproxy"
	"github.com/relock-go/relock/internal/redistest"
)

const (
	bedNodes   = 5
	bedWorkers = 3
)

// bedClocks is how far the nodes' clocks are ahead: as far apart as clients bear where the guard waits for half a second.
var bedClocks = [bedNodes]time.Duration{100 * time.Millisecond, 0, -100 * time.Millisecond, 0, 0}

// bedLocks are what the workers contend for, and for how long a worker keeps each at most, in leases.
var bedLocks = map[string]float64{"long": 3, "short": 0.2, "brief": 0.02}

// bed is a quorum and the workers that contend for locks on it, each with a line of its own to each node.
type bed struct {
	t       *testing.T
	jl      *journal
	lease   time.Duration
	nodes   []*redistest.Server
	lines   [][]*faultproxy.Proxy // of a worker, to a node
	workers []*worker

	unguarded bool     // the nodes have no restart guard
	only      []string // mishaps that happen; empty for all
	troubles  []trouble
	forgot    [bedNodes]forgetting
	counts    map[string]int
}

// trouble is a fault in force.
type trouble struct {
	node, worker int // whom it befell, -1 for none
	until        time.Duration
	end          func()
}

// forgetting is what is known of a node's loss of memory.
type forgetting struct {
	since time.Duration // when it lost its memory for the last time; 0 for never, or over
	saved bool          // there is a file it would start from
}

func startBed(t *testing.T, lease time.Duration, q quorumJob) *bed {
	t.Helper()
	q.Longest = lease
	b := &bed{t: t, jl: newJournal(), lease: lease, unguarded: q.Unguarded, counts: make(map[string]int)}
	for _, ahead := range bedClocks {
		s, jump := startJumpy(t)
		jump(ahead)
		b.nodes = append(b.nodes, s)
	}
	for id := range bedWorkers {
		j := job{Lease: lease, Quorum: &q}
		var lines []*faultproxy.Proxy
		for _, s := range b.nodes {
			lines = append(lines, faultproxy.New(t, s.Addr()))
			j.Addrs = append(j.Addrs, lines[len(lines)-1].Addr())
		}
		b.lines = append(b.lines, lines)
		b.workers = append(b.workers, startWorker(t, b.jl, id, j))
	}
	for id, w := range b.workers {
		for lock, hold := range bedLocks {
			w.order("contend %s 2 %v 5ms", lock, time.Duration(hold*float64(lease)))
			prefix := fmt.Sprintf("w%d.", id)
			b.jl.await(t, soon, 0, "a worker's first grant", func(e event) bool {
				return e.kind == granted && e.lock == lock && strings.HasPrefix(e.who, prefix)
			})
		}
	}
	return b
}

// spare reports whether node i is one of the minority that may be out now, and thus may lose its memory. The system model
// has it that no more than a minority forgets within one lease. A node that forgot counts until it grants again: its
// quarantine is over and it was told the fencing counter; with the guard off it counts for one lease.
func (b *bed) spare(i int) bool {
	out := 0
	for n := range b.nodes {
		if n != i && (b.troubled(n, -1) || b.forgetful(n)) {
			out++
		}
	}
	return out < (bedNodes-1)/2
}

func (b *bed) forgetful(n int) bool {
	f := &b.forgot[n]
	if f.since == 0 {
		return false
	}
	if b.troubled(n, -1) || now()-f.since < b.lease || !b.unguarded && !b.serves(n) {
		return true
	}
	f.since = 0
	return false
}

// serves reports whether a node that forgot takes part again.
func (b *bed) serves(n int) bool {
	born := b.nodes[n].Do("HGET", "relock_incarnation", "born")
	ms, err := strconv.ParseInt(born, 10, 64)
	if err != nil || time.Since(time.UnixMilli(ms)) < b.lease+2*time.Millisecond {
		return false
	}
	for lock := range bedLocks {
		if b.nodes[n].Do("GET", "relock_seed:{"+lock+"}") != born {
			return false
		}
	}
	return true
}

// troubled reports whether a trouble of the node, or of the worker, is in force.
func (b *bed) troubled(node, worker int) bool {
	for _, tr := range b.troubles {
		if node >= 0 && tr.node == node || worker >= 0 && tr.worker == worker {
			return true
		}
	}
	return false
}

// cure ends the troubles whose time is over, or all.
func (b *bed) cure(all bool) {
	kept := b.troubles[:0]
	for _, tr := range b.troubles {
		if all || now() >= tr.until {
			tr.end()
		} else {
			kept = append(kept, tr)
		}
	}
	b.troubles = kept
}

// close heals everything, lets the workers end, and returns what they wrote.
func (b *bed) close() []event {
	b.t.Helper()
	b.cure(true)
	finish(b.t, b.workers...)
	return b.jl.all()
}
