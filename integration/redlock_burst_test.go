//go:build unix

package integration

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// trips are the round trips of a round's commands that were sent before it had a winner.
type trips struct {
	mu   sync.Mutex // guards the rest
	took figures
	won  time.Duration // when the first of the contenders had the lock, 0 before
}

func (t *trips) note(sent time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.won == 0 || sent < t.won {
		t.took = append(t.took, now()-sent)
	}
}

// win notes the first winner, and reports whether it is the caller.
func (t *trips) win(at time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.won > 0 {
		return false
	}
	t.won = at
	return true
}

// timed measures the round trips of a client.
type timed struct {
	rueidis.Client
	trips *atomic.Pointer[trips] // of the round
}

func (c *timed) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	sent, to := now(), c.trips.Load()
	got := c.Client.Do(ctx, cmd)
	to.note(sent)
	return got
}

// throng is many contenders of one lock, each with connections of its own.
type throng struct {
	servers []*redistest.Server
	trips   atomic.Pointer[trips] // of the round
	locks   []*relock.Client
}

func gather(t *testing.T, n int, servers []*redistest.Server) *throng {
	c := &throng{servers: servers}
	c.trips.Store(&trips{})
	for range n {
		var nodes []rueidis.Client
		for _, s := range servers {
			opt := s.Option()
			opt.PipelineMultiplex = -1 // one connection
			rdb, err := rueidis.NewClient(opt)
			require.NoError(t, err)
			t.Cleanup(rdb.Close)
			nodes = append(nodes, &timed{Client: rdb, trips: &c.trips})
		}
		locks, err := relock.NewRedlock(nodes)
		require.NoError(t, err)
		t.Cleanup(locks.Close)
		lease, err := locks.Mutex("warm").Lock(t.Context()) // so that all connections are up
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		c.locks = append(c.locks, locks)
	}
	return c
}

// round lets all arrive at once at a free lock, and returns how long it took until one had it. The winner waits until
// all others have given up, and the round until the nodes have nothing left of them, so that the next one begins with
// nobody.
func (c *throng) round(t *testing.T, name string) (waited time.Duration, seen figures) {
	tr := &trips{}
	c.trips.Store(tr)
	ctx, over := context.WithTimeout(t.Context(), time.Minute)
	defer over()
	var all, losers sync.WaitGroup
	losers.Add(len(c.locks) - 1)
	free := make(chan struct{})
	for _, locks := range c.locks {
		all.Go(func() {
			<-free
			l, err := locks.Mutex(name).Lock(ctx)
			if err != nil {
				losers.Done()
				return
			}
			if tr.win(now()) {
				over()
				losers.Wait()
			} else {
				losers.Done()
			}
			if err := l.Unlock(context.Background()); err != nil {
				t.Errorf("unlock: %v", err)
			}
		})
	}
	began := now()
	close(free)
	all.Wait()
	for _, s := range c.servers {
		absent(t, 10*time.Second, s, name)
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	require.NotZero(t, tr.won, "a round without a winner")
	return tr.won - began, tr.took
}

// Fifty contenders who arrive at once at a free lock split the votes of five nodes. One of them wins before each has asked
// each node three times: for its vote, to give it back, and again. On a machine with nothing else to do that takes three
// round trips and the slowest node's answer.
func TestRedlockFiftyAtOnce(t *testing.T) {
	begin(t)
	const contenders, nodes = 50, 5
	c := gather(t, contenders, fiveNodes(t))
	most := 0
	var waits, trip, slowest, late figures
	for i := range rounds(200, 1000) {
		waited, seen := c.round(t, fmt.Sprintf("orders:%d", i))
		waits, trip, slowest = append(waits, waited), append(trip, seen.at(0.5)), append(slowest, seen.max())
		most = max(most, len(seen))
		if over := waited - 3*seen.at(0.5) - seen.max(); over > 0 {
			late = append(late, over)
		}
	}
	t.Logf("first winner after: %v", waits)
	t.Logf("round trips, by round: median %v, slowest %v", trip, slowest)
	t.Logf("longer than three of the one and one of the other: %d of %d rounds, by %v", len(late), len(waits), late)
	t.Logf("at most %d commands were answered before there was a winner", most)
	require.Less(t, waits.max(), 5*time.Second, "the next poll comes after ten")
	require.LessOrEqual(t, most, 3*contenders*nodes)
}
