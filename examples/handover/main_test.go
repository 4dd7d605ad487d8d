package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/embedded"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	work()
	os.Exit(m.Run())
}

func TestPlay(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]embedded.Redis{
		"embedded": {},
		"redis":    {URL: "redis://" + redistest.Start(t).Addr()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setting{Redis: at, Lease: 3 * time.Second, Pickup: 5 * time.Second, Takes: 2 * time.Second, Logf: t.Logf}
			require.NoError(t, play(t.Context(), s))
		})
	}
}

// bed is an API and a worker in one process.
func bed(t *testing.T, addr string) (*api, *worker) {
	rdb, locks, err := connect(embedded.Redis{URL: "redis://" + addr}, "bed", 10*time.Second)
	require.NoError(t, err)
	t.Cleanup(func() { locks.Close(); rdb.Close() })
	w := &worker{locks: locks, rdb: rdb, write: func(context.Context, string) error { return nil }}
	return &api{locks: locks, rdb: rdb, pickup: time.Minute}, w
}

func ask(t *testing.T, a *api) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/reports/42", nil)
	r.SetPathValue("report", "42")
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

// A queue that fails leaves no lock behind, and no job that is done though its request was refused.
func TestAQueueThatFails(t *testing.T) {
	t.Parallel()
	a, w := bed(t, redistest.Start(t).Addr())
	var sent job
	for name, send := range map[string]func(context.Context, string) error{
		"before the job is in": func(context.Context, string) error { return errors.New("no connection") },
		"behind it": func(_ context.Context, text string) error {
			return errors.Join(json.Unmarshal([]byte(text), &sent), errors.New("no answer"))
		},
	} {
		a.send = send
		require.Equal(t, http.StatusServiceUnavailable, ask(t, a).Code, name)
		st, err := a.locks.Mutex(lockName("42")).State(t.Context())
		require.NoError(t, err)
		require.False(t, st.Held, name)
	}
	require.ErrorIs(t, w.do(t.Context(), sent), relock.ErrLost)

	a.send = func(ctx context.Context, text string) error {
		var j job
		return errors.Join(json.Unmarshal([]byte(text), &j), w.do(ctx, j), errors.New("no answer"))
	}
	require.Equal(t, http.StatusAccepted, ask(t, a).Code, "a worker has done the job")
}

// A job that failed frees the lock, and the next request is accepted.
func TestAJobThatFails(t *testing.T) {
	t.Parallel()
	a, w := bed(t, redistest.Start(t).Addr())
	var j job
	a.send = func(_ context.Context, text string) error { return json.Unmarshal([]byte(text), &j) }
	fails := errors.New("no paper")
	w.write = func(context.Context, string) error { return fails }
	require.Equal(t, http.StatusAccepted, ask(t, a).Code)
	refused := ask(t, a)
	require.Equal(t, http.StatusConflict, refused.Code)
	require.NotEmpty(t, refused.Header().Get("Retry-After"))
	require.Equal(t, fails, w.do(t.Context(), j))
	require.Equal(t, http.StatusAccepted, ask(t, a).Code)
}

func TestARedisThatIsDown(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, _ := bed(t, s.Addr())
	s.Kill()
	require.Equal(t, http.StatusServiceUnavailable, ask(t, a).Code)
}
