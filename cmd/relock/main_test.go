package main

import (
	"bytes"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// stands are programs that the test binary stands in for, by its first argument.
var stands = make(map[string]func(args []string) int)

// TestMain lets the test binary stand in for relock: the demo starts its own program again, and signals want a process.
func TestMain(m *testing.M) {
	for _, name := range append(slices.Collect(maps.Values(variables)), passwords...) {
		os.Unsetenv(name)
	}
	switch {
	case len(os.Args) == 2 && os.Args[1] == polite:
		os.Exit(runPolite())
	case len(os.Args) > 2 && stands[os.Args[1]] != nil:
		os.Exit(stands[os.Args[1]](os.Args[2:]))
	case len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test."):
		main()
	}
	os.Exit(m.Run())
}

// result is what a run of relock left.
type result struct {
	status   int
	out, err string
}

// safeBuffer takes what several processes write at once.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // not embedded: io.Copy would go round the mutex by its ReadFrom
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// relockRun runs relock in this process.
func relockRun(args ...string) result {
	var out, errs safeBuffer
	status := run(stdio{in: strings.NewReader(""), out: &out, err: &errs}, args)
	return result{status, out.String(), errs.String()}
}

// Scripts compare with these numbers, which docs/cli.md lists.
func TestStatusesStay(t *testing.T) {
	require.Equal(t, []int{0, 1, 2, 123, 124, 125, 126, 127, 128}, []int{statusOK, statusFailed, statusUsage, statusLost,
		statusNotAcquired, statusBroken, statusNoExec, statusNotFound, statusSignal})
}

func TestBadCommandLines(t *testing.T) {
	for _, c := range []struct{ args, says string }{
		{"", "relock [command]"},
		{"", "Run a command under the lock NAME"},
		{"dmeo", `no subcommand "dmeo"`},
		{"demo -node", "unknown flag: --node"},
		{"demo -nodes 2", "from 3 to 9"},
		{"demo -nodes 10", "from 3 to 9"},
		{"demo -nodes 5 -redis redis://h:1", "they are its own"},
		{"demo -nodes 5 -lock none", "without a lock"},
		{"demo -nodes 5 -for 5s", "four times the lease of 2s"},
		{"demo orders", `unknown command "orders" for "relock demo"`},
		{"demo -lock redsync", `-lock "redsync": it is relock or none`},
		{"demo -lease 1ms", "the shortest is 100ms"},
		{"demo -for 3s", "twice the lease of 2s"},
		{"demo -for soon", `invalid argument "soon"`},
		{"demo -redis http://localhost:6379", "redis://[user:password@]host:port[/db]"},
		{"demo -redis redis://me:secret@h:port", "invalid port"},
		{"inspect", "the name of one lock, not 0"},
		{"inspect a b", "the name of one lock, not 2"},
		{"inspect -redis x://y a", "invalid URL scheme"},
		{"run", "NAME ... -- COMMAND"},
		{"run orders bills", "one NAME alone"},
		{"run orders bills -n 2 -- true", "-n takes a permit of one semaphore"},
		{"run -any gpu:%d -of 8 -n 2 -- true", "-n takes a permit of one semaphore"},
		{"run -any gpu:%d -- true", "give both, as in -any 'gpu:%d' -of 8"},
		{"run orders -of 8 -- true", "give both, as in -any 'gpu:%d' -of 8"},
		{"run -any gpu -of 8 -- true", `-any "gpu": it takes %d once`},
		{"run -any %d:%d -of 8 -- true", "it takes %d once"},
		{"run -any gpu:%d -of 0 -- true", "-of 0: between 1 and 1000"},
		{"run -any gpu:%d -of 1001 -- true", "-of 1001: between 1 and 1000"},
		{"run -any gpu:%d -of 8 gpu -- true", "it takes no NAME"},
		{"run -any gpu:%d -of 8 true", "it takes no NAME"},
		{"run -any gpu:%d -of 8 --", "COMMAND is missing"},
		{"run -any gpu:%d -of 8 -shared -exclusive -- true", "exclude each other"},
		{"run orders -at-least -1s -- true", "-at-least -1s: it must not be negative"},
		{"run orders -E 256 -- true", "-conflict-exit-code 256: between 0 and 255"},
		{"run orders -healthz 8080 -- true", "it looks like :8080"},
		{"run orders -shared -lease 2m -- true", "-shared -lease 2m0s: a reader's lease is 30s at most"},
		{"run orders -shared -exclusive -- true", "exclude each other"},
		{"run orders -shared -redis a:1 -redis b:1 -redis c:1 -- true", "on one Redis, not on a quorum of 3"},
		{"run orders -exclusive -redis a:1 -redis b:1 -redis c:1 -- true", "on one Redis, not on a quorum of 3"},
		{"run orders -n 2 -redis a:1 -redis b:1 -redis c:1 -- true", "on one Redis, not on a quorum of 3"},
		{"run orders -n 2 -shared -- true", "-n takes a permit of a semaphore"},
		{"run orders -n 2 -exclusive -- true", "they exclude each other"},
		{"run orders -n two -- true", "invalid argument"},
		{"run orders -resize -- true", "give -n"},
		{"unlock orders", "say --force"},
		{"unlock --force", "the name of one lock, not 0"},
		{"ls orders", `unknown command "orders"`},
		{"ui orders", `unknown command "orders"`},
		{"ui -listen 8080", "-listen 8080: it looks like :8080"},
		{"run orders --", "NAME ... -- COMMAND"},
		{"run orders true x", "NAME ... -- COMMAND"},
		{"run -- orders --", "COMMAND is missing"},
		{"run orders --lease", "flag needs an argument"},
		{"run -wait -1s orders -- true", "negative"},
		{"run -wait -1 orders -- true", "negative"},
		{"run -wait . orders -- true", "invalid duration"},
		{"run -wait 1h5 orders -- true", "missing unit"},
		{"run --redis x://y orders -- true", "invalid URL scheme"},
	} {
		t.Run(c.args, func(t *testing.T) {
			got := relockRun(strings.Fields(c.args)...)
			require.Equal(t, statusUsage, got.status)
			require.Contains(t, got.err, c.says)
			require.NotContains(t, got.err, "secret")
			require.Empty(t, got.out)
		})
	}
}

// Help is asked for, so it stands on the standard output, and is no failure.
func TestHelp(t *testing.T) {
	for args, says := range map[string]string{
		"help":       "Print what Redis knows",
		"-h":         "Print what Redis knows",
		"--help":     "Print what Redis knows",
		"demo -h":    "--redis URL",
		"demo -help": "--redis URL",
		"help run":   "relock run [flags] NAME ... [-- COMMAND",
		"run --help": "$RELOCK_REDIS",
		"inspect -h": "$RELOCK_PASSWORD_FILE or $REDISCLI_AUTH",
		"ls -h":      "a password in it stands in the list of processes",
		"version -h": "Print the versions",
		"completion": "shell",
	} {
		got := relockRun(strings.Fields(args)...)
		require.Equal(t, statusOK, got.status, args)
		require.Contains(t, got.out, says, args)
		require.Empty(t, got.err, args)
		require.NotContains(t, got.out, "worker ", "of no use to users")
		require.NotContains(t, got.out, "true|false", "a switch takes no value")
		require.NotContains(t, got.out, "relock [flags]", "relock alone does nothing")
	}
}

// A worker is of use to its parent only. It is a process of its own here too: it ignores SIGINT, and what other tests start
// would inherit that.
func TestWorkerWithoutParent(t *testing.T) {
	said, err := exec.Command(os.Args[0], "worker").CombinedOutput()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, statusFailed, exit.ExitCode())
	require.Contains(t, string(said), "started by relock demo only")
}

