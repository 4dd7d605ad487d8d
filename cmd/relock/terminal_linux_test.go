package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func init() {
	stands[recorder] = func(args []string) int { return runRecorder(args[0]) }
	stands[leader] = runLeader
}

// recorder, as the first argument of the test binary, makes it a command that writes to the file which is the second
// what signals it gets, a line each, and ends with status 5 by SIGTERM or SIGHUP.
const recorder = "recording-command"

func runRecorder(name string) int {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 1
	}
	sigs := make(chan os.Signal, 16)
	signal.Notify(sigs, os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1)
	fmt.Fprintln(file, "pid", os.Getpid())
	for {
		select {
		case s := <-sigs:
			fmt.Fprintln(file, s)
			if s == syscall.SIGTERM || s == syscall.SIGHUP {
				return 5
			}
		case <-time.After(time.Minute): // the test has gone
			return 1
		}
	}
}

// record is the file of a recorder.
type record string

func newRecord(t *testing.T) record { return record(t.TempDir() + "/record") }

func (r record) command() []string { return []string{os.Args[0], recorder, string(r)} }

// pid waits for the recorder.
func (r record) pid(t *testing.T) (pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(string(r))
		n, _ := fmt.Sscanf(string(text), "pid %d\n", &pid)
		return n == 1
	}, patience, time.Millisecond)
	return pid
}

// has waits until the recorder has got these signals, in this order.
func (r record) has(t *testing.T, signals ...string) {
	t.Helper()
	var got []string
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(string(r))
		got = strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
		return len(got) >= len(signals)
	}, patience, time.Millisecond)
	require.Equal(t, signals, got)
}

// stopped reports whether the process is.
func stopped(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(rest, "T")
}

// leader, as the first argument of the test binary, makes it a shell that runs the other arguments as its only job, in the
// foreground of the terminal that is its input. It tells on its file 3 what becomes of the job, a line each: its number,
// "stopped" and "ended N". With each line of file 4 it brings the job to the foreground again, or with "bg" itself, and what
// writes in the background is stopped then.
const leader = "session-leader"

func runLeader(args []string) int {
	tell, hear := os.NewFile(3, "tell"), os.NewFile(4, "hear")
	signal.Ignore(syscall.SIGTTOU)
	// What is caught is not ignored in the job, even if the test was started so: as a background command of a script, or by nohup.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP)
	job := exec.Command(args[0], args[1:]...)
	job.Stdin, job.Stdout, job.Stderr = os.Stdin, os.Stdout, os.Stderr
	job.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Foreground: true, Ctty: 0}
	if err := job.Start(); err != nil {
		fmt.Fprintln(tell, err)
		return 1
	}
	pid := int32(job.Process.Pid)
	fmt.Fprintln(tell, pid)
	go func() {
		for lines := bufio.NewScanner(hear); lines.Scan(); {
			if lines.Text() == "bg" {
				var modes syscall.Termios
				own := int32(syscall.Getpgrp())
				_ = ioctl(os.Stdin, syscall.TCGETS, unsafe.Pointer(&modes))
				modes.Lflag |= syscall.TOSTOP
				_ = ioctl(os.Stdin, syscall.TCSETS, unsafe.Pointer(&modes))
				_ = ioctl(os.Stdin, syscall.TIOCSPGRP, unsafe.Pointer(&own))
				fmt.Fprintln(tell, "background")
				continue
			}
			_ = ioctl(os.Stdin, syscall.TIOCSPGRP, unsafe.Pointer(&pid))
			_ = syscall.Kill(-int(pid), syscall.SIGCONT)
		}
	}()
	for {
		var ws syscall.WaitStatus
		if _, err := syscall.Wait4(int(pid), &ws, syscall.WUNTRACED, nil); err == syscall.EINTR {
			continue
		}
		if ws.Stopped() {
			fmt.Fprintln(tell, "stopped")
			continue
		}
		fmt.Fprintln(tell, "ended", exitStatus(ws))
		return 0
	}
}

