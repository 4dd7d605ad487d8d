package relock

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/locktest/fakes"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// rueidis's Cluster client closes nodes it no longer needs five seconds later, whether it is closed or not.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// patience is how long tests wait for what must happen. It is no promise of the library.
const patience = 15 * time.Second

// rounds is how often a test does something: few times, or many with RELOCK_LONG set, as the integration suite has it.
func rounds(few, many int) int {
	if os.Getenv("RELOCK_LONG") != "" {
		return many
	}
	return few
}

// ownRedis returns a client of a Redis that is the test's own.
func ownRedis(t *testing.T) rueidis.Client {
	t.Helper()
	return redistest.Start(t).Client()
}

// newClient returns a Client over rdb that is closed before rdb is.
func newClient(t *testing.T, rdb rueidis.Client, opts ...ClientOption) *Client {
	t.Helper()
	c, err := New(rdb, opts...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// faulty returns a client of its own for one server, with faults to be switched on.
func faulty(s *redistest.Server) *faults.Client { return faults.NewClient(s.Client()) }

// waitFor has c wait for a lock that somebody holds, and returns where the lease will come.
func waitFor(t *testing.T, c *Client, name string) <-chan *Lease {
	t.Helper()
	return waitWith(t.Context(), t, c.Mutex(name))
}

// waitWith does so with a context of its own and with options.
func waitWith(ctx context.Context, t *testing.T, m *Mutex) <-chan *Lease {
	t.Helper()
	granted := make(chan *Lease, 1)
	go func() {
		l, err := m.Lock(ctx)
		if err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		granted <- l
	}()
	return granted
}

// within takes what comes from ch, which must come.
func within[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	return await(t, ch, patience)
}

// await takes what comes from ch within limit.
func await[T any](t *testing.T, ch <-chan T, limit time.Duration) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(limit):
		require.FailNow(t, "nothing came in time")
		panic("unreachable")
	}
}

// inTime is what call returns, whose context ends when it should long have returned. It must return even if it does not heed that.
func inTime(t *testing.T, call func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- call(ctx) }()
	return await(t, ended, 2*patience)
}

// settled waits until c's waiter for key hears the lock's channels and has looked once more since.
func settled(t *testing.T, c *Client, key string) {
	t.Helper()
	settledOn(t, c, namesOf(wire.Mutex, key).Unlock)
}

// settledOn does so by the channel that tells when a lock of any kind may be free.
func settledOn(t *testing.T, c *Client, unlock string) {
	t.Helper()
	h := c.core.arbiter.Nodes()[0].Debug().Hub
	require.Eventually(t, func() bool {
		members, confirmed, quiet := h.Listening(unlock)
		return members == 1 && confirmed && quiet
	}, patience, time.Millisecond)
}

// mutexOf is the Mutex that a lease is of.
func mutexOf(l *Lease) *Mutex { return &Mutex{*l.lock} }

