package interop

import (
	"context"
	"encoding/hex"
	"strconv"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
)

// TestWirePermits replays what Redisson's semaphores sent, beside relock.
func TestWirePermits(t *testing.T) {
	for _, version := range []string{current, oldest} {
		for name, test := range map[string]func(*testing.T, replay){
			"Redisson holds": wireRedissonHasPermits,
			"relock holds":   wireRelockHasPermits,
			"wake-up":        wirePermitsWakeUp,
			"clock ahead":    wirePermitsClockAhead,
		} {
			t.Run(version+" "+name, func(t *testing.T) { test(t, startReplay(t, "permits", version)) })
		}
	}
}

func permitsState(t *testing.T, sem *relock.Semaphore) relock.State {
	t.Helper()
	state, err := sem.State(t.Context())
	require.NoError(t, err)
	return state
}

func wireRedissonHasPermits(t *testing.T, r replay) {
	sem := singleSite(r.server).locks(t).Semaphore("calls", 50)
	require.Equal(t, int64(1), r.play("trySetPermits"))
	r.play("acquire")
	r.play("acquire for ever")
	state := permitsState(t, sem)
	require.Equal(t, []int{2, 2, 0}, []int{state.Count, state.Permits, state.Free})
	require.Equal(t, hex.EncodeToString([]byte("\xff a permit id1  ")), state.Holder, "as Redisson shows an id")
	require.InDelta(t, 60, state.TTL.Seconds(), 5, "until a permit is free, at the latest")
	_, err := sem.TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, relock.ErrNotAcquired)

	p := permits{t: t, name: "calls", sem: sem}
	waiter := p.wait(1)
	p.waiting()
	began := time.Now()
	require.Equal(t, int64(1), r.play("release"))
	p.release(p.granted(waiter, began))
	require.Equal(t, "1", r.server.Do("GET", "calls"))
	require.Equal(t, "1", r.server.Do("ZCARD", "{calls}:timeout"))
}

// wireRelockHasPermits looks at a semaphore that relock made as Redisson does. Redisson 3.19.0 takes the lowest score for the time
// at which to ask again only where it has 13 or 14 digits, and for a permit else.
func wireRelockHasPermits(t *testing.T, r replay) {
	locks := singleSite(r.server).locks(t)
	permit, err := locks.Semaphore("calls", 2).Acquire(t.Context(), 2)
	require.NoError(t, err)
	require.Equal(t, "0", r.server.Do("GET", "calls"))
	require.Equal(t, "zset", r.server.Do("TYPE", "{calls}:timeout"))
	require.Regexp(t, `^(`+locks.ID()+`:\d+):1\n(\d{13})\n(`+locks.ID()+`:\d+):2\n(\d{13})$`,
		r.server.Do("ZRANGE", "{calls}:timeout", "0", "-1", "WITHSCORES"))
	require.Equal(t, int64(0), r.play("trySetPermits"))
	require.Regexp(t, `^:\d{13}$`, r.play("acquire, none free"))
	require.Equal(t, "0", r.play("availablePermits"))
	require.Equal(t, int64(0), r.play("tryRelease of what is not held"))
	require.NoError(t, permit.Unlock(t.Context()))
	require.Equal(t, "2", r.play("availablePermits"))
	left, err := strconv.ParseInt(r.server.Do("PTTL", "calls"), 10, 64)
	require.NoError(t, err)
	require.InDelta(t, 625_000, left, 25_000, "relock told the number: it lasts for the retention behind the lease")
	r.play("acquire")
	require.Equal(t, "1", r.server.Do("GET", "calls"))
}

func wirePermitsWakeUp(t *testing.T, r replay) {
	r.play("trySetPermits") // else relock tells those that wait of the size that it sets
	messages := listen(t, r)
	sem := singleSite(r.server).locks(t).Semaphore("calls", 2)
	permit, err := sem.Acquire(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, permit.Unlock(t.Context()))
	require.Equal(t, "2", await(t, messages), "how many permits are free")
	r.server.Do("PUBLISH", r.steps.channel(t), "the end")
	require.Equal(t, "the end", await(t, messages), "relock told of one release twice")
}

// wirePermitsClockAhead has a JVM reap a permit of relock's before its lease has ended, since its clock is ahead. The holder hears
// of it by its next renewal, and the other permits of its entry are free no later than without that clock.
func wirePermitsClockAhead(t *testing.T, r replay) {
	const lease = 2 * time.Second
	r.ahead = 2 * lease
	sem := singleSite(r.server).locks(t, relock.WithLease(lease)).Semaphore("calls", 3)
	permit, err := sem.Acquire(t.Context(), 3)
	require.NoError(t, err)
	began := time.Now()
	r.play("acquire")
	await(t, permit.Context().Done())
	require.Less(t, time.Since(began), lease/3+time.Second)
	require.ErrorIs(t, context.Cause(permit.Context()), relock.ErrLost)
	eventually(t, "the rest of the entry is free", func() bool { return permitsState(t, sem).Free == 2 })
	require.Less(t, time.Since(began), lease+time.Second)
	require.Equal(t, 3, permitsState(t, sem).Permits)
}
