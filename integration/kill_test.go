//go:build unix

package integration

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A holder's process dies: the first waiter has the lock within one lease and 100 ms.
func TestHolderKilled(t *testing.T) {
	begin(t)
	const lease, slack = 500 * time.Millisecond, 100 * time.Millisecond
	s := redistest.Start(t)
	jl, j := newJournal(), jobFor(s.Option(), lease)
	id := 0
	next := func() *worker {
		id++
		w := startWorker(t, jl, id, j)
		w.order("lock orders")
		return w
	}
	begun := now()
	holder := next()
	jl.await(t, soon, begun, "the first grant", kind(granted, "orders"))

	var took figures
	machine := startDrag(t)
	for range rounds(30, 200) {
		waiter := next()
		queued(t, s, "orders", 1)
		time.Sleep(rand.N(lease / 3)) // anywhere between two renewals
		killed := now()
		holder.kill()
		took = append(took, jl.await(t, soon, killed, "a grant", kind(granted, "orders")).at-killed)
		holder = waiter
	}
	held := machine.end()
	t.Logf("from SIGKILL of the holder to the next grant, lease %v: %v (machine held up %v)", lease, took, held)
	finish(t, holder)
	require.LessOrEqual(t, took.max(), lease+slack+3*held)
	require.LessOrEqual(t, took.at(0.5), lease+slack)
	events := jl.all()
	nothingFailed(t, events)
	require.Empty(t, repeated(events, "orders"))
	absent(t, lease, s, "orders")
}

// The first waiter's process dies: an unlock serves the second one without waiting for the dead one, from when Redis has
// noticed that its connections are closed. A busy one may first serve an unlock that came after.
func TestWaiterKilled(t *testing.T) {
	begin(t)
	const lease, slack = 2 * time.Second, 50 * time.Millisecond
	s := redistest.Start(t)
	jl, j := newJournal(), jobFor(s.Option(), lease)
	holder := startWorker(t, jl, 1, j)
	waiter := startWorker(t, jl, 2, j)

	handover := func(lock string, first *worker) time.Duration {
		begun := now()
		holder.order("lock %s", lock)
		jl.await(t, soon, begun, "a grant", kind(granted, lock))
		ahead := 0
		if first != nil {
			first.order("lock %s", lock)
			queued(t, s, lock, 1)
			ahead = 1
		}
		waiter.order("lock %s", lock)
		queued(t, s, lock, 1+ahead)
		if first != nil {
			first.kill()
			gone := func() bool { return strings.HasSuffix(s.Do("PUBSUB", "NUMSUB", "relock_inbox:"+first.client), "\n0") }
			require.Eventually(t, gone, soon, time.Millisecond)
		}
		released := now()
		holder.order("unlock %s", lock)
		left := jl.await(t, soon, released, "the unlock", kind(unlocking, lock))
		got := jl.await(t, soon, released, "the hand-over", kind(granted, lock))
		waiter.order("unlock %s", lock)
		jl.await(t, soon, released, "the end", func(e event) bool {
			return e.kind == unlocked && e.lock == lock && e.at > got.at
		})
		return got.at - left.at
	}
	var plain, past figures
	var locks []string
	machine := startDrag(t)
	for i := range rounds(25, 200) {
		alive, dead := fmt.Sprintf("alive:%d", i), fmt.Sprintf("dead:%d", i)
		plain = append(plain, handover(alive, nil))
		past = append(past, handover(dead, startWorker(t, jl, 10+i, j)))
		locks = append(locks, alive, dead)
	}
	held := machine.end()
	t.Logf("hand-over between processes: %v (machine held up %v)", plain, held)
	t.Logf("hand-over past a first waiter that was killed: %v", past)
	finish(t, holder, waiter)
	require.LessOrEqual(t, past.max()-plain.at(0.5), slack+3*held)
	require.LessOrEqual(t, past.at(0.5)-plain.at(0.5), slack)
	nothingFailed(t, jl.all())
	absent(t, soon, s, locks...)
}

// A process dies that has 10,000 locks lying idle: others have each of them within a lease, and the time that it takes to
// take as many that are free.
func TestProcessWithIdleLocksKilled(t *testing.T) {
	begin(t)
	const lease, locks, goroutines, slack = 3 * time.Second, 10_000, 500, time.Second
	s := redistest.Start(t)
	jl, j := newJournal(), jobFor(s.Option(), lease)
	j.Linger = time.Hour
	w := startWorker(t, jl, 1, j)
	names := make([]string, locks)
	for i := range names {
		names[i] = numbered("stock", i)
	}
	begun := now()
	w.order("idle stock %d", locks)
	jl.await(t, time.Minute, begun, "the last unlock", kind(unlocked, "stock"))
	idle, err := strconv.Atoi(s.Do(append([]string{"EXISTS"}, names...)...))
	require.NoError(t, err)
	require.Greater(t, idle, locks*9/10, "they lie idle, but for those taken before the worker heard messages")

	rdb := s.Client()
	c, err := relock.New(rdb, relock.WithLease(lease))
	require.NoError(t, err)
	defer c.Close()
	takeAll := func(name string) time.Duration {
		start := now()
		var all sync.WaitGroup
		for first := range goroutines {
			all.Go(func() {
				for i := first; i < locks; i += goroutines {
					l, err := c.Mutex(numbered(name, i)).Lock(t.Context())
					if assert.NoError(t, err) {
						assert.NoError(t, l.Unlock(t.Context()))
					}
				}
			})
		}
		all.Wait()
		return now() - start
	}
	machine := startDrag(t)
	free := takeAll("free")
	w.kill()
	took := takeAll("stock")
	dragged := machine.end()
	t.Logf("10,000 free locks took %v, those of a dead process %v, lease %v (machine held up %v)", free, took, lease, dragged)
	require.LessOrEqual(t, took, lease+3*free+slack+3*dragged)
	nothingFailed(t, jl.all())
}
