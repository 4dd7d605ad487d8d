package relockgoredis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockgoredis"
	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long tests wait for what must happen. It is no promise of the module.
const patience = 20 * time.Second

func open(t *testing.T, rdb redis.UniversalClient, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	locks, err := relockgoredis.New(rdb, opts...)
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	return locks
}

func client(t *testing.T, s *redistest.Server, change ...func(*redis.Options)) *redis.Client {
	t.Helper()
	o := &redis.Options{Addr: s.Addr()}
	for _, change := range change {
		change(o)
	}
	rdb := redis.NewClient(o)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// handsOver requires that a lock of one client is waited for, and handed over, by another. The servers
// are those of the lock's Redis. A waiter stands in the queue, but for plain channels of a Cluster: there
// it listens alone.
func handsOver(t *testing.T, from, to *relock.Client, name string, servers ...*redistest.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	channel := "redisson_lock__channel:{" + name + "}"
	listens := func() bool {
		return slices.ContainsFunc(servers, func(s *redistest.Server) bool { return s.Do("PUBSUB", "NUMSUB", channel) == channel+"\n1" })
	}
	require.False(t, listens())
	held, err := from.Mutex(name).Lock(ctx)
	require.NoError(t, err)
	type got struct {
		l   *relock.Lease
		err error
	}
	woken := make(chan got, 1)
	go func() {
		l, err := to.Mutex(name).Lock(ctx)
		woken <- got{l, err}
	}()
	require.Eventually(t, func() bool {
		st, err := from.Mutex(name).State(ctx)
		return err == nil && st.Waiters == 1 || listens()
	}, patience, time.Millisecond)
	require.NoError(t, held.Unlock(ctx))
	next := <-woken
	require.NoError(t, next.err)
	require.Greater(t, next.l.Token(), held.Token())
	require.NoError(t, next.l.Unlock(ctx))
}

func TestLocksAreSharedWithRueidis(t *testing.T) {
	s := redistest.Start(t)
	rueidis, err := relock.New(s.Client())
	require.NoError(t, err)
	t.Cleanup(rueidis.Close)
	goredis := open(t, client(t, s))
	handsOver(t, rueidis, goredis, "m")
	handsOver(t, goredis, rueidis, "m")
}

func TestOptionsOfTheLibrary(t *testing.T) {
	s := redistest.Start(t)
	for name, change := range map[string]func(*redis.Options){
		"RESP2":              func(o *redis.Options) { o.Protocol = 2 },
		"RESP3":              func(o *redis.Options) { o.Protocol = 3 },
		"a pool of one":      func(o *redis.Options) { o.PoolSize = 1 },
		"another database":   func(o *redis.Options) { o.DB = 3 },
		"contexts are heard": func(o *redis.Options) { o.ContextTimeoutEnabled = true },
		"no ReadTimeout":     func(o *redis.Options) { o.ContextTimeoutEnabled, o.ReadTimeout = true, -1 },
		"no repeats":         func(o *redis.Options) { o.MaxRetries = -1 },
	} {
		t.Run(name, func(t *testing.T) {
			handsOver(t, open(t, client(t, s, change)), open(t, client(t, s, change)), "m")
		})
	}
}

// The library goes on without a password where one is asked for. What the server then says of a script
// is told as what is missing.
func TestWithoutAPassword(t *testing.T) {
	s := redistest.Start(t)
	rdb := client(t, s)
	locks := open(t, rdb)
	s.Do("CONFIG", "SET", "requirepass", "secret")
	_, err := locks.Mutex("m").Lock(t.Context())
	require.ErrorContains(t, err, "NOAUTH")
	require.ErrorContains(t, err, "check the client's user name and password")
}

func TestRedlock(t *testing.T) {
	var nodes []redis.UniversalClient
	for range 3 {
		nodes = append(nodes, client(t, redistest.Start(t)))
	}
	open := func() *relock.Client {
		locks, err := relockgoredis.NewRedlock(nodes)
		require.NoError(t, err)
		t.Cleanup(locks.Close)
		return locks
	}
	handsOver(t, open(), open(), "m")
}

func TestCluster(t *testing.T) {
	cl := redistest.StartCluster(t)
	var addrs []string
	for _, n := range cl.Nodes() {
		addrs = append(addrs, n.Addr())
	}
	for name, change := range map[string]func(*redis.ClusterOptions){
		"plain":               func(*redis.ClusterOptions) {},
		"RESP2":               func(o *redis.ClusterOptions) { o.Protocol = 2 },
		"reads from replicas": func(o *redis.ClusterOptions) { o.ReadOnly = true },
		"routes randomly":     func(o *redis.ClusterOptions) { o.RouteRandomly = true },
	} {
		for channels, opts := range map[string][]relock.ClientOption{"": nil, " by plain channels": {relock.WithPlainChannels()}} {
			t.Run(name+channels, func(t *testing.T) {
				o := &redis.ClusterOptions{Addrs: addrs}
				change(o)
				rdb := redis.NewClusterClient(o)
				t.Cleanup(func() { _ = rdb.Close() })
				a, b := open(t, rdb, opts...), open(t, rdb, opts...)
				for _, name := range []string{"a", "b", "c", "d"} {
					handsOver(t, a, b, name, cl.Nodes()...)
				}
			})
		}
	}
}

// What New cannot work with, it says.
func TestRefused(t *testing.T) {
	s := redistest.Start(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": s.Addr()}})
	sentinels := redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: []string{s.Addr()}})
	for _, rdb := range []redis.UniversalClient{ring, sentinels} {
		t.Cleanup(func() { _ = rdb.Close() })
	}
	for name, c := range map[string]struct {
		rdb  redis.UniversalClient
		says string
	}{
		"nil":           {nil, "nil"},
		"a nil client":  {(*redis.Client)(nil), "nil"},
		"a nil cluster": {(*redis.ClusterClient)(nil), "nil"},
		"no client":     {&redis.Client{}, "redis.NewClient"},
		"no cluster":    {&redis.ClusterClient{}, "redis.NewClusterClient"},
		"a ring":        {ring, "Ring"},
		"Sentinel":      {sentinels, "NewFailoverClient"},
		"a wrapper":     {struct{ redis.UniversalClient }{client(t, s)}, "neither a *redis.Client nor"},
	} {
		t.Run(name, func(t *testing.T) {
			locks, err := relockgoredis.New(c.rdb)
			require.ErrorIs(t, err, relock.ErrInvalidOption)
			require.ErrorContains(t, err, c.says)
			require.Nil(t, locks)
			locks, err = relockgoredis.NewRedlock([]redis.UniversalClient{client(t, s), c.rdb})
			require.ErrorIs(t, err, relock.ErrInvalidOption)
			require.ErrorContains(t, err, "node 2")
			require.Nil(t, locks)
		})
	}
	one := client(t, s)
	_, err := relockgoredis.NewRedlock([]redis.UniversalClient{one, one})
	require.ErrorIs(t, err, relock.ErrInvalidOption)
	_, err = relockgoredis.NewRedlock(nil)
	require.ErrorIs(t, err, relock.ErrInvalidOption)
}

