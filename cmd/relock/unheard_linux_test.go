package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// full is the end of a pipe that is full, and that nobody empties before the test is over.
func full(t *testing.T) *os.File {
	t.Helper()
	unread, pipe, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = unread.Close(), pipe.Close() })
	require.NoError(t, pipe.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	_, err = pipe.Write(make([]byte, 1<<20))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	return blocking(t, pipe)
}

// unread is the end of a pipe whose reader has gone.
func unread(t *testing.T) *os.File {
	t.Helper()
	reader, pipe, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	t.Cleanup(func() { _ = pipe.Close() })
	return blocking(t, pipe)
}

// blocking lets a pipe block those that inherit it, as a shell's do.
func blocking(t *testing.T, pipe *os.File) *os.File {
	t.Helper()
	require.NoError(t, syscall.SetNonblock(int(pipe.Fd()), false))
	return pipe
}

// saying starts relock run without a terminal, with its own error output.
func saying(t *testing.T, errs *os.File, srv *redistest.Server, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"run", "-lease", "3s", "-grace", "500ms", "-redis", srv.Addr()}, args...)...)
	cmd.Stderr = errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	require.NoError(t, cmd.Start())
	end := time.AfterFunc(4*patience, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		if end.Stop() {
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
	})
	return cmd
}

// endOf waits until relock has ended, and returns its status.
func endOf(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		require.Fail(t, "relock has not ended")
	}
	return cmd.ProcessState.ExitCode()
}

// withDeaf is a command that records its signals, beside a child that SIGTERM does not end. The child's number comes
// into a file.
func withDeaf(t *testing.T) (r record, deaf func() int, command []string) {
	t.Helper()
	r, file := newRecord(t), t.TempDir()+"/deaf"
	script := `(trap '' TERM; exec sleep 60) & echo $! >` + file + `; ` + strings.Join(r.command(), " ")
	return r, func() int { return numberIn(t, file) }, []string{"--", "sh", "-c", script}
}

// numberIn waits for a number in a file.
func numberIn(t *testing.T, file string) (number int) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(file)
		number, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return number > 0
	}, patience, time.Millisecond)
	return number
}

func forceOpen(t *testing.T, srv *redistest.Server, name string) {
	t.Helper()
	freed, err := other(t, srv).Mutex(name).ForceUnlock(t.Context())
	require.NoError(t, err)
	require.True(t, freed)
}

// The loss of a lock ends the command and its children, whatever becomes of what relock says about it.
func TestLossUnheard(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for name, errs := range map[string]func(*testing.T) *os.File{"full": full, "unread": unread} {
		t.Run(name, func(t *testing.T) {
			r, deaf, command := withDeaf(t)
			cmd := saying(t, errs(t), srv, append([]string{t.Name()}, command...)...)
			r.pid(t)
			forceOpen(t, srv, t.Name())
			r.has(t, "terminated")
			require.Equal(t, statusLost, endOf(t, cmd))
			require.Eventually(t, func() bool { return gone(deaf()) }, patience, time.Millisecond)
		})
	}
}

// A terminal that is held by Ctrl-S keeps no command alive whose lock is lost.
func TestTerminalHeldLoss(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	r, deaf, command := withDeaf(t)
	command[len(command)-1] = "read x; " + command[len(command)-1]
	s := atTerminal(t, srv, true, append([]string{t.Name()}, command...)...)
	s.types(ctrlS + "\n")
	r.pid(t) // it has read the line: the terminal is held
	forceOpen(t, srv, t.Name())
	r.has(t, "terminated")
	s.becomes(fmt.Sprint("ended ", statusLost))
	require.Eventually(t, func() bool { return gone(deaf()) }, patience, time.Millisecond)
}

const ctrlS = "\x13"

// Nor does one that stops what writes in the background (stty tostop).
func TestTerminalBackgroundLoss(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	r, deaf, command := withDeaf(t)
	command[len(command)-1] = "trap '' TTOU; " + command[len(command)-1]
	s := atTerminal(t, srv, true, append([]string{t.Name()}, command...)...)
	r.pid(t)
	s.background()
	forceOpen(t, srv, t.Name())
	r.has(t, "terminated")
	s.becomes(fmt.Sprint("ended ", statusLost))
	require.Eventually(t, func() bool { return gone(deaf()) }, patience, time.Millisecond)
}

// What relock says while it waits keeps it neither from the lock nor from a signal.
func TestWaitUnheard(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for name, errs := range map[string]func(*testing.T) *os.File{"full": full, "unread": unread} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := other(t, srv).Mutex(t.Name())
			lease, err := m.Lock(t.Context())
			require.NoError(t, err)
			r := newRecord(t)
			granted := saying(t, errs(t), srv, append([]string{t.Name(), "--"}, r.command()...)...)
			ended := saying(t, errs(t), srv, t.Name(), "--", "false")
			require.Eventually(t, func() bool {
				st, err := m.State(t.Context())
				return err == nil && st.Waiters == 2
			}, patience, time.Millisecond)
			time.Sleep(tellAfter + 500*time.Millisecond) // they say that they wait
			require.NoError(t, ended.Process.Signal(syscall.SIGTERM))
			require.Equal(t, statusSignal+int(syscall.SIGTERM), endOf(t, ended))
			require.NoError(t, lease.Unlock(t.Context()))
			r.pid(t)
			require.NoError(t, granted.Process.Signal(syscall.SIGTERM))
			require.Equal(t, 5, endOf(t, granted))
			require.Equal(t, "0", srv.Do("EXISTS", t.Name()))
		})
	}
}

