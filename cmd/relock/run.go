package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/operator"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// locked is a command to run under a lock, under several, or under one of several.
type locked struct {
	std      stdio
	conn     connection
	flags    *pflag.FlagSet
	lease    time.Duration
	wait     wait
	grace    time.Duration
	atLeast  time.Duration
	unused   bool // the command could not be started
	conflict int  // exit status when somebody else holds the lock
	quiet    bool
	shared   bool // take a read-write lock as a reader
	writes   bool // take it as the writer
	permits  int  // take a permit of a semaphore that has so many
	resize   bool // of a semaphore that has another number, too
	told     bool // the user knows that it has another number
	quorum   bool // the lock is on several Redis
	healthz  string
	pattern  string         // of the names of which any one will do, "" if the command line has the names
	of       int            // how many names the pattern stands for
	names    []string       // of the locks: all of them are wanted, or one if there is a pattern
	cmd      *exec.Cmd      // nil: hold the lock until a signal comes
	child    *child         // cmd as it runs
	sigs     chan os.Signal // to forward
	shown    *voice         // the output, if there is no command
	// signalled: a signal asked relock to end
	signalled bool
	health    health
	heard     heard
}

func (a *app) runCommand() *cobra.Command {
	l := locked{std: a.std, sigs: make(chan os.Signal, 16)}
	cmd := &cobra.Command{
		Use:   "run [flags] NAME ... [-- COMMAND [ARG ...]]",
		Short: "Run a command under the lock NAME, or hold the lock until killed",
		Long: "Run a command under the lock NAME, under several locks, or with -any under one of several. It finds the lock in\n" +
			"RELOCK_NAME and the fencing token in RELOCK_TOKEN; of several locks, the first in RELOCK_NAME_1 and RELOCK_TOKEN_1.\n" +
			"The status is the command's own, or 123: a lock was lost, 124: somebody else has it, 125: Redis cannot be used.\n" +
			"Without a command the token is printed once the lock is held, and the lock kept until relock gets a signal.\n" +
			"With -n the lock is a permit of a semaphore: it has no token, and \"held\" is printed instead.",
		Example: "  relock run nightly -- /usr/local/bin/backup --full\n" +
			"  relock run account:3 account:7 -- /usr/local/bin/transfer\n" +
			"  relock run -any 'gpu:%d' -of 8 -- /usr/local/bin/train\n" +
			"  relock run -n 3 reports -- /usr/local/bin/report\n" +
			"  relock run -wait 0 -E 0 -at-least 55s every-minute -- /usr/local/bin/poll",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if a.dashed && (len(args) > 0 || l.any()) { // the command to run is typed
				return nil, cobra.ShellCompDirectiveDefault
			}
			return lockNames(&l.conn)(cmd, nil, begun)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if err := errors.Join(l.split(args), l.check()); err != nil {
				return err
			}
			a.status = l.start()
			return nil
		},
	}
	l.flags = cmd.Flags()
	l.flags.DurationVar(&l.lease, "lease", 30*time.Second, "how long the lock outlives a relock that died")
	l.flags.Var(&l.wait, "wait", "wait for the lock for `duration`, 5s or 5 for five seconds, 0 for not at all (default as long as it takes)")
	l.flags.DurationVar(&l.grace, "grace", 5*time.Second, "time from SIGTERM to SIGKILL when the lock was lost")
	l.flags.DurationVar(&l.atLeast, "at-least", 0, "keep the lock so long though the command ends sooner, so that clocks that "+
		"differ start it once")
	l.flags.IntVarP(&l.conflict, "conflict-exit-code", "E", statusNotAcquired, "exit `status` when somebody else has the lock")
	l.flags.BoolVarP(&l.quiet, "quiet", "q", false, "do not say that it waits, nor that somebody else has the lock")
	l.flags.StringVar(&l.pattern, "any", "", "run under the first lock that is free of those that `PATTERN` names: 'gpu:%d' with -of 8 is "+
		"gpu:0 to gpu:7, and RELOCK_NUMBER the number")
	l.flags.IntVar(&l.of, "of", 0, "of how many locks -any takes one: `N`, numbered from 0")
	l.flags.BoolVar(&l.shared, "shared", false, "run beside others that are shared: as a reader of the read-write lock NAME")
	l.flags.BoolVar(&l.writes, "exclusive", false, "run alone, beside none that is shared: as the writer of the read-write lock NAME")
	l.flags.IntVarP(&l.permits, "permits", "n", 0, "run `N` at once at most: under a permit of the semaphore NAME, which has no token")
	l.flags.BoolVar(&l.resize, "resize", false, "make -n the number of permits where Redis keeps another one")
	l.flags.StringVar(&l.healthz, "healthz", "", "answer probes at `[host]:port`: /healthz is 503 once the lock is lost, /readyz "+
		"unless it is held")
	l.conn.add(l.flags)
	return cmd
}

