package relock

import (
	"testing"
	"time"
	"context"
	"strings"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func (s *Semaphore) holds(t *testing.T, k int) *Permit {
	t.Helper()
	p, err := s.TryAcquire(t.Context(), k)
	require.NoError(t, err)
	return p
}

func (s *Semaphore) waits(t *testing.T, srv *redistest.Server, k, line int) <-chan *Permit {
	t.Helper()
	got := make(chan *Permit, 1)
	go func() {
		p, err := s.Acquire(t.Context(), k)
		if err != nil {
			t.Error(err)
		}
		got <- p
	}()
	require.Eventually(t, func() bool { return srv.Do("ZCARD", s.names.Queue) == strings.TrimSpace(string(rune('0'+line))) }, patience, time.Millisecond)
	return got
}

func released(t *testing.T, permits ...*Permit) {
	t.Helper()
	for _, p := range permits {
		require.NoError(t, p.Release(context.Background()))
	}
}

func TestSemaphore(t *testing.T) {
	s := redistest.Start(t)
	a, b := newClient(t, s.Client()), newClient(t, s.Client())
	one, two := a.Semaphore("k", 2).holds(t, 1), b.Semaphore("k", 2).holds(t, 1)
	_, err := a.Semaphore("k", 2).TryAcquire(t.Context(), 1)
	require.ErrorIs(t, err, ErrNotAcquired)
	third := b.Semaphore("k", 2).waits(t, s, 1, 1)
	st, err := a.Semaphore("k", 2).State(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, st.Permits)
	require.Equal(t, 0, st.Free)
	require.Equal(t, 1, st.Waiters)
	released(t, one)
	p := within(t, third)
	released(t, two, p)
	require.Equal(t, "2", s.Do("GET", "k"))
	require.Equal(t, "0", s.Do("EXISTS", "{k}:timeout", "relock_permits:{k}"))
}
