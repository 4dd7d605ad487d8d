package migrate

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockgoredis"
	"github.com/relock-go/relock/internal/redistest"
)

const (
	patience = 60 * time.Second
	name     = "order:7"
)

func TestMain(m *testing.M) {
	expiry = 3 * time.Second
	os.Exit(m.Run())
}

// service is a release of a service: it does work under its lock, or its locks.
type service = func(ctx context.Context, name string, work job) error

// releases are those of a service that comes from another library, by one process.
type releases struct {
	before, step1, step2 service
	unrenewed            service // step 1 without what keeps the old lock, nil where it keeps itself
}

// libraries open a process of each service.
var libraries = map[string]func(*testing.T, *redistest.Server) releases{
	"redsync": func(t *testing.T, s *redistest.Server) releases {
		rdb, locks := overGoRedis(t, s)
		rs := redsync.New(pool.NewPool(rdb))
		under := func(ctx context.Context, name string, then func(context.Context, *redsync.Mutex) error) error {
			old := rs.NewMutex(name, redsync.WithExpiry(expiry))
			if err := old.LockContext(ctx); err != nil {
				return err
			}
			defer old.UnlockContext(context.WithoutCancel(ctx))
			return then(ctx, old)
		}
		return releases{
			before: func(ctx context.Context, name string, work job) error {
				return under(ctx, name, func(ctx context.Context, old *redsync.Mutex) error {
					return renewed(ctx, func(ctx context.Context) error { _, err := old.ExtendContext(ctx); return err }, work)
				})
			},
			step1: func(ctx context.Context, name string, work job) error {
				return redsyncStep1(ctx, rs, locks, name, work)
			},
			step2: last(locks),
			unrenewed: func(ctx context.Context, name string, work job) error {
				return under(ctx, name, func(ctx context.Context, _ *redsync.Mutex) error { return step2(ctx, locks, name, work) })
			},
		}
	},
	"redislock": func(t *testing.T, s *redistest.Server) releases {
		rdb, locks := overGoRedis(t, s)
		rl := redislock.New(rdb)
		under := func(ctx context.Context, name string, then func(context.Context, *redislock.Lock) error) error {
			old, err := rl.Obtain(ctx, name, expiry, &redislock.Options{RetryStrategy: redislock.LinearBackoff(20 * time.Millisecond)})
			if err != nil {
				return err
			}
			defer old.Release(context.WithoutCancel(ctx))
			return then(ctx, old)
		}
		return releases{
			before: func(ctx context.Context, name string, work job) error {
				return under(ctx, name, func(ctx context.Context, old *redislock.Lock) error {
					return renewed(ctx, func(ctx context.Context) error { return old.Refresh(ctx, expiry, nil) }, work)
				})
			},
			step1: func(ctx context.Context, name string, work job) error {
				return redislockStep1(ctx, rl, locks, name, work)
			},
			step2: last(locks),
			unrenewed: func(ctx context.Context, name string, work job) error {
				return under(ctx, name, func(ctx context.Context, _ *redislock.Lock) error { return step2(ctx, locks, name, work) })
			},
		}
	},
	"rueidislock": func(t *testing.T, s *redistest.Server) releases {
		rl := openRueidislock(t, s)
		locks, err := relock.New(s.Client(), relock.WithNamePrefix("locks:"))
		require.NoError(t, err)
		t.Cleanup(locks.Close)
		return releases{
			before: func(ctx context.Context, name string, work job) error {
				ctx, unlock, err := rl.WithContext(ctx, name)
				if err != nil {
					return err
				}
				defer unlock()
				return work(ctx)
			},
			step1: func(ctx context.Context, name string, work job) error {
				return rueidislockStep1(ctx, rl, locks, name, work)
			},
			step2: last(locks),
		}
	},
}

func last(locks *relock.Client) service {
	return func(ctx context.Context, name string, work job) error {
		return step2(ctx, locks, name, work)
	}
}

