//go:build unix

package integration

import (
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// pester does something to Redis every 50 ms while processes contend: no Lock fails, no lease is lost, and the lock
// never lies idle beside a waiter for more than a second. The lease is so long that neither its end nor the polls can
// be what brings a waiter forward.
func pester(t *testing.T, command ...string) {
	t.Parallel()
	const lease, most = 30 * time.Second, time.Second
	s := redistest.Start(t)
	jl := newJournal()
	var workers []*worker
	for id := range 4 {
		workers = append(workers, startWorker(t, jl, id, jobFor(s.Option(), lease)))
	}
	for _, w := range workers {
		w.order("contend orders 3 10ms 20ms")
	}
	span := time.Duration(rounds(30, 300)) * time.Second
	times, hits := 0, 0
	begun := now()
	machine := startDrag(t)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := begun + span; now() < end; times++ {
		<-tick.C
		if n, err := strconv.Atoi(s.Do(command...)); err == nil {
			hits += n
		}
	}
	span = now() - begun
	held := machine.end()
	finish(t, workers...)

	events := jl.all()
	gaps := figures(idle(events, "orders"))
	t.Logf("%v %d times in %v, connections hit %d; %d grants",
		command, times, span.Round(time.Millisecond), hits, len(gaps))
	patience := figures(waits(events, "orders"))
	t.Logf("idle beside a waiter: %v (machine held up %v)", gaps, held)
	t.Logf("waited for the lock: %v", patience)
	nothingFailed(t, events)
	judgeAllOK(t, events, "orders")
	require.Greater(t, len(gaps), 100)
	require.LessOrEqual(t, gaps.max(), most+3*held)
	require.LessOrEqual(t, gaps.at(0.9), most)
	require.Less(t, patience.max(), lease/6+held, "a waiter was forgotten until its next poll")
	if command[0] == "CLIENT" {
		require.Greater(t, hits, times/2, "hardly any connection was there to be killed")
	}
	absent(t, soon/10, s, "orders")
}

// judgeAllOK checks that every unlock went well and that no lease was lost.
func judgeAllOK(t *testing.T, events []event, lock string) {
	t.Helper()
	require.Empty(t, only(events, func(e event) bool {
		return e.kind == lost || e.kind == unlocked && e.note != "ok"
	}))
	require.Empty(t, overlaps(spans(events, lock)))
	require.Empty(t, disorder(spans(events, lock)))
}

func TestPestered(t *testing.T) {
	begin(t)
	t.Run("at once", func(t *testing.T) {
		t.Run("subscriptions killed", func(t *testing.T) { pester(t, "CLIENT", "KILL", "TYPE", "pubsub") })
		t.Run("scripts flushed", func(t *testing.T) { pester(t, "SCRIPT", "FLUSH") })
	})
}

// A lock is released while its only waiter hears nothing. No later release calls that waiter, and its polls are ten
// seconds apart: it is its new subscription that makes it look.
func TestReleasedUnheard(t *testing.T) {
	begin(t)
	const lease = 30 * time.Second
	s := redistest.Start(t)
	jl, j := newJournal(), jobFor(s.Option(), lease)
	holder, waiter := startWorker(t, jl, 1, j), startWorker(t, jl, 2, j)
	var took figures
	machine := startDrag(t)
	for range rounds(40, 400) {
		begun := now()
		holder.order("lock orders")
		jl.await(t, soon, begun, "a grant", kind(granted, "orders"))
		waiter.order("lock orders")
		queued(t, s, "orders", 1)
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		released := now()
		holder.order("unlock orders")
		got := jl.await(t, soon, released, "the waiter's grant", kind(granted, "orders")).at
		took = append(took, got-released)
		waiter.order("unlock orders")
		jl.await(t, soon, got, "the end", func(e event) bool { return e.kind == unlocked && e.who[:2] == "w2" })
		jl.await(t, soon, released, "the release", func(e event) bool { return e.kind == unlocked && e.who[:2] == "w1" })
	}
	held := machine.end()
	t.Logf("from a release that its waiter could not hear to the grant: %v (machine held up %v)", took, held)
	require.LessOrEqual(t, took.max(), time.Second+3*held)
	finish(t, holder, waiter)
	judgeAllOK(t, jl.all(), "orders")
	absent(t, soon/10, s, "orders")
}
