//go:build unix

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

const (
	crowdLease = 6 * time.Second // longer than a failover takes
	shared     = "{orders}"      // the lock that all workers contend for
)

// crowd is three workers at work: each keeps locks of its own, and contends for a shared one. All keys share a slot.
type crowd struct {
	t       *testing.T
	jl      *journal
	workers []*worker
	kept    map[string]*worker // by lock
}

func startCrowd(t *testing.T, o rueidis.ClientOption) *crowd {
	t.Helper()
	c := &crowd{t: t, jl: newJournal(), kept: make(map[string]*worker)}
	begun := now()
	for id := range 3 {
		w := startWorker(t, c.jl, id, jobFor(o, crowdLease))
		for i := range 5 {
			lock := fmt.Sprintf("{orders}:kept:%d:%d", id, i)
			c.kept[lock] = w
			w.order("lock %s", lock)
			c.jl.await(t, soon, begun, "a grant", kind(granted, lock))
		}
		c.workers = append(c.workers, w)
		w.order("contend %s 2 10ms 10ms", shared)
	}
	c.everyoneServed(begun)
	return c
}

// everyoneServed returns how long after since every worker had been granted the shared lock, and how long the first.
func (c *crowd) everyoneServed(since time.Duration) (first, last time.Duration) {
	c.t.Helper()
	first = crowdLease + soon
	for id := range c.workers {
		prefix := fmt.Sprintf("w%d.", id)
		e := c.jl.await(c.t, soon, since, "a grant after the fault", func(e event) bool {
			return e.kind == granted && e.lock == shared && strings.HasPrefix(e.who, prefix)
		})
		first, last = min(first, e.at-since), max(last, e.at-since)
	}
	return first, last
}

// settle waits until every lease from before the fault was renewed or has ended.
func (c *crowd) settle() { time.Sleep(crowdLease) }

// compare checks that each kept lock is trusted by its holder exactly if it stands in Redis as that holder's. It
// returns when the losses were told.
func (c *crowd) compare(master *redistest.Server) (told []time.Duration) {
	c.t.Helper()
	for lock, w := range c.kept {
		asked := now()
		w.order("look %s", lock)
		e := c.jl.await(c.t, soon, asked, "an answer", func(e event) bool {
			return e.lock == lock && (e.kind == trusted || e.kind == lost)
		})
		inRedis := strings.HasPrefix(master.Do("HKEYS", lock), w.client+":")
		require.Equal(c.t, inRedis, e.kind == trusted, "%s: in Redis, and trusted by its holder", lock)
		if e.kind == lost {
			first := only(c.jl.all(), kind(lost, lock))[0]
			require.Equal(c.t, "told", first.note, "the holder had to ask")
			told = append(told, first.at)
		}
	}
	return told
}

func (c *crowd) locks() []string {
	locks := []string{shared}
	for lock := range c.kept {
		locks = append(locks, lock)
	}
	return locks
}

func (c *crowd) judgeFault(fault, back time.Duration) {
	c.t.Helper()
	events := c.jl.all()
	nothingFailed(c.t, events)
	judgeAcross(c.t, events, shared, fault, back)
}

// judgeAcross checks exclusion and order, but for what a Redis that forgot can break: a lease granted before it was back
// may still be trusted beside a later one, for the rest of its time.
func judgeAcross(t *testing.T, events []event, lock string, fault, back time.Duration) {
	t.Helper()
	sorted := spans(events, lock)
	excused := 0
	for _, o := range overlaps(sorted) {
		require.True(t, o.earlier.first < back && o.earlier.last < back+crowdLease, "%v", o)
		excused++
	}
	var before, after []span
	for _, s := range sorted {
		switch {
		case s.last < fault:
			before = append(before, s)
		case s.first > back:
			after = append(after, s)
		}
	}
	require.Empty(t, disorder(before))
	require.Empty(t, disorder(after))
	t.Logf("%d leases of %s before, %d after; %d overlaps across the fault", len(before), lock, len(after), excused)
}

