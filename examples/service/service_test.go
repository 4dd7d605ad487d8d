package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/contrib/relocktest"
	"github.com/stretchr/testify/require"
)

// settle sends the service a request.
func settle(ctx context.Context, s *service, order string) *http.Response {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/", nil)
	r.SetPathValue("id", order)
	w := httptest.NewRecorder()
	s.settle(w, r)
	return w.Result()
}

func retryAfter(t *testing.T, answer *http.Response) int {
	seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
	require.NoError(t, err)
	return seconds
}

const wait = 200 * time.Millisecond

func nothing(context.Context, string) error { return nil }

func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{wait: wait, work: nothing, locks: relocktest.New(t)}
		held := relocktest.Hold(t, s.locks, "order:42") // by another process
		busy := settle(t.Context(), s, "42")
		require.Equal(t, http.StatusConflict, busy.StatusCode)
		require.Equal(t, 1, retryAfter(t, busy))
		require.Equal(t, http.StatusNoContent, settle(t.Context(), s, "43").StatusCode, "each order has its own lock")
		require.NoError(t, held.Unlock(t.Context()))
		require.Equal(t, http.StatusNoContent, settle(t.Context(), s, "42").StatusCode)
	})
}

func TestBusyInThisProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{wait: wait, locks: relocktest.New(t)}
		s.work = func(context.Context, string) error {
			busy := settle(t.Context(), s, "42") // not under the lock: by a context of its own
			require.Equal(t, http.StatusConflict, busy.StatusCode)
			require.Equal(t, 1, retryAfter(t, busy))
			return nil
		}
		require.Equal(t, http.StatusNoContent, settle(t.Context(), s, "42").StatusCode)
	})
}

func TestRedisIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{wait: wait, work: nothing, locks: relocktest.New(t)}
		health := func() (int, string) {
			w := httptest.NewRecorder()
			s.health(w, nil)
			return w.Code, w.Body.String()
		}
		relocktest.RedisDown(t, s.locks)
		require.Equal(t, http.StatusServiceUnavailable, settle(t.Context(), s, "42").StatusCode)
		code, text := health()
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, "ok, but Redis does not answer\n", text)
		relocktest.RedisUp(t, s.locks)
		require.Equal(t, http.StatusNoContent, settle(t.Context(), s, "42").StatusCode)
		code, text = health()
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, "ok\n", text)
	})
}

func TestTheLockIsLostDuringTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{wait: wait, locks: relocktest.New(t)}
		s.work = func(ctx context.Context, _ string) error {
			lease, _ := relock.FromContext(ctx)
			relocktest.Lose(t, lease)
			return ctx.Err()
		}
		require.Equal(t, http.StatusServiceUnavailable, settle(t.Context(), s, "42").StatusCode)
	})
}

func TestTheClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		s := &service{wait: wait, locks: relocktest.New(t)}
		s.work = func(ctx context.Context, _ string) error {
			leave()
			<-ctx.Done() // so the work ends too
			return context.Cause(ctx)
		}
		require.Equal(t, 499, settle(ctx, s, "42").StatusCode)
		s.work = nothing
		require.Equal(t, http.StatusNoContent, settle(t.Context(), s, "42").StatusCode, "the lock is free")
	})
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{wait: wait, locks: relocktest.New(t)}
		s.work = func(context.Context, string) error { return errors.New("no such order") }
		require.Equal(t, http.StatusInternalServerError, settle(t.Context(), s, "42").StatusCode)
		require.Equal(t, http.StatusBadRequest, settle(t.Context(), s, "{}").StatusCode)
		s.locks.Close()
		require.Equal(t, http.StatusServiceUnavailable, settle(t.Context(), s, "42").StatusCode)
		require.Equal(t, http.StatusInternalServerError, status(relock.ErrRefused))
	})
}