func ioctl(f *os.File, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// session is a relock run at a terminal of its own, as a shell's job.
type session struct {
	t    *testing.T
	tty  *os.File // what is written here is typed
	told *bufio.Reader
	fg   io.Writer
	pid  int // of relock
}

// atTerminal starts relock run at a terminal. Its input is that, or else nothing.
func atTerminal(t *testing.T, srv *redistest.Server, input bool, args ...string) *session {
	t.Helper()
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tty.Close() })
	var unlock, number int32
	require.NoError(t, ioctl(tty, syscall.TIOCSPTLCK, unsafe.Pointer(&unlock)))
	require.NoError(t, ioctl(tty, syscall.TIOCGPTN, unsafe.Pointer(&number)))
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer slave.Close()
	told, tell, err := os.Pipe()
	require.NoError(t, err)
	defer tell.Close()
	hear, fg, err := os.Pipe()
	require.NoError(t, err)
	defer hear.Close()
	job := []string{os.Args[0]}
	if !input {
		job = []string{"sh", "-c", `exec "$0" "$@" </dev/null`, os.Args[0]}
	}
	job = append(append(job, "run", "-lease", "3s", "-grace", "500ms", "-redis", srv.Addr()), args...)
	cmd := exec.Command(os.Args[0], append([]string{leader}, job...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = slave, slave, slave, []*os.File{tell, hear}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	require.NoError(t, cmd.Start())
	go func() { _, _ = io.Copy(io.Discard, tty) }() // until it is closed
	s := &session{t: t, tty: tty, told: bufio.NewReader(told), fg: fg}
	end := time.AfterFunc(4*patience, func() { _ = cmd.Process.Kill(); _ = syscall.Kill(-s.pid, syscall.SIGKILL) })
	t.Cleanup(func() {
		if end.Stop() {
			_ = cmd.Process.Kill()
			_ = syscall.Kill(-s.pid, syscall.SIGKILL)
		}
		_ = cmd.Wait()
		_, _ = told.Close(), fg.Close()
	})
	line, err := s.told.ReadString('\n')
	require.NoError(t, err)
	s.pid, err = strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	return s
}

// types types a key, or a line.
func (s *session) types(keys string) {
	s.t.Helper()
	_, err := io.WriteString(s.tty, keys)
	require.NoError(s.t, err)
}

func (s *session) sends(sig syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, syscall.Kill(s.pid, sig))
}

// becomes waits for what the shell sees next of its job.
func (s *session) becomes(want string) {
	s.t.Helper()
	line, err := s.told.ReadString('\n')
	require.NoError(s.t, err)
	require.Equal(s.t, want+"\n", line)
}

// background lets the terminal stop the job when it writes.
func (s *session) background() {
	s.t.Helper()
	_, err := io.WriteString(s.fg, "bg\n")
	require.NoError(s.t, err)
	s.becomes("background")
}

