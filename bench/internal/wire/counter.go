// Package wire stands between a lock and its server: it counts the commands that a client sends, and it puts a delay
// before a server.
package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"maps"
	"net"
	"strings"
	"sync"
)

// Counter counts commands by name as they are written to connections. INFO commandstats cannot tell them from those
// that run inside scripts.
type Counter struct {
	mu     sync.Mutex
	counts map[string]int64 // guarded by mu
}

// NewCounter returns a Counter that has counted nothing.
func NewCounter() *Counter { return &Counter{counts: make(map[string]int64)} }

// Add counts one command.
func (c *Counter) Add(name string) {
	c.mu.Lock()
	c.counts[name]++
	c.mu.Unlock()
}

// Counts returns how often each command was sent so far, by lower-case name.
func (c *Counter) Counts() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}

// Dial connects to a Redis, over TLS if secure is not nil, and counts what is sent on the connection.
func (c *Counter) Dial(ctx context.Context, dialer *net.Dialer, addr string, secure *tls.Config) (net.Conn, error) {
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if secure != nil {
		conn = tls.Client(conn, secure)
	}
	return &countedConn{Conn: conn, parser: parser{found: c.Add}}, nil
}

// countedConn is a connection that reads along in what is written. Clients write from one goroutine at a time.
type countedConn struct {
	net.Conn
	parser parser
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.parser.feed(p[:n])
	return n, err
}

// parser follows a stream of RESP commands, *N then N times $length and that many bytes, cut anywhere.
type parser struct {
	found func(name string)
	line  []byte // a header line that is not complete yet
	args  int    // arguments of the command still to come
	skip  int    // bytes of the argument, its line end included, still to come
	first bool   // the argument is the command's name
	name  []byte
}

func (s *parser) feed(p []byte) {
	for len(p) > 0 {
		if s.skip > 0 {
			n := min(s.skip, len(p))
			s.argument(p[:n])
			p = p[n:]
			continue
		}
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			s.line = append(s.line, p...)
			return
		}
		s.line = append(s.line, p[:end]...)
		p = p[end+1:]
		s.header()
		s.line = s.line[:0]
	}
}

func (s *parser) argument(p []byte) {
	if s.first {
		s.name = append(s.name, p...)
	}
	s.skip -= len(p)
	if s.skip > 0 {
		return
	}
	s.args--
	if s.first {
		s.first = false
		s.found(strings.ToLower(strings.TrimSuffix(string(s.name), "\r\n")))
	}
}

func (s *parser) header() {
	if len(s.line) < 2 {
		return
	}
	n := 0
	for _, d := range s.line[1:] {
		if d >= '0' && d <= '9' {
			n = 10*n + int(d-'0')
		}
	}
	switch s.line[0] {
	case '*':
		s.args, s.first, s.name = n, true, s.name[:0]
	case '$':
		s.skip = n + 2
	}
}
