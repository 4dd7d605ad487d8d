package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

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

// The question says that all permits go.
func TestUnlockAsksForAllPermits(t *testing.T) {
	srv := redistest.Start(t)
	pool(srv)
	var out, errs safeBuffer
	status := run(stdio{in: strings.NewReader("n\n"), out: &out, err: &errs}, []string{"unlock", "-redis", srv.Addr(), "--force", "pool"})
	require.Equal(t, statusFailed, status)
	require.Contains(t, errs.String(), `Free all 3 permits of "pool" that are held, by `+byBilling+` and 1 more, 1 waiting? [y/N]`)
}
