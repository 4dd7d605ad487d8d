package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// nothingLeft checks that Redis keeps no lock, and no waiter.
func nothingLeft(t *testing.T, srv *redistest.Server) {
	t.Helper()
	require.Equal(t, "0", srv.Do("EVAL", `local n = 0
		for _, key in ipairs(redis.call('KEYS', '*')) do
			local is = redis.call('TYPE', key).ok
			if is == 'hash' or is == 'zset' and redis.call('ZCOUNT', key, 0, '+inf') > 0 then n = n + 1 end
		end
		return n`, "0"))
}

// printLocks is a command that prints what run tells it of its locks.
const printLocks = "env | grep -E '^RELOCK_(NAME|TOKEN|NUMBER)' | sort"

// A command under several locks has them all, and finds each by its place on the command line.
func TestRunUnderSeveral(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	locks := other(t, srv)
	run := func(args ...string) result {
		return relockRun(append([]string{"run", "-redis", srv.Addr()}, args...)...)
	}
	t.Run("environment", func(t *testing.T) {
		got := run("c", "a b", "--", "sh", "-c", printLocks+"; exit 7")
		require.Equal(t, 7, got.status, got.err)
		require.Regexp(t, `^RELOCK_NAME_1=c\nRELOCK_NAME_2=a b\nRELOCK_TOKEN_1=\d{16}\nRELOCK_TOKEN_2=\d{16}\n$`, got.out)
		nothingLeft(t, srv)
		for _, side := range []string{"-shared", "-exclusive"} {
			got := run(side, "reads", "books", "--", "sh", "-c", printLocks)
			require.Equal(t, statusOK, got.status, got.err)
			require.Regexp(t, `^RELOCK_NAME_1=reads\nRELOCK_NAME_2=books\nRELOCK_TOKEN_1=\d{16}\nRELOCK_TOKEN_2=\d{16}\n$`, got.out)
		}
	})
	t.Run("one is held", func(t *testing.T) {
		lease, err := locks.Mutex("b").Lock(t.Context())
		require.NoError(t, err)
		for _, wait := range []string{"0", "500ms"} {
			got := run("-wait", wait, "c", "b", "a", "--", "echo", "ran")
			require.Equal(t, []any{statusNotAcquired, ""}, []any{got.status, got.out})
			require.Contains(t, got.err, `lock "b" not acquired: held by `+locks.ID())
			require.Equal(t, result{status: 75}, run("-q", "-E", "75", "-wait", wait, "c", "b", "a", "--", "echo", "ran"))
			for _, free := range []string{"a", "c"} {
				require.Equal(t, "0", srv.Do("EXISTS", free), "all or none")
			}
		}
		require.Regexp(t, `^relock run: waiting for lock "b": held by `+locks.ID(), waitsFor(t, srv, "c", "b", "a"))
		require.NoError(t, lease.Unlock(t.Context()))
		nothingLeft(t, srv)
	})
	t.Run("they wait together", func(t *testing.T) {
		first, err := locks.Mutex("w1").Lock(t.Context())
		require.NoError(t, err)
		second, err := locks.Mutex("w2").Lock(t.Context())
		require.NoError(t, err)
		began := time.Now()
		time.AfterFunc(1500*time.Millisecond, func() { _ = first.Unlock(t.Context()) })
		got := run("-wait", "2s", "w1", "w2", "--", "echo", "ran")
		require.Equal(t, []any{statusNotAcquired, ""}, []any{got.status, got.out})
		require.Contains(t, got.err, `lock "w2" not acquired`)
		require.Less(t, time.Since(began), 3*time.Second, "not two seconds for each")
		require.NoError(t, second.Unlock(t.Context()))
	})
	t.Run("a name twice", func(t *testing.T) {
		got := run("a", "b", "a", "--", "true")
		require.Equal(t, statusUsage, got.status)
		require.Contains(t, got.err, `"a" twice`)
	})
	t.Run("at least", func(t *testing.T) {
		require.Equal(t, result{status: 3}, run("-at-least", "1m", "x", "y", "--", "sh", "-c", "exit 3"))
		for _, name := range []string{"x", "y"} {
			require.Equal(t, statusNotAcquired, run("-wait", "0", name, "--", "true").status, "it outlasts relock")
		}
		require.Equal(t, statusNotFound, run("-at-least", "1m", "v", "w", "--", t.TempDir()+"/none").status)
		for _, name := range []string{"v", "w"} {
			require.Equal(t, statusOK, run("-wait", "0", name, "--", "true").status)
		}
	})
}

