package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/relock-go/relock/internal/wire"
	"github.com/stretchr/testify/require"
)

// other is another user of the same Redis.
func other(t *testing.T, srv *redistest.Server) *relock.Client {
	t.Helper()
	locks, err := relock.New(srv.Client())
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	return locks
}

func TestRun(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	url := "redis://" + srv.Addr()
	shell := func(script string, flags ...string) result {
		args := append([]string{"run", "-redis", url}, flags...)
		return relockRun(append(args, "orders", "--", "sh", "-c", script)...)
	}

	t.Run("status and token", func(t *testing.T) {
		first := shell("echo $RELOCK_TOKEN")
		second := shell("echo $RELOCK_TOKEN; echo oops >&2; exit 7")
		require.Equal(t, statusOK, first.status, first.err)
		require.Equal(t, 7, second.status)
		require.Equal(t, "oops\n", second.err)
		tokens := [2]int{}
		for i, out := range []string{first.out, second.out} {
			var err error
			tokens[i], err = strconv.Atoi(strings.TrimSpace(out))
			require.NoError(t, err)
		}
		require.Greater(t, tokens[1], tokens[0])
		require.Empty(t, srv.Do("HGETALL", "orders"), "the lock is given back")
	})
	t.Run("shared and exclusive", func(t *testing.T) {
		rw := other(t, srv).RWMutex("sides")
		side := func(flag string) int {
			return relockRun("run", "-redis", url, "-wait", "0", "-"+flag, "sides", "--", "true").status
		}
		reads, err := rw.RLock(t.Context())
		require.NoError(t, err)
		require.Equal(t, statusOK, side("shared"))
		require.Equal(t, statusNotAcquired, side("exclusive"))
		require.NoError(t, reads.Unlock(t.Context()))
		require.Equal(t, statusOK, side("exclusive"))
		writes, err := rw.Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, statusNotAcquired, side("shared"))
		require.NoError(t, writes.Unlock(t.Context()))
	})
	t.Run("ended by a signal", func(t *testing.T) {
		require.Equal(t, statusSignal+int(syscall.SIGKILL), shell("kill -9 $$").status)
	})
	t.Run("no command that can be run", func(t *testing.T) {
		require.Equal(t, statusNoExec, relockRun("run", "-redis", url, "orders", "--", t.TempDir()).status)
		require.Equal(t, statusNotFound, relockRun("run", "-redis", url, "orders", "--", t.TempDir()+"/none").status)
	})
	t.Run("no command that can be run leaves no lock", func(t *testing.T) {
		script := filepath.Join(t.TempDir(), "script")
		require.NoError(t, os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700))
		for command, status := range map[string]int{
			t.TempDir(): statusNoExec, t.TempDir() + "/none": statusNotFound, "no-such-command": statusNotFound,
			script: statusNotFound, // what only the start tells
		} {
			for _, atLeast := range []string{"20s", "40s"} {
				got := relockRun("run", "-redis", url, "-at-least", atLeast, "orders", "--", command)
				require.Equal(t, status, got.status, got.err)
				require.NotEmpty(t, got.err)
				require.Empty(t, srv.Do("HGETALL", "orders"), "%s -at-least %s", command, atLeast)
			}
		}
		tokens := srv.Do("GET", "redisson_lock_token:{orders}")
		relockRun("run", "-redis", url, "orders", "--", t.TempDir()+"/none")
		require.Equal(t, tokens, srv.Do("GET", "redisson_lock_token:{orders}"), "the lock was not even taken")
	})
	t.Run("no such command", func(t *testing.T) {
		got := relockRun("run", "-redis", url, "orders", "--", "no-such-command")
		require.Equal(t, statusNotFound, got.status)
		require.Contains(t, got.err, "no-such-command")
	})
	t.Run("not acquired", func(t *testing.T) {
		lease, err := other(t, srv).Mutex("orders").Lock(t.Context())
		require.NoError(t, err)
		defer lease.Unlock(t.Context())
		for _, wait := range []string{"0", "500ms", ".5"} {
			got := shell("echo ran", "-wait", wait)
			require.Equal(t, statusNotAcquired, got.status)
			require.Contains(t, got.err, `lock "orders" not acquired: held by `)
			require.Empty(t, got.out)
		}
		require.Equal(t, 75, shell("echo ran", "-wait", "0", "-conflict-exit-code", "75").status)
		require.Equal(t, 0, shell("echo ran", "-wait", "500ms", "-E", "0").status)
		for _, wait := range []string{"0", "500ms"} {
			require.Equal(t, result{}, shell("echo ran", "-q", "-wait", wait, "-E", "0"), "cron would mail what is said")
		}
	})
	t.Run("in no state to lock", func(t *testing.T) {
		srv.Do("CONFIG", "SET", "min-replicas-to-write", "1")
		defer srv.Do("CONFIG", "SET", "min-replicas-to-write", "0")
		for _, wait := range []string{"0", "100ms"} {
			got := shell("echo ran", "-wait", wait)
			require.Equal(t, statusBroken, got.status, "it is not somebody else who holds the lock: %s", got.err)
			require.Contains(t, got.err, "NOREPLICAS")
			require.Empty(t, got.out)
		}
	})
	t.Run("broken", func(t *testing.T) {
		srv.Do("SET", "text", "x")
		got := relockRun("run", "-redis", url, "text", "--", "echo", "ran")
		require.Equal(t, statusBroken, got.status)
		require.Contains(t, got.err, "WRONGTYPE")
		require.Empty(t, got.out)
	})
}