// reportBack logs how long recovery took and judges it.
func (c *crowd) reportBack(fault, back time.Duration) {
	c.t.Helper()
	first, last := c.everyoneServed(back)
	c.t.Logf("Redis back %v after the fault; first grant %v later, every worker served %v later",
		(back - fault).Round(time.Millisecond), first.Round(time.Millisecond), last.Round(time.Millisecond))
	// A release that Redis forgot leaves the lock to its lease.
	require.Less(c.t, first, crowdLease+time.Second)
}

func TestRestartEmpty(t *testing.T) {
	begin(t)
	s := redistest.Start(t)
	c := startCrowd(t, s.Option())
	fault := now()
	s.RestartEmpty()
	back := now()
	c.reportBack(fault, back)
	c.settle()
	told := c.compare(s)
	require.Len(t, told, len(c.kept), "nobody can hold what Redis forgot")
	var late figures
	for _, at := range told {
		late = append(late, at-fault)
	}
	t.Logf("lease %v, holders told after the fault: %v", crowdLease, late)
	require.LessOrEqual(t, late.max(), crowdLease)
	finish(t, c.workers...)
	c.judgeFault(fault, back)
	absent(t, crowdLease, s, c.locks()...)
}

func TestSentinelFailover(t *testing.T) {
	begin(t)
	g := redistest.StartSentinel(t)
	c := startCrowd(t, g.Option())
	fault := now()
	old := g.KillMaster()
	g.WaitFailover(old)
	c.judgeFailover(fault, g.Master)
}

func TestClusterFailover(t *testing.T) {
	begin(t)
	cluster := redistest.StartCluster(t)
	c := startCrowd(t, cluster.Option())
	fault := now()
	old := cluster.KillMasterFor(shared)
	cluster.WaitFailover(shared, old)
	c.judgeFailover(fault, func() *redistest.Server { return cluster.MasterFor(shared) })
}

// judgeFailover waits for recovery after a failover that has just ended. Who is master is asked anew each time: on a
// machine that stalls, another failover may follow.
func (c *crowd) judgeFailover(fault time.Duration, master func() *redistest.Server) {
	c.t.Helper()
	back := now()
	forgotten := 0
	for lock, w := range c.kept {
		if w == c.workers[0] { // as if these had not been replicated in time
			master().Do("DEL", lock)
			forgotten++
		}
	}
	c.reportBack(fault, back)
	c.settle()
	told := c.compare(master())
	c.t.Logf("of %d kept locks %d forgotten, %d holders told", len(c.kept), forgotten, len(told))
	require.GreaterOrEqual(c.t, len(told), forgotten)
	for _, at := range told {
		require.Less(c.t, at, back+crowdLease)
	}
	finish(c.t, c.workers...)
	c.judgeFault(fault, back)
	absent(c.t, 2*crowdLease, master(), c.locks()...)
}

// A slot moves, keys and all, and moves back: nobody notices.
func TestSlotMoved(t *testing.T) {
	begin(t)
	cluster := redistest.StartCluster(t)
	c := startCrowd(t, cluster.Option())
	var took figures
	var master *redistest.Server
	for range rounds(4, 40) {
		moving := now()
		master = cluster.MoveSlot(shared)
		moved := now()
		_, last := c.everyoneServed(moved)
		took = append(took, moved-moving+last)
	}
	t.Logf("from the start of a move until every worker was served at the new place: %v", took)
	require.Less(t, took.max(), crowdLease, "a grant was lost")
	c.settle()
	require.Empty(t, c.compare(master))
	finish(t, c.workers...)
	events := c.jl.all()
	nothingFailed(t, events)
	judgeAllOK(t, events, shared)
	t.Logf("idle beside a waiter: %v", figures(idle(events, shared)))
	absent(t, crowdLease, master, c.locks()...)
}
