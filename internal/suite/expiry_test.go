package suite_test

import (
	"context"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// stays has the keys without an expiry, and why. Whatever is not here expires, so that names made anew leave nothing.
var stays = []struct{ keys, why string }{
	{`^relock_incarnation$`, "one key of the whole Redis: the restart guard knows by it that the Redis forgot nothing"},
	{`^set$`, "a number that SetPermits set: no client's n says it again"},
	{`:timeout\}?$`, "permits held, each with the end of its lease. What died is reaped by the next use, as by Redisson"},
}

// waitCount is an Observer that counts calls which were not granted by the first answer.
type waitCount struct{ atomic.Int64 }

func (w *waitCount) Observe(e relock.Event) {
	if e.Kind == relock.EventWaiting {
		w.Add(1)
	}
}

// Each key of each kind expires, or stands in the list above: while a lock is held, while others wait for it, and behind that.
func TestKeysExpire(t *testing.T) {
	one, three := redistest.Start(t), []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	seen := make([]int, len(stays))
	keys := 0
	look := func(when string) {
		t.Helper()
		for _, s := range append(three, one) {
			for key := range strings.FieldsSeq(s.Do("KEYS", "*")) {
				if keys++; s.Do("PTTL", key) != "-1" {
					continue
				}
				known := false
				for i, stay := range stays {
					if regexp.MustCompile(stay.keys).MatchString(key) {
						known = true
						seen[i]++
					}
				}
				require.True(t, known, "%s: %s stays for ever", when, key)
			}
		}
	}
	var waits waitCount
	watched := relock.WithObserver(&waits)
	clients := map[string]func() *relock.Client{
		"one Redis": func() *relock.Client { return newClient(t, one.Client(), relock.WithClientName("named"), watched) },
		"lingering": func() *relock.Client { return newClient(t, one.Client(), relock.WithLinger(time.Hour), watched) },
		"guarded": func() *relock.Client {
			return newClient(t, one.Client(), relock.WithRestartGuard(2*time.Second), relock.WithLease(time.Second), watched)
		},
		"a quorum": func() *relock.Client { return newRedlock(t, three, relock.WithClientName("named"), watched) },
	}
	for kind, opened := range clients {
		a, b := opened(), opened()
		// locked holds a lock, has the other client wait for it, and gives both leases back.
		locked := func(name string, mine, theirs func(context.Context) (*relock.Lease, error)) {
			t.Helper()
			l, err := mine(t.Context())
			require.NoError(t, err, "%s: %s", kind, name)
			look(kind + ": held " + name)
			got, before := make(chan *relock.Lease, 1), waits.Load()
			go func() {
				l, err := theirs(t.Context())
				if err != nil {
					t.Error(kind, name, err)
				}
				got <- l
			}()
			require.Eventually(t, func() bool { return waits.Load() > before || len(got) > 0 }, patience, time.Millisecond)
			look(kind + ": waited for " + name)
			require.NoError(t, l.Unlock(t.Context()))
			look(kind + ": passed on " + name)
			require.NoError(t, within(t, got).Unlock(t.Context()))
			look(kind + ": given back " + name)
		}
		locked("m", a.Mutex("m").Lock, b.Mutex("m").Lock)
		fixed := relock.WithFixedLease(2 * time.Second)
		locked("fixed", a.Mutex("fixed", fixed).Lock, b.Mutex("fixed", fixed).Lock)
		l, err := a.Mutex("owned").Lock(relock.WithOwner(t.Context(), "owner"))
		require.NoError(t, err)
		look(kind + ": owned")
		require.NoError(t, l.Unlock(t.Context()))
		all, err := relock.All(a.Mutex("x"), a.Mutex("y")).Lock(t.Context())
		require.NoError(t, err)
		either, err := relock.Any(b.Mutex("x"), b.Mutex("z")).Lock(t.Context())
		require.NoError(t, err)
		look(kind + ": several")
		forced, err := b.Mutex("x").ForceUnlock(t.Context())
		require.NoError(t, err)
		require.True(t, forced)
		look(kind + ": forced")
		require.ErrorIs(t, all.Unlock(t.Context()), relock.ErrLost)
		require.NoError(t, either.Unlock(t.Context()))
		if kind == "a quorum" || kind == "guarded" {
			continue // which have no other kinds
		}
		r := a.RWMutex("rw")
		locked("rw", r.Lock, b.RWMutex("rw").RLock)
		locked("rw", r.RLock, b.RWMutex("rw").Lock)
		l, err = a.Mutex("h").Lock(t.Context())
		require.NoError(t, err)
		handle, err := l.HandOver(t.Context(), time.Minute)
		require.NoError(t, err)
		look(kind + ": handed over")
		l, err = b.Mutex("h").TakeOver(t.Context(), handle)
		require.NoError(t, err)
		look(kind + ": taken over")
		require.NoError(t, l.Unlock(t.Context()))
		require.NoError(t, a.Semaphore("set", 1).SetPermits(t.Context(), 2))
		for _, name := range []string{"told", "set"} {
			locked(name, a.Semaphore(name, 2).Locker(2).Lock, b.Semaphore(name, 2).Locker(1).Lock)
		}
		_, err = a.Semaphore("forced", 2).Acquire(t.Context(), 1)
		require.NoError(t, err)
		_, err = b.Semaphore("forced", 2).ForceUnlock(t.Context())
		require.NoError(t, err)
		o := a.Flight("o", time.Minute)
		_, _, err = o.Do(t.Context(), func(context.Context) ([]byte, error) { look(kind + ": the Flight runs"); return []byte("v"), nil })
		require.NoError(t, err)
		look(kind + ": the Flight has run")
		require.NoError(t, o.Forget(t.Context()))
		look(kind + ": forgotten")
	}
	require.Greater(t, keys, 100)
	for i, stay := range stays {
		require.Positive(t, seen[i], "no key is as %s", stay.keys)
	}
}
