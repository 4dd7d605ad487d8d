//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A signal that comes as the command ends leaves no lock, and the status is the command's. It may have reached the
// command, but not ended relock.
func TestSignalsAsTheCommandEnds(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	kinds := [][]string{{"orders"}, {"-at-least", "1ms", "orders"}, {"a", "b"}, {"-shared", "books"}, {"-n", "2", "pool"}}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(sig) { // as by nohup: relock leaves it alone
			continue
		}
		for at := range 15 {
			args := append([]string{"run", "-redis", srv.Addr()}, kinds[at%len(kinds)]...)
			cmd := exec.Command(os.Args[0], append(args, "--", "sh", "-c", "read x; exit 3")...)
			end, err := cmd.StdinPipe()
			require.NoError(t, err)
			var said safeBuffer
			cmd.Stderr = &said
			require.NoError(t, cmd.Start())
			require.Eventually(t, func() bool { return srv.Do("DBSIZE") != "0" }, patience, time.Millisecond)
			_, err = io.WriteString(end, "x\n")
			require.NoError(t, err)
			time.Sleep(time.Duration(at) * 500 * time.Microsecond)
			_ = cmd.Process.Signal(sig) // it may have ended
			_ = cmd.Wait()
			require.Contains(t, []int{3, statusSignal + int(sig)}, cmd.ProcessState.ExitCode(), "%v %v: %s", sig, args, said.String())
			require.Empty(t, said.String())
			// A client's card may outlast it, by a lease: -at-least lets a lock outlast it too.
			srv.Do("EVAL", `for _, key in ipairs(redis.call('KEYS', 'relock_client:*')) do redis.call('DEL', key) end`, "0")
			nothingLeft(t, srv)
			srv.Do("FLUSHALL")
		}
	}
}

// Where Redis hangs as the command ends, relock says that the lock stays, and the status is the command's. A signal
// then ends relock within closeTime, whether it comes before or after that is said, once or twice.
func TestSignalsWhileTheUnlockHangs(t *testing.T) {
	t.Parallel()
	type signals []syscall.Signal
	for _, c := range []struct {
		name          string
		args          []string
		before, after signals // what is said
		lasts         time.Duration
	}{
		{"none", []string{"orders"}, nil, nil, 8 * time.Second},
		{"TERM before", []string{"orders"}, signals{syscall.SIGTERM}, nil, closeTime},
		{"INT after", []string{"orders"}, nil, signals{syscall.SIGINT}, closeTime},
		{"HUP after", []string{"-n", "2", "orders"}, nil, signals{syscall.SIGHUP}, closeTime},
		{"TERM twice", []string{"orders", "bills"}, nil, signals{syscall.SIGTERM, syscall.SIGTERM}, closeTime},
		{"TERM before and after", []string{"-shared", "orders"}, signals{syscall.SIGTERM}, signals{syscall.SIGTERM}, closeTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if slices.ContainsFunc(slices.Concat(c.before, c.after), func(s syscall.Signal) bool { return signal.Ignored(s) }) {
				t.Skip("relock leaves alone what is ignored, as by nohup")
			}
			srv := redistest.Start(t)
			cmd := exec.Command(os.Args[0], append(append([]string{"run", "-redis", srv.Addr()}, c.args...),
				"--", "sh", "-c", "echo $$; read x; exit 3")...)
			end, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			errs, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			defer time.AfterFunc(4*patience, func() { _ = cmd.Process.Kill() }).Stop()
			command := commandOf(t, out)
			srv.Pause()
			defer srv.Resume()
			_, err = io.WriteString(end, "x\n")
			require.NoError(t, err)
			awaitGone(t, command)
			send := func(sigs signals) {
				for _, s := range sigs {
					_ = cmd.Process.Signal(s)
				}
			}
			send(c.before)
			said, err := bufio.NewReader(errs).ReadString('\n')
			require.NoError(t, err)
			require.Contains(t, said, "the lock ends with its lease")
			told := time.Now()
			send(c.after)
			_ = cmd.Wait()
			require.Equal(t, 3, cmd.ProcessState.ExitCode())
			require.Less(t, time.Since(told), c.lasts+1500*time.Millisecond)
		})
	}
}

// A signal that ends -at-least, where relock stays for it, is told, since the lock ends sooner than it should.
func TestSignalEndsAtLeast(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for name, sig := range map[string]syscall.Signal{"143": syscall.SIGTERM, "130": syscall.SIGINT, "129": syscall.SIGHUP} {
		if signal.Ignored(sig) {
			continue
		}
		var said safeBuffer
		cmd, out := startRunTelling(t, &said, srv, "-n", "2", "-at-least", "1m", name, "--", "sh", "-c", "echo $$; exit 3")
		awaitGone(t, commandOf(t, out))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = io.Copy(io.Discard, out)
		}()
		for waiting := true; waiting; { // the first may come before relock knows of the command's end
			_ = cmd.Process.Signal(sig)
			select {
			case <-ended:
				waiting = false
			case <-time.After(100 * time.Millisecond):
			}
		}
		_ = cmd.Wait()
		require.Equal(t, 3, cmd.ProcessState.ExitCode())
		require.Contains(t, said.String(), "relock run: a signal ends -at-least: the lock ends with its lease\n")
		require.Equal(t, "1", srv.Do("ZCARD", fmt.Sprintf("{%s}:timeout", name)))
	}
}

// What outlives the command during the grace time gets signals too.
func TestSignalReachesWhatOutlivesTheCommand(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cmd, out := startRun(t, srv, "-grace", "1m", "orders", "--", "sh", "-c", `(trap '' TERM; exec sleep 60) & echo $$; exec sleep 60`)
	command := commandOf(t, out)
	freed, err := other(t, srv).Mutex("orders").ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
	awaitGone(t, command)                                   // by SIGTERM
	require.NoError(t, cmd.Process.Signal(syscall.SIGUSR1)) // which ends what does not handle it
	_ = cmd.Wait()
	require.Equal(t, statusLost, cmd.ProcessState.ExitCode())
}

// commandOf reads the number of the command's process, which it prints first.
func commandOf(t *testing.T, out io.Reader) (pid int) {
	t.Helper()
	_, err := fmt.Fscanln(out, &pid)
	require.NoError(t, err)
	return pid
}

// awaitGone waits until relock has reaped its command.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, patience, time.Millisecond)
}