// check returns what is wrong with the flags.
func (l *locked) check() error {
	switch {
	case l.atLeast < 0:
		return fmt.Errorf("-at-least %v: it must not be negative", l.atLeast)
	case l.shared && l.writes:
		return errors.New("-shared and -exclusive exclude each other")
	case l.shared && l.lease > readersLease:
		return fmt.Errorf("-shared -lease %v: a reader's lease is %v at most, since Redisson's readers shorten the lock to that",
			l.lease, readersLease)
	case l.limits() && (l.shared || l.writes):
		return errors.New("-n takes a permit of a semaphore, -shared and -exclusive a read-write lock: they exclude each other")
	case l.limits() && (l.any() || len(l.names) > 1):
		return errors.New("-n takes a permit of one semaphore: it takes one NAME, and no -any")
	case l.any() != l.flags.Changed("of"):
		return errors.New("-any says what the locks are called, and -of how many there are: give both, as in -any 'gpu:%d' -of 8")
	case l.any() && strings.Count(l.pattern, "%d") != 1:
		return fmt.Errorf("-any %q: it takes %%d once, where the number goes", l.pattern)
	case l.any() && (l.of < 1 || l.of > mostOf):
		return fmt.Errorf("-of %d: between 1 and %d are possible", l.of, mostOf)
	case l.resize && !l.limits():
		return errors.New("-resize says that -n is the number of permits: give -n")
	case l.conflict < 0 || l.conflict > 255:
		return fmt.Errorf("-conflict-exit-code %d: between 0 and 255 are possible", l.conflict)
	case l.healthz != "":
		if _, _, err := net.SplitHostPort(l.healthz); err != nil {
			return fmt.Errorf("-healthz %s: %w; it looks like :8080", l.healthz, err)
		}
	}
	for i := range l.of {
		l.names = append(l.names, strings.Replace(l.pattern, "%d", strconv.Itoa(i), 1))
	}
	return l.checkTargets()
}

// mostOf bounds -of: a relock that finds no lock free waits in the lines of all.
const mostOf = 1000

// any reports whether one of the locks is enough.
func (l *locked) any() bool { return l.flags.Changed("any") }

// limits reports whether the lock is a permit of a semaphore.
func (l *locked) limits() bool { return l.flags.Changed("permits") }

// readersLease is the longest lease of readers, WithRedissonWatchdog's default.
const readersLease = 30 * time.Second

// checkTargets returns what is wrong with the flags and variables that name the Redis.
func (l *locked) checkTargets() error {
	targets, err := l.conn.targets(l.flags)
	l.quorum = len(targets) > 1
	if err == nil && l.quorum && (l.shared || l.writes || l.limits()) {
		err = fmt.Errorf("-shared, -exclusive and -n work on one Redis, not on a quorum of %d", len(targets))
	}
	return err
}

