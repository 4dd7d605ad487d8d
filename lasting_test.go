package relock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// What is told of a lock is what was seen of its holds.
func TestHowLongHoldsLast(t *testing.T) {
	const far = time.Hour // a lease
	holds := func(l *lasting, of ...time.Duration) {
		for _, d := range of {
			l.lasted(d)
		}
	}
	// meets refuses for the sake of an owner, each second for so long.
	meets := func(l *lasting, owner string, times int) {
		for range times {
			l.refused(owner, far)
			time.Sleep(time.Second)
		}
	}
	for name, c := range map[string]struct {
		saw  func(l *lasting)
		want time.Duration
	}{
		"nothing":                        {func(*lasting) {}, time.Second},
		"own holds":                      {func(l *lasting) { holds(l, 3*time.Second, 3*time.Second) }, 3 * time.Second},
		"longer ones of late":            {func(l *lasting) { holds(l, time.Second, 5*time.Second) }, 2 * time.Second},
		"holds of no time":               {func(l *lasting) { holds(l, time.Nanosecond, time.Microsecond) }, time.Millisecond},
		"another's hold, from its start": {func(l *lasting) { meets(l, "a:1", 4); l.free() }, 3500 * time.Millisecond},
		"one behind the other":           {func(l *lasting) { meets(l, "a:1", 4); l.refused("b:1", far) }, 3500 * time.Millisecond},
		"another's, met once":            {func(l *lasting) { meets(l, "a:1", 1); l.free() }, time.Second},
		"another's, long ago":            {func(l *lasting) { meets(l, "a:1", 4); time.Sleep(time.Minute); l.free() }, time.Second},
		"a holder that stays":            {func(l *lasting) { holds(l, time.Millisecond); meets(l, "x:1", 20) }, 20 * time.Second},
		"one that stays, unknown lease":  {func(l *lasting) { meets(l, "x:1", 100) }, 100 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l lasting
				c.saw(&l)
				require.Equal(t, c.want, l.refused("x:1", far))
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		var l lasting
		meets(&l, "x:1", 100)
		require.Equal(t, 5*time.Second, l.refused("x:1", 5*time.Second), "a holder that is gone keeps the lock no longer")
		require.Equal(t, defaultLease, l.refused("x:1", 0))
		require.Equal(t, defaultLease, l.refused("x:1", -1))
		require.Equal(t, time.Second, l.refused("", 0), "nothing is known of a goroutine of this process")
	})
}

// Every refusal says when to try again, by all ways: replicas that have both had the lock say about the same, be it another
// process that is in the way or a goroutine of their own.
func TestRefusalsSayWhenToTryAgain(t *testing.T) {
	t.Parallel()
	bothTopologies(t, func(t *testing.T, servers []*redistest.Server, a *Client) {
		b, fresh := another(t, servers), another(t, servers)
		kinds := []string{"mutex"}
		if len(servers) == 1 {
			kinds = append(kinds, "writer", "reader")
		}
		type kind struct {
			lock, try func(context.Context) (*Lease, error)
		}
		of := func(c *Client, name string) kind {
			rw, brief := c.RWMutex(name), c.RWMutex(name, WithWait(500*time.Millisecond))
			m, briefly := c.Mutex(name), c.Mutex(name, WithWait(500*time.Millisecond))
			switch name {
			case "mutex":
				return kind{m.Lock, func(ctx context.Context) (*Lease, error) { return briefly.Lock(ctx) }}
			case "writer":
				return kind{rw.Lock, brief.RLock}
			default:
				return kind{rw.RLock, brief.Lock}
			}
		}
		tries := func(c *Client, name string) func(context.Context) (*Lease, error) {
			switch name {
			case "mutex":
				return c.Mutex(name).TryLock
			case "writer":
				return c.RWMutex(name).TryRLock
			default:
				return c.RWMutex(name).TryLock
			}
		}
		for _, name := range kinds {
			t.Run(name, func(t *testing.T) {
				var longest time.Duration
				for range 2 {
					for _, c := range []*Client{a, b} {
						began := time.Now() // the client's reckoning begins with the grant, before Lock returns
						l, err := of(c, name).lock(t.Context())
						require.NoError(t, err)
						time.Sleep(60 * time.Millisecond)
						require.NoError(t, l.Unlock(t.Context()))
						longest = max(longest, time.Since(began))
					}
				}
				began := time.Now()
				l, err := of(a, name).lock(t.Context())
				require.NoError(t, err)
				onAll(t, servers, name)
				for who, call := range map[string]func(context.Context) (*Lease, error){
					"the holder's own TryLock": tries(a, name), "its Lock": of(a, name).try,
					"another's TryLock": tries(b, name), "its Lock, too": of(b, name).try,
				} {
					_, err := call(t.Context())
					var held *HeldError
					require.ErrorAs(t, err, &held, who)
					require.GreaterOrEqual(t, held.RetryAfter, 60*time.Millisecond, who)
					require.LessOrEqual(t, held.RetryAfter, max(longest, time.Since(began)), who)
				}
				_, err = tries(fresh, name)(t.Context())
				var held *HeldError
				require.ErrorAs(t, err, &held)
				require.Equal(t, time.Second, held.RetryAfter, "it has seen nothing")
				require.NoError(t, l.Unlock(t.Context()))
			})
		}
	})
}

// What is kept of holds ends with what is kept of their names. It takes no memory of its own, and a lock that is held again
// and again changes nothing.
func TestHowLongHoldsLastIsKeptWithTheName(t *testing.T) {
	c := newClient(t, ownRedis(t))
	k := c.core
	write, read := c.RWMutex("rw").write.known, c.RWMutex("rw").read.known
	require.Same(t, write.lasts, read.lasts, "a reader waits for writers, too")
	for i := range 3 * maxKnown {
		c.Mutex(fmt.Sprint("k", i))
	}
	again := c.RWMutex("rw")
	require.Same(t, again.write.lasts, again.read.lasts)
	n := 0
	for i := range k.known {
		if k.known[i].Load() != nil {
			n++
		}
	}
	require.LessOrEqual(t, n, maxKnown)
	var l lasting
	require.Zero(t, testing.AllocsPerRun(1000, func() { l.lasted(time.Microsecond); l.free() }))
}

// Many goroutines may learn and ask at once.
func TestHowLongHoldsLastUnderConcurrency(t *testing.T) {
	var l lasting
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 1000 {
				l.lasted(time.Duration(n) * time.Millisecond)
				l.refused(fmt.Sprint("x:", (i+n)%3), time.Second)
				l.free()
			}
		})
	}
	all.Wait()
	require.Positive(t, l.refused("", 0))
}