func overGoRedis(t *testing.T, s *redistest.Server, opts ...relock.Option) (*goredis.Client, *relock.Client) {
	t.Helper()
	rdb := goredis.NewClient(&goredis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	locks, err := relockgoredis.New(rdb, append(opts, relock.WithNamePrefix("locks:"))...)
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	return rdb, locks
}

func openRueidislock(t *testing.T, s *redistest.Server) rueidislock.Locker {
	t.Helper()
	rl, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{s.Addr()}}, KeyMajority: 1, NoLoopTracking: true, KeyValidity: expiry,
		TryNextAfter: expiry, // by default it gives a command up after 20 ms, which a busy machine takes
	})
	require.NoError(t, err)
	t.Cleanup(rl.Close)
	return rl
}

// room is what the locks guard. It counts how often there were two in it.
type room struct {
	in       atomic.Int64
	overlaps atomic.Int64
	lost     atomic.Bool // the context of work ended: the machine stood still for an expiry
}

// stay is work that lasts so long.
func (r *room) stay(ctx context.Context, d time.Duration) error {
	if r.in.Add(1) > 1 {
		r.overlaps.Add(1)
	}
	defer r.in.Add(-1)
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pair is two releases beside each other, of each two processes.
type pair struct {
	what      string
	processes [2][2]service
	room      room
	done      [2]atomic.Int64 // how many times each release has worked
	long      [2]atomic.Bool  // once for longer than the old lock's expiry
}

// ended reports whether both releases have worked often enough.
func (p *pair) ended() bool {
	for i := range p.done {
		if p.done[i].Load() < 10 || !p.long[i].Load() {
			return false
		}
	}
	return true
}

// run lets the releases work until both have done so often enough.
func (p *pair) run(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	var wg sync.WaitGroup
	for i := range p.processes {
		for j, release := range p.processes[i] {
			wg.Go(func() {
				for ctx.Err() == nil {
					d := time.Millisecond
					if j == 0 && !p.long[i].Load() {
						d = 5 * expiry / 2
					}
					err := release(ctx, name, func(work context.Context) error {
						err := p.room.stay(work, d)
						if err != nil && ctx.Err() == nil {
							p.room.lost.Store(true)
						}
						return err
					})
					time.Sleep(rand.N(20 * time.Millisecond)) // redsync and redislock try by chance
					if err != nil {
						continue
					}
					p.done[i].Add(1)
					if d > expiry {
						p.long[i].Store(true)
					}
					if p.ended() {
						stop()
					}
				}
			})
		}
	}
	wg.Wait()
}

// Releases that follow one another exclude each other, also while work takes longer than the old lock's expiry. Those of
// before and after do not. So a service may go back by one step at a time.
func TestTheTwoSteps(t *testing.T) {
	before := func(r releases) service { return r.before }
	step1 := func(r releases) service { return r.step1 }
	step2 := func(r releases) service { return r.step2 }
	var pairs []*pair
	var wg sync.WaitGroup
	for library, open := range libraries {
		for what, of := range map[string][2]func(releases) service{
			"before and step 1": {before, step1}, "step 1 and step 2": {step1, step2}, "before and step 2": {before, step2},
		} {
			s, p := redistest.Start(t), &pair{what: library + ", " + what}
			for i := range p.processes {
				for j := range p.processes[i] {
					p.processes[i][j] = of[i](open(t, s))
				}
			}
			pairs = append(pairs, p)
			wg.Go(func() { p.run(t.Context()) })
		}
	}
	wg.Wait()
	for _, p := range pairs {
		t.Run(p.what, func(t *testing.T) {
			overlaps := p.room.overlaps.Load()
			t.Logf("%d overlaps in %d and %d holds", overlaps, p.done[0].Load(), p.done[1].Load())
			if p.room.lost.Load() {
				t.Skip("the machine stood still for an expiry")
			}
			require.True(t, p.ended())
			require.Equal(t, strings.HasSuffix(p.what, "before and step 2"), overlaps > 0)
		})
	}
}

// Without a renewal of its own the old lock ends under relock's, and lets an old release in.
func TestAnOldLockThatIsNotRenewedEnds(t *testing.T) {
	for library, open := range libraries {
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			old, next := open(t, s), open(t, s)
			if next.unrenewed == nil {
				t.Skip("it renews its lock itself")
			}
			entered, came := make(chan struct{}), make(chan struct{})
			go func() {
				<-entered
				for t.Context().Err() == nil && old.before(t.Context(), name, func(context.Context) error { close(came); return nil }) != nil {
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			require.NoError(t, next.unrenewed(ctx, name, func(ctx context.Context) error {
				close(entered)
				select {
				case <-came:
					return nil
				case <-ctx.Done():
					return errors.New("no release of before came in")
				}
			}))
		})
	}
}

// Under one name relock fails at once beside redsync's lock and redislock's. redsync takes relock's for one of its own,
// redislock fails with what is no ErrNotObtained, and rueidislock's keys have other names.
func TestUnderOneName(t *testing.T) {
	s := redistest.Start(t)
	ctx := t.Context()
	rdb := goredis.NewClient(&goredis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	locks, err := relockgoredis.New(rdb)
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	rs, rl := redsync.New(pool.NewPool(rdb)), redislock.New(rdb)
	wrongKind := func(why string) {
		t.Helper()
		_, err := locks.Mutex(name).TryLock(ctx)
		require.ErrorIs(t, err, relock.ErrWrongKind, why)
		_, err = locks.Mutex(name).Lock(ctx)
		require.ErrorIs(t, err, relock.ErrWrongKind, why)
	}
	theirs := rs.NewMutex(name)
	require.NoError(t, theirs.LockContext(ctx))
	wrongKind("redsync's")
	_, err = theirs.UnlockContext(ctx)
	require.NoError(t, err)
	other, err := rl.Obtain(ctx, name, time.Minute, nil)
	require.NoError(t, err)
	wrongKind("redislock's")
	require.NoError(t, other.Release(ctx))

	lease, err := locks.Mutex(name).Lock(ctx)
	require.NoError(t, err)
	var taken *redsync.ErrTaken
	require.ErrorAs(t, rs.NewMutex(name, redsync.WithTries(2)).LockContext(ctx), &taken)
	_, err = rl.Obtain(ctx, name, time.Minute, &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)})
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NotErrorIs(t, err, redislock.ErrNotObtained)
	_, unlock, err := openRueidislock(t, s).TryWithContext(ctx, name)
	require.NoError(t, err, "it does not see the lock")
	unlock()
	require.NoError(t, lease.Unlock(ctx))
}

