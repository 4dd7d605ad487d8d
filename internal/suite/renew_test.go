package suite_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/claim"
	"github.com/relock-go/relock/internal/clock"
	"github.com/relock-go/relock/internal/faults"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// renewalsOf has all of the leases renewed in one batch, with these hold counts, and returns the outcomes by name.
func renewalsOf(t *testing.T, c *relock.Client, leases []*relock.Lease, count int) map[string]wire.Result {
	t.Helper()
	var batch []claim.Renewal
	for _, l := range leases {
		batch = append(batch, claim.Renewal{Claim: claimOf(l), Count: count, Lease: time.Minute})
	}
	var mu sync.Mutex
	got := make(map[string]wire.Result)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	arbiterOf(c).Renew(ctx, batch, func(i int, r wire.Result, _ clock.Stamp, _ error) {
		mu.Lock()
		defer mu.Unlock()
		name := batch[i].Claim.Of().Names.Lock
		_, twice := got[name]
		require.False(t, twice, "%s is settled twice", name)
		got[name] = r
	})
	require.Len(t, got, len(batch), "each is settled")
	return got
}

// What fails at one lock's key is no failure of the others that are renewed with it.
func TestOneLocksFailureIsNoOthers(t *testing.T) {
	t.Parallel()
	const locks, broken = 30, "lock:7"
	for name, c := range map[string]struct {
		break_ func(s *redistest.Server)
		want   wire.Result
	}{
		"rights withdrawn": {func(s *redistest.Server) {
			rules := []string{"ACL", "SETUSER", "app", "resetkeys"}
			for i := range locks {
				if name := fmt.Sprintf("lock:%d", i); name != broken {
					rules = append(rules, "~"+name)
				}
			}
			s.Do(append(rules, "~relock_incarnation")...)
		}, wire.Unanswered},
		"another type": {func(s *redistest.Server) { s.Do("SET", broken, "x") }, wire.Lost},
		"gone":         {func(s *redistest.Server) { s.Do("DEL", broken) }, wire.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			bothTopologies(t, func(t *testing.T, servers []*redistest.Server, client *relock.Client) {
				var leases []*relock.Lease
				for i := range locks {
					l, err := client.Mutex(fmt.Sprintf("lock:%d", i)).Lock(context.Background())
					require.NoError(t, err)
					leases = append(leases, l)
				}
				for _, s := range servers {
					c.break_(s)
				}
				for name, o := range renewalsOf(t, client, leases, 0) {
					if name == broken {
						require.Equal(t, c.want, o, name)
					} else {
						require.Equal(t, wire.Renewed, o, name)
					}
				}
			})
		})
	}
}

// Where the rights to every lock are gone, a renewal still ends after a bounded number of commands.
func TestRefusedRenewalsAreBounded(t *testing.T) {
	s := redistest.Start(t)
	rdb, err := rueidis.NewClient(s.AddUser("app", "secret", "~*", "&*", "+@all"))
	require.NoError(t, err)
	defer rdb.Close()
	c := newClient(t, rdb)
	var leases []*relock.Lease
	for i := range wire.MaxBatch {
		l, err := c.Mutex(fmt.Sprint(i)).Lock(context.Background())
		require.NoError(t, err)
		leases = append(leases, l)
	}
	renewalsOf(t, c, leases[:1], 0) // loads the script
	s.Do("ACL", "SETUSER", "app", "resetkeys", "~none")
	s.ResetCommandCounts()
	for _, o := range renewalsOf(t, c, leases, 0) {
		require.Equal(t, wire.Unanswered, o)
	}
	require.LessOrEqual(t, s.CommandCounts()["evalsha"], int64(2*wire.MaxBatch-1), "so many halve it down to single locks")
}

// However many locks of a batch are refused, the others are renewed.
func TestManyRefusedLocksCostNoOther(t *testing.T) {
	s := redistest.Start(t)
	rdb, err := rueidis.NewClient(s.AddUser("app", "secret", "~*", "&*", "+@all"))
	require.NoError(t, err)
	defer rdb.Close()
	c := newClient(t, rdb)
	var leases []*relock.Lease
	for i := range wire.MaxBatch {
		l, err := c.Mutex(fmt.Sprint([]string{"good", "bad"}[i%2], i)).Lock(context.Background())
		require.NoError(t, err)
		leases = append(leases, l)
	}
	s.Do("ACL", "SETUSER", "app", "resetkeys", "~good*")
	for name, o := range renewalsOf(t, c, leases, 0) {
		require.Equal(t, strings.HasPrefix(name, "good"), o == wire.Renewed, name)
	}
}

// A Redis that is out of memory renews every lease, and writes a hold count that was in doubt with it.
func TestOutOfMemoryRenews(t *testing.T) {
	t.Parallel()
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		var leases []*relock.Lease
		for i := range 20 {
			l, err := c.Mutex(fmt.Sprint("k", i)).Lock(context.Background())
			require.NoError(t, err)
			leases = append(leases, l)
			onAll(t, servers, entryOf(l).Names.Lock)
		}
		for _, s := range servers {
			s.Do("CONFIG", "SET", "maxmemory", "1")
		}
		for range 2 { // the second finds nothing to lengthen
			for name, o := range renewalsOf(t, c, leases, 7) {
				require.Equal(t, wire.Renewed, o, name)
			}
		}
		for _, s := range servers {
			require.Equal(t, "7", s.Do("HGET", "k3", entryOf(leases[3]).ID))
		}
	})
}

