package relocktest

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient is how long these tests wait for what must happen. It is no promise of the module.
const patient = time.Minute

// bed is where a test runs: a server, and whether its time is a bubble's.
type bed struct {
	s    *Server
	fake bool
}

func memoryServer(t testing.TB) *Server {
	return processOf(t, "New", New(t)).s
}

// everywhere runs a test on a Redis in memory, in a bubble and in real time, and on a real one.
func everywhere(t *testing.T, test func(t *testing.T, b bed)) {
	t.Run("bubble", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, bed{memoryServer(t), true}) })
	})
	t.Run("memory", func(t *testing.T) { test(t, bed{memoryServer(t), false}) })
	t.Run("redis", func(t *testing.T) { test(t, bed{Redis(t), false}) })
}

// lease is how short a lease is that runs out while a test waits for it.
func (b bed) lease() relock.ClientOption {
	if b.fake {
		return relock.WithLease(30 * time.Second)
	}
	return relock.WithLease(time.Second)
}

// within takes what comes from ch, which must come.
func within[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patient):
		require.FailNow(t, "nothing came in time")
		panic("unreachable")
	}
}

// linger leaves a lock idle at a client: once it hears messages, an unlocked lock lingers.
func linger(t *testing.T, locks *relock.Client, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		l, err := locks.Mutex(name).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
		state, err := locks.Mutex(name).State(t.Context())
		require.NoError(t, err)
		return state.Held
	}, patient, time.Millisecond)
}