func TestWaitFlag(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "5": 5 * time.Second, "0.25": 250 * time.Millisecond, ".5": time.Second / 2, "+5": 5 * time.Second,
		"5s": 5 * time.Second, "1m30s": 90 * time.Second, "50ms": 50 * time.Millisecond,
	} {
		var w wait
		require.NoError(t, w.Set(text), text)
		require.Equal(t, wait{want, true}, w, text)
	}
	for _, text := range []string{"", ".", "-1", "-1s", "inf", "NaN", "0x5", "1e3", "1h5", "5 "} {
		var w wait
		require.Error(t, w.Set(text), text)
		require.False(t, w.limited, text)
	}
}

// polite, as the argument of the test binary, makes it a command that says when it runs, says which signal it gets, and
// ends with status 5. A shell cannot be relied on for that: its trap may miss a signal that comes while it forks.
const polite = "polite-command"

func runPolite() int {
	sigs := make(chan os.Signal, 1)
	signal.Notify(sigs, syscall.SIGTERM, syscall.SIGHUP)
	fmt.Println("in")
	select {
	case s := <-sigs:
		fmt.Println(s)
	case <-time.After(time.Minute): // relock was killed: whoever reads the output waits for its end
	}
	return 5
}

// A command that runs says so on its output, and then it, or its lock, is disturbed.
func TestRunLostAndSignalled(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	locks := other(t, srv)
	force := func(t *testing.T, _ *exec.Cmd) {
		freed, err := locks.Mutex("orders").ForceUnlock(t.Context())
		require.NoError(t, err)
		require.True(t, freed)
	}
	courteous := []string{os.Args[0], polite}
	deaf := []string{"sh", "-c", `trap '' TERM; echo in; sleep 60 & wait; wait`}
	// No SIGHUP: relock leaves that alone where nohup has these tests ignore it.
	terminate := func(t *testing.T, cmd *exec.Cmd) { require.NoError(t, cmd.Process.Signal(syscall.SIGTERM)) }
	for _, c := range []struct {
		name    string
		command []string
		disturb func(*testing.T, *exec.Cmd)
		status  int
		out     string
	}{
		{"lost", courteous, force, statusLost, "terminated\n"},
		{"lost and deaf", deaf, force, statusLost, ""},
		{"forwarded", courteous, terminate, 5, "terminated\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd, out := startRun(t, srv, append([]string{"-grace", "500ms", "orders", "--"}, c.command...)...)
			line, err := out.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "in\n", line)
			began := time.Now()
			c.disturb(t, cmd)
			rest, err := io.ReadAll(out) // to the end of the last process that has the pipe: the whole group
			require.NoError(t, err)
			err = cmd.Wait()
			require.Equal(t, c.out, string(rest), "%v", err)
			require.Less(t, time.Since(began), 10*time.Second)
			require.Equal(t, c.status, cmd.ProcessState.ExitCode())
		})
	}
}