// What only the library can judge needs a Redis to get that far.
func TestBadLocks(t *testing.T) {
	url := "redis://" + redistest.Start(t).Addr()
	for args, says := range map[string]string{
		"inspect -redis URL a{}":                   "no hash tag",
		"run -redis URL a{} -- true":               "no hash tag",
		"run -redis URL -lease 1ms a -- true":      "WithLease: 1ms is out of range",
		"run -redis URL -at-least 9000h a -- true": "WithMinHold: 9000h0m0s is out of range",
		"run -redis URL -n 0 a -- true":            "0 permits; a semaphore has 1 to 1000000",
		"run -redis URL -n 1000001 a -- true":      "1000001 permits; a semaphore has 1 to 1000000",
		"run -redis URL -n 1 {a} -- true":          "would share keys with that of the name",
		"run -redis URL -lease 1ms a{} -- false":   "WithLease: 1ms is out of range",
	} {
		got := relockRun(strings.Fields(strings.ReplaceAll(args, "URL", url))...)
		require.Equal(t, statusUsage, got.status, args)
		require.Contains(t, got.err, says)
	}
}

func TestNoRedis(t *testing.T) {
	t.Parallel()
	refuses, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, refuses.Close())
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts, in the kernel, and never answers
	require.NoError(t, err)
	defer mute.Close()
	for name, addr := range map[string]string{"refuses": refuses.Addr().String(), "mute": mute.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			got := relockRun("demo", "-redis", "redis://me:secret@"+addr)
			require.Equal(t, statusFailed, got.status)
			require.Contains(t, got.err, "no Redis to work with at "+addr)
			require.NotContains(t, got.err, "secret")
			require.Less(t, time.Since(began), 3*dialTimeout)
			for _, args := range []string{"inspect -redis ADDR a", "run -redis ADDR -wait 1s a -- true", "run -wait 0 a -redis ADDR -- true"} {
				got := relockRun(strings.Fields(strings.ReplaceAll(args, "ADDR", addr))...)
				require.Equal(t, statusBroken, got.status, got.err)
				require.Contains(t, got.err, "no Redis to work with at "+addr)
			}
		})
	}
}
