//go:build unix

package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// idleSlots returns how long each of the locks of an Any was free beside a waiter, each time that one was granted. It counts
// from when its holder began to unlock it, or from when the longest waiting of those that wait came.
func idleSlots(events []event, slots []string) (out []time.Duration) {
	waiting, free := make(map[string]time.Duration), make(map[string]time.Duration)
	for _, e := range events {
		switch slot := slices.Contains(slots, e.lock); {
		case e.kind == want:
			waiting[e.who] = e.at
		case e.kind == gaveUp:
			delete(waiting, e.who)
		case slot && (e.kind == unlocking || e.kind == lost):
			free[e.lock] = e.at
		case slot && e.kind == granted:
			earliest := e.at
			for _, at := range waiting {
				earliest = min(earliest, at)
			}
			out = append(out, e.at-max(free[e.lock], earliest))
			delete(waiting, e.who)
		}
	}
	return out
}

func TestIdleSlots(t *testing.T) {
	slots := []string{"a", "b"}
	of := func(at int, kind, who, lock string) event {
		return event{at: time.Duration(at), kind: kind, who: who, lock: lock}
	}
	require.Equal(t, []time.Duration{2, 3, 4}, idleSlots([]event{
		of(10, want, "w1", "a|b"), of(12, granted, "w1", "a"), of(20, want, "w2", "a|b"), of(23, granted, "w2", "b"),
		of(30, want, "w3", "a|b"), of(31, want, "w4", "a|b"), of(32, gaveUp, "w4", "a|b"), of(40, unlocking, "w1", "a"),
		of(44, granted, "w3", "a"), of(44, unlocked, "w1", "a"),
	}, slots))
}

// anyCrowd are processes that want any of 8 locks.
func anyCrowd(t *testing.T, s *redistest.Server, jl *journal, n int, lease time.Duration, slots []string) (workers []*worker) {
	for id := range n {
		workers = append(workers, startAny(t, s, jl, id, lease, slots))
	}
	return workers
}

func startAny(t *testing.T, s *redistest.Server, jl *journal, id int, lease time.Duration, slots []string) *worker {
	w := startWorker(t, jl, id, jobFor(s.Option(), lease))
	// Locks that come free together are granted to one waiter, which keeps one of them: here few do.
	w.order("any slot 1 250ms 1ms %s", strings.Join(slots, " "))
	return w
}

// Processes want any of 8 locks: none of them has two holders, none lies idle beside a waiter, all processes get their turns,
// and nothing is left.
func TestAnyOfManyProcesses(t *testing.T) {
	begin(t)
	const lease, slack = 10 * time.Second, 10 * time.Millisecond
	s := redistest.Start(t)
	jl, slots := newJournal(), numberedFrom("slot", 8)
	workers := anyCrowd(t, s, jl, rounds(16, 32), lease, slots)
	began := now()
	machine := startDrag(t)
	time.Sleep(time.Duration(rounds(4, 30)) * time.Second) // what is counted
	ended := now()
	held := machine.end()
	finish(t, workers...)
	events := jl.all()
	judgeSeveral(t, events, slots)
	require.Empty(t, only(events, func(e event) bool { return e.kind == lost || e.kind == unlocked && e.note != "ok" }))
	events = only(events, func(e event) bool { return e.at > began && e.at < ended })
	counts := shares(workers, events, func(e event) bool { return e.kind == granted })
	free := figures(idleSlots(events, slots))
	t.Logf("%d processes had one of 8 locks %d to %d times", len(workers), slices.Min(counts), slices.Max(counts))
	require.Positive(t, slices.Min(counts))
	t.Logf("a lock was free beside a waiter: %v (machine held up %v)", free, held)
	require.LessOrEqual(t, free.at(0.9), slack+held)
	if long() { // in the short form two or three times are above the 99th percentile, and each may be the machine's
		require.LessOrEqual(t, free.at(0.99), slack+3*held)
	}
	absent(t, soon, s, slots...)
}

// A process is killed that may hold one of 8 locks, and waits for all: within a lease and 100 ms each of them is granted again.
func TestAnyHolderKilled(t *testing.T) {
	begin(t)
	const lease, slack = 500 * time.Millisecond, 100 * time.Millisecond
	s := redistest.Start(t)
	jl, slots := newJournal(), numberedFrom("slot", 8)
	workers := anyCrowd(t, s, jl, 12, lease, slots)
	var took figures
	machine := startDrag(t)
	for i := range rounds(8, 100) {
		at := i % len(workers)
		jl.await(t, soon, now(), "a grant", func(e event) bool { return e.kind == granted && workers[at].owns(e) })
		workers[at].kill()
		killed := now()
		for _, slot := range slots {
			took = append(took, jl.await(t, soon, killed, "a grant", kind(granted, slot)).at-killed)
		}
		workers[at] = startAny(t, s, jl, 100+i, lease, slots)
	}
	held := machine.end()
	t.Logf("from SIGKILL of a process to the next grant of each lock, lease %v: %v (machine held up %v)", lease, took, held)
	finish(t, workers...)
	require.Greater(t, took.max(), lease/2, "a holder was killed")
	require.LessOrEqual(t, took.max(), lease+slack+3*held)
	judgeSeveral(t, jl.all(), slots)
	absent(t, lease+slack, s, slots...)
}