// split reads NAME ... [-- COMMAND [ARG ...]]. Flags are parsed already, up to the first --.
func (l *locked) split(args []string) error {
	names, command, dashed := args, []string(nil), false
	if at := l.flags.ArgsLenAtDash(); at > 0 || at == 0 && l.any() {
		names, command, dashed = args[:at], args[at:], true
	} else if at == 0 && len(args) > 1 && args[1] == "--" { // -- stood before the name too
		names, command, dashed = args[:1], args[2:], true
	}
	switch {
	case l.any() && len(names) > 0:
		return errors.New("-any names the locks: it takes no NAME, but -- COMMAND [ARG ...]")
	case !l.any() && len(names) == 0, len(names) > 1 && !dashed: // was -- forgotten?
		return errors.New("after the flags it takes NAME ... -- COMMAND [ARG ...], or one NAME alone")
	case dashed && len(command) == 0:
		return errors.New("it takes NAME ... -- COMMAND [ARG ...]: the COMMAND is missing")
	}
	l.names = names
	if dashed {
		l.cmd = exec.Command(command[0], command[1:]...)
		l.cmd.Stdin, l.cmd.Stdout, l.cmd.Stderr = l.std.in, l.std.out, l.std.err
	}
	return nil
}

// wait is the value of -wait: how long to wait for the lock.
type wait struct {
	time.Duration
	limited bool // false: wait as long as it takes
}

// Set parses a duration. A number without a unit is seconds, as for flock(1).
func (w *wait) Set(text string) (err error) {
	if strings.Trim(text, "+-.0123456789") == "" {
		text += "s"
	}
	if w.Duration, err = time.ParseDuration(text); err == nil && w.Duration < 0 {
		err = errors.New("negative")
	}
	w.limited = err == nil
	return err
}

func (w *wait) String() string { return "" }
func (w *wait) Type() string   { return "duration" }

// start runs the subcommand and returns the exit status. From here on nothing that relock says may keep it waiting.
func (l *locked) start() int {
	for _, s := range forwarded() {
		if !signal.Ignored(s) { // nohup ignores SIGHUP for us
			signal.Notify(l.sigs, s)
		}
	}
	mortal := survivePipes()
	if !l.std.sole { // otherwise nothing follows but the exit, whose status no signal changes
		defer signal.Stop(l.sigs)
		defer mortal()
	}
	said := newVoice(l.std.err, "relock run")
	defer said.end()
	l.std.err = said
	if l.std.sole {
		log.SetOutput(said) // what packages log, by slog too
	}
	if l.cmd == nil {
		l.shown = newVoice(l.std.out, "relock run")
		defer l.shown.end()
	}
	if err := l.lookUp(); err != nil {
		return l.cannotStart(err)
	}
	if l.cmd != nil {
		l.child = newChild(l.cmd, l.std.sole)
		defer l.child.close()
	}
	if l.healthz != "" {
		if err := l.health.serve(l.healthz); err != nil {
			return l.say(statusBroken, err)
		}
		defer l.health.close()
	}
	redis, err := l.open()
	if err != nil {
		return l.ended(err)
	}
	locks, err := redis.locks(relock.WithLease(l.lease), relock.WithClientName("relock run"), relock.WithObserver(&l.heard))
	if err != nil {
		redis.close()
		return l.ended(err)
	}
	defer l.close(locks, redis)
	return l.run(locks)
}

// open connects. A signal ends that with gotSignal, and leaves the rest to the end of the process.
func (l *locked) open() (*access, error) {
	var redis *access
	opened := make(chan error, 1)
	go func() {
		var err error
		redis, err = l.conn.open(l.flags)
		opened <- err
	}()
	select {
	case err := <-opened:
		return redis, err
	case s := <-l.sigs:
		return nil, gotSignal{s}
	}
}

// closeTime is how long relock stays, after a signal, to tell a Redis that does not answer what it owes it.
const closeTime = time.Second

// close ends the connections. A Redis that hangs takes many seconds of that, which a signal cuts short. The locks
// then end with their leases.
func (l *locked) close(locks *relock.Client, redis *access) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		locks.Close()
		redis.close()
	}()
	var late <-chan time.Time
	if l.signalled {
		late = time.After(closeTime)
	}
	select {
	case <-closed:
	case <-late:
	case <-l.sigs:
		select {
		case <-closed:
		case <-time.After(closeTime):
		}
	}
}

