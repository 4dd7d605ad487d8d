// Package suite has the tests of what callers of the library see. It is tests alone.
package suite_test

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
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/drivertest"
	"github.com/relock-go/relock/internal/locktest"
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
const patience = locktest.Patience

// Short names of what internal/locktest says.
var (
	newClient      = locktest.Client
	newRedlock     = locktest.Redlock
	masters        = locktest.Masters
	faulty         = locktest.Faulty
	tapped         = locktest.Tapped
	bothTopologies = locktest.BothTopologies
	nothing        = locktest.Nothing
)

func within[T any](t *testing.T, ch <-chan T) T { t.Helper(); return locktest.Within(t, ch) }

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

// waitFor has c wait for a lock that somebody holds, and returns where the lease will come.
func waitFor(t *testing.T, c *relock.Client, name string) <-chan *relock.Lease {
	t.Helper()
	return waitWith(t.Context(), t, c.Mutex(name))
}

// waitWith does so with a context of its own and with options.
func waitWith(ctx context.Context, t *testing.T, m *relock.Mutex) <-chan *relock.Lease {
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

// lined waits until a goroutine stands behind another one of its client, which has the lock or asks for it.
func lined(t *testing.T, c *relock.Client, name string) {
	t.Helper()
	gate := namesOf(wire.Mutex, name).Gate(1)
	require.Eventually(t, func() bool { return gatesOf(c).Waiting(gate) }, patience, time.Millisecond)
}

// stateOf is what Redis knows of a lock. It asks again where a short time-out was too short for a busy machine.
func stateOf(t *testing.T, m *relock.Mutex) relock.State {
	t.Helper()
	for began := time.Now(); ; {
		st, err := m.State(context.Background())
		if err == nil {
			return st
		}
		if time.Since(began) > patience {
			t.Error(err)
			return relock.State{}
		}
	}
}

// tokensOf has n goroutines line up for a lock in fake time, each of which holds it for a second, and returns their tokens.
func tokensOf(t *testing.T, m *relock.Mutex, n int) (tokens []int64) {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			l, err := m.Lock(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			tokens = append(tokens, l.Token())
			time.Sleep(time.Second)
			if err := l.Unlock(context.Background()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
	}
	wg.Wait()
	return tokens
}

// inTime is what call returns, whose context ends when it should long have returned. It must return even if it does not heed that.
func inTime(t *testing.T, call func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- call(ctx) }()
	return locktest.Await(t, ended, 2*patience)
}

// shared returns a source of one client.
func shared(t *testing.T, opt rueidis.ClientOption) func() rueidis.Client {
	rdb, err := rueidis.NewClient(opt)
	require.NoError(t, err)
	t.Cleanup(rdb.Close)
	return func() rueidis.Client { return rdb }
}

// settled waits until c's waiter for key hears the lock's channels and has looked once more since.
func settled(t *testing.T, c *relock.Client, key string) {
	t.Helper()
	settledOn(t, c, namesOf(wire.Mutex, key).Unlock)
}

// settledOn does so by the channel that tells when a lock of any kind may be free.
func settledOn(t *testing.T, c *relock.Client, unlock string) {
	t.Helper()
	h := arbiterOf(c).Nodes()[0].Debug().Hub
	require.Eventually(t, func() bool {
		members, confirmed, quiet := h.Listening(unlock)
		return members == 1 && confirmed && quiet
	}, patience, time.Millisecond)
}

// exclusive lets goroutines of two clients do an unguarded read-modify-write under the lock.
func exclusive(ctx context.Context, t *testing.T, key string, clients ...*relock.Client) {
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

// rights are the ACLs of docs/wire.md: what everyone needs, and what a Cluster and a quorum take beyond that.
func rights(t *testing.T, prefix string) [][]string {
	every, cluster, quorum := drivertest.Rights(t, prefix)
	return [][]string{every, cluster, quorum}
}

const counterOfK = "redisson_lock_token:{k}"

// another returns one more client of the servers, with all rights.
func another(t *testing.T, servers []*redistest.Server, opts ...relock.ClientOption) *relock.Client {
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

// queued waits until n waiters stand in the lock's queue.
func queued(t *testing.T, s *redistest.Server, name string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return s.Do("ZCARD", "relock_queue:{"+name+"}") == strconv.Itoa(n)
	}, patience, time.Millisecond)
}

// listening waits until c's inbox is subscribed.
func listening(t *testing.T, s *redistest.Server, c *relock.Client) {
	t.Helper()
	require.Eventually(t, func() bool {
		return strings.HasSuffix(s.Do("PUBSUB", "NUMSUB", wire.InboxPrefix+c.ID()), "1")
	}, patience, time.Millisecond)
}

func lockAndUnlock(t *testing.T, m *relock.Mutex) (token int64) {
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
	return l.Token()
}

// hearing returns a client whose inbox is subscribed: one that is not yet is taken for dead where it waits, until it asks again.
func hearing(t *testing.T, s *redistest.Server, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	c := newClient(t, s.Client(), opts...)
	unlocked(t, taken(t, c.RWMutex("first of "+c.ID()).Lock))
	require.Eventually(t, func() bool { return strings.HasSuffix(s.Do("PUBSUB", "NUMSUB", wire.InboxPrefix+c.ID()), "1") }, patience, time.Millisecond)
	return c
}

// taken is the lease that lock gives.
func taken(t *testing.T, lock func(context.Context) (*relock.Lease, error)) *relock.Lease {
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

func unlocked(t *testing.T, leases ...*relock.Lease) {
	t.Helper()
	for _, l := range leases {
		require.NoError(t, l.Unlock(t.Context()))
	}
}

// far is a lease whose polls, a third of it apart, no test waits for: what is noticed, a message told of.
const far = 10 * time.Minute
