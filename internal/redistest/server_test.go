package redistest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

func TestServerAnswersEveryKindOfReply(t *testing.T) {
	s := Start(t)
	require.Equal(t, "OK", s.Do("SET", "greeting", "line\r\nline"))
	require.Equal(t, "line\r\nline", s.Do("GET", "greeting"))
	require.Empty(t, s.Do("GET", "nothing"))
	require.Equal(t, "3", s.Do("RPUSH", "list", "a", "", "c"))
	require.Equal(t, "a\n\nc", s.Do("LRANGE", "list", "0", "-1"))

	reply, err := s.Try("EVAL", "return {1, 'two', false, {3}}", "0")
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), "two", nil, []any{int64(3)}}, reply)

	_, err = s.Try("INCR", "greeting")
	var refused ServerError
	require.ErrorAs(t, err, &refused)
	require.Contains(t, refused.Error(), "not an integer")
}

func TestServerPassesOptions(t *testing.T) {
	s := Start(t, "--maxmemory", "64mb", "--appendonly", "yes")
	require.Equal(t, "maxmemory\n67108864", s.Do("CONFIG", "GET", "maxmemory"))
	require.Equal(t, "appendonly\nyes", s.Do("CONFIG", "GET", "appendonly"), "overrides the default")
	s.Do("DEBUG", "SLEEP", "0") // allowed on every version
}

func TestServerComesBackWithWhatItSaved(t *testing.T) {
	s := Start(t)
	addr, pid := s.Addr(), s.PID()
	s.Do("SET", "k", "v")
	s.Restart()
	require.Empty(t, s.Do("GET", "k"), "nothing was saved")
	require.Equal(t, addr, s.Addr())
	require.NotEqual(t, pid, s.PID())

	s.Do("SET", "k", "v")
	s.Do("SAVE")
	s.Kill()
	require.Zero(t, s.PID())
	_, err := s.Try("PING")
	require.Error(t, err)
	s.Restart()
	require.Equal(t, "v", s.Do("GET", "k"))
	s.RestartEmpty()
	require.Empty(t, s.Do("GET", "k"))
}

func TestServerPaused(t *testing.T) {
	s := Start(t)
	conn, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	defer conn.Close()
	s.Pause()
	require.NoError(t, writeCommand(conn, []string{"INCR", "n"}))
	_, err = s.probe("PING")
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "the connection is accepted, nothing is answered")

	s.Resume()
	reply, err := readReply(bufio.NewReader(conn))
	require.NoError(t, err)
	require.Equal(t, int64(1), reply, "the command sent to the paused server runs late")
}

func TestClientOfPausedServerCloses(t *testing.T) {
	var s *Server
	t.Run("paused at the end", func(t *testing.T) {
		s = Start(t)
		client := s.Client()
		s.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, client.Do(ctx, client.B().Ping().Build()).Error(), context.DeadlineExceeded)
	})
	require.Zero(t, s.PID())
}

func TestServerKilledWhilePaused(t *testing.T) {
	s := Start(t)
	s.Pause()
	s.Kill()
	s.Restart()
	require.Equal(t, "PONG", s.Do("PING"))
}

func TestCommandCounts(t *testing.T) {
	s := Start(t)
	require.Empty(t, s.CommandCounts(), "the helpers' own commands do not count")
	s.Do("SET", "k", "v")
	s.Do("EVAL", "return redis.call('GET', KEYS[1])", "1", "k")
	s.Do("INFO")
	want := map[string]int64{"set": 1, "eval": 1, "get": 1, "info": 1}
	require.Equal(t, want, s.CommandCounts())
	require.Equal(t, want, s.CommandCounts(), "looking does not count")

	s.ResetCommandCounts()
	require.Empty(t, s.CommandCounts())
	s.Do("GET", "k")
	require.Equal(t, map[string]int64{"get": 1}, s.CommandCounts())
}

func TestAddUser(t *testing.T) {
	s := Start(t)
	client, err := rueidis.NewClient(s.AddUser("narrow", "secret", "~mine:*", "+@all"))
	require.NoError(t, err)
	defer client.Close()
	ctx := t.Context()
	require.NoError(t, client.Do(ctx, client.B().Set().Key("mine:k").Value("v").Build()).Error())
	require.ErrorContains(t, client.Do(ctx, client.B().Get().Key("other").Build()).Error(), "NOPERM")
}

func TestTLSServer(t *testing.T) {
	s, config := StartTLS(t)
	require.Equal(t, "PONG", s.Do("PING"))
	client := s.Client()
	require.NoError(t, client.Do(t.Context(), client.B().Ping().Build()).Error())

	config.Certificates = nil
	option := s.Option()
	option.TLSConfig = config
	_, err := rueidis.NewClient(option)
	require.Error(t, err, "a client without a certificate is turned away")
}

func TestServerUnderAPassword(t *testing.T) {
	s := Start(t, "--requirepass", "secret")
	option := s.Option()
	option.Password = "secret"
	client := openClient(t, option, s)
	require.NoError(t, client.Do(t.Context(), client.B().Ping().Build()).Error())
}

func TestFreePortsAreDistinct(t *testing.T) {
	seen := make(map[int]bool)
	for range 50 {
		port := FreePort(t)
		require.False(t, seen[port])
		seen[port] = true
		l, err := net.Listen("tcp", address(port))
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
}

func TestStartWithoutBinaryFails(t *testing.T) {
	t.Setenv(ServerEnv, "no-such-redis-server")
	require.Contains(t, fatal(t, func(tb TB) { Start(tb) }), "apt-get install redis-server")
}

func TestStartShowsWhyTheServerEnded(t *testing.T) {
	require.Contains(t, fatal(t, func(tb TB) { Start(tb, "--no-such-option", "1") }), "no-such-option")
}

func TestParseVersion(t *testing.T) {
	for line, want := range map[string]binary{
		"Redis server v=6.2.14 sha=40305114:0 malloc=libc bits=64":   {path: "p", major: 6, minor: 2},
		"Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0": {path: "p", major: 7},
		"Valkey server v=9.1.2 sha=00000000:1 malloc=libc bits=64":   {path: "p", major: 9, minor: 1, valkey: true},
	} {
		got, err := parseVersion("p", line)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := parseVersion("p", "something else")
	require.Error(t, err)
}

// failing is a TB whose Fatalf ends the goroutine and keeps the message.
type failing struct {
	*testing.T
	message string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// fatal returns the message with which run calls Fatalf.
func fatal(t *testing.T, run func(TB)) string {
	t.Helper()
	tb := &failing{T: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(tb)
	}()
	<-done
	require.NotEmpty(t, tb.message, "did not fail")
	return tb.message
}

func TestReadReplyRejectsNonsense(t *testing.T) {
	for _, reply := range []string{"", "\r\n", "?\r\n", ":x\r\n", "$x\r\n", "$5\r\nab", "*2\r\n:1\r\n"} {
		_, err := readReply(bufio.NewReader(strings.NewReader(reply)))
		require.Error(t, err, "%q", reply)
		require.False(t, errors.As(err, new(ServerError)))
	}
	for reply, want := range map[string]any{"$-1\r\n": nil, "*-1\r\n": nil, "*0\r\n": []any{}, "$0\r\n\r\n": ""} {
		got, err := readReply(bufio.NewReader(strings.NewReader(reply)))
		require.NoError(t, err, "%q", strings.TrimSpace(reply))
		require.Equal(t, want, got)
	}
}