// ended is ended for an error that may be a signal's.
func (l *locked) ended(err error) int {
	var sig gotSignal
	if errors.As(err, &sig) {
		l.signalled = true
		return statusSignal + sig.number()
	}
	return ended(l.std, "relock run", err)
}

// lookUp looks for the command's program, and returns why it cannot be started. It comes before the lock: a
// host that cannot run the command must not keep the lock from hosts that can.
func (l *locked) lookUp() error {
	if l.cmd == nil {
		return nil
	}
	if l.cmd.Err == nil {
		_, l.cmd.Err = exec.LookPath(l.cmd.Path) // exec.Command does not check a path with a slash
	}
	return l.cmd.Err
}

// cannotStart prints why the command was not started, and returns the exit status.
func (l *locked) cannotStart(err error) int {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		return l.say(statusNotFound, err)
	}
	return l.say(statusNoExec, err)
}

// say prints err and returns status.
func (l *locked) say(status int, err error) int {
	return failed(l.std, status, "relock run", err)
}

// run takes the lock, runs the command and gives the lock back.
func (l *locked) run(locks *relock.Client) int {
	quiet := l.tellWaiting(locks)
	held, err := l.acquire(locks)
	quiet()
	switch {
	case errors.As(err, new(gotSignal)): // before what a Lock says that a signal has ended
		return l.ended(err)
	case errors.Is(err, relock.ErrNotAcquired) && l.quiet:
		return l.conflict
	case errors.Is(err, relock.ErrNotAcquired) && l.any():
		return l.say(l.conflict, fmt.Errorf("none of %d locks is free: %w", l.of, l.named(locks, err)))
	case errors.Is(err, relock.ErrNotAcquired):
		return l.say(l.conflict, l.named(locks, err))
	case err != nil:
		return l.ended(err)
	}
	granted := time.Now()
	l.health.held(held.Context())
	status, lost := l.work(held, l.checkSize(locks))
	if l.unused && l.keeps() && !lost {
		l.free(locks, held)
		return status
	}
	return l.giveBack(held, granted, status, lost)
}

// checkSize asks Redis, in the background, whether the semaphore has as many permits as -n says. It returns a channel
// that is closed when that is told.
func (l *locked) checkSize(locks *relock.Client) <-chan struct{} {
	checked := make(chan struct{})
	if !l.limits() || l.resize || l.quiet {
		close(checked)
		return checked
	}
	go func() {
		defer close(checked)
		asked, done := operator.Soon(context.Background())
		defer done()
		st, _ := l.state(asked, locks, l.names[0]) // of a failure the lease tells
		l.tellSize(st)
	}()
	return checked
}

// ready waits until the command can start. A signal that comes before is relock's: the command would miss it. With a
// hold that is lost no command starts.
func (l *locked) ready(held hold, awaited ...<-chan struct{}) error {
	for _, done := range awaited {
		select {
		case <-done:
		case s := <-l.sigs:
			return gotSignal{s}
		case <-held.Context().Done():
		}
	}
	select {
	case s := <-l.sigs:
		return gotSignal{s}
	default:
	}
	if held.Context().Err() != nil {
		return l.lost(held)
	}
	return nil
}

// unready returns the exit status for an error of ready, and whether the lock was lost.
func (l *locked) unready(err error) (status int, lost bool) {
	l.unused = true
	var sig gotSignal
	if errors.As(err, &sig) {
		return l.ended(err), false
	}
	return l.say(statusLost, err), true
}

// keeps reports whether a lock that relock unlocks stays for -at-least.
func (l *locked) keeps() bool { return l.atLeast > 0 && !l.stays() }

