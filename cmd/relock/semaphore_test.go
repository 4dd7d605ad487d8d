package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// holding is the id of an entry of a client whose card says "billing".
const holding = "6f1c2a34-5c1d-4f0e-9a65-0d2c3b4a5e6f:71234567890123456"

// pool makes a semaphore of 7 permits: relock holds two, Redisson one without an end, and two more are held by leases that
// have ended. One waits for two.
func pool(srv *redistest.Server) {
	srv.Do("EVAL", `local t = redis.call('TIME')
	local now = t[1] * 1000
	redis.call('SET', 'pool', 2)
	for i = 1, 2 do
		redis.call('ZADD', '{pool}:timeout', now + 60000, ARGV[1] .. ':' .. i, now - 60000, 'a' .. ARGV[1] .. ':' .. i)
	end
	redis.call('ZADD', '{pool}:timeout', '922337203685477', '0123456789abcdef')
	redis.call('ZADD', 'relock_permits:{pool}', string.format('%.0f', (now - 60000) * 1000), '30000:2:' .. ARGV[1] .. ':')
	redis.call('HSET', 'relock_client:' .. string.sub(ARGV[1], 1, 36), 'name', 'billing', 'host', 'pod', 'pid', 12)`,
		"0", holding)
}

const (
	javaPermit = "30313233343536373839616263646566"
	byBilling  = "billing on pod (pid 12)"
)

// What operators see of a semaphore: its size, what is free, the holders of both libraries, and the waiters.
func TestShowSemaphore(t *testing.T) {
	srv := redistest.Start(t)
	srv.AddUser("watcher", "pw", "~*", "+@read")
	pool(srv)
	srv.Do("SET", "page_hits", "x")
	show := func(args ...string) string {
		got := relockRun(append(args, "-redis", "redis://watcher:pw@"+srv.Addr())...)
		require.Equal(t, statusOK, got.status, got.err)
		return got.out
	}
	require.Regexp(t, `(?m)^pool +semaphore +3 of 7: billing on pod \(pid 12\) and 1 more +3 +- +(1m0s|5\ds) +1 +1m`, show("ls"))
	require.Regexp(t, `(?m) pool +3 of 7: billing on pod \(pid 12\) and 1 more$`, show("top", "-once"))
	require.Regexp(t, `^lock      pool
kind      semaphore
permits   7
free      4
held      3
waiters   1
longest   1m\d+s
holder    billing on pod \(pid 12\): permits 2, TTL (1m0s|5\ds)
holder    `+javaPermit+`: permits 1, TTL never ends
$`, show("inspect", "pool"))

	l := listed(t, "-redis", srv.Addr())["pool"]
	size, free, by := 7, 4, l.By
	require.Equal(t, seenLock{
		Name: "pool", Kind: "semaphore", Held: true, Holder: holding, By: by, Count: 3, TTL: l.TTL, Waiters: 1, Longest: l.Longest,
		Permits: &size, Free: &free,
	}, l)
	require.InDelta(t, 60_000, l.TTL, 30_000)
	require.NoError(t, json.Unmarshal([]byte(show("inspect", "-json", "pool")), &l))
	require.Equal(t, []seenPart{{seenHold{holding, by}, 2, l.Holders[0].TTL}, {seenHold{Holder: javaPermit}, 1, -1}}, l.Holders)
	require.Equal(t, 2, l.Queue[0].Wants)
	require.Empty(t, l.Readers)

	srv.Do("DEL", "pool")
	require.Contains(t, show("inspect", "pool"), "permits   -\nfree      -\nheld      3\n")
	var unknown seenLock
	require.NoError(t, json.Unmarshal([]byte(show("inspect", "-json", "pool")), &unknown))
	require.Nil(t, unknown.Permits)
	require.Contains(t, show("inspect", "page_hits"), "holder    nobody\n")
}