// By settings that set no deadline a command to a server that hangs would never end, whatever its context says.
func TestUnboundedIsRefused(t *testing.T) {
	s := redistest.Start(t)
	type settings struct {
		read, write time.Duration
		contexts    bool
	}
	makers := map[string]func(settings) redis.UniversalClient{
		"client": func(o settings) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: s.Addr(), ReadTimeout: o.read, WriteTimeout: o.write, ContextTimeoutEnabled: o.contexts})
		},
		"failover": func(o settings) redis.UniversalClient {
			return redis.NewFailoverClient(&redis.FailoverOptions{
				MasterName: "m", SentinelAddrs: []string{s.Addr()}, ReadTimeout: o.read, WriteTimeout: o.write, ContextTimeoutEnabled: o.contexts,
			})
		},
		"cluster": func(o settings) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{
				Addrs: []string{s.Addr()}, ReadTimeout: o.read, WriteTimeout: o.write, ContextTimeoutEnabled: o.contexts,
			})
		},
		"universal": func(o settings) redis.UniversalClient {
			return redis.NewUniversalClient(&redis.UniversalOptions{
				Addrs: []string{s.Addr()}, ReadTimeout: o.read, WriteTimeout: o.write, ContextTimeoutEnabled: o.contexts,
			})
		},
	}
	for o, says := range map[settings]string{
		{}:                         "",
		{contexts: true}:           "",
		{read: -1, contexts: true}: "",
		{read: time.Second, write: -1, contexts: true}: "",
		{read: -1}:                     "ReadTimeout is off: set it, or ContextTimeoutEnabled",
		{read: time.Second, write: -1}: "WriteTimeout is off: set it, or ContextTimeoutEnabled",
		{read: -2}:                     "ReadTimeout is -2",
		{read: -2, contexts: true}:     "ReadTimeout is -2",
		{write: -2, contexts: true}:    "WriteTimeout is -2",
	} {
		for name, maker := range makers {
			t.Run(fmt.Sprintf("%s %+v", name, o), func(t *testing.T) {
				rdb := maker(o)
				t.Cleanup(func() { _ = rdb.Close() })
				locks, err := relockgoredis.New(rdb)
				if says == "" {
					require.NoError(t, err)
					locks.Close()
					return
				}
				require.ErrorIs(t, err, relock.ErrInvalidOption)
				require.ErrorContains(t, err, says)
				require.Nil(t, locks)
			})
		}
	}
}

