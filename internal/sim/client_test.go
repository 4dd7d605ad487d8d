package sim

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// client speaks RESP2 to a real server.
type client struct {
	conn net.Conn
	r    *bufio.Reader
	told [][2]string // messages that came in between
}

func dial(tb testing.TB, addr string) *client {
	conn, err := net.Dial("tcp", addr)
	require.NoError(tb, err)
	tb.Cleanup(func() { conn.Close() })
	return &client{conn: conn, r: bufio.NewReader(conn)}
}

func (c *client) send(tb testing.TB, args []string) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	require.NoError(tb, c.conn.SetDeadline(time.Now().Add(30*time.Second)))
	_, err := io.WriteString(c.conn, b.String())
	require.NoError(tb, err)
}

func (c *client) do(tb testing.TB, args ...string) reply {
	c.send(tb, args)
	r, err := c.read()
	require.NoError(tb, err, "%q", args)
	return r
}

// confirmed reads the n confirmations of a subscription.
func (c *client) confirmed(tb testing.TB, n int, args []string) reply {
	c.send(tb, args)
	var list []reply
	for len(list) < n {
		r, err := c.read()
		require.NoError(tb, err)
		if r.failed() {
			return r
		}
		if !c.isMessage(r) {
			list = append(list, r)
		}
	}
	return listing(list)
}

// isMessage keeps what is a message.
func (c *client) isMessage(r reply) bool {
	if r.kind != listReply || len(r.list) < 3 || !strings.HasSuffix(r.list[0].s, "message") {
		return false
	}
	c.told = append(c.told, [2]string{r.list[len(r.list)-2].s, r.list[len(r.list)-1].s})
	return true
}

// messages returns what came so far. The server answers a PING behind all of it.
func (c *client) messages(tb testing.TB) [][2]string {
	c.send(tb, []string{"PING", "behind all"})
	for {
		r, err := c.read()
		require.NoError(tb, err)
		if !c.isMessage(r) {
			told := c.told
			c.told = nil
			return told
		}
	}
}

func (c *client) read() (reply, error) {
	line, err := c.r.ReadString('\n')
	if err != nil {
		return reply{}, err
	}
	line = strings.TrimRight(line, "\r\n")
	switch rest := line[1:]; line[0] {
	case '+':
		return status(rest), nil
	case '-':
		return failure(rest), nil
	case ':':
		n, err := strconv.ParseInt(rest, 10, 64)
		return integer(n), err
	default:
		return c.readSized(line[0], rest)
	}
}

func (c *client) readSized(kind byte, rest string) (reply, error) {
	size, err := strconv.Atoi(rest)
	if err != nil || size < 0 {
		return reply{}, err
	}
	if kind == '$' {
		text := make([]byte, size+2)
		_, err = io.ReadFull(c.r, text)
		return bulk(string(text[:size])), err
	}
	list := make([]reply, size)
	for i := range list {
		if list[i], err = c.read(); err != nil {
			return reply{}, err
		}
	}
	return listing(list), nil
}