// Without a command relock holds the lock for whoever reads the output: if that is nobody, for nobody.
func TestHoldUnheard(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	hold := func(t *testing.T, out *os.File, args ...string) *exec.Cmd {
		cmd := exec.Command(os.Args[0], append([]string{"run", "-redis", srv.Addr(), t.Name()}, args...)...)
		cmd.Stdout = out
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	t.Run("full", func(t *testing.T) {
		cmd := hold(t, full(t))
		require.Eventually(t, func() bool { return srv.Do("EXISTS", t.Name()) == "1" }, patience, time.Millisecond)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.Equal(t, statusSignal+int(syscall.SIGTERM), endOf(t, cmd))
		require.Equal(t, "0", srv.Do("EXISTS", t.Name()))
	})
	t.Run("unread", func(t *testing.T) {
		require.Equal(t, statusBroken, endOf(t, hold(t, unread(t), "-at-least", "1m")))
		require.Equal(t, "0", srv.Do("EXISTS", t.Name()))
	})
}

// slowly, in the environment, lets the witness take as long to start as relock waits for it: so long relock has the lock, and no
// command yet.
const slowly = "RELOCK_TEST_SLOW_WITNESS"

func init() {
	if len(os.Args) > 1 && os.Args[1] == witnessName && os.Getenv(slowly) != "" {
		time.Sleep(witnessTime)
	}
}

// A signal that comes before the command is there ends relock: the command would miss it.
func TestTerminalSignalBeforeTheCommand(t *testing.T) {
	srv := redistest.Start(t)
	t.Setenv(slowly, "1")
	for name, send := range map[string]func(s *session){
		"130": func(s *session) { s.types(ctrlC) },
		"143": func(s *session) { s.sends(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			r, addr := newRecord(t), fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
			s := atTerminal(t, srv, true, append([]string{"-healthz", addr, "-at-least", "1m", t.Name(), "--"}, r.command()...)...)
			require.Eventually(t, func() bool { return probe(t, addr, "/readyz") == "200 held\n" }, patience, time.Millisecond)
			send(s)
			s.becomes("ended " + name)
			require.Eventually(t, func() bool { return srv.Do("EXISTS", t.Name()) == "0" }, patience, time.Millisecond,
				"free at once, or on a busy machine within a second, and not after -at-least")
			require.NoFileExists(t, string(r))
		})
	}
}

// No command starts under a lock that is lost before.
func TestTerminalLossBeforeTheCommand(t *testing.T) {
	srv := redistest.Start(t)
	t.Setenv(slowly, "1")
	r := newRecord(t)
	s := atTerminal(t, srv, true, append([]string{t.Name(), "--"}, r.command()...)...)
	require.Eventually(t, func() bool { return srv.Do("EXISTS", t.Name()) == "1" }, patience, time.Millisecond)
	forceOpen(t, srv, t.Name())
	s.becomes(fmt.Sprint("ended ", statusLost))
	require.NoFileExists(t, string(r))
}

// Ctrl-C ends relock and its command at whatever time it comes.
func TestTerminalInterruptedEarly(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	for at := time.Duration(0); at < 60*time.Millisecond; at += 3 * time.Millisecond {
		s := atTerminal(t, srv, true, t.Name(), "--", "sleep", "60")
		time.Sleep(at)
		s.types(ctrlC)
		s.becomes("ended 130")
	}
}

// What the command put into the background by a double fork gets its signals, and ends with the lock.
func TestTerminalLostOrphans(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	command, orphan, deaf := newRecord(t), newRecord(t), t.TempDir()+"/deaf"
	script := `(` + strings.Join(orphan.command(), " ") + ` &); (sh -c 'trap "" TERM; echo $$ >` + deaf + `; exec sleep 60' &); exec ` +
		strings.Join(command.command(), " ")
	s := atTerminal(t, srv, true, t.Name(), "--", "sh", "-c", script)
	command.pid(t)
	pids := []int{orphan.pid(t), numberIn(t, deaf)}
	for _, pid := range pids {
		require.Eventually(t, func() bool {
			p, _ := readProcess(pid)
			return p.parent == s.pid
		}, patience, time.Millisecond, "its parent has ended, and relock has adopted it")
	}
	s.sends(syscall.SIGINT)
	command.has(t, "interrupt")
	orphan.has(t, "interrupt")
	forceOpen(t, srv, t.Name())
	orphan.has(t, "interrupt", "terminated")
	s.becomes(fmt.Sprint("ended ", statusLost))
	for _, pid := range pids {
		require.Eventually(t, func() bool { return gone(pid) }, patience, time.Millisecond)
	}
}

// What a double fork left is reaped while the command runs.
func TestTerminalReapsOrphans(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	done := filepath.Join(t.TempDir(), "done")
	script := `i=0; while [ $i -lt 20 ]; do (sleep 0.1 &); i=$((i+1)); done; echo 1 >` + done + `; exec sleep 60`
	s := atTerminal(t, srv, true, t.Name(), "--", "sh", "-c", script)
	numberIn(t, done)
	require.Eventually(t, func() bool { return len(childrenOf(t, s.pid)) == 2 }, patience, time.Millisecond, "the command and the witness")
	s.sends(syscall.SIGTERM)
	s.becomes("ended 143")
}

// childrenOf returns the children of a process, those too that have ended and are not reaped.
func childrenOf(t *testing.T, pid int) (all []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, stat := range stats {
		text, _ := os.ReadFile(stat)
		_, rest, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			all = append(all, stat)
		}
	}
	return all
}
