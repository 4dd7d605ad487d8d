package interop

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// pair is one lock seen from both languages.
type pair struct {
	t     *testing.T
	jvm   *peer
	kind  string // of Java's object: lock, fenced or spin
	name  string // as Java says it
	mutex *relock.Mutex
}

// which is the lock in the line protocol.
func (p pair) which() string { return p.kind + ":" + p.name }

// java runs a command about the lock that must succeed.
func (p pair) java(thread, command string, args ...string) string {
	p.t.Helper()
	return p.jvm.Do(thread, command, append([]string{p.which()}, args...)...)
}

// thread is the field that a thread of the JVM holds the lock with.
func (p pair) thread(name string) string { return p.jvm.id + ":" + p.jvm.Do(name, "threadId") }

func (p pair) lock() *relock.Lease {
	p.t.Helper()
	lease, err := p.mutex.Lock(p.t.Context())
	require.NoError(p.t, err)
	return lease
}

func (p pair) state() relock.State {
	p.t.Helper()
	state, err := p.mutex.State(p.t.Context())
	require.NoError(p.t, err)
	return state
}

// TestOneLock runs everything that both languages can do with one lock in every mode, with every kind of name, and has them share
// a semaphore.
func TestOneLock(t *testing.T) {
	alone := redistest.Start(t)
	group := redistest.StartSentinel(t)
	nodes := redistest.StartCluster(t)
	const off = "  shardedSubscriptionMode: \"OFF\""
	for _, tc := range []struct {
		mode, version string
		site          site
		more          []string
	}{
		{"standalone", current, singleSite(alone), nil},
		{"standalone", oldest, singleSite(alone), nil},
		{"sentinel", current, sentinelSite(group), nil},
		{"sentinel", oldest, sentinelSite(group), nil},
		{"cluster sharded", current, clusterSite(nodes), nil},
		{"cluster plain", current, plainSite(nodes), []string{off}},
		{"cluster plain", oldest, plainSite(nodes), nil},
	} {
		t.Run(tc.mode+" "+tc.version, func(t *testing.T) {
			jvm := startJVM(t, tc.version, tc.site.yaml(tc.more...))
			locks := tc.site.locks(t)
			for i, name := range []string{"orders:42", "{tenant 7}:orders", "two words", "склад 倉庫 \"é\""} {
				for _, kind := range []string{"lock", "fenced"} {
					name := fmt.Sprintf("%s-%s-%d-%s", tc.version, kind, i, name)
					p := pair{jvm: jvm, kind: kind, name: name, mutex: locks.Mutex(name)}
					t.Run(kind+" "+name, func(t *testing.T) {
						p.t = t
						p.javaHolds()
						p.goHolds()
						p.tokensRise()
						p.forced()
					})
				}
				name = fmt.Sprintf("%s-permits-%d-%s", tc.version, i, name)
				t.Run("permits "+name, func(t *testing.T) { permitsOf(t, jvm, locks, name, 3).shared() })
			}
		})
	}
}

// javaHolds has Java hold the lock three times and Go look at it, wait for it and get it.
func (p pair) javaHolds() {
	p.t.Helper()
	for range 3 {
		p.java("a", "lock", "-1")
	}
	state := p.state()
	require.True(p.t, state.Held)
	require.Equal(p.t, p.thread("a"), state.Holder)
	require.Equal(p.t, 3, state.Count)
	require.InDelta(p.t, 30, state.TTL.Seconds(), 15)
	_, err := p.mutex.TryLock(p.t.Context())
	var held *relock.HeldError
	require.ErrorAs(p.t, err, &held)
	require.Equal(p.t, p.thread("a"), held.Holder)

	waiter := wait(p.mutex)
	p.java("a", "unlock")
	p.java("a", "unlock")
	require.Equal(p.t, 1, p.state().Count)
	require.Empty(p.t, waiter)
	unlock := p.jvm.Try("a", "unlock", p.which())
	require.NoError(p.t, unlock.err)
	got := await(p.t, waiter)
	require.NoError(p.t, got.err)
	require.Less(p.t, got.at.Sub(unlock.began), promptly, "the Go waiter polled")
	require.NoError(p.t, got.lease.Unlock(p.t.Context()))
}

// promptly is far below every TTL at which a waiter that missed its message looks again.
const promptly = 5 * time.Second

// goHolds has Go hold the lock three times and Java look at it, wait for it and get it.
func (p pair) goHolds() {
	p.t.Helper()
	ctx := p.t.Context()
	leases := []*relock.Lease{p.lock()}
	for range 2 {
		inner, err := p.mutex.Lock(leases[0].Context())
		require.NoError(p.t, err)
		leases = append(leases, inner)
	}
	// Beside the count stands what relock knows of the grant, which Redisson never asks for.
	state := p.state()
	require.Equal(p.t, leases[0].Token(), state.HolderToken)
	require.Regexp(p.t, fmt.Sprintf(`^\{%s=3, relock:first=%d:\d+\}$`, state.Holder, state.HolderToken), p.jvm.Do("a", "holders", p.name))
	require.Equal(p.t, "true", p.java("a", "isLocked"))
	require.Equal(p.t, "false", p.java("a", "isHeldByThread", p.jvm.Do("a", "threadId")))
	require.Equal(p.t, "0", p.java("a", "getHoldCount"))
	ttl, err := strconv.ParseFloat(p.java("a", "remainTimeToLive"), 64)
	require.NoError(p.t, err)
	require.InDelta(p.t, 30_000, ttl, 15_000)
	require.Equal(p.t, "false", p.java("a", "tryLock", "50", "-1"))
	require.ErrorContains(p.t, p.jvm.Try("a", "unlock", p.which()).err, "IllegalMonitorStateException")

	waiter := p.jvm.Go("a", "tryLock", p.which(), "60000", "-1")
	for _, lease := range []*relock.Lease{leases[2], leases[1]} {
		require.NoError(p.t, lease.Unlock(ctx))
	}
	require.Equal(p.t, 1, p.state().Count)
	began := time.Now()
	require.NoError(p.t, leases[0].Unlock(ctx))
	got := await(p.t, waiter)
	require.NoError(p.t, got.err)
	require.Equal(p.t, "true", got.value)
	require.Less(p.t, got.ended.Sub(began), promptly, "the Java waiter polled")
	require.Equal(p.t, "1", p.java("a", "getHoldCount"))
	require.Equal(p.t, "true", p.java("b", "isHeldByThread", p.jvm.Do("a", "threadId")))
	p.java("a", "unlock")
	require.Equal(p.t, "false", p.java("a", "isLocked"))
}