// A run under the command of another run tells of its own locks alone.
func TestRunWithinRun(t *testing.T) {
	srv := redistest.Start(t)
	t.Setenv("RELOCK_NAME", "outer")
	t.Setenv("RELOCK_TOKEN", "1")
	t.Setenv("RELOCK_TOKEN_12", "1")
	t.Setenv("RELOCK_NUMBER", "1")
	t.Setenv("RELOCK_TOKEN_OF_MINE", "kept")
	run := func(args ...string) string {
		args = append(append([]string{"run", "-redis", srv.Addr()}, args...), "--", "sh", "-c", printLocks)
		return relockRun(args...).out
	}
	require.Regexp(t, `^RELOCK_NAME=a\nRELOCK_TOKEN=\d{16}\nRELOCK_TOKEN_OF_MINE=kept\n$`, run("a"))
	require.Equal(t, "RELOCK_NAME=pool\nRELOCK_TOKEN_OF_MINE=kept\n", run("-n", "2", "pool"))
}

// Each of those that run at once has another number. One more waits for the first that is free, or gives up.
func TestRunUnderAny(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	locks := other(t, srv)
	run := func(args ...string) result {
		return relockRun(append([]string{"run", "-redis", srv.Addr(), "-any", "gpu:%d", "-of", "3"}, args...)...)
	}
	got := run("--", "sh", "-c", printLocks+"; exit 7")
	require.Equal(t, 7, got.status, got.err)
	require.Regexp(t, `^RELOCK_NAME=gpu:[012]\nRELOCK_NUMBER=[012]\nRELOCK_TOKEN=\d{16}\n$`, got.out)
	nothingLeft(t, srv)

	var held []*relock.Lease
	for _, i := range []int{0, 1} {
		lease, err := locks.Mutex(fmt.Sprint("gpu:", i)).Lock(t.Context())
		require.NoError(t, err)
		held = append(held, lease)
	}
	require.Equal(t, "gpu:2 2\n", run("-wait", "0", "--", "sh", "-c", "echo $RELOCK_NAME $RELOCK_NUMBER").out)

	cmd, out := startRun(t, srv, "-any", "gpu:%d", "-of", "3") // without a command it says which it has
	token, name, _ := strings.Cut(strings.TrimSpace(line(t, out)), " ")
	require.Equal(t, "gpu:2", name)
	st, err := locks.Mutex(name).State(t.Context())
	require.NoError(t, err)
	require.Equal(t, token, fmt.Sprint(st.HolderToken))
	for _, wait := range []string{"0", "500ms"} {
		got := run("-wait", wait, "--", "echo", "ran")
		require.Equal(t, []any{statusNotAcquired, ""}, []any{got.status, got.out})
		require.Regexp(t, `none of 3 locks is free: .*lock "gpu:[012]" not acquired: held by `, got.err)
	}
	require.Regexp(t, `^relock run: waiting for lock "gpu:[012]" or 2 more: held by `, waitsFor(t, srv, "-any", "gpu:%d", "-of", "3"))
	for i := range 3 {
		require.Equal(t, "0", srv.Do("ZCARD", fmt.Sprintf("relock_queue:{gpu:%d}", i)), "it gave up its places")
	}
	_, err = locks.Mutex(name).ForceUnlock(t.Context())
	require.NoError(t, err)
	_ = cmd.Wait()
	require.Equal(t, statusLost, cmd.ProcessState.ExitCode())
	for _, lease := range held {
		require.NoError(t, lease.Unlock(t.Context()))
	}
	nothingLeft(t, srv)

	require.Equal(t, statusOK, run("-at-least", "1m", "--", "true").status)
	require.Len(t, slices.DeleteFunc([]string{"0", "1", "2"}, func(i string) bool { return srv.Do("EXISTS", "gpu:"+i) == "0" }), 1)
}