// foreground lets the job go on.
func (s *session) foreground() {
	s.t.Helper()
	_, err := io.WriteString(s.fg, "fg\n")
	require.NoError(s.t, err)
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// eachInput runs a test with the terminal for input, and with input from elsewhere.
func eachInput(t *testing.T, test func(t *testing.T, input bool)) {
	for name, input := range map[string]bool{"input": true, "redirected": false} {
		t.Run(name, func(t *testing.T) { test(t, input) })
	}
}

// A signal that is typed reaches the command from the terminal, one that is sent from relock: once in either case.
func TestTerminalSignalsComeOnce(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	eachInput(t, func(t *testing.T, input bool) {
		r := newRecord(t)
		s := atTerminal(t, srv, input, append([]string{t.Name(), "--"}, r.command()...)...)
		r.pid(t)
		time.Sleep(2 * startEdge) // one that comes sooner may come twice
		s.types(ctrlC)
		r.has(t, "interrupt")
		time.Sleep(3 * witnessAgain) // those that come sooner are taken to be typed too
		s.sends(syscall.SIGINT)
		r.has(t, "interrupt", "interrupt")
		s.sends(syscall.SIGUSR1)
		r.has(t, "interrupt", "interrupt", "user defined signal 1")
		s.sends(syscall.SIGQUIT)
		r.has(t, "interrupt", "interrupt", "user defined signal 1", "quit")
		require.NoError(t, syscall.Kill(-s.pid, syscall.SIGHUP), "as a shell does when its terminal hangs up")
		s.becomes("ended 5")
		r.has(t, "interrupt", "interrupt", "user defined signal 1", "quit", "hangup")
	})
}

// SIGUSR1 reaches the command alone, also when relock has found the command's children for another signal before.
func TestTerminalUserSignalsAreTheCommands(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	command, child := newRecord(t), newRecord(t)
	script := strings.Join(child.command(), " ") + " & exec " + strings.Join(command.command(), " ")
	s := atTerminal(t, srv, true, t.Name(), "--", "sh", "-c", script)
	command.pid(t)
	child.pid(t)
	s.sends(syscall.SIGINT)
	command.has(t, "interrupt")
	child.has(t, "interrupt")
	s.sends(syscall.SIGUSR1)
	command.has(t, "interrupt", "user defined signal 1")
	s.sends(syscall.SIGQUIT)
	command.has(t, "interrupt", "user defined signal 1", "quit")
	child.has(t, "interrupt", "quit")
	s.sends(syscall.SIGTERM)
	s.becomes("ended 5")
}

// A command finds the terminal where its input is not: ssh, sudo and gpg ask there for a password.
func TestTerminalIsTheCommands(t *testing.T) {
	srv := redistest.Start(t)
	eachInput(t, func(t *testing.T, input bool) {
		answer := t.TempDir() + "/answer"
		s := atTerminal(t, srv, input, "asks", "--", "sh", "-c", `read x </dev/tty; echo "$x" >`+answer)
		s.types("secret\n")
		s.becomes("ended 0")
		got, err := os.ReadFile(answer)
		require.NoError(t, err)
		require.Equal(t, "secret\n", string(got))
	})
}

// Ctrl-Z stops relock with its command, and both go on if that was soon enough. Else the command is ended.
func TestTerminalStop(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	eachInput(t, func(t *testing.T, input bool) {
		r := newRecord(t)
		s := atTerminal(t, srv, input, append([]string{t.Name(), "--"}, r.command()...)...)
		command := r.pid(t)
		s.types(ctrlZ)
		s.becomes("stopped")
		require.True(t, stopped(command))
		s.foreground()
		require.Eventually(t, func() bool { return !stopped(command) }, patience, time.Millisecond)
		time.Sleep(3 * witnessAgain)
		s.sends(syscall.SIGTSTP)
		s.becomes("stopped")
		require.True(t, stopped(command), "one that is sent stops the command too")
		lease, err := other(t, srv).Mutex(t.Name()).Lock(t.Context())
		require.NoError(t, err, "nothing renews the lock")
		defer lease.Unlock(t.Context())
		s.foreground()
		s.becomes(fmt.Sprint("ended ", statusLost))
		r.has(t, "terminated")
	})
}

// A command that goes on working is not left behind by a relock that is stopped.
func TestTerminalStopIgnored(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	working := t.TempDir() + "/working"
	s := atTerminal(t, srv, true, "deaf", "--", "sh", "-c", `trap '' TSTP; echo >`+working+`; sleep 60`)
	require.Eventually(t, func() bool { _, err := os.Stat(working); return err == nil }, patience, time.Millisecond)
	s.types(ctrlZ)
	time.Sleep(4 * time.Second) // longer than the lease
	require.NotEqual(t, "-2", srv.Do("PTTL", "deaf"), "relock renews")
	s.sends(syscall.SIGTERM)
	s.becomes("ended 143")
}

// What stops a command, SIGTERM ends it, and a lock is not held for ever.
func TestTerminalStoppedCommandEnds(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	eachInput(t, func(t *testing.T, input bool) {
		r := newRecord(t)
		s := atTerminal(t, srv, input, append([]string{t.Name(), "--"}, r.command()...)...)
		command := r.pid(t)
		require.NoError(t, syscall.Kill(command, syscall.SIGSTOP))
		require.Eventually(t, func() bool { return stopped(command) }, patience, time.Millisecond)
		s.sends(syscall.SIGTERM)
		s.becomes("ended 5")
		require.Empty(t, srv.Do("HGETALL", t.Name()))
	})
}

// When the lock is lost, what a command has started ends with it, also where it is deaf and the command is not.
func TestTerminalLost(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	eachInput(t, func(t *testing.T, input bool) {
		r, deaf := newRecord(t), t.TempDir()+"/deaf"
		script := strings.Join(r.command(), " ") + ` & (trap '' TERM; exec sleep 60) & echo $! >` + deaf + `; wait`
		s := atTerminal(t, srv, input, t.Name(), "--", "sh", "-c", script)
		r.pid(t)
		var pid int
		require.Eventually(t, func() bool {
			text, _ := os.ReadFile(deaf)
			pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
			return pid > 0
		}, patience, time.Millisecond)
		_, err := other(t, srv).Mutex(t.Name()).ForceUnlock(t.Context())
		require.NoError(t, err)
		s.becomes(fmt.Sprint("ended ", statusLost))
		r.has(t, "terminated")
		require.Eventually(t, func() bool { return gone(pid) }, patience, time.Millisecond)
	})
}

// gone reports whether a process has ended.
func gone(pid int) bool {
	_, ok := readProcess(pid)
	return !ok
}

// alone starts relock run without a terminal, as cron does.
func alone(t *testing.T, srv *redistest.Server, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"run", "-lease", "3s", "-grace", "500ms", "-redis", srv.Addr()}, args...)...)
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