// tokensRise takes the lock in turn and compares fencing tokens where Java has them.
func (p pair) tokensRise() {
	p.t.Helper()
	if p.kind != "fenced" {
		return
	}
	last := int64(0)
	for range 3 {
		lease := p.lock()
		require.Greater(p.t, lease.Token(), last)
		last = lease.Token()
		require.NoError(p.t, lease.Unlock(p.t.Context()))
		token, err := strconv.ParseInt(p.java("a", "lockAndGetToken"), 10, 64)
		require.NoError(p.t, err)
		require.Greater(p.t, token, last)
		require.Equal(p.t, p.java("a", "getToken"), strconv.FormatInt(p.state().Reserved, 10))
		last = token
		p.java("a", "unlock")
	}
}

// forced has each language force the lock out of the other's hands.
func (p pair) forced() {
	p.t.Helper()
	p.java("a", "lock", "-1")
	waiter := wait(p.mutex)
	freed, err := p.mutex.ForceUnlock(p.t.Context())
	require.NoError(p.t, err)
	require.True(p.t, freed)
	require.ErrorContains(p.t, p.jvm.Try("a", "unlock", p.which()).err, "IllegalMonitorStateException")
	lease := await(p.t, waiter).lease
	require.NotNil(p.t, lease)
	require.NoError(p.t, lease.Context().Err(), "Java's unlock freed what Go holds")

	require.Equal(p.t, "true", p.java("a", "forceUnlock"))
	require.Equal(p.t, "false", p.java("a", "isLocked"))
	require.ErrorIs(p.t, lease.Unlock(p.t.Context()), relock.ErrLost)
}

// TestCountOutlivesRenewal reads a Go holder's hold count in Java after the watchdog has renewed the lease.
func TestCountOutlivesRenewal(t *testing.T) {
	s := singleSite(redistest.Start(t))
	jvm, mutex := startJVM(t, current, s.yaml()), s.locks(t, relock.WithLease(time.Second)).Mutex("kept")
	lease, err := mutex.Lock(t.Context())
	require.NoError(t, err)
	_, err = mutex.Lock(lease.Context())
	require.NoError(t, err)
	until := lease.Until()
	eventually(t, "a renewal", func() bool { return lease.Until().After(until.Add(100 * time.Millisecond)) })
	state, err := mutex.State(t.Context())
	require.NoError(t, err)
	require.Regexp(t, `^\{`+state.Holder+`=2, relock:first=\d+:\d+\}$`, jvm.Do("a", "holders", "kept"))
}

// TestNameMapper has Java's NameMapper and Go's option put the same prefix before the names.
func TestNameMapper(t *testing.T) {
	for _, version := range []string{current, oldest} {
		t.Run(version, func(t *testing.T) {
			server := redistest.Start(t)
			s := singleSite(server)
			p := pair{
				t: t, kind: "fenced", name: "orders", jvm: startJVM(t, version, s.yaml(), "shop:"),
				mutex: s.locks(t, relock.WithNamePrefix("shop:")).Mutex("orders"),
			}
			require.Equal(t, "orders", p.mutex.Name())
			p.java("a", "lock", "-1")
			require.Equal(t, p.thread("a"), p.state().Holder)
			p.java("a", "unlock")
			p.tokensRise()
			keys := strings.Fields(server.Do("KEYS", "*"))
			require.Equal(t, []string{"redisson_lock_token:{shop:orders}"}, keys)
			if version != oldest { // it puts no prefix before the set of the permits held
				permitsOf(t, p.jvm, s.locks(t, relock.WithNamePrefix("shop:")), "calls", 3).shared()
				require.Equal(t, "3", server.Do("GET", "shop:calls"))
			}
		})
	}
}

// TestSpinLock shares a lock with Redisson's spin lock, which asks again and again and tells nobody of its unlock. Go's
// waiter gets it by its poll, a third of its lease later at most.
func TestSpinLock(t *testing.T) {
	s := singleSite(redistest.Start(t))
	p := pair{t: t, kind: "spin", name: "spun", jvm: startJVM(t, current, s.yaml())}
	p.mutex = s.locks(t, relock.WithLease(3*time.Second)).Mutex(p.name)
	lease := p.lock()
	waiter := p.jvm.Go("a", "lock", p.which(), "-1")
	began := time.Now()
	require.NoError(t, lease.Unlock(t.Context()))
	got := await(t, waiter)
	require.NoError(t, got.err)
	require.Less(t, got.ended.Sub(began), promptly)
	next := wait(p.mutex)
	eventually(t, "a Go waiter", func() bool { return p.state().Waiters == 1 })
	unlock := p.jvm.Try("a", "unlock", p.which())
	require.NoError(t, unlock.err)
	taken := await(t, next)
	require.NoError(t, taken.err)
	require.Less(t, taken.at.Sub(unlock.began), 2*time.Second)
	require.NoError(t, taken.lease.Unlock(t.Context()))
}
