package peer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock/bench/internal/wire"
	"github.com/relock-go/relock/internal/redistest"
)

// each runs a test against every peer that runs on Redis in this process.
func each(t *testing.T, which func(Spec) bool, test func(*testing.T, Spec, Env)) {
	server := redistest.Start(t)
	for _, s := range All() {
		if s.Open == nil || s.NeedsEtcd || !which(s) {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			test(t, s, Env{Redis: "redis://" + server.Addr(), Wire: wire.NewCounter()})
		})
	}
}

// inProcessOnly reports whether a peer has no Redis.
func inProcessOnly(s Spec) bool {
	return s.Name == "none" || s.Name == "sync.RWMutex" || s.Name == "x/sync"
}

// needsCalm leaves a test out of the short ones: on a machine that is very busy it may find what no peer did wrong.
func needsCalm(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a calm machine")
	}
}

func open(t *testing.T, s Spec, e Env) Peer {
	p, err := s.Open(e)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func TestPeersExclude(t *testing.T) {
	each(t, func(s Spec) bool { return !s.Baseline }, func(t *testing.T, s Spec, e Env) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		e.Waiters = 4
		peers := []Peer{open(t, s, e), open(t, s, e)}
		var wg sync.WaitGroup
		count := 0 // the race detector watches it too
		for i := range 4 {
			wg.Go(func() {
				for range 5 {
					h, err := lockAgain(ctx, peers[i%2], "exclude-"+s.Name)
					if err != nil {
						t.Error(err)
						return
					}
					count++
					if err := h.Unlock(ctx); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		require.Equal(t, 20, count)
	})
}

// Two of three permits are held, and others get what is left and no more.
func TestSemaphoresShare(t *testing.T) {
	each(t, func(s Spec) bool { return s.Semaphore && s.Name != "none" && s.Name != "mutex" }, func(t *testing.T, s Spec, e Env) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		e.Permits = 3
		mine := open(t, s, e).(Semaphores)
		others := mine
		if s.Name != "x/sync" { // which is of one process
			others = open(t, s, e).(Semaphores)
		}
		key := "share-" + s.Name
		two := held(t, ctx, mine, key, 2, s.Weighted)
		last, err := others.Acquire(ctx, key, 3, 1)
		require.NoError(t, err)
		soon, over := context.WithTimeout(ctx, 50*time.Millisecond)
		defer over()
		_, err = others.Acquire(soon, key, 3, 1)
		require.Error(t, err, "none is left")
		for _, h := range append(two, last) {
			require.NoError(t, h.Unlock(ctx))
		}
		for _, h := range held(t, ctx, others, key, 3, s.Weighted) {
			require.NoError(t, h.Unlock(ctx))
		}
	})
}

// A caller that has two of three locks keeps others from any two, and they have what it gives back. Of any lock they get the third.
func TestSeveralExclude(t *testing.T) {
	which := func(s Spec) bool { return (s.Several || s.AnyOf) && s.Name != "none" && s.Name != "permit" }
	each(t, which, func(t *testing.T, s Spec, e Env) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		mine, others := open(t, s, e).(Several), open(t, s, e)
		key := func(n int) string { return fmt.Sprintf("%s:%d", s.Name, n) }
		held, err := mine.LockAll(ctx, []string{key(2), key(1)})
		require.NoError(t, err)
		soon, over := context.WithTimeout(ctx, 50*time.Millisecond)
		defer over()
		_, err = others.(Several).LockAll(soon, []string{key(1), key(0)})
		require.Error(t, err)
		if s.AnyOf {
			any := []string{key(1), key(0), key(2)}
			h, i, err := others.(AnyOf).LockAny(ctx, any)
			require.NoError(t, err)
			require.Equal(t, key(0), any[i])
			require.NoError(t, h.Unlock(ctx))
		}
		require.NoError(t, held.Unlock(ctx))
		all, err := others.(Several).LockAll(ctx, []string{key(0), key(1), key(2)})
		require.NoError(t, err)
		require.NoError(t, all.Unlock(ctx))
	})
}

// held takes k of three permits: at once, or one by one.
func held(t *testing.T, ctx context.Context, p Semaphores, key string, k int, atOnce bool) (all []Held) {
	if atOnce {
		h, err := p.Acquire(ctx, key, 3, k)
		require.NoError(t, err)
		return []Held{h}
	}
	for range k {
		h, err := p.Acquire(ctx, key, 3, 1)
		require.NoError(t, err)
		all = append(all, h)
	}
	return all
}

func TestQuorumPeersOutliveNode(t *testing.T) {
	needsCalm(t)
	var nodes []string
	var servers []*redistest.Server
	for range 3 {
		servers = append(servers, redistest.Start(t))
		nodes = append(nodes, "redis://"+servers[len(servers)-1].Addr())
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var peers []Peer
	for _, s := range All() {
		if s.Quorum {
			peers = append(peers, open(t, s, Env{Nodes: nodes, Wire: wire.NewCounter()}))
		}
	}
	require.Len(t, peers, 7)
	for round := range 2 {
		for i, p := range peers {
			key := fmt.Sprint("quorum-", i)
			h, err := lockAgain(ctx, p, key)
			require.NoError(t, err)
			held := 0
			for _, s := range servers[round:] {
				if s.Do("EXISTS", key) == "1" {
					held++
				}
			}
			require.GreaterOrEqual(t, held, 2, "a quorum of three")
			_ = h.Unlock(ctx) // the one that is down may be told of
		}
		servers[0].Kill()
	}
}

// lockAgain asks until the peer no longer gives up, as the bench does.
func lockAgain(ctx context.Context, p Peer, key string) (Held, error) {
	for {
		h, err := p.Lock(ctx, key)
		if err == nil || ctx.Err() != nil {
			return h, err
		}
	}
}

func TestReentrantPeersReenter(t *testing.T) {
	each(t, func(s Spec) bool { return s.Reentrant }, func(t *testing.T, s Spec, e Env) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		p := open(t, s, e)
		outer, err := p.Lock(ctx, "nest-"+s.Name)
		require.NoError(t, err)
		inner, err := p.Lock(outer.Context(), "nest-"+s.Name)
		require.NoError(t, err)
		require.NoError(t, inner.Unlock(ctx))
		require.NoError(t, outer.Unlock(ctx))
	})
}

func TestFreeLockTakesTwoCommands(t *testing.T) {
	needsCalm(t)
	each(t, func(s Spec) bool { return !s.Cached && !s.Once && !inProcessOnly(s) }, func(t *testing.T, s Spec, e Env) {
		ctx := context.Background()
		p := open(t, s, e)
		pair := func() {
			h, err := p.Lock(ctx, "two-"+s.Name)
			require.NoError(t, err)
			require.NoError(t, h.Unlock(ctx))
		}
		pair() // loads the scripts
		before := sent(e)
		for range 100 {
			pair()
		}
		// A subscription or a script sent in the background may fall into it.
		require.InDelta(t, 200, sent(e)-before, 3, "%v", e.Wire.Counts())
	})
}

func TestCachedLockTakesHardlyAnyCommand(t *testing.T) {
	needsCalm(t)
	each(t, func(s Spec) bool { return s.Cached }, func(t *testing.T, s Spec, e Env) {
		ctx := context.Background()
		p := open(t, s, e)
		for range 100 {
			h, err := p.Lock(ctx, "cached-"+s.Name)
			require.NoError(t, err)
			require.NoError(t, h.Unlock(ctx))
		}
		require.Less(t, sent(e), int64(20), "%v", e.Wire.Counts())
	})
}

func sent(e Env) (n int64) {
	for name, count := range e.Wire.Counts() {
		if name != "client" && name != "hello" && name != "ping" {
			n += count
		}
	}
	return n
}

func TestKeepersOutliveTheirLease(t *testing.T) {
	needsCalm(t)
	each(t, func(s Spec) bool { return s.Keeps && !s.Baseline }, func(t *testing.T, s Spec, e Env) {
		e.Lease, e.Keep = time.Second, true
		ctx := context.Background()
		p := open(t, s, e)
		h, err := p.Lock(ctx, "keep-"+s.Name)
		require.NoError(t, err)
		select {
		case <-h.Context().Done():
			t.Error("lost")
		case <-time.After(1500 * time.Millisecond):
		}
		require.NoError(t, h.Unlock(ctx))
	})
}

func TestBadRedisURL(t *testing.T) {
	for _, s := range All() {
		if s.Open != nil && !s.NeedsEtcd && !inProcessOnly(s) {
			_, err := s.Open(Env{Redis: "nowhere", Wire: wire.NewCounter()})
			require.Error(t, err, s.Name)
		}
	}
}
