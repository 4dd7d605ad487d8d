package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relockgoredis"
	"github.com/relock-go/relock/internal/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(played) != "" {
		main()
		return
	}
	expiry = 3 * time.Second
	os.Exit(m.Run())
}

// The service moves to relock and back under load, by two processes of each release, and no count is lost. Where the middle
// is skipped, counts are: so the counter tells. With RELOCK_LONG=1 each two releases run beside each other for 30 seconds.
func TestMigration(t *testing.T) {
	long := os.Getenv("RELOCK_LONG") != ""
	lasts := 400 * time.Millisecond
	if long {
		lasts = 30 * time.Second
	} else {
		t.Parallel()
	}
	for library := range libraries {
		t.Run(library, func(t *testing.T) {
			if !long { // its figures are of one library at a time
				t.Parallel()
			}
			url := "redis://" + redistest.Start(t).Addr()
			figures, err := play(t.Context(), library, url, append(there, back...), lasts)
			for _, f := range figures {
				t.Logf("%+v", f)
				require.Zero(t, f.lost, "%s beside %s", f.first, f.second)
			}
			require.NoError(t, err)
			require.Len(t, figures, 4)
			figures, err = play(t.Context(), library, url, skipped, lasts)
			require.NoError(t, err)
			t.Logf("%+v", figures)
			require.Positive(t, figures[0].lost, "the counter shows nothing: two releases that share no lock lost no count")
		})
	}
}

// The program alone, on its embedded Redis, prints the table.
func TestShow(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-from", "redislock", "-for", "200ms")
	cmd.Env, cmd.Stderr = append(os.Environ(), played+"=1"), os.Stderr
	table, err := cmd.Output()
	require.NoError(t, err)
	require.Regexp(t, `^release .* lost\n(\w+ +\d+ +\w+ +\d+ +0\n){4}before +\d+ +after +\d+ +[1-9]\d*\n$`, string(table))
}

// held is work that lasts for longer than the old lock's expiry, unless another process comes in.
func held(ctx context.Context, came <-chan struct{}) error {
	select {
	case <-came:
		return errCame
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(5 * expiry / 2):
		return nil
	}
}

var errCame = errors.New("an older release came in")

// Work may take longer than the old lock's expiry: the middle renews that lock. Without that it ends under relock's, and lets
// an older release in.
func TestTheMiddleRenewsTheOldLock(t *testing.T) {
	t.Parallel()
	for library, open := range libraries {
		for _, renews := range []bool{true, false} {
			if library == "rueidislock" && !renews {
				continue // it renews its lock itself
			}
			t.Run(library+" renews "+strconv.FormatBool(renews), func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				mine, older := opened(t, s, open), opened(t, s, open)
				under := mine.before
				if !renews {
					under = unrenewed(t, s, library)
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				came, tried := make(chan struct{}), make(chan struct{})
				err := middle(ctx, under, mine.locks, name, func(ctx context.Context) error {
					go func() {
						defer close(tried)
						for ctx.Err() == nil && older.before(ctx, name, func(context.Context) error { close(came); return nil }) != nil {
						}
					}()
					return held(ctx, came)
				})
				<-tried
				if !renews {
					require.ErrorIs(t, err, errCame)
					return
				}
				require.NoError(t, err)
			})
		}
	}
}

func opened(t *testing.T, s *redistest.Server, open func(string) (service, error)) service {
	t.Helper()
	opened, err := open("redis://" + s.Addr())
	require.NoError(t, err)
	t.Cleanup(opened.close)
	return opened
}

// unrenewed is a release of before whose work always was shorter than the lock's expiry.
func unrenewed(t *testing.T, s *redistest.Server, library string) release {
	t.Helper()
	rdb := goredis.NewClient(&goredis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return func(ctx context.Context, name string, work job) error {
		switch library {
		case "redsync":
			old := redsync.New(pool.NewPool(rdb)).NewMutex(name, redsync.WithExpiry(expiry))
			if err := old.LockContext(ctx); err != nil {
				return err
			}
			defer old.UnlockContext(context.WithoutCancel(ctx))
		case "redislock":
			old, err := redislock.New(rdb).Obtain(ctx, name, expiry, nil)
			if err != nil {
				return err
			}
			defer old.Release(context.WithoutCancel(ctx))
		}
		return work(ctx)
	}
}

// Under one name relock fails at once beside redsync's lock and redislock's. redsync takes relock's for one of its own,
// redislock fails with what is no ErrNotObtained, and rueidislock's keys have other names.
func TestUnderOneName(t *testing.T) {
	t.Parallel()
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
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = opened(t, s, rueidislockService).before(ctx, name, func(context.Context) error { return nil })
	require.NoError(t, err, "it does not see the lock")
	require.NoError(t, lease.Unlock(ctx))
}

// A lock that redsync's WithValue lets another process unlock is handed over in relock: the worker enters the hold, and
// says so, and then the first process unlocks. What the worker unlocks is its own part alone.
func TestHandingALockOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	process := func() *relock.Client {
		locks, err := relock.New(s.Client(), relock.WithLease(expiry))
		require.NoError(t, err)
		t.Cleanup(locks.Close)
		return locks
	}
	apis, workers, others := process(), process(), process()
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

// What docs/migrating.md shows is compiled and run here.
func TestTheDocumentShowsThePrograms(t *testing.T) {
	doc, err := os.ReadFile("../../docs/migrating.md")
	require.NoError(t, err)
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var code string
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		code += string(text)
	}
	shown := strings.Split(string(doc), "```go\n")[1:]
	require.NotEmpty(t, shown)
	for _, block := range shown {
		block, _, _ = strings.Cut(block, "```")
		require.True(t, strings.Contains(code, block), "no program has this:\n%s", block)
	}
}