// The command ends with any one of its locks, and run says which that was.
func TestRunLosesOneOfSeveral(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	locks := other(t, srv)
	for _, lost := range []string{"a", "b", "c"} {
		var errs safeBuffer
		cmd, out := startRunTelling(t, &errs, srv, "c", "a", "b", "--", "sh", "-c", "echo in; exec sleep 60")
		require.Equal(t, "in\n", line(t, out))
		freed, err := locks.Mutex(lost).ForceUnlock(t.Context())
		require.NoError(t, err)
		require.True(t, freed)
		_ = cmd.Wait()
		require.Equal(t, statusLost, cmd.ProcessState.ExitCode())
		require.Contains(t, errs.String(), fmt.Sprintf("relock run: the lock %q is lost, the command is being stopped\n", lost))
		nothingLeft(t, srv)
	}
}

// A signal ends the wait for one of several locks, and for the second of two. Nothing is left in any line.
func TestRunSignalledWaitingForSeveral(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	locks := other(t, srv)
	b, err := locks.Mutex("b0").Lock(t.Context())
	require.NoError(t, err)
	c, err := locks.Mutex("b1").Lock(t.Context())
	require.NoError(t, err)
	for _, args := range []string{"a b0 -- echo ran", "-any b%d -of 2 -- echo ran"} {
		cmd, out := startRun(t, srv, strings.Fields(args)...)
		for _, name := range []string{"b0", "b1"} {
			require.Eventually(t, func() bool {
				return name == "b1" && args[0] == 'a' || srv.Do("ZCARD", "relock_queue:{"+name+"}") == "1"
			}, patience, time.Millisecond)
		}
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		rest, err := io.ReadAll(out)
		require.NoError(t, err)
		require.Empty(t, rest)
		_ = cmd.Wait()
		require.Equal(t, statusSignal+int(syscall.SIGTERM), cmd.ProcessState.ExitCode())
		for _, name := range []string{"b0", "b1"} {
			require.Equal(t, "0", srv.Do("ZCARD", "relock_queue:{"+name+"}"))
		}
		require.Equal(t, "0", srv.Do("EXISTS", "a"))
	}
	require.NoError(t, b.Unlock(t.Context()))
	require.NoError(t, c.Unlock(t.Context()))
}

// The shell completes each name before --, not the command behind it.
func TestCompletesSeveralNames(t *testing.T) {
	srv := redistest.Start(t)
	lease, err := other(t, srv).Mutex("orders").Lock(t.Context())
	require.NoError(t, err)
	defer lease.Unlock(t.Context())
	complete := func(args ...string) string {
		return relockRun(append([]string{"__complete", "run", "-redis", srv.Addr()}, args...)...).out
	}
	require.Contains(t, complete("o"), "orders\n")
	require.Contains(t, complete("bills", "o"), "orders\n")
	require.NotContains(t, complete("bills", "--", "o"), "orders\n")
	require.NotContains(t, complete("bills", "--", "echo", "o"), "orders\n")
	require.NotContains(t, complete("-any", "b%d", "-of", "2", "--", "o"), "orders\n")
}

// Both work over a quorum too.
func TestRunUnderSeveralOfAQuorum(t *testing.T) {
	t.Parallel()
	args := []string{"run", "-lease", "2s"}
	for range 3 {
		args = append(args, "-redis", redistest.Start(t).Addr())
	}
	for _, of := range []string{"b a", "-any gpu:%d -of 2"} {
		got := relockRun(slices.Concat(args, strings.Fields(of), []string{"--", "sh", "-c", printLocks + "; exit 3"})...)
		require.Equal(t, 3, got.status, got.err)
		require.Regexp(t, `^RELOCK_NAME(_1=b|=gpu:[01])\n`, got.out)
	}
}