// Semaphores are read by short commands too.
func TestLsManySemaphores(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	const many = 2000
	srv.Do("EVAL", `for i = 1, tonumber(ARGV[1]) do
		redis.call('SET', 'pool:' .. i, 1)
		redis.call('ZADD', '{pool:' .. i .. '}:timeout', '922337203685477', '0123456789abcdef')
	end`, "0", fmt.Sprint(many))
	srv.ResetCommandCounts()
	require.Len(t, listed(t, "-redis", srv.Addr()), many)
	counts := srv.CommandCounts()
	for name := range counts {
		require.Contains(t, append([]string{"getrange", "zcard"}, reading...), name, "%v", counts)
	}
}

// The question says that all permits go. They do, to the waiters first.
func TestUnlockSemaphore(t *testing.T) {
	srv := redistest.Start(t)
	pool(srv)
	unlock := func(answer string, args ...string) result {
		var out, errs safeBuffer
		std := stdio{in: strings.NewReader(answer), out: &out, err: &errs}
		status := run(std, append([]string{"unlock", "-redis", srv.Addr(), "--force", "pool"}, args...))
		return result{status, out.String(), errs.String()}
	}
	got := unlock("n\n")
	require.Equal(t, statusFailed, got.status)
	require.Contains(t, got.err, `Free all 3 permits of "pool" that are held, by `+byBilling+` and 1 more, 1 waiting? [y/N]`)
	require.Equal(t, "5", srv.Do("ZCARD", "{pool}:timeout"))

	srv.Do("DEL", "pool", "{pool}:timeout", "relock_permits:{pool}")
	permit, err := other(t, srv).Semaphore("pool", 1).Acquire(t.Context(), 1)
	require.NoError(t, err)
	granted := make(chan *relock.Lease, 1)
	waits := other(t, srv).Semaphore("pool", 1)
	go func() {
		p, _ := waits.Acquire(t.Context(), 1)
		granted <- p
	}()
	require.Eventually(t, func() bool { return listed(t, "-redis", srv.Addr())["pool"].Waiters == 1 }, patience, time.Millisecond)
	require.Equal(t, "freed \"pool\"\n", unlock("y\n").out)
	<-permit.Context().Done()
	require.NoError(t, (<-granted).Unlock(t.Context()))
	require.Equal(t, result{out: "nobody holds \"pool\"\n"}, unlock(""))
	require.Equal(t, result{out: "nobody holds \"pool\"\n"}, unlock("", "-y"))
}

// Waiters and holders of relock's own are shown by name, and each with what it has or wants.
func TestSemaphoreByName(t *testing.T) {
	srv := redistest.Start(t)
	client := func(name string) *relock.Semaphore {
		locks, err := relock.New(srv.Client(), relock.WithClientName(name))
		require.NoError(t, err)
		t.Cleanup(locks.Close)
		return locks.Semaphore("pool", 3)
	}
	_, err := client("a").Acquire(t.Context(), 2)
	require.NoError(t, err)
	waits := client("b")
	go func() { _, _ = waits.Acquire(t.Context(), 3) }()
	require.Eventually(t, func() bool {
		var l seenLock
		got := relockRun("inspect", "-json", "-redis", srv.Addr(), "pool")
		require.NoError(t, json.Unmarshal([]byte(got.out), &l))
		return len(l.Holders) == 1 && l.Holders[0].By.name() == "a" && l.Holders[0].Count == 2 && *l.Free == 1 &&
			len(l.Queue) == 1 && l.Queue[0].By.name() == "b" && l.Queue[0].Wants == 3
	}, patience, 10*time.Millisecond)
}