// Without a terminal the command is stopped and relock is not: the lock is kept, and SIGTERM ends both.
func TestStoppedWithoutATerminal(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	r := newRecord(t)
	cmd := alone(t, srv, append([]string{"orders", "--"}, r.command()...)...)
	command := r.pid(t)
	is := func(want bool) {
		t.Helper()
		require.Eventually(t, func() bool { return stopped(command) == want }, patience, time.Millisecond)
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTSTP))
	is(true)
	time.Sleep(4 * time.Second) // longer than the lease
	require.False(t, stopped(cmd.Process.Pid))
	require.NotEqual(t, "-2", srv.Do("PTTL", "orders"), "relock renews")
	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	is(false)
	require.NoError(t, syscall.Kill(command, syscall.SIGSTOP))
	is(true)
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	require.Equal(t, 5, cmd.ProcessState.ExitCode())
	r.has(t, "terminated")
	require.Empty(t, srv.Do("HGETALL", "orders"))
}

// A stopped command does not outlive the loss of its lock, nor does what it has started and is deaf.
func TestLostWithoutATerminal(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	locks := other(t, srv)
	force := func() {
		_, err := locks.Mutex("orders").ForceUnlock(t.Context())
		require.NoError(t, err)
	}
	r := newRecord(t)
	cmd := alone(t, srv, append([]string{"orders", "--"}, r.command()...)...)
	require.NoError(t, syscall.Kill(r.pid(t), syscall.SIGSTOP))
	force()
	_ = cmd.Wait()
	require.Equal(t, statusLost, cmd.ProcessState.ExitCode())
	r.has(t, "terminated")

	deaf := t.TempDir() + "/deaf"
	cmd = alone(t, srv, "orders", "--", "sh", "-c", `(trap '' TERM; exec sleep 60) & echo $! >`+deaf+`; wait`)
	pid := 0
	require.Eventually(t, func() bool {
		text, _ := os.ReadFile(deaf)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return pid > 0
	}, patience, time.Millisecond)
	force()
	_ = cmd.Wait()
	require.Equal(t, statusLost, cmd.ProcessState.ExitCode())
	require.Eventually(t, func() bool { return gone(pid) }, patience, time.Millisecond)
}

// A relock that is killed takes the command with it.
func TestKilledWithoutATerminal(t *testing.T) {
	srv := redistest.Start(t)
	r := newRecord(t)
	cmd := alone(t, srv, append([]string{"orders", "--"}, r.command()...)...)
	command := r.pid(t)
	require.NoError(t, cmd.Process.Kill())
	require.Eventually(t, func() bool { return gone(command) }, patience, time.Millisecond)
}

// A relock that is killed at a terminal takes the command with it.
func TestTerminalKilled(t *testing.T) {
	srv := redistest.Start(t)
	r := newRecord(t)
	s := atTerminal(t, srv, true, append([]string{"killed", "--"}, r.command()...)...)
	command := r.pid(t)
	s.sends(syscall.SIGKILL)
	s.becomes("ended 137")
	require.Eventually(t, func() bool { return gone(command) }, patience, time.Millisecond)
}
