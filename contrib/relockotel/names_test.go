package relockotel

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/relock-go/relock"
)

func TestAnonymous(t *testing.T) {
	for name, want := range map[string]string{
		"":                 "",
		"nightly":          "nightly",
		"order:4711":       "order:*",
		"orders/eu/17":     "orders/eu/*",
		"{user:7}:cart":    "{user:*}:cart",
		"shard-12":         "shard-*",
		"tenant.acme.job9": "tenant.acme.*",
		"job:6ba7b810-9dad-11d1-80b4-00c04fd430c8":      "job:*",
		"job:deadbeef-dead-beef-cafe-deadbeefcafe:step": "job:*:step",
		"deadbeef-dead-beef-cafe-deadbeefcafexy":        "deadbeef-dead-beef-cafe-deadbeefcafexy",
		"kunde:müller":                                  "kunde:müller",
	} {
		require.Equal(t, want, Anonymous(name), name)
	}
}

func TestTooManyNames(t *testing.T) {
	b := newBed(t, nil, WithLockName(strings.ToUpper))
	for i := range MaxNames + 50 {
		l, err := b.locks.Mutex(fmt.Sprint("lock ", i)).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
	}
	require.Equal(t, 1, b.count("relock.wait.duration", "relock.lock.name", "LOCK 7"))
	require.Equal(t, 1, b.count("relock.wait.duration", "relock.lock.name", fmt.Sprint("LOCK ", MaxNames-1)))
	require.Equal(t, 50, b.count("relock.wait.duration", "relock.lock.name", "other"))
}

func TestNoNames(t *testing.T) {
	b := newBed(t, nil, WithLockName(func(string) string { return "" }))
	l, err := b.locks.Mutex("secret").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
	require.Equal(t, 1, b.count("relock.wait.duration"))
	require.Zero(t, b.count("relock.wait.duration", "relock.lock.name", ""))
}

// Series are found by many at one time, whether they are known or not.
func TestNamesFromManyGoroutines(t *testing.T) {
	b := newBed(t, nil)
	o, err := New(WithMeterProvider(b.meters))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				name := fmt.Sprintf("%c:%d", 'a'+(i+g)%7, i%600)
				o.Observe(relock.Event{Kind: relock.EventAcquired, Lock: name, LockKind: "mutex", How: relock.HowFree})
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 16000, b.sum("relock.held"))
	require.Equal(t, 16000, b.count("relock.wait.duration"))
	require.Len(t, o.names.all(), 7)
}
