package relockui

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	status := m.Run()
	if err := leaked(); status == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// leaked looks until no goroutine is left, or for patience. rueidis's Cluster client refreshes its nodes a second later
// and closes those it no longer needs after five, whether it is closed or not.
func leaked() (err error) {
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if err = goleak.Find(); err == nil {
			break
		}
	}
	return err
}

// patience is how long tests wait for what must happen. It is no promise of the page.
const patience = 15 * time.Second

// javaOwner is an owner field as Redisson writes it.
const javaOwner = "7b8f0a34-5c1d-4f0e-9a65-0d2c3b4a5e6f:42"

// site is a page on a server of its own.
type site struct {
	t    *testing.T
	base string
}

// open serves a page until the test ends.
func open(t *testing.T, page http.Handler) *site {
	t.Helper()
	srv := httptest.NewServer(page)
	t.Cleanup(func() {
		srv.Close()
		srv.Client().CloseIdleConnections()
		http.DefaultClient.CloseIdleConnections()
	})
	return &site{t: t, base: srv.URL}
}

// answer is what a page answered.
type answer struct {
	status int
	body   string
	header http.Header
}

// do sends a request, with header fields and their values one behind the other. Any goroutine may.
func (s *site) do(method, path string, form url.Values, fields ...string) (got answer) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.base+path, strings.NewReader(form.Encode()))
	if !assert.NoError(s.t, err) {
		return got
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	said, err := http.DefaultTransport.RoundTrip(r)
	if !assert.NoError(s.t, err) {
		return got
	}
	defer said.Body.Close()
	body, err := io.ReadAll(said.Body)
	assert.NoError(s.t, err)
	return answer{said.StatusCode, string(body), said.Header}
}

// get returns a page that must be there.
func (s *site) get(path string) string {
	s.t.Helper()
	got := s.do(http.MethodGet, path, nil)
	require.Equal(s.t, http.StatusOK, got.status, got.body)
	return got.body
}

// shows waits until a page has a text. Any goroutine may.
func (s *site) shows(path, text string) {
	s.t.Helper()
	last := ""
	for began := time.Now(); time.Since(began) < patience; time.Sleep(10 * time.Millisecond) {
		if last = s.do(http.MethodGet, path, nil).body; strings.Contains(last, text) {
			return
		}
	}
	assert.Fail(s.t, "it is not there", "%q in %s", text, last)
}

func lockPath(name string) string { return "/lock?name=" + url.QueryEscape(name) }

// newClient returns a client of locks that is closed before rdb is.
func newClient(t *testing.T, rdb rueidis.Client) *relock.Client {
	t.Helper()
	locks, err := relock.New(rdb)
	require.NoError(t, err)
	t.Cleanup(locks.Close)
	return locks
}

// held takes a lock.
func held(t *testing.T, locks *relock.Client, name string) *relock.Lease {
	t.Helper()
	lease, err := locks.Mutex(name).Lock(t.Context())
	require.NoError(t, err)
	return lease
}

// waiting lets a client wait for a lock, and returns when it stands in the queue. The channel has the lease, if it comes.
func waiting(t *testing.T, locks *relock.Client, name string) <-chan *relock.Lease {
	t.Helper()
	granted := make(chan *relock.Lease, 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		if lease, err := locks.Mutex(name).Lock(ctx); err == nil {
			granted <- lease
		}
	}()
	require.Eventually(t, func() bool {
		st, err := locks.Mutex(name).State(t.Context())
		return err == nil && st.Waiters > 0
	}, patience, time.Millisecond)
	return granted
}

// seed makes locks that nobody holds in truth, and waiters of the first of them.
func seed(srv *redistest.Server, locks, waiters string) {
	srv.Do("EVAL", `local now = redis.call('TIME')[1] * 1000000
	for i = 1, tonumber(ARGV[1]) do
		redis.call('HSET', 'order:' .. i, ARGV[3], 1, 'relock:first', string.format('%.0f:256', now - i * 1000000))
		redis.call('PEXPIRE', 'order:' .. i, 600000)
		redis.call('SET', 'redisson_lock_token:{order:' .. i .. '}', 1)
	end
	for i = 1, tonumber(ARGV[2]) do
		local lock = 1 + i % 50
		redis.call('ZADD', 'relock_queue:{order:' .. lock .. '}', now - i * 1000,
			string.format('30000:256:%08x-5c1d-4f0e-9a65-0d2c3b4a5e6f:%d:', i, i))
	end`, "0", locks, waiters, javaOwner)
}
