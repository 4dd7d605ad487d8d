// Package locktest helps the tests of internal packages that drive their package by whole clients.
// It imports the library, so these tests are in external test packages, as hub_test is.
package locktest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Patience is how long tests wait for an expected event. It is no promise of the library.
const Patience = 15 * time.Second

// Masters starts independent servers.
func Masters(t *testing.T, n int) []*redistest.Server {
	t.Helper()
	var all []*redistest.Server
	for range n {
		all = append(all, redistest.Start(t))
	}
	return all
}

// Client returns a client over rdb that is closed before rdb is.
func Client(t *testing.T, rdb rueidis.Client, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	return Over(t, []rueidis.Client{rdb}, opts...)
}

// Redlock returns a client of a quorum of servers, even of a single one, with connections of its
// own.
func Redlock(t *testing.T, servers []*redistest.Server, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	var nodes []rueidis.Client
	for _, s := range servers {
		nodes = append(nodes, s.Client())
	}
	c, err := relock.NewRedlock(nodes, opts...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// Over returns a client of one Redis, or of a quorum if there are several nodes.
func Over(t *testing.T, nodes []rueidis.Client, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	c, err := (*relock.Client)(nil), error(nil)
	if len(nodes) == 1 {
		c, err = relock.New(nodes[0], opts...)
	} else {
		c, err = relock.NewRedlock(nodes, opts...)
	}
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// Faulty returns a client of its own for one server, with faults to be switched on.
func Faulty(s *redistest.Server) *faults.Client { return faults.NewClient(s.Client()) }

// Tapped returns a client of one server, or of a quorum of several, and each server's client with
// its faults.
func Tapped(t *testing.T, servers []*redistest.Server, opts ...relock.ClientOption) (*relock.Client, []*faults.Client) {
	t.Helper()
	var nodes []rueidis.Client
	var taps []*faults.Client
	for _, s := range servers {
		tap := Faulty(s)
		nodes, taps = append(nodes, tap), append(taps, tap)
	}
	return Over(t, nodes, opts...), taps
}

// BothTopologies runs a test over one Redis and over a quorum of three. Its client logs in as user
// app, which has all rights until the test takes some away.
func BothTopologies(t *testing.T, test func(t *testing.T, servers []*redistest.Server, c *relock.Client), opts ...relock.ClientOption) {
	for name, n := range map[string]int{"one": 1, "quorum": 3} {
		t.Run(name, func(t *testing.T) {
			servers := Masters(t, n)
			var nodes []rueidis.Client
			for _, s := range servers {
				rdb, err := rueidis.NewClient(s.AddUser("app", "secret", "~*", "&*", "+@all"))
				require.NoError(t, err)
				t.Cleanup(rdb.Close)
				nodes = append(nodes, rdb)
			}
			test(t, servers, Over(t, nodes, opts...))
		})
	}
}

// Locks locks m in a goroutine, and returns a channel that receives the lease.
func Locks(ctx context.Context, t *testing.T, m *relock.Mutex) <-chan *relock.Lease {
	t.Helper()
	granted := make(chan *relock.Lease, 1)
	go func() {
		l, err := m.Lock(ctx)
		if err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		granted <- l
	}()
	return granted
}

// Nothing is a function for Do that does nothing.
func Nothing(context.Context) error { return nil }

// Within receives from ch, and fails the test if nothing comes within Patience.
func Within[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	return Await(t, ch, Patience)
}

// Await receives from ch, and fails the test if nothing comes within limit.
func Await[T any](t *testing.T, ch <-chan T, limit time.Duration) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(limit):
		require.FailNow(t, "nothing came in time")
		panic("unreachable")
	}
}

// Seen is an observer that keeps all events.
type Seen struct {
	mu     sync.Mutex // guards events
	events []relock.Event
}

// Observe keeps an event.
func (s *Seen) Observe(e relock.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// Of returns the events of these kinds so far.
func (s *Seen) Of(kinds ...relock.EventKind) (of []relock.Event) {
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
