package relock

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// TestEveryClient runs the suite through every kind of client a user may bring.
func TestEveryClient(t *testing.T) {
	s := redistest.Start(t)
	for name, change := range map[string]func(*rueidis.ClientOption){
		"resp3 and cache":  func(o *rueidis.ClientOption) { o.DisableCache = false },
		"resp2":            func(o *rueidis.ClientOption) { o.AlwaysRESP2, o.DisableCache = true, true },
		"one connection":   func(o *rueidis.ClientOption) { o.PipelineMultiplex = -1 },
		"always pipelined": func(o *rueidis.ClientOption) { o.AlwaysPipelining = true },
		"never pipelined":  func(o *rueidis.ClientOption) { o.DisableAutoPipelining = true },
		"own database":     func(o *rueidis.ClientOption) { o.SelectDB = 3 },
		"forced single":    func(o *rueidis.ClientOption) { o.ForceSingleClient = true },
	} {
		t.Run(name, func(t *testing.T) {
			opt := s.Option()
			change(&opt)
			suite(t, shared(t, opt), "plain")
		})
	}
	t.Run("wrapped", func(t *testing.T) {
		w := faulty(s)
		w.Filter(faults.All(faults.AnyScript, faults.Pass))
		suite(t, func() rueidis.Client { return w }, "plain")
	})
	t.Run("least privilege", func(t *testing.T) {
		suite(t, shared(t, s.AddUser("locks", "secret", rights(t, "suite:")[0]...)), "plain")
	})
	t.Run("tls", func(t *testing.T) {
		s, _ := redistest.StartTLS(t)
		suite(t, shared(t, s.Option()), "plain")
	})
	t.Run("sentinel", func(t *testing.T) {
		g := redistest.StartSentinel(t)
		suite(t, shared(t, g.Option()), "plain")
	})
}

// TestEveryClusterClient does the same on a Cluster, with sharded and with plain channels.
func TestEveryClusterClient(t *testing.T) {
	g := redistest.StartCluster(t)
	mode, acl := "sharded", slices.Concat(rights(t, "suite:")[:2]...)
	if _, err := g.Nodes()[0].Try("PUBSUB", "SHARDNUMSUB"); err != nil { // before Redis 7
		mode, acl = "raced", rights(t, "suite:")[0]
		acl = append(acl, "+cluster")
	} else {
		acl[slices.Index(acl, "&relock_inbox:*")] = "&relock_inbox:{suite:*" // as docs/wire.md says
	}
	t.Run("as found", func(t *testing.T) { suite(t, shared(t, g.Option()), mode) })
	t.Run("resp2", func(t *testing.T) {
		opt := g.Option()
		opt.AlwaysRESP2 = true
		suite(t, shared(t, opt), mode)
	})
	t.Run("plain", func(t *testing.T) { suite(t, shared(t, g.Option()), "raced", WithPubSub(PubSubPlain)) })
	t.Run("least privilege", func(t *testing.T) {
		opt := g.Option()
		for _, node := range g.Nodes() {
			user := node.AddUser("locks", "secret", acl...)
			opt.Username, opt.Password = user.Username, user.Password
		}
		suite(t, shared(t, opt), mode)
	})
}

// shared returns a source of one client.
func shared(t *testing.T, opt rueidis.ClientOption) func() rueidis.Client {
	rdb, err := redistest.Open(opt)
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	return func() rueidis.Client { return rdb }
}

