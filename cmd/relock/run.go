package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"time"

	"github.com/relock-go/relock"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// locked is a command to run under a lock.
type locked struct {
	std   stdio
	conn  connection
	flags *pflag.FlagSet
	lease time.Duration
	wait  wait
	grace time.Duration
	name  string
	cmd   *exec.Cmd
	sigs  chan os.Signal // to forward
}

func (a *app) runCommand() *cobra.Command {
	l := locked{std: a.std, sigs: make(chan os.Signal, 16)}
	cmd := &cobra.Command{
		Use:   "run [flags] NAME -- COMMAND [ARG ...]",
		Short: "Run a command under the lock NAME",
		Long: "Run a command under the lock NAME. It finds the fencing token in RELOCK_TOKEN, and the status is its own, or\n" +
			"123: the lock was lost, 124: somebody else has the lock, 125: Redis cannot be used.",
		Example: "  relock run nightly -- /usr/local/bin/backup --full\n" +
			"  relock run -wait 0 nightly -- backup || test $? = 124",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := l.split(args); err != nil {
				return err
			}
			a.status = l.start()
			return nil
		},
	}
	l.flags = cmd.Flags()
	l.flags.DurationVar(&l.lease, "lease", 30*time.Second, "how long the lock outlives a relock that died")
	l.flags.Var(&l.wait, "wait", "wait for the lock for `duration`, 0 for not at all (default as long as it takes)")
	l.flags.DurationVar(&l.grace, "grace", 5*time.Second, "time from SIGTERM to SIGKILL when the lock was lost")
	l.conn.add(l.flags)
	return cmd
}

// split reads NAME -- COMMAND. What stands before the first -- was taken for flags and names.
func (l *locked) split(args []string) error {
	if len(args) < 2 || l.flags.ArgsLenAtDash() != 1 && args[1] != "--" {
		return errors.New("after the flags it takes NAME -- COMMAND [ARG ...]")
	}
	l.name = args[0]
	command := args[1:]
	if l.flags.ArgsLenAtDash() != 1 { // -- stood before the name too
		command = command[1:]
	}
	if len(command) == 0 {
		return errors.New("after NAME -- there is no COMMAND")
	}
	l.cmd = exec.Command(command[0], command[1:]...)
	l.cmd.Stdin, l.cmd.Stdout, l.cmd.Stderr = l.std.in, l.std.out, l.std.err
	return nil
}

// wait is how long to wait for a lock, a flag.
type wait struct {
	time.Duration
	limited bool // else as long as it takes
}

func (w *wait) Set(text string) (err error) {
	if w.Duration, err = time.ParseDuration(text); err == nil && w.Duration < 0 {
		err = errors.New("negative")
	}
	w.limited = err == nil
	return err
}

func (w *wait) String() string { return "" }
func (w *wait) Type() string   { return "duration" }

// start is relock run.
func (l *locked) start() int {
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
	return failed(l.std, status, "relock run", err)
}

// run takes the lock, runs the command and gives the lock back.
func (l *locked) run() int {
	redis, err := l.conn.open(l.flags)
	if err != nil {
		return ended(l.std, "relock run", err)
	}
	defer redis.close()
	locks, err := redis.locks(relock.WithLease(l.lease))
	if err != nil {
		return ended(l.std, "relock run", err)
	}
	defer locks.Close()
	lease, err := l.acquire(locks)
	var sig gotSignal
	switch {
	case errors.As(err, &sig):
		return statusSignal + sig.number()
	case errors.Is(err, relock.ErrNotAcquired):
		return l.say(statusNotAcquired, err)
	case err != nil:
		return ended(l.std, "relock run", err)
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
	case !l.wait.limited:
		return locks.Mutex(l.name).Lock(ctx)
	case l.wait.Duration == 0:
		return locks.Mutex(l.name).TryLock(ctx)
	default:
		return locks.Mutex(l.name, relock.WithWait(l.wait.Duration)).Lock(ctx)
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
