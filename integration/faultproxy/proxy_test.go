package faultproxy

import (
	"bufio"
	"context"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

const (
	soon   = 5 * time.Second        // for what must happen
	silent = 100 * time.Millisecond // for what must not
)

func start(t *testing.T) (*redistest.Server, *Proxy) {
	s := redistest.Start(t)
	return s, New(t, s.Addr())
}

func TestProxyPassesOn(t *testing.T) {
	_, p := start(t)
	w := dial(t, p)
	w.send("INCR n")
	w.expect(":1")
	p.Heal()
	w.send("INCR n")
	w.expect(":2")
}

func TestCut(t *testing.T) {
	_, p := start(t)
	w := dial(t, p)
	p.Cut()
	w.expectClosed()
	_, err := net.Dial("tcp", p.Addr())
	require.ErrorContains(t, err, "refused")
	p.Cut()

	p.Heal()
	w = dial(t, p)
	w.send("INCR n")
	w.expect(":1")
}

func TestBlackHole(t *testing.T) {
	s, p := start(t)
	w, idle := dial(t, p), dial(t, p)
	p.BlackHole()
	w.send("INCR n")
	w.expectNothing()
	late := dial(t, p)
	late.send("INCR n")
	late.expectNothing()
	require.Empty(t, s.Do("GET", "n"), "nothing reaches the server")

	p.Heal()
	w.expectClosed()
	late.expectClosed()
	idle.send("INCR n")
	idle.expect(":1")
}

func TestLoseReplies(t *testing.T) {
	s, p := start(t)
	w := dial(t, p)
	p.LoseReplies()
	w.send("INCR n")
	w.expectNothing()
	require.Equal(t, "1", s.Do("GET", "n"), "the command ran")
	p.Heal()
	w.expectClosed()
}

func TestLoseRepliesToClient(t *testing.T) {
	s, p := start(t)
	option := s.Option()
	option.InitAddress = []string{p.Addr()}
	option.PipelineMultiplex = -1 // one connection, so that the handshake is behind it
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	defer client.Close()
	p.LoseReplies()
	ctx, cancel := context.WithTimeout(t.Context(), silent)
	defer cancel()
	require.ErrorIs(t, client.Do(ctx, client.B().Incr().Key("n").Build()).Error(), context.DeadlineExceeded)
	require.Equal(t, "1", s.Do("GET", "n"), "the command ran")

	p.Heal()
	require.Eventually(t, func() bool {
		return client.Do(t.Context(), client.B().Incr().Key("n").Build()).Error() == nil
	}, soon, 10*time.Millisecond)
	require.Equal(t, "2", s.Do("GET", "n"))
}

func TestStall(t *testing.T) {
	s, p := start(t)
	w, gone := dial(t, p), dial(t, p)
	p.Stall()
	w.send("INCR n")
	w.expectNothing()
	gone.send("INCR m")
	require.NoError(t, gone.conn.Close())
	require.Empty(t, s.Do("GET", "n"))

	p.Heal()
	w.expect(":1")
	require.Eventually(t, func() bool { return s.Do("GET", "m") == "1" }, soon, 10*time.Millisecond,
		"the command of a client that is gone runs late")
}

func TestLatency(t *testing.T) {
	_, p := start(t)
	w := dial(t, p)
	const each = 250 * time.Millisecond // a busy machine takes its time too
	p.Latency(each)
	begin := time.Now()
	for range 10 {
		w.send("INCR n")
	}
	for _, reply := range []string{":1", ":2", ":3", ":4", ":5", ":6", ":7", ":8", ":9", ":10"} {
		w.expect(reply)
	}
	require.GreaterOrEqual(t, time.Since(begin), 2*each)
	require.Less(t, time.Since(begin), 10*each, "delays of one connection overlap")

	p.Heal()
	begin = time.Now()
	w.send("INCR n")
	w.expect(":11")
	require.Less(t, time.Since(begin), each)
}

func TestDropConnections(t *testing.T) {
	s, p := start(t)
	w := dial(t, p)
	w.send("INCR n")
	w.expect(":1")
	p.DropConnections()
	fresh := dial(t, p)
	w.expectClosed()
	fresh.send("INCR n")
	fresh.expect(":2")

	p.LoseReplies()
	p.DropConnections()
	fresh.expectClosed()
	w = dial(t, p)
	w.send("INCR n")
	w.expectNothing()
	require.Equal(t, "3", s.Do("GET", "n"), "the other faults stay")
}

func TestUpstreamDown(t *testing.T) {
	s, p := start(t)
	w := dial(t, p)
	s.Kill()
	w.expectClosed()
	s.Restart()
	w = dial(t, p)
	w.send("INCR n")
	w.expect(":1")
}

// Faults that change under load neither block the proxy nor leave goroutines.
func TestFaultsUnderLoad(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("load", func(t *testing.T) {
		_, p := start(t)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		var load sync.WaitGroup
		for range 16 {
			load.Go(func() {
				for ctx.Err() == nil {
					chatter(ctx, p.Addr(), time.Duration(rand.N(20))*time.Millisecond)
				}
			})
		}
		fault := []func(){
			p.Cut, p.BlackHole, p.LoseReplies, p.Stall, p.DropConnections,
			func() { p.Latency(rand.N(time.Millisecond)) },
		}
		for ctx.Err() == nil {
			fault[rand.N(len(fault))]()
			time.Sleep(rand.N(2 * time.Millisecond))
			p.Heal()
			time.Sleep(rand.N(2 * time.Millisecond))
		}
		load.Wait()
		dial(t, p).send("PING")
	})
	for end := time.Now().Add(stuck + soon); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "goroutines are left")
	}
}

// chatter sends commands on one connection for a while and reads what comes.
func chatter(ctx context.Context, addr string, life time.Duration) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(life))
	go func() { _, _ = bufio.NewReader(conn).WriteTo(discard{}) }()
	for ctx.Err() == nil {
		if _, err := conn.Write([]byte("PING\r\nPING\r\n")); err != nil {
			return
		}
		time.Sleep(50 * time.Microsecond)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// wire is a connection through the proxy, without a client's own retries.
type wire struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, p *Proxy) *wire {
	t.Helper()
	conn, err := net.DialTimeout("tcp", p.Addr(), soon)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &wire{t: t, conn: conn, in: bufio.NewReader(conn)}
}

func (w *wire) send(command string) {
	w.t.Helper()
	_, err := w.conn.Write([]byte(command + "\r\n"))
	require.NoError(w.t, err)
}

func (w *wire) expect(reply string) {
	w.t.Helper()
	require.NoError(w.t, w.conn.SetReadDeadline(time.Now().Add(soon)))
	line, err := w.in.ReadString('\n')
	require.NoError(w.t, err)
	require.Equal(w.t, reply+"\r\n", line)
}

func (w *wire) expectNothing() {
	w.t.Helper()
	require.NoError(w.t, w.conn.SetReadDeadline(time.Now().Add(silent)))
	_, err := w.in.ReadByte()
	require.ErrorIs(w.t, err, os.ErrDeadlineExceeded)
}

func (w *wire) expectClosed() {
	w.t.Helper()
	require.NoError(w.t, w.conn.SetReadDeadline(time.Now().Add(soon)))
	_, err := w.in.ReadByte()
	require.Error(w.t, err)
	require.NotErrorIs(w.t, err, os.ErrDeadlineExceeded)
}