// free gives back, at once, a hold that no command ran under.
func (l *locked) free(locks *relock.Client, held hold) {
	if !l.keeps() {
		_ = held.Unlock(context.Background())
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), freeTime)
	defer cancel()
	for _, lease := range l.leases(held) {
		freeNow(ctx, locks, lease)
	}
}

// freeTime is how long relock tries to free locks that no command ran under.
const freeTime = time.Second

// freeNow gives back a lock that no command ran under. Unlock would leave it to -at-least. So the lock moves, by a
// handle, to a lease without WithMinHold. A forced unlock could free another owner's lock, if this one was just lost.
// On a failure the lock ends with its lease, or within a second.
func freeNow(ctx context.Context, locks *relock.Client, lease *relock.Lease) {
	handle, err := lease.HandOver(ctx, time.Second)
	if err != nil {
		return
	}
	if plain, err := locks.Mutex(lease.Name()).TakeOver(ctx, handle); err == nil {
		_ = plain.Unlock(ctx)
	}
}

// work runs the command or, if there is none, waits for a signal. It returns the exit status, and
// whether the lock was lost. checked is what checkSize returned.
func (l *locked) work(held hold, checked <-chan struct{}) (status int, lost bool) {
	if l.cmd != nil {
		return l.command(held, checked)
	}
	if err := l.ready(held, checked); err != nil {
		return l.unready(err)
	}
	switch lease := l.leases(held)[0]; {
	case l.limits():
		fmt.Fprintln(l.shown, "held")
	case l.any():
		fmt.Fprintln(l.shown, lease.Token(), lease.Name())
	default:
		fmt.Fprintln(l.shown, lease.Token())
	}
	select {
	case s := <-l.sigs:
		return l.ended(gotSignal{s}), false
	case <-held.Context().Done():
		return l.say(statusLost, l.lost(held)), true
	case <-l.shown.failed:
		l.unused = true // nobody knows of the lock
		return l.say(statusBroken, fmt.Errorf("nobody takes the output: %w", l.shown.err)), false
	}
}