// tapped returns a client over servers and where each has its faults.
func tapped(t *testing.T, servers []*redistest.Server, opts ...ClientOption) (*Client, []*faults.Client) {
	t.Helper()
	var nodes []rueidis.Client
	var taps []*faults.Client
	for _, s := range servers {
		w := faulty(s)
		nodes, taps = append(nodes, w), append(taps, w)
	}
	if len(servers) == 1 {
		return newClient(t, nodes[0], opts...), taps
	}
	c, err := NewRedlock(nodes, opts...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c, taps
}

const counterOfK = "redisson_lock_token:{k}"

// bothTopologies runs a test over one Redis and over a quorum of three. open makes a client with a user's rights.
func bothTopologies(t *testing.T, test func(t *testing.T, servers []*redistest.Server, c *Client), opts ...ClientOption) {
	for name, n := range map[string]int{"one": 1, "quorum": 3} {
		t.Run(name, func(t *testing.T) {
			servers := masters(t, n)
			var nodes []rueidis.Client
			for _, s := range servers {
				rdb, err := rueidis.NewClient(s.AddUser("app", "secret", "~*", "&*", "+@all"))
				require.NoError(t, err)
				t.Cleanup(rdb.Close)
				nodes = append(nodes, rdb)
			}
			if n == 1 {
				test(t, servers, newClient(t, nodes[0], opts...))
				return
			}
			c, err := NewRedlock(nodes, opts...)
			require.NoError(t, err)
			t.Cleanup(c.Close)
			test(t, servers, c)
		})
	}
}

// another returns one more client of the servers, with all rights.
func another(t *testing.T, servers []*redistest.Server, opts ...ClientOption) *Client {
	if len(servers) > 1 {
		return newRedlock(t, servers, opts...)
	}
	return newClient(t, servers[0].Client(), opts...)
}

// onAll waits until every server knows of the lock: a quorum is content with fewer.
func onAll(t *testing.T, servers []*redistest.Server, name string) {
	t.Helper()
	for _, s := range servers { // a node that was too slow to vote is asked again by the second renewal
		require.Eventually(t, func() bool { return s.Do("EXISTS", name) == "1" }, time.Minute, time.Millisecond)
	}
}

// masters starts independent servers.
func masters(t *testing.T, n int) []*redistest.Server {
	t.Helper()
	var all []*redistest.Server
	for range n {
		all = append(all, redistest.Start(t))
	}
	return all
}

// newRedlock returns a client over servers, with connections of its own.
func newRedlock(t *testing.T, servers []*redistest.Server, opts ...ClientOption) *Client {
	t.Helper()
	var nodes []rueidis.Client
	for _, s := range servers {
		nodes = append(nodes, s.Client())
	}
	c, err := NewRedlock(nodes, opts...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// queued waits until n waiters stand in the lock's queue.
func queued(t *testing.T, s *redistest.Server, name string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return s.Do("ZCARD", "relock_queue:{"+name+"}") == strconv.Itoa(n)
	}, patience, time.Millisecond)
}

func lockAndUnlock(t *testing.T, m *Mutex) (token int64) {
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
	return l.Token()
}

// hearing returns a client whose inbox is subscribed: one that is not yet is taken for dead where it waits, until it asks again.
func hearing(t *testing.T, s *redistest.Server, opts ...ClientOption) *Client {
	t.Helper()
	c := newClient(t, s.Client(), opts...)
	unlocked(t, taken(t, c.RWMutex("first of "+c.ID()).Lock))
	require.Eventually(t, func() bool { return strings.HasSuffix(s.Do("PUBSUB", "NUMSUB", wire.InboxPrefix+c.ID()), "1") }, patience, time.Millisecond)
	return c
}

// taken is the lease that lock gives.
func taken(t *testing.T, lock func(context.Context) (*Lease, error)) *Lease {
	t.Helper()
	l, err := lock(t.Context())
	require.NoError(t, err)
	return l
}

// requireNothingLeft demands that Redis keeps nothing of the lock k but its counter.
func requireNothingLeft(t *testing.T, s *redistest.Server) {
	t.Helper()
	require.Eventually(t, func() bool { return s.Do("KEYS", "*rwlock_timeout*") == "" }, patience, time.Millisecond)
	require.Eventually(t, func() bool {
		return s.Do("EXISTS", "k", "relock_readers:{k}:k", "relock_writers:{k}") == "0"
	}, patience, time.Millisecond)
}

func unlocked(t *testing.T, leases ...*Lease) {
	t.Helper()
	for _, l := range leases {
		require.NoError(t, l.Unlock(t.Context()))
	}
}

type (
	scripted      = fakes.Arbiter
	scriptedClaim = fakes.Claim
	hanging       = fakes.Hanging
)

// inFakeTime runs a test with a client over a scripted arbiter, for a day at most. Without an end, a wait for what never comes
// would keep a processor busy with renewals until go test's -timeout.
func inFakeTime(t *testing.T, test func(t *testing.T, c *Client, s *scripted), opts ...ClientOption) {
	synctest.Test(t, func(t *testing.T) {
		defer time.AfterFunc(24*time.Hour, func() { panic("a test of fake time has waited for a day") }).Stop()
		s := &scripted{}
		c := over(t, s, opts...)
		defer c.Close()
		test(t, c, s)
	})
}

// seen gathers events.
type seen struct {
	mu     sync.Mutex
	events []Event
}

func (s *seen) Observe(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// of returns the events of some kinds so far.
func (s *seen) of(kinds ...EventKind) (of []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		for _, kind := range kinds {
			if e.Kind == kind {
				of = append(of, e)
			}
		}
	}
	return of
}

// over returns a client over an arbiter of the test.
func over(t *testing.T, a claim.Arbiter, opts ...ClientOption) *Client {
	t.Helper()
	cfg, err := with(defaultConfig(), opts, "")
	require.NoError(t, err)
	return newClientOver("c", cfg, a)
}

// namesOf are the names of a lock of a client without a prefix.
func namesOf(kind *wire.Kind, name string) *wire.Names {
	names, err := kind.Names("", name)
	if err != nil {
		panic(err)
	}
	return names
}

// mutexes are n locks of c whose names begin with prefix.
func mutexes(c *Client, prefix string, n int, opts ...Option) (all []Locker) {
	for i := range n {
		all = append(all, c.Mutex(prefix+strconv.Itoa(i), opts...))
	}
	return all
}

// requireLost demands the very error of a lost lock, which names it.
func requireLost(t *testing.T, how error, err error, why ...any) {
	t.Helper()
	var lost *LostError
	require.ErrorAs(t, err, &lost, why...)
	require.Same(t, err, lost, "it is about the lock that was asked about")
	require.Equal(t, how, lost.Err, why...)
	require.NotEmpty(t, lost.Name)
	require.Equal(t, 1, strings.Count(err.Error(), fmt.Sprintf("%q", lost.Name)), "named once: %v", err)
}