// cutting is a connection that is cut before the answer to a script is read, once.
type cutting struct {
	net.Conn
	cut    *atomic.Bool
	script bool
}

func (c *cutting) Write(b []byte) (int, error) {
	c.script = strings.Contains(strings.ToLower(string(b)), "evalsha")
	return c.Conn.Write(b)
}

func (c *cutting) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.script && err == nil && c.cut.CompareAndSwap(true, false) {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// The library would repeat a script whose answer is lost, three times by default.
func TestLostAnswer(t *testing.T) {
	s := redistest.Start(t)
	var cut atomic.Bool
	locks := open(t, client(t, s, func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &cutting{Conn: conn, cut: &cut}, err
		}
	}))
	l, err := locks.Mutex("m").Lock(t.Context()) // Redis knows the script from now on
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
	cut.Store(true)
	_, err = locks.Mutex("n").TryLock(t.Context())
	var node *relock.NodeError
	require.ErrorAs(t, err, &node, "a repeat would have been answered")
	require.False(t, cut.Load(), "the answer was lost")
	require.Eventually(t, func() bool { return s.Do("EXISTS", "n") == "0" }, patience, 10*time.Millisecond, "what was taken is swept")
}

// A caller's context ends its call, whatever the library does with a server that hangs.
func TestContextEndsACallToAServerThatHangs(t *testing.T) {
	s := redistest.Start(t)
	locks := open(t, client(t, s))
	s.Pause()
	defer s.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := locks.Mutex("m").Lock(ctx)
	require.Error(t, err)
	require.False(t, errors.Is(err, relock.ErrNotAcquired), "%v", err)
	require.Less(t, time.Since(began), 3*time.Second, "the library's own time is 5 s")
}

// What Redis answered stands in the errors as the library has it, whose own functions then know it.
func TestErrorsHoldTheClientsOwn(t *testing.T) {
	s := redistest.Start(t)
	s.Do("SET", "string", "x")
	rdb := client(t, s)
	_, err := open(t, rdb).Mutex("string").Lock(t.Context())
	require.ErrorAs(t, err, new(*relock.NodeError))
	require.ErrorAs(t, err, new(redis.Error))
	locks, err := relockgoredis.NewRedlock([]redis.UniversalClient{rdb})
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	_, err = locks.Mutex("string").Lock(t.Context())
	require.ErrorAs(t, err, new(*relock.NodeError))
	require.ErrorAs(t, err, new(redis.Error))
}