// giveBack unlocks, and returns the exit status. Where the lock needs relock until atLeast has passed, it waits
// for that.
func (l *locked) giveBack(held hold, granted time.Time, status int, lost bool) int {
	if left := l.atLeast - time.Since(granted); left > 0 && !lost && l.stays() && !l.unused {
		select {
		case <-time.After(left):
		case <-held.Context().Done():
		case <-l.sigs:
			l.signalled = true
			return l.say(status, errors.New("a signal ends -at-least: the lock ends with its lease"))
		}
	}
	err := held.Unlock(context.Background())
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

// stays reports whether relock itself has to keep to -at-least: only a mutex has WithMinHold, and a quorum's
// restart guard bounds how long a lock outlives relock.
func (l *locked) stays() bool { return l.shared || l.writes || l.quorum || l.limits() }

// gotSignal is the error of a wait for the lock that a signal has ended.
type gotSignal struct{ os.Signal }

func (s gotSignal) Error() string { return s.String() }

// errTooLate is the error of a wait that was over as the lock was granted.
var errTooLate = fmt.Errorf("%w: it came too late", relock.ErrNotAcquired)

// acquire takes the lock. A signal ends the wait with gotSignal, and -wait ends it. Nothing else cancels
// the context: the lease's context is made from it, and outlives this call.
func (l *locked) acquire(locks *relock.Client) (hold, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	over, watched := make(chan struct{}), make(chan struct{})
	var waited <-chan time.Time
	if l.wait.Duration > 0 {
		waited = time.After(l.wait.Duration)
	}
	go func() {
		defer close(watched)
		select {
		case s := <-l.sigs:
			cancel(gotSignal{s})
		case <-waited:
			cancel(context.DeadlineExceeded)
		case <-over:
		}
	}()
	held, err := l.lock(ctx, locks)
	close(over)
	<-watched // from here on signals are for the command
	if cause := context.Cause(ctx); err == nil && cause != nil {
		l.free(locks, held) // report why the wait ended, not an error of this: the lease ends by itself
		if cause == context.DeadlineExceeded {
			cause = errTooLate
		}
		return nil, cause
	}
	return held, err
}

// lock takes the locks that the flags name: all of them, or with -any one.
func (l *locked) lock(ctx context.Context, locks *relock.Client) (hold, error) {
	if l.resize {
		if err := locks.Semaphore(l.names[0], l.permits).SetPermits(ctx, l.permits); err != nil {
			return nil, err
		}
	}
	all := make([]relock.Locker, len(l.names))
	for i, name := range l.names {
		all[i] = l.locker(locks, name)
	}
	switch once := l.wait.limited && l.wait.Duration == 0; {
	case l.any():
		return take(ctx, relock.Any(all...), once)
	case len(all) > 1:
		return take(ctx, relock.All(all...), once)
	default:
		return take(ctx, all[0], once)
	}
}

// take takes a lock or several, once without waiting.
func take[H hold](ctx context.Context, lock interface {
	Lock(ctx context.Context) (H, error)
	TryLock(ctx context.Context) (H, error)
}, once bool) (hold, error) {
	if once {
		return lock.TryLock(ctx)
	}
	return lock.Lock(ctx)
}

// hold is what the command runs under: the *relock.Lease of a lock or a permit, or the *relock.MultiLease of
// several locks.
type hold interface {
	Context() context.Context
	Unlock(ctx context.Context) error
}

// leases returns the leases of a hold, in the order of the command line.
func (l *locked) leases(held hold) (leases []*relock.Lease) {
	if one, is := held.(*relock.Lease); is {
		return []*relock.Lease{one}
	}
	for _, name := range l.names {
		leases = append(leases, held.(*relock.MultiLease).Lease(name))
	}
	return leases
}

// lost is the error of a hold that was lost. It says which lock that was.
func (l *locked) lost(held hold) error {
	name := l.leases(held)[0].Name()
	var which *relock.LostError
	if errors.As(context.Cause(held.Context()), &which) {
		name = which.Name
	}
	return fmt.Errorf("the lock %q is lost", name)
}

// told are the variables that run sets for its command. Those of a run around this one tell of other locks.
var told = regexp.MustCompile(`^RELOCK_(NUMBER|(NAME|TOKEN)(_\d+)?)=`)

// environ returns the environment of the command, with the names and tokens of its locks.
func (l *locked) environ(held hold) []string {
	env, leases := slices.DeleteFunc(l.cmd.Environ(), told.MatchString), l.leases(held)
	for i, lease := range leases {
		number := ""
		if len(leases) > 1 {
			number = fmt.Sprintf("_%d", i+1)
		}
		env = append(env, fmt.Sprintf("RELOCK_NAME%s=%s", number, lease.Name()))
		if !l.limits() {
			env = append(env, fmt.Sprintf("RELOCK_TOKEN%s=%d", number, lease.Token()))
		}
	}
	if l.any() {
		env = append(env, fmt.Sprintf("RELOCK_NUMBER=%d", slices.Index(l.names, leases[0].Name())))
	}
	return env
}

// state asks Redis for the state of a lock of the kind that the flags say.
func (l *locked) state(ctx context.Context, locks *relock.Client, name string) (relock.State, error) {
	switch {
	case l.limits():
		return locks.Semaphore(name, l.permits).State(ctx)
	case l.shared || l.writes:
		return locks.RWMutex(name).State(ctx)
	}
	return locks.Mutex(name).State(ctx)
}

// locker returns the lock, the side of a read-write lock or the permit that the flags say.
func (l *locked) locker(locks *relock.Client, name string) relock.Locker {
	switch {
	case l.limits():
		return locks.Semaphore(name, l.permits).Permits(1)
	case l.shared:
		return locks.RWMutex(name).Reader()
	case l.writes:
		return locks.RWMutex(name)
	case l.stays():
		return locks.Mutex(name)
	}
	return locks.Mutex(name, relock.WithMinHold(l.atLeast))
}
