//go:build unix

package integration

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/relock-go/relock/integration/faultproxy"
	"github.com/stretchr/testify/require"
)

// mishaps are what can befall a bed. Each returns false when the model, or a trouble in force, does not allow it now.
var mishaps = []struct {
	name   string
	happen func(*bed) bool
}{
	{"node stopped", (*bed).stopNode},
	{"node killed", (*bed).killNode},
	{"node restarted empty", (*bed).emptyNode},
	{"node restarted with stale data", (*bed).staleNode},
	{"line cut", lineFault((*faultproxy.Proxy).Cut)},
	{"line swallows all", lineFault((*faultproxy.Proxy).BlackHole)},
	{"replies lost", lineFault((*faultproxy.Proxy).LoseReplies)},
	{"commands late", lineFault((*faultproxy.Proxy).Stall)},
	{"worker cut off", (*bed).cutWorker},
	{"worker stopped", (*bed).stopWorker},
	{"worker stopped, its commands late", (*bed).delayWorker},
}

// last makes the trouble of a node or a worker last for up to twice a lease, half of them shorter than a third of it.
func (b *bed) last(node, worker int, end func()) bool {
	d := rand.N(b.lease / 3)
	if rand.N(2) == 0 {
		d = rand.N(2 * b.lease)
	}
	b.troubles = append(b.troubles, trouble{node, worker, now() + d, end})
	return true
}

// anyNode returns a node that no trouble has befallen, false when the one drawn is not so.
func (b *bed) anyNode() (int, bool) {
	i := rand.N(bedNodes)
	return i, !b.troubled(i, -1)
}

// stopNode mostly leaves a quorum to contend for.
func (b *bed) stopNode() bool {
	i, ok := b.anyNode()
	if !ok || !b.spare(i) && rand.N(8) > 0 {
		return false
	}
	b.nodes[i].Pause()
	return b.last(i, -1, b.nodes[i].Resume)
}

// killNode loses what was not saved.
func (b *bed) killNode() bool {
	i, ok := b.anyNode()
	if !ok || !b.spare(i) {
		return false
	}
	b.nodes[i].Kill()
	return b.last(i, -1, func() { b.restart(i, b.nodes[i].Restart) })
}

func (b *bed) emptyNode() bool {
	i, ok := b.anyNode()
	if !ok || !b.spare(i) {
		return false
	}
	b.restart(i, b.nodes[i].RestartEmpty)
	b.forgot[i].saved = false
	return true
}

// staleNode saves what a node knows, at the first time, and restarts it with that at the next.
func (b *bed) staleNode() bool {
	i, ok := b.anyNode()
	switch {
	case !ok:
		return false
	case !b.forgot[i].saved:
		b.nodes[i].Do("SAVE")
		b.forgot[i].saved = true
		return false
	case !b.spare(i):
		return false
	}
	b.restart(i, b.nodes[i].Restart)
	b.forgot[i].saved = rand.N(2) == 0 // else it is saved anew
	return true
}

func (b *bed) restart(i int, start func()) {
	b.forgot[i].since = now()
	start()
}

// lineFault befalls the line between one worker and one node.
func lineFault(begin func(*faultproxy.Proxy)) func(*bed) bool {
	return func(b *bed) bool {
		p := b.lines[rand.N(bedWorkers)][rand.N(bedNodes)]
		begin(p)
		return b.last(-1, -1, p.Heal)
	}
}

func (b *bed) cutWorker() bool {
	lines := b.lines[rand.N(bedWorkers)]
	for _, p := range lines {
		p.Cut()
	}
	return b.last(-1, -1, func() { heal(lines) })
}

func heal(lines []*faultproxy.Proxy) {
	for _, p := range lines {
		p.Heal()
	}
}

func (b *bed) stopWorker() bool {
	i := rand.N(bedWorkers)
	if b.troubled(-1, i) {
		return false
	}
	b.workers[i].pause()
	return b.last(-1, i, b.workers[i].resume)
}

// delayWorker stops a worker while its commands are held back: they run long after.
func (b *bed) delayWorker() bool {
	i := rand.N(bedWorkers)
	if b.troubled(-1, i) {
		return false
	}
	for _, p := range b.lines[i] {
		p.Stall()
	}
	b.workers[i].pause()
	return b.last(-1, i, func() { heal(b.lines[i]); b.workers[i].resume() })
}

// round lets one mishap happen, and others end.
func (b *bed) round() {
	const atOnce = 4 // more leave nobody a quorum to misuse
	b.cure(false)
	for len(b.troubles) < atOnce {
		m := mishaps[rand.N(len(mishaps))]
		if (len(b.only) == 0 || slices.Contains(b.only, m.name)) && m.happen(b) {
			b.counts[m.name]++
			break
		}
	}
	time.Sleep(time.Duration(rand.N(40)) * time.Millisecond)
}

// Faults befall nodes, lines and workers at random, within the model: no two leases are valid at one instant, and tokens
// rise.
func TestRedlockUnderRandomFaults(t *testing.T) {
	begin(t)
	const wanted, most = 1000, 60 * time.Second
	b := startBed(t, 500*time.Millisecond, quorumJob{})
	begun, happened := now(), 0
	for happened < wanted && (long() || now()-begun < most) {
		b.round()
		happened = total(b.counts)
	}
	took := now() - begun
	events := b.close()
	t.Logf("%d rounds in %v: %v", happened, took.Round(time.Millisecond), b.counts)
	for lock := range bedLocks {
		t.Logf("%s: %d grants, waited: %v", lock, len(only(events, kind(granted, lock))), figures(waits(events, lock)))
		judgeStops(t, events, lock)
		for _, s := range b.nodes {
			absent(t, 5*b.lease, s, lock)
		}
	}
	require.Greater(t, b.jl.count(lost), happened/100, "too few leases are lost")
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// Each guard is needed: without it the same faults break what it guards. The restart guard is needed for a rare
// coincidence, so only the faults that make for it happen there. The write-back is needed because clocks are apart.
func TestRedlockNeedsEachGuard(t *testing.T) {
	for name, c := range map[string]struct {
		job    quorumJob
		only   []string
		broken func([]event, string) int
	}{
		"restart guard": {quorumJob{Unguarded: true}, []string{"line cut", "node restarted empty"}, overlapping},
		"write-back":    {quorumJob{NoFence: true}, nil, disordered},
	} {
		t.Run(name, func(t *testing.T) {
			begin(t)
			b := startBed(t, 500*time.Millisecond, c.job)
			b.only = c.only
			begun, found := now(), 0
			for looked := begun; found == 0; {
				require.Less(t, now()-begun, 5*time.Minute, "nothing broke in %d rounds", total(b.counts))
				b.round()
				if now()-looked < time.Second {
					continue
				}
				looked = now()
				for lock := range bedLocks {
					found += c.broken(b.jl.all(), lock)
				}
			}
			t.Logf("broken within %d rounds, %v", total(b.counts), (now() - begun).Round(time.Millisecond))
			b.close()
		})
	}
}

func overlapping(events []event, lock string) int { return len(overlaps(spans(events, lock))) }

func disordered(events []event, lock string) int {
	return len(disorder(spans(events, lock))) + len(repeated(events, lock))
}