// Out of memory a lock is not re-entered, which is said, but an inner Unlock is no failure, Extend works, and the lease is
// lengthened by all of them.
func TestOutOfMemoryKeepsReentered(t *testing.T) {
	t.Parallel()
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, c *relock.Client) {
		ctx := context.Background()
		l, err := c.Mutex("k").Lock(ctx)
		require.NoError(t, err)
		onAll(t, servers, "k")
		inner, err := c.Mutex("k").Lock(l.Context())
		require.NoError(t, err)
		for _, s := range servers {
			require.Eventually(t, func() bool { return s.Do("HGET", "k", entryOf(l).ID) == "2" }, patience, time.Millisecond)
		}
		shorten := func(limit string) {
			for _, s := range servers {
				s.Do("CONFIG", "SET", "maxmemory", limit)
				s.Do("PEXPIRE", "k", "20000")
			}
		}
		lengthened := func() {
			for _, s := range servers {
				require.Eventually(t, func() bool { return s.Do("TTL", "k") > "20" }, patience, time.Millisecond)
			}
		}
		shorten("1")
		_, err = c.Mutex("k").Lock(l.Context())
		require.ErrorContains(t, err, "OOM")
		lengthened()
		shorten("1")
		require.NoError(t, inner.Unlock(ctx))
		lengthened()
		for _, s := range servers {
			require.Equal(t, "1", s.Do("HGET", "k", entryOf(l).ID))
		}
		require.NoError(t, l.Extend(ctx, 29*time.Second))
		require.NoError(t, l.Context().Err())
		for _, s := range servers {
			s.Do("CONFIG", "SET", "maxmemory", "0")
		}
		require.NoError(t, l.Unlock(ctx))
	})
}

// A lease is dated from when the command was sent that Redis confirmed, however late the answer comes: of a grant, a
// renewal, Extend, a re-entry, and the Unlock of one.
func TestSlowAnswersLengthenNoLease(t *testing.T) {
	t.Parallel()
	const lease = time.Hour // so that nothing else is renewed meanwhile, however slow the machine is
	ctx, recount := context.Background(), faults.Script("recount")
	for name, tc := range map[string]struct {
		asks  faults.Match
		inner bool // it is re-entered before
		ask   func(c *relock.Client, l, inner *relock.Lease) (*relock.Lease, error)
	}{
		"Lock": {faults.Script("acquire", "vote"), false, func(c *relock.Client, _, _ *relock.Lease) (*relock.Lease, error) {
			return c.Mutex("other").Lock(ctx)
		}},
		"TryLock": {faults.Script("acquire", "vote"), false, func(c *relock.Client, _, _ *relock.Lease) (*relock.Lease, error) {
			return c.Mutex("other").TryLock(ctx)
		}},
		"renewal": {faults.Script("renew"), false, func(c *relock.Client, l, _ *relock.Lease) (*relock.Lease, error) {
			batch := []claim.Renewal{{Claim: claimOf(l), Lease: lease}}
			var failed error
			arbiterOf(c).Renew(ctx, batch, func(_ int, r wire.Result, sent clock.Stamp, err error) {
				holdOf(l).Settle(batch[0], r, sent, err)
				failed = err
			})
			return l, failed
		}},
		"Extend": {recount, false, func(_ *relock.Client, l, _ *relock.Lease) (*relock.Lease, error) { return l, l.Extend(ctx, lease) }},
		"re-entry": {recount, false, func(c *relock.Client, l, _ *relock.Lease) (*relock.Lease, error) {
			return c.Mutex("k").Lock(l.Context())
		}},
		"inner Unlock": {recount, true, func(_ *relock.Client, l, inner *relock.Lease) (*relock.Lease, error) { return l, inner.Unlock(ctx) }},
	} {
		for topology, n := range map[string]int{"one": 1, "quorum": 3} {
			t.Run(name+"/"+topology, func(t *testing.T) {
				servers := masters(t, n)
				c, taps := tapped(t, servers, relock.WithLease(lease), relock.WithCommandTimeout(2*patience))
				l, err := c.Mutex("k").Lock(ctx)
				require.NoError(t, err)
				onAll(t, servers, "k")
				var inner *relock.Lease
				if tc.inner {
					inner, err = c.Mutex("k").Lock(l.Context())
					require.NoError(t, err)
				}
				for _, w := range taps {
					w.Filter(faults.All(tc.asks, faults.Stall))
				}
				type answer struct {
					l   *relock.Lease
					err error
				}
				began, asked := time.Now(), make(chan answer, 1)
				go func() {
					l, err := tc.ask(c, l, inner)
					asked <- answer{l, err}
				}()
				for _, w := range taps {
					within(t, w.Told())
				}
				sent := time.Now() // at the latest; no answer has come
				for _, w := range taps {
					w.Filter(nil)
					w.Release()
				}
				got := within(t, asked)
				require.NoError(t, got.err)
				until, trusted := got.l.Until(), lease-clock.Margin(lease)
				require.False(t, until.Before(began.Add(trusted)), "it was lengthened")
				require.False(t, until.After(sent.Add(trusted)), "it counts from the answer")
			})
		}
	}
}
