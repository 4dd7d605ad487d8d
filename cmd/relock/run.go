package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"time"

	"github.com/relock-go/relock"
)

// Exit statuses of relock run beside the command's own, as timeout(1) and env(1) have them.
const (
	statusLost        = 123 // the lock was lost while the command ran
	statusNotAcquired = 124 // somebody else holds the lock
	statusBroken      = 125 // Redis cannot be used
	statusNoExec      = 126 // the command cannot be started
	statusNotFound    = 127 // there is no such command
	statusSignal      = 128 // plus the number of the signal that ended the command, or the wait for the lock
)

// locked is a command to run under a lock.
type locked struct {
	std   stdio
	redis string
	lease time.Duration
	wait  *time.Duration // nil: as long as it takes
	grace time.Duration
	name  string
	cmd   *exec.Cmd
	sigs  chan os.Signal // to forward
}

// runRun is relock run. The command finds the fencing token in RELOCK_TOKEN.
func runRun(std stdio, args []string) int {
	l := locked{std: std, sigs: make(chan os.Signal, 16)}
	flags := flag.NewFlagSet("relock run", flag.ContinueOnError)
	url := redisFlag(flags)
	flags.DurationVar(&l.lease, "lease", 30*time.Second, "how long the lock outlives a relock that died")
	flags.DurationVar(&l.grace, "grace", 5*time.Second, "time from SIGTERM to SIGKILL when the lock was lost")
	flags.Func("wait", "wait for the lock for `duration`, 0 for not at all (default as long as it takes)",
		func(s string) error {
			d, err := time.ParseDuration(s)
			if err == nil && d < 0 {
				err = errors.New("negative")
			}
			l.wait = &d
			return err
		})
	if status, ok := parse(flags, std, args); !ok {
		return status
	}
	l.redis = *url
	if flags.NArg() < 3 || flags.Arg(1) != "--" {
		return misused(std, flags.Name(), errors.New("after the flags it takes NAME -- COMMAND [ARG ...]"))
	}
	l.name = flags.Arg(0)
	l.cmd = exec.Command(flags.Arg(2), flags.Args()[3:]...)
	l.cmd.Stdin, l.cmd.Stdout, l.cmd.Stderr = std.in, std.out, std.err
	if l.cmd.Err != nil {
		return l.say(statusNotFound, l.cmd.Err)
	}
	for _, s := range forwarded() {
		if !signal.Ignored(s) { // as nohup does with SIGHUP
			signal.Notify(l.sigs, s)
		}
	}
	defer signal.Stop(l.sigs)
	return l.run()
}

// say tells what went wrong and returns status.
func (l *locked) say(status int, err error) int {
	failed(l.std, "relock run", err)
	return status
}

// run takes the lock, runs the command and gives the lock back.
func (l *locked) run() int {
	locks, done, err := openLocks(l.redis, relock.WithLease(l.lease))
	if isUsage(err) {
		return misused(l.std, "relock run", err)
	} else if err != nil {
		return l.say(statusBroken, err)
	}
	defer done()
	lease, err := l.acquire(locks)
	var sig gotSignal
	switch {
	case isUsage(err):
		return misused(l.std, "relock run", err)
	case errors.As(err, &sig):
		return statusSignal + sig.number()
	case errors.Is(err, relock.ErrNotAcquired):
		return l.say(statusNotAcquired, err)
	case err != nil:
		return l.say(statusBroken, err)
	}
	status, lost := l.command(lease)
	err = lease.Unlock(context.Background())
	switch {
	case lost:
		return statusLost
	case errors.Is(err, relock.ErrLost):
		return l.say(statusLost, err)
	case err != nil:
		return l.say(status, fmt.Errorf("the command has ended, the lock ends with its lease: %w", err))
	}
	return status
}

// gotSignal is why the wait for the lock ended.
type gotSignal struct{ os.Signal }

func (s gotSignal) Error() string { return s.String() }

// acquire takes the lock. A signal ends the wait with gotSignal. The context it makes is the lease's, so it is not
// cancelled otherwise.
func (l *locked) acquire(locks *relock.Client) (*relock.Lease, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	over, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case s := <-l.sigs:
			cancel(gotSignal{s})
		case <-over:
		}
	}()
	lease, err := l.lock(ctx, locks)
	close(over)
	<-watched // from here on a signal is the command's
	if cause := context.Cause(ctx); err == nil && cause != nil {
		_ = lease.Unlock(context.Background()) // the signal is the news; the lease ends by itself
		return nil, cause
	}
	return lease, err
}

func (l *locked) lock(ctx context.Context, locks *relock.Client) (*relock.Lease, error) {
	switch {
	case l.wait == nil:
		return locks.Mutex(l.name).Lock(ctx)
	case *l.wait == 0:
		return locks.Mutex(l.name).TryLock(ctx)
	default:
		return locks.Mutex(l.name, relock.WithWait(*l.wait)).Lock(ctx)
	}
}

// command runs the command under the lease and returns its exit status, and whether the lock was lost meanwhile.
func (l *locked) command(lease *relock.Lease) (status int, lost bool) {
	l.cmd.Env = append(l.cmd.Environ(), "RELOCK_TOKEN="+strconv.FormatInt(lease.Token(), 10))
	// At a terminal the command must stay in the foreground group, else it could not read.
	group := !isTerminal(l.std.in)
	if group {
		ownGroup(l.cmd)
	}
	if err := l.cmd.Start(); err != nil {
		return l.say(statusNoExec, err), false
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = l.cmd.Wait() // the exit status is read from the process state
	}()
	gone := lease.Context().Done()
	var kill <-chan time.Time
	for {
		select {
		case s := <-l.sigs:
			// One typed at a terminal has reached the command already.
			if group || !typed(s) {
				send(l.cmd, group, s)
			}
		case <-gone:
			lost, gone = true, nil
			l.say(statusLost, errors.New("the lock is lost, the command is being stopped"))
			terminate(l.cmd, group)
			kill = time.After(l.grace)
		case <-kill:
			send(l.cmd, group, os.Kill)
		case <-ended:
			return exitStatus(l.cmd.ProcessState), lost
		}
	}
}