// suite is what must hold through any client.
func suite(t *testing.T, open func() rueidis.Client, mode string, opts ...Option) {
	rdb := open()
	c, d := newClient(t, rdb, opts...), newClient(t, rdb, opts...)
	name := func(t *testing.T) string { return "suite:" + fmt.Sprint(t.Name(), time.Now().UnixNano()) }
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()

	t.Run("re-enters", func(t *testing.T) {
		m := c.Mutex(name(t))
		l, err := m.Lock(ctx)
		require.NoError(t, err)
		require.Equal(t, mode, c.keeper.arb.(*single).node.Debug().Channels)
		inner, err := m.TryLock(l.Context())
		require.NoError(t, err)
		st, err := m.State(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, st.Count)
		_, err = d.Mutex(m.Name()).TryLock(ctx)
		require.ErrorIs(t, err, ErrNotAcquired)
		require.NoError(t, inner.Unlock(ctx))
		require.NoError(t, l.Extend(ctx, time.Minute))
		require.NoError(t, l.Unlock(ctx))
		st, err = m.State(ctx)
		require.NoError(t, err)
		require.False(t, st.Held)
	})
	t.Run("wakes a waiter", func(t *testing.T) {
		key := name(t)
		l, err := c.Mutex(key).Lock(ctx)
		require.NoError(t, err)
		granted := waitWith(ctx, t, d.Mutex(key))
		settled(t, d, key)
		released := time.Now()
		require.NoError(t, l.Unlock(ctx))
		second := within(t, granted)
		require.Less(t, time.Since(released), 5*time.Second, "woken, not by the poll after 10 s")
		require.Greater(t, second.Token(), l.Token())
		require.NoError(t, second.Unlock(ctx))
	})
	t.Run("is exclusive", func(t *testing.T) { exclusive(ctx, t, name(t), c, d) })
	t.Run("tells the deposed", func(t *testing.T) {
		m := c.Mutex(name(t))
		l, err := m.Lock(ctx)
		require.NoError(t, err)
		freed, err := d.Mutex(m.Name()).ForceUnlock(ctx)
		require.NoError(t, err)
		require.True(t, freed)
		if mode != "plain" {
			require.ErrorIs(t, l.Extend(ctx, time.Second), ErrLost, "no channel is subscribed; the next command tells")
		}
		<-l.Context().Done()
		require.ErrorIs(t, context.Cause(l.Context()), ErrLost)
	})
}

// settled waits until c's waiter for key hears the lock's channels and has looked once more since.
func settled(t *testing.T, c *Client, key string) {
	t.Helper()
	h, unlock := c.keeper.arb.(*single).node.Debug().Hub, c.Mutex(key).names.Unlock
	require.Eventually(t, func() bool {
		members, confirmed, quiet := h.Listening(unlock)
		return members == 1 && confirmed && quiet
	}, patience, time.Millisecond)
}

// exclusive lets goroutines of two clients do an unguarded read-modify-write under the lock.
func exclusive(ctx context.Context, t *testing.T, key string, clients ...*Client) {
	t.Helper()
	const workers, rounds = 6, 20
	var (
		wg     sync.WaitGroup
		inside int // guarded by the lock under test alone: the race detector is a second judge
		last   int64
	)
	for _, c := range clients {
		for range workers {
			wg.Go(func() {
				for range rounds {
					err := c.Mutex(key).Do(ctx, func(ctx context.Context) error {
						l, err := c.Mutex(key).Held(ctx)
						if err == nil && l.Token() <= last {
							err = fmt.Errorf("token %d after %d", l.Token(), last)
						}
						if err == nil {
							last = l.Token()
							inside++
						}
						return err
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	require.Equal(t, len(clients)*workers*rounds, inside)
}

// rights reads the ACLs of docs/wire.md: what everyone needs, and what a Cluster and a quorum take beyond that.
func rights(t *testing.T, prefix string) [][]string {
	t.Helper()
	text, err := os.ReadFile("docs/wire.md")
	require.NoError(t, err)
	var rules [][]string
	for i, block := range strings.Split(string(text), "```") {
		if rest, ok := strings.CutPrefix(block, "acl\n"); ok && i%2 == 1 {
			rules = append(rules, strings.Fields(strings.ReplaceAll(rest, "orders:", prefix)))
		}
	}
	require.Len(t, rules, 3)
	return rules
}

// mutexOf is the Mutex that a lease is of.
func mutexOf(l *Lease) *Mutex { return &Mutex{*l.of} }