// A lock that redsync's WithValue lets another process unlock is handed over in relock: the worker enters the hold, and
// says so, and then the first process unlocks. What the worker unlocks is its own part alone.
func TestHandingALockOver(t *testing.T) {
	s := redistest.Start(t)
	_, apis := overGoRedis(t, s, relock.WithLease(expiry))
	_, workers := overGoRedis(t, s, relock.WithLease(expiry))
	_, others := overGoRedis(t, s)
	ctx := relock.WithOwner(t.Context(), "order 7")
	free := func() bool {
		st, err := others.Mutex(name).State(t.Context())
		require.NoError(t, err)
		return !st.Held
	}
	lock := func(c *relock.Client) *relock.Lease {
		l, err := c.Mutex(name).Lock(ctx)
		require.NoError(t, err)
		return l
	}
	api, worker := lock(apis), lock(workers)
	require.Equal(t, api.Token(), worker.Token())
	require.NoError(t, worker.Unlock(t.Context()))
	require.False(t, free(), "the first process's part stands")
	worker = lock(workers)
	require.NoError(t, api.Unlock(t.Context()))
	require.False(t, free(), "handed over")
	require.NoError(t, worker.Unlock(t.Context()))
	require.True(t, free())

	api = lock(apis)
	require.NoError(t, api.Unlock(t.Context()))
	require.True(t, free(), "unlocked before the worker came in: others may lock it first")
	worker = lock(workers)
	require.Greater(t, worker.Token(), api.Token())
	require.NoError(t, worker.Unlock(t.Context()))

	lock(apis)
	worker = lock(workers)
	apis.Close() // it leaves its part to the lease, as a process that died
	require.NoError(t, worker.Unlock(t.Context()))
	require.False(t, free())
	require.Eventually(t, free, patience, 10*time.Millisecond)
}

// docs/migrating.md shows the functions of steps.go.
func TestTheDocumentShowsTheSteps(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/migrating.md")
	require.NoError(t, err)
	code, err := os.ReadFile("steps.go")
	require.NoError(t, err)
	shown := 0
	for _, block := range strings.Split(string(doc), "```go\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if strings.HasPrefix(block, "// Step") {
			require.Contains(t, string(code), block)
			shown++
		}
	}
	require.Equal(t, 4, shown)
}