// A signal ends the wait for the lock, and the command never runs.
func TestRunSignalledWaiting(t *testing.T) {
	srv := redistest.Start(t)
	m := other(t, srv).Mutex("orders")
	lease, err := m.Lock(t.Context())
	require.NoError(t, err)
	defer lease.Unlock(t.Context())
	cmd, out := startRun(t, srv, "orders", "--", "echo", "ran")
	for {
		st, err := m.State(t.Context())
		require.NoError(t, err)
		if st.Waiters == 1 {
			break
		}
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Empty(t, rest)
	_ = cmd.Wait()
	require.Equal(t, statusSignal+int(syscall.SIGTERM), cmd.ProcessState.ExitCode())
}

// Without a command the lock is held until relock is told to end.
func TestRunHoldsUntilKilled(t *testing.T) {
	srv := redistest.Start(t)
	m := other(t, srv).Mutex("orders")
	cmd, out := startRun(t, srv, "orders")
	line, err := out.ReadString('\n')
	require.NoError(t, err)
	st, err := m.State(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool { // its name is written in the background
		return strings.Contains(relockRun("inspect", "-redis", srv.Addr(), "orders").out, fmt.Sprintf("(pid %d)", cmd.Process.Pid))
	}, 10*time.Second, 10*time.Millisecond)
	require.True(t, st.Held)
	require.Equal(t, fmt.Sprintln(st.HolderToken), line)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	require.Equal(t, statusSignal+int(syscall.SIGTERM), cmd.ProcessState.ExitCode())
	st, err = m.State(t.Context())
	require.NoError(t, err)
	require.False(t, st.Held, "it was given back")

	cmd, out = startRun(t, srv, "orders")
	_, err = out.ReadString('\n')
	require.NoError(t, err)
	_, err = m.ForceUnlock(t.Context())
	require.NoError(t, err)
	_ = cmd.Wait()
	require.Equal(t, statusLost, cmd.ProcessState.ExitCode())
}

// Redis that goes while it is waited for is not somebody else who has the lock.
func TestRunRedisGone(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	m := other(t, srv).Mutex("orders")
	_, err := m.Lock(t.Context())
	require.NoError(t, err)
	cmd, _ := startRun(t, srv, "-wait", "8s", "orders", "--", "true")
	require.Eventually(t, func() bool {
		st, err := m.State(t.Context())
		return err == nil && st.Waiters == 1
	}, patience, time.Millisecond)
	srv.Kill()
	_ = cmd.Wait()
	require.Equal(t, statusBroken, cmd.ProcessState.ExitCode())
}

// ShedLock calls it lockAtLeastFor.
func TestRunAtLeast(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	m := other(t, srv).Mutex("orders")
	run := func(flags ...string) result {
		return relockRun(append(append([]string{"run", "-redis", srv.Addr()}, flags...), "orders", "--", "sh", "-c", "exit 3")...)
	}
	require.Equal(t, result{status: 3}, run("-lease", "10s", "-at-least", "1m"))
	st, err := m.State(t.Context())
	require.NoError(t, err)
	require.True(t, st.Held, "it outlasts relock")
	require.Greater(t, st.TTL, 10*time.Second, "by more than a lease")
	require.Less(t, st.TTL, time.Minute+2*time.Second)
	require.Equal(t, statusNotAcquired, run("-wait", "0").status)
	_, err = m.ForceUnlock(t.Context())
	require.NoError(t, err)

	began := time.Now()
	require.Equal(t, result{status: 3}, run("-lease", "10s", "-at-least", "500ms"))
	st, err = m.State(t.Context())
	require.NoError(t, err)
	require.Less(t, st.TTL, time.Second, "not the lease's ten seconds")
	lease, err := m.Lock(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 500*time.Millisecond)
	require.NoError(t, lease.Unlock(t.Context()))
}

// Where no lease can be extended past that of others, relock stays until the time is up.
func TestRunAtLeastRenewed(t *testing.T) {
	one := redistest.Start(t)
	quorum := []string{"-redis", one.Addr(), "-redis", redistest.Start(t).Addr(), "-redis", redistest.Start(t).Addr()}
	for name, flags := range map[string][]string{"shared": {"-shared", "-redis", one.Addr()}, "quorum": quorum} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			args := append([]string{"run", "-lease", "1s", "-at-least", "3s"}, flags...)
			require.Equal(t, result{status: 3}, relockRun(append(args, name, "--", "sh", "-c", "exit 3")...))
			require.GreaterOrEqual(t, time.Since(began), 3*time.Second)
			require.Empty(t, one.Do("HGETALL", name), "it is given back at once when the time is up")
		})
	}
}