// Of relock run -n 2, two run at once. There is no token. A third waits, or gives up.
func TestRunUnderAPermit(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	shell := func(script string, flags ...string) result {
		args := append([]string{"run", "-redis", srv.Addr()}, flags...)
		return relockRun(append(args, "pool", "--", "sh", "-c", script)...)
	}
	got := shell("echo token=$RELOCK_TOKEN; exit 7", "-n", "2")
	require.Equal(t, result{status: 7, out: "token=\n"}, got)
	require.Equal(t, "0", srv.Do("EXISTS", "{pool}:timeout"), "the permit is given back")
	require.Equal(t, "2", srv.Do("GET", "pool"))

	pool := other(t, srv).Semaphore("pool", 2)
	first, err := pool.Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, statusOK, shell("true", "-n", "2", "-wait", "0").status)
	second, err := pool.Acquire(t.Context(), 1)
	require.NoError(t, err)
	for _, wait := range []string{"0", "500ms"} {
		got := shell("echo ran", "-n", "2", "-wait", wait)
		require.Equal(t, []any{statusNotAcquired, ""}, []any{got.status, got.out})
		require.Contains(t, got.err, `"pool" not acquired: held by `)
		require.Equal(t, result{status: 75}, shell("echo ran", "-n", "2", "-wait", wait, "-q", "-E", "75"))
	}
	require.Regexp(t, `^relock run: waiting for lock "pool": 2 of 2 permits are held, the next lease ends in \d+s unless renewed$`,
		strings.TrimSpace(waitsFor(t, srv, "-n", "2", "pool")))
	require.NoError(t, first.Unlock(t.Context()))
	require.NoError(t, second.Unlock(t.Context()))

	srv.Do("HSET", "orders", "owner", "1")
	got = relockRun("run", "-redis", srv.Addr(), "-n", "2", "orders", "--", "true")
	require.Equal(t, statusBroken, got.status)
	require.Contains(t, got.err, "WRONG")
}

// Redis keeps the number of permits. Another one is told of, and -resize sets it.
func TestRunTellsThatTheSizeIsAnother(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	under := func(flags ...string) result {
		return relockRun(append([]string{"run", "-redis", srv.Addr()}, append(flags, "pool", "--", "true")...)...)
	}
	require.Equal(t, result{}, under("-n", "2"))
	require.Equal(t, result{}, under("-n", "2"))
	require.Equal(t, result{err: "relock run: \"pool\" has 2 permits, not 3: -resize changes that\n"}, under("-n", "3"))
	require.Equal(t, result{}, under("-n", "3", "-q"))
	require.Equal(t, "2", srv.Do("GET", "pool"))
	require.Equal(t, result{}, under("-n", "3", "-resize"))
	require.Equal(t, "3", srv.Do("GET", "pool"))
	require.Equal(t, statusUsage, under("-n", "1000001", "-resize").status)
	require.Equal(t, "3", srv.Do("GET", "pool"))
}

// A permit that is lost ends the command, as a lock does.
func TestRunLosesItsPermit(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cmd, out := startRun(t, srv, "-n", "1", "pool", "--", "sh", "-c", "echo in; exec sleep 60")
	require.Equal(t, "in\n", line(t, out))
	require.Equal(t, statusOK, relockRun("unlock", "-redis", srv.Addr(), "-force", "-y", "pool").status)
	_ = cmd.Wait()
	require.Equal(t, statusLost, cmd.ProcessState.ExitCode())
}

// Without a command a line says that the permit is held.
func TestRunHoldsAPermit(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cmd, out := startRun(t, srv, "-n", "1", "pool")
	require.Equal(t, "held\n", line(t, out))
	require.Equal(t, "1", srv.Do("ZCARD", "{pool}:timeout"))
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	_ = cmd.Wait()
	require.Equal(t, statusSignal+int(syscall.SIGTERM), cmd.ProcessState.ExitCode())
	require.Equal(t, "0", srv.Do("EXISTS", "{pool}:timeout"))
}

// With -at-least relock keeps the permit itself.
func TestRunKeepsAPermit(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	began := time.Now()
	require.Equal(t, statusOK, relockRun("run", "-redis", srv.Addr(), "-n", "1", "-at-least", "300ms", "pool", "--", "true").status)
	require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
	require.Equal(t, "1", srv.Do("GET", "pool"))
}

// line is the next line of an output.
func line(t *testing.T, out *bufio.Reader) string {
	t.Helper()
	text, err := out.ReadString('\n')
	require.NoError(t, err)
	return text
}
