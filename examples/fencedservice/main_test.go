package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/examples/internal/show"
	"github.com/relock-go/relock/examples/internal/show/showtest"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	show.Work(example)
	os.Exit(m.Run())
}

func TestLateWrites(t *testing.T) { showtest.Run(t, example) }

func TestTheServiceCompares(t *testing.T) {
	s := &service{orders: make(map[string]order)}
	put := func(path string, headers ...string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, path, strings.NewReader("paid"))
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	const token, match = "Fencing-Token", "If-Match"
	require.Equal(t, http.StatusOK, put("/orders/1", token, "7"))
	require.Equal(t, http.StatusOK, put("/orders/1", token, "7"), "a re-entry, or a write that is repeated")
	require.Equal(t, http.StatusPreconditionFailed, put("/orders/1", token, "6"))
	require.Equal(t, http.StatusOK, put("/orders/2", token, "6"), "each order has its own")
	require.Equal(t, http.StatusBadRequest, put("/orders/1", token, "seven"))
	require.Equal(t, http.StatusOK, put("/orders/1", match, `"2"`))
	require.Equal(t, http.StatusPreconditionFailed, put("/orders/1", match, `"2"`))
	require.Equal(t, http.StatusPreconditionFailed, put("/orders/1", token, "9", match, `"2"`))
	require.Equal(t, http.StatusOK, put("/orders/1", token, "8"), "the write before was refused, and its token is not kept")
	require.ErrorIs(t, errStale, relock.ErrLost)
}