// waitsFor returns what a relock run that waits says, which a signal ends then.
func waitsFor(t *testing.T, srv *redistest.Server, args ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], append(append([]string{"run", "-redis", srv.Addr()}, args...), "--", "true")...)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(stderr)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	rest, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.Empty(t, string(rest))
	_ = cmd.Wait()
	return line
}

// A waiter says so, and for which holder, unless told to be quiet.
func TestRunTellsThatItWaits(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	locks := other(t, srv)
	lease, err := locks.Mutex("orders").Lock(t.Context())
	require.NoError(t, err)
	defer lease.Unlock(t.Context())
	require.Regexp(t, `^relock run: waiting for lock "orders": held by `+locks.ID()+`:1\d{16} for `, waitsFor(t, srv, "orders"))

	books := locks.RWMutex("books")
	lease, err = books.Lock(t.Context())
	require.NoError(t, err)
	for _, side := range []string{"-shared", "-exclusive"} {
		require.Regexp(t, `^relock run: waiting for lock "books": held by `+locks.ID()+`:\d+ for `, waitsFor(t, srv, side, "books"))
	}
	require.NoError(t, lease.Unlock(t.Context()))
	for _, reads := range []*relock.RWMutex{books, other(t, srv).RWMutex("books")} {
		lease, err := reads.RLock(t.Context())
		require.NoError(t, err)
		defer lease.Unlock(t.Context())
	}
	require.Regexp(t, `^relock run: waiting for lock "books": held by 2 readers, for another `, waitsFor(t, srv, "-exclusive", "books"))

	got := relockRun("run", "-redis", srv.Addr(), "-quiet", "-wait", (tellAfter + time.Second).String(), "orders", "--", "true")
	require.Equal(t, result{status: statusNotAcquired}, got)
}

// The first refusal already says by name what is in the way, where there is a name.
func TestRunNamesTheHolder(t *testing.T) {
	srv := redistest.Start(t)
	locks, err := relock.New(srv.Client(), relock.WithClientName("billing"))
	require.NoError(t, err)
	defer locks.Close()
	mutex, err := locks.Mutex("orders").Lock(t.Context())
	require.NoError(t, err)
	defer mutex.Unlock(t.Context())
	writer, err := locks.RWMutex("books").Lock(t.Context())
	require.NoError(t, err)
	defer writer.Unlock(t.Context())
	require.Eventually(t, func() bool { return srv.Do("EXISTS", wire.ClientKey(locks.ID())) == "1" }, patience, time.Millisecond)
	for _, args := range []string{"orders", "-shared books", "-exclusive books"} {
		got := relockRun(strings.Fields("run -redis " + srv.Addr() + " -wait 0 " + args + " -- true")...)
		require.Equal(t, statusNotAcquired, got.status)
		require.Regexp(t, `not acquired: held by billing on .* \(pid \d+\) for another`, got.err)
	}
}

// probe asks the address of -healthz.
func probe(t *testing.T, addr, path string) string {
	answer, err := http.Get("http://" + addr + path)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return fmt.Sprint(answer.StatusCode, " ", string(text))
}

