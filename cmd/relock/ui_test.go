package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// startUI starts relock ui in a process of its own, and returns where its page is.
func startUI(t *testing.T, flags ...string) (cmd *exec.Cmd, page string) {
	t.Helper()
	cmd = exec.Command(os.Args[0], append([]string{"ui", "-listen", "127.0.0.1:0"}, flags...)...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = new(safeBuffer)
	require.NoError(t, cmd.Start())
	end := time.AfterFunc(patience+20*time.Second, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { end.Stop() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err, cmd.Stderr)
	page, says, _ := strings.Cut(line, " ")
	require.Regexp(t, `^http://(127\.0\.0\.1|0\.0\.0\.0|\[::\]):\d+/$`, page)
	require.Contains(t, says, "shows the locks of ")
	return cmd, page
}

// ask sends a request to a page, under the host's name that is given.
func ask(t *testing.T, method, page, host string, form url.Values) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, page, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Host, r.Close = host, true
	got, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	return got.StatusCode, string(text)
}

func TestUI(t *testing.T) {
	srv := redistest.Start(t)
	srv.Do("HSET", "billing:orders", javaOwner, "1")
	cmd, page := startUI(t, "-redis", srv.Addr(), "-prefix", "billing:")
	status, body := ask(t, http.MethodGet, page, "", nil)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, ">orders</a>")
	require.Contains(t, body, srv.Addr())
	status, _ = ask(t, http.MethodPost, page+"force?name=orders", "", nil)
	require.Equal(t, http.StatusNotFound, status, "it was not asked for")
	requireHosts(t, page, map[string]int{
		"localhost": 200, "localhost:8080": 200, "[::1]:80": 200, "[::1]": 200, "[::ffff:127.0.0.1]": 200, "192.0.2.1": 421,
		"evil.example": 421, "127.0.0.1.evil.example:80": 421,
	})
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
}

// requireHosts requires of a page which names it answers to.
func requireHosts(t *testing.T, page string, answers map[string]int) {
	t.Helper()
	for host, want := range answers {
		status, _ := ask(t, http.MethodGet, page, host, nil)
		require.Equal(t, want, status, host)
	}
}

// A page that other machines reach answers to addresses, which no other site can have lead here, and to the names that it
// was told.
func TestUIOfOthers(t *testing.T) {
	srv := redistest.Start(t)
	cmd, page := startUI(t, "-redis", srv.Addr(), "-force", "-listen", "0.0.0.0:0",
		"-host", "locks.example,OPS.example", "-host", "third.example:8080")
	page = "http://127.0.0.1" + page[strings.LastIndexByte(page, ':'):]
	requireHosts(t, page, map[string]int{
		"localhost:8080": 200, "127.0.0.1": 200, "192.0.2.1:8080": 200, "[2001:db8::1]:8080": 200, "[2001:db8::1]": 200,
		"locks.example": 200, "locks.example.:80": 200, "ops.example:8080": 200, "third.example": 200,
		"evil.example": 421, "192.0.2.1.evil.example": 421, "locks.example.evil.example": 421, "evil-locks.example:8080": 421,
	})
	status, body := ask(t, http.MethodPost, page+"force?name=orders", "evil.example", nil)
	require.Equal(t, http.StatusMisdirectedRequest, status)
	require.Contains(t, body, "-host")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())

	s := serving{listen: "Box.example:8080"}
	require.True(t, s.known("box.example:8080", false))
	require.False(t, s.known("example:8080", false))
	s.listen = ":8080"
	require.False(t, s.known("", false), "no host is none of its names")
	require.False(t, s.known(":8080", false))
}

func TestUIForces(t *testing.T) {
	srv := redistest.Start(t)
	lease := held(t, other(t, srv), "orders")
	cmd, page := startUI(t, "-redis", srv.Addr(), "-force")
	_, question := ask(t, http.MethodGet, page+"force?name=orders", "", nil)
	grant := regexp.MustCompile(`name="grant" value="([^"]+)"`).FindStringSubmatch(question)
	require.NotNil(t, grant, question)
	status, body := ask(t, http.MethodPost, page+"force?name=orders", "", url.Values{"grant": grant[1:]})
	require.Equal(t, http.StatusOK, status, body)
	<-lease.Context().Done()
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait())
	require.Contains(t, cmd.Stderr.(*safeBuffer).String(), "lock=orders")
}

func TestUICannotStart(t *testing.T) {
	srv := redistest.Start(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	got := relockRun("ui", "-redis", srv.Addr(), "-listen", taken.Addr().String())
	require.Equal(t, statusBroken, got.status)
	require.Contains(t, got.err, "-listen: ")
	got = relockRun("ui", "-redis", "127.0.0.1:1")
	require.Equal(t, statusBroken, got.status)
	require.Contains(t, got.err, "is it running")
}
