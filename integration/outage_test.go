//go:build unix

package integration

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

const (
	outageLasts   = 4 * time.Second
	outageCallers = 50
	outageTime    = 300 * time.Millisecond // that each call has
	outageLease   = 2 * time.Second

	inFlight   = 256      // commands to one Redis that may be on their way at once
	attend     = 64       // goroutines by Redis of its client, the sweeper, the hub and the test
	outageHeap = 16 << 20 // what an outage may keep in memory, by Redis: 64 KiB for each command in flight
)

// outage is a Redis that is away while many call, and what that costs.
type outage struct {
	t     *testing.T
	nodes []*redistest.Server
	locks *relock.Client
	call  func(*relock.Mutex, context.Context) (*relock.Lease, error)

	mu    sync.Mutex // guards the rest
	late  figures    // how long after its ctx's end each call returned, 0 for before
	calls int
	wrong []error
}

// callUntil makes one call after the other, each about a lock of its own, until the time is over.
func (o *outage) callUntil(end time.Duration, who int) {
	for n := 0; now() < end; n++ {
		ctx, cancel := context.WithTimeout(context.Background(), outageTime)
		begun := now()
		l, err := o.call(o.locks.Mutex(fmt.Sprintf("orders:%d:%d", who, n)), ctx)
		ended := now()
		over := max(ended-begun-outageTime, 0)
		cancel()
		o.mu.Lock()
		o.calls++
		o.late = append(o.late, over)
		if err != nil && ended < end && !errors.Is(err, relock.ErrUnavailable) { // nobody else has the lock
			o.wrong = append(o.wrong, err)
		}
		o.mu.Unlock()
		if err == nil { // asked before the outage was noticed, or answered after it
			_ = l.Unlock(context.Background())
		}
	}
}

// watch returns the most goroutines and the most live heap seen until it is told to stop.
func watch(stop <-chan struct{}) (goroutines int, heap uint64) {
	var mem runtime.MemStats
	for n := 0; ; n++ {
		goroutines = max(goroutines, runtime.NumGoroutine())
		if n%20 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&mem)
			heap = max(heap, mem.HeapAlloc)
		}
		select {
		case <-stop:
			return goroutines, heap
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// suffer lets everybody call while Redis is away, and returns when nothing is left to clear up after it.
func (o *outage) suffer(begin, end func(*redistest.Server)) {
	t := o.t
	warm, err := o.locks.Mutex("warm").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, warm.Unlock(t.Context()))
	for _, s := range o.nodes {
		s.ResetCommandCounts()
	}
	machine := startDrag(t)
	before := runtime.NumGoroutine()
	_, heapBefore := watch(closed())

	for _, s := range o.nodes {
		begin(s)
	}
	var callers sync.WaitGroup
	stop, watched := make(chan struct{}), make(chan struct{})
	var goroutines int
	var heap uint64
	go func() { goroutines, heap = watch(stop); close(watched) }()
	away := now() + outageLasts
	for who := range outageCallers {
		callers.Go(func() { o.callUntil(away, who) })
	}
	time.Sleep(away - now())
	for _, s := range o.nodes {
		end(s)
	}
	callers.Wait()
	close(stop)
	<-watched
	held := machine.end()
	returned := now()

	// What is in doubt stays so for a lease.
	require.Eventually(t, func() bool { return now()-returned > outageLease && o.clean() },
		2*outageLease+soon, 20*time.Millisecond, "something is left")
	o.locks.Close() // ends what was still to be swept
	scripts := 0
	for _, s := range o.nodes {
		counts := s.CommandCounts()
		scripts += int(counts["evalsha"] + counts["eval"])
	}
	nodes := len(o.nodes)
	t.Logf("%d calls; %d scripts ran, %.2f per call and Redis; returned after their ctx by %v (machine held up %v)",
		o.calls, scripts, float64(scripts)/float64(o.calls*nodes), o.late, held)
	t.Logf("goroutines %d before, at most %d; live heap %d KiB before, at most %d KiB",
		before, goroutines, heapBefore>>10, heap>>10)
	require.Empty(t, o.wrong)
	each := 1 // goroutines of a command
	if nodes > 1 {
		each = 2 // its own and the contest's, which waits for the vote
	}
	require.LessOrEqual(t, goroutines, before+outageCallers+nodes*(each*inFlight+attend))
	require.LessOrEqual(t, heap, heapBefore+uint64(nodes)*outageHeap)
	require.LessOrEqual(t, scripts, 2*o.calls*nodes)
	require.LessOrEqual(t, o.late.at(0.99), outageTime+held)
}

// clean reports whether no lock and no queue is left.
func (o *outage) clean() bool {
	for _, s := range o.nodes {
		if strings.TrimSpace(s.Do("KEYS", "orders:*")+s.Do("KEYS", "relock_queue:*")) != "" {
			return false
		}
	}
	return true
}

// closed returns a channel that is.
func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// tryLock is Mutex.TryLock for callers who go on at once.
func tryLock(m *relock.Mutex, ctx context.Context) (*relock.Lease, error) {
	l, err := m.TryLock(ctx)
	if ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond) // refused at once
	}
	return l, err
}

// Redis, or all of a quorum, is away for seconds under callers who have little time: callers come back in time, what the
// process needs meanwhile is bounded, and Redis is not flooded when it is back.
func TestOutage(t *testing.T) {
	type fault struct{ begin, end func(*redistest.Server) }
	refused := fault{(*redistest.Server).Kill, (*redistest.Server).Restart}
	hung := fault{(*redistest.Server).Pause, (*redistest.Server).Resume}
	for _, c := range []struct {
		name  string
		fault fault
		call  func(*relock.Mutex, context.Context) (*relock.Lease, error)
		open  func(*testing.T) (*relock.Client, []*redistest.Server)
	}{
		{"refused", refused, (*relock.Mutex).Lock, openOne},
		{"refused, tried", refused, tryLock, openOne},
		{"hung", hung, (*relock.Mutex).Lock, openOne},
		{"hung, tried", hung, tryLock, openOne},
		{"quorum refused", refused, (*relock.Mutex).Lock, openQuorum},
		{"quorum hung", hung, (*relock.Mutex).Lock, openQuorum},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin(t)
			o := outage{t: t, call: c.call}
			o.locks, o.nodes = c.open(t)
			o.suffer(c.fault.begin, c.fault.end)
		})
	}
}

func openOne(t *testing.T) (*relock.Client, []*redistest.Server) {
	s := redistest.Start(t)
	locks, err := relock.New(s.Client(), relock.WithLease(outageLease))
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	return locks, []*redistest.Server{s}
}

func openQuorum(t *testing.T) (*relock.Client, []*redistest.Server) {
	nodes := fiveNodes(t)
	var rdbs []rueidis.Client
	for _, s := range nodes {
		rdbs = append(rdbs, s.Client())
	}
	locks, err := relock.NewRedlock(rdbs, relock.WithLease(outageLease),
		relock.WithRestartGuard(outageLease))
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	return locks, nodes
}