func TestRunHealth(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	m := other(t, srv).Mutex("orders")
	lease, err := m.Lock(t.Context())
	require.NoError(t, err)
	addr := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	becomes := func(path, want string) {
		t.Helper()
		require.Eventually(t, func() bool { return probe(t, addr, path) == want }, patience, 5*time.Millisecond)
	}
	cmd, out := startRun(t, srv, "-healthz", addr, "-grace", "60s", "orders", "--", "sh", "-c", "trap '' TERM; echo in; sleep 60")
	becomes("/healthz", "200 waiting\n")
	require.Equal(t, "503 waiting\n", probe(t, addr, "/readyz"))
	require.NoError(t, lease.Unlock(t.Context()))
	_, err = out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "200 held\n", probe(t, addr, "/healthz"))
	require.Equal(t, "200 held\n", probe(t, addr, "/readyz"))
	_, err = m.ForceUnlock(t.Context())
	require.NoError(t, err)
	becomes("/healthz", "503 lost\n")
	require.Equal(t, "503 lost\n", probe(t, addr, "/readyz"))
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP), "the command is deaf to SIGTERM alone")
	_ = cmd.Wait()

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	got := relockRun("run", "-healthz", taken.Addr().String(), "-redis", srv.Addr(), "orders", "--", "true")
	require.Equal(t, statusBroken, got.status)
	require.Contains(t, got.err, "-healthz: ")
}

// startRun starts relock run as a process. The lease is short, since a holder that has not subscribed its inbox yet
// learns of a lost lock by its next renewal. The process is killed if the test hangs.
func startRun(t *testing.T, srv *redistest.Server, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	return startRunTelling(t, nil, srv, args...)
}

// startRunTelling is startRun with an output for what relock says.
func startRunTelling(t *testing.T, errs io.Writer, srv *redistest.Server, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	args = append([]string{"run", "-lease", "3s", "-redis", "redis://" + srv.Addr()}, args...)
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stderr = errs
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	end := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { end.Stop() })
	return cmd, bufio.NewReader(out)
}

func TestInspect(t *testing.T) {
	srv := redistest.Start(t)
	m := other(t, srv).Mutex("orders")
	lease, err := m.Lock(t.Context())
	require.NoError(t, err)
	inspect := func() result { return relockRun("inspect", "-redis", "redis://"+srv.Addr(), "orders") }

	got := inspect()
	require.Equal(t, statusOK, got.status, got.err)
	st, err := m.State(t.Context())
	require.NoError(t, err)
	require.Regexp(t, fmt.Sprintf(`(?m)^lock      orders\nholder    %s\ncount     1\nTTL       (30|2\d\.\d+)s\n`+
		`waiters   0\ntoken     %d\nreserved  %d$`, st.Holder, lease.Token(), st.Reserved), got.out)

	require.NoError(t, lease.Unlock(t.Context()))
	require.Regexp(t, `holder    nobody\ncount     0\nTTL       -\nwaiters   0\ntoken     -`, inspect().out)

	srv.Do("HSET", "orders", "someone", "1")
	require.Regexp(t, `holder    someone\ncount     1\nTTL       it never ends`, inspect().out)
}

// Fresh nodes of which one is down are waited for, and so it is said.
func TestRunTellsOfAQuarantine(t *testing.T) {
	t.Parallel()
	args := []string{"run", "-lease", "1m"}
	for i := range 3 {
		srv := redistest.Start(t)
		if args = append(args, "-redis", srv.Addr()); i == 2 {
			srv.Pause()
			defer srv.Resume()
		}
	}
	cmd := exec.Command(os.Args[0], append(args, "orders", "--", "true")...)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	line, err := bufio.NewReader(stderr).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, `relock run: waiting for lock "orders": `)
	require.Regexp(t, `node [12]: QUARANTINED \d+ \d+ \(it may have forgotten locks and grants none for another [0-9ms.]+`, line)
}

// A lock that no command ran under is free at once. If it was lost, another owner's stays.
func TestFreeNow(t *testing.T) {
	srv := redistest.Start(t)
	mine, theirs := other(t, srv), other(t, srv)
	lock := func() *relock.Lease {
		lease, err := mine.Mutex("orders", relock.WithMinHold(time.Hour)).Lock(t.Context())
		require.NoError(t, err)
		return lease
	}
	freeNow(t.Context(), mine, lock())
	require.Equal(t, "0", srv.Do("EXISTS", "orders"))

	lease := lock()
	srv.Do("DEL", "orders")
	held, err := theirs.Mutex("orders").TryLock(t.Context())
	require.NoError(t, err)
	freeNow(t.Context(), mine, lease)
	require.NoError(t, held.Unlock(t.Context()), "it was held until now")
}
