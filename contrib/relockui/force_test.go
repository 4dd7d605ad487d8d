package relockui

import (
	"context"
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// asked is the form of the question.
var asked = regexp.MustCompile(`(?s)action="(force\?name=[^"]*)" method="post">\s*<input type="hidden" name="grant" value="([^"]*)">`)

// agreed is where the answer to the question about a lock goes, and the answer.
func agreed(t *testing.T, s *site, name string) (path string, form url.Values) {
	t.Helper()
	found := asked.FindStringSubmatch(s.get(forcePath(name)))
	require.NotNil(t, found)
	return "/" + html.UnescapeString(found[1]), url.Values{"grant": {found[2]}}
}

func forcePath(name string) string { return "/force?name=" + url.QueryEscape(name) }

// Without WithForce there is nothing that frees a lock.
func TestForceIsOff(t *testing.T) {
	srv := redistest.Start(t)
	lease := held(t, newClient(t, srv.Client()), "orders")
	path, form := agreed(t, open(t, Handler(newClient(t, srv.Client()), WithForce())), "orders")
	s := open(t, Handler(newClient(t, srv.Client())))
	require.NotContains(t, s.get("/lock?name=orders"), "force")
	require.Equal(t, http.StatusNotFound, s.do(http.MethodGet, "/force?name=orders", nil).status)
	require.Equal(t, http.StatusNotFound, s.do(http.MethodPost, path, form).status)
	require.NoError(t, lease.Context().Err())
}

func TestForce(t *testing.T) {
	srv := redistest.Start(t)
	first, second := newClient(t, srv.Client()), newClient(t, srv.Client())
	lease := held(t, first, "orders")
	granted := waiting(t, second, "orders")
	var log strings.Builder
	s := open(t, Handler(newClient(t, srv.Client()), WithForce(), WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
	require.Contains(t, s.get("/lock?name=orders"), `<a class="danger" href="force?name=orders">`)
	question := s.get("/force?name=orders")
	require.Contains(t, question, "<q>orders</q>")
	require.Regexp(t, first.ID()+`:1\d{16}</strong> for `, question)
	require.Contains(t, question, "1 waits for it")

	path, form := agreed(t, s, "orders")
	refused := func(status int, method, path string, form url.Values, fields ...string) {
		t.Helper()
		require.Equal(t, status, s.do(method, path, form, fields...).status)
		require.NoError(t, lease.Context().Err())
	}
	refused(http.StatusOK, http.MethodGet, path+"&"+form.Encode(), nil) // asks again
	refused(http.StatusMethodNotAllowed, http.MethodPut, path, form)
	refused(http.StatusForbidden, http.MethodPost, path, form, "Sec-Fetch-Site", "cross-site")
	refused(http.StatusForbidden, http.MethodPost, path, form, "Sec-Fetch-Site", "same-site")
	refused(http.StatusForbidden, http.MethodPost, path, form, "Origin", "https://elsewhere.example")
	refused(http.StatusForbidden, http.MethodPost, path, form, "Origin", "null")
	refused(http.StatusBadRequest, http.MethodPost, path, nil)
	refused(http.StatusBadRequest, http.MethodPost, path+"&"+form.Encode(), nil)
	refused(http.StatusBadRequest, http.MethodPost, "/force", form)
	refused(http.StatusBadRequest, http.MethodPost, path, url.Values{"grant": {strings.Repeat("x", maxForm)}})
	refused(http.StatusConflict, http.MethodPost, path, url.Values{"grant": {"another"}})
	refused(http.StatusConflict, http.MethodPost, forcePath("bills"), form)
	refused(http.StatusNotFound, http.MethodPost, forcePath("a{}"), form)

	got := s.do(http.MethodPost, path, form, "Sec-Fetch-Site", "same-origin", "Origin", s.base)
	require.Regexp(t, "orders was taken from "+first.ID()+`:1\d{16}\.`, got.body)
	<-lease.Context().Done()
	next := <-granted
	require.Regexp(t, "lock=orders holder="+first.ID()+`:1\d{16} freed=true`, log.String())
	require.Equal(t, http.StatusConflict, s.do(http.MethodPost, path, form).status, "it was agreed to for another holder")
	require.NoError(t, next.Context().Err())
	s.shows("/lock?name=orders", second.ID())
}

// A browser sends back what no form could hold.
func TestForceOfAnyName(t *testing.T) {
	srv := redistest.Start(t)
	s := open(t, Handler(newClient(t, srv.Client()), WithForce()))
	for _, name := range []string{"new\nline", "\xff\xfe", `"><b>&name=x`, " ", "a+b%20c"} {
		srv.Do("HSET", name, "\xffsome\none", "1", "relock:first", "1800000000000000:1:\xffsome\none")
		path, form := agreed(t, s, name)
		got := s.do(http.MethodPost, path, form)
		require.Equal(t, http.StatusOK, got.status, got.body)
		require.Equal(t, "0", srv.Do("EXISTS", name))
	}
}
