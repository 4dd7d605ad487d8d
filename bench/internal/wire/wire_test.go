package wire

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParserCountsHoweverTheStreamIsCut(t *testing.T) {
	stream := "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$7\r\n*1\r\n$4\r\r\n*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nget\r\n$0\r\n\r\n"
	for size := 1; size <= len(stream); size++ {
		c := NewCounter()
		p := parser{found: c.Add}
		for rest := []byte(stream); len(rest) > 0; {
			n := min(size, len(rest))
			p.feed(rest[:n])
			rest = rest[n:]
		}
		require.Equal(t, map[string]int64{"set": 1, "ping": 1, "get": 1}, c.Counts(), "pieces of %d bytes", size)
	}
}

func TestDialCounts(t *testing.T) {
	echo := listen(t)
	c := NewCounter()
	conn, err := c.Dial(context.Background(), &net.Dialer{}, echo, nil)
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("*1\r\n$4\r\nPING\r\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"ping": 1}, c.Counts())
}

func TestDelayProxyDelaysAndKeepsOrder(t *testing.T) {
	const delay = 20 * time.Millisecond
	p, err := NewDelayProxy(listen(t), delay)
	require.NoError(t, err)
	defer p.Close()
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer conn.Close()
	begin := time.Now()
	for _, part := range []string{"ab", "cd", "ef"} {
		_, err := conn.Write([]byte(part))
		require.NoError(t, err)
	}
	got := make([]byte, 6)
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, "abcdef", string(got))
	require.GreaterOrEqual(t, time.Since(begin), delay)
}

func TestDelayProxyCloseEndsConnections(t *testing.T) {
	p, err := NewDelayProxy(listen(t), time.Millisecond)
	require.NoError(t, err)
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, 1))
	require.NoError(t, err)
	p.Close()
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
}

// listen starts a server that sends back what it gets.
func listen(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return l.Addr().String()
}
