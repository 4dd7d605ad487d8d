package drivertest

import (
	"bytes"
	"context"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// tear dials a client's connections and fails a write on one of them. A real reset would not do: by
// chance the client's reader or its writer hears of it first, and in different words.
type tear struct {
	dialer net.Dialer

	mu     sync.Mutex // guards what follows
	marker []byte     // the first write that has it fails; nil for none
	part   bool       // that write stops before the marker; else it is made whole
	met    int        // how often the marker was written
}

// dial connects to a server.
func (x *tear) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := x.dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &torn{Conn: conn, tear: x}, nil
}

// at makes the next write that has the marker fail: after the text before the marker was written
// (part), or all of it. It returns a function that counts how often the marker was sent.
func (x *tear) at(marker string, part bool) (sent func() int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.marker, x.part, x.met = []byte(marker), part, 0
	return func() int {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.met
	}
}

// meets returns how much of a write is written, and whether it fails then.
func (x *tear) meets(data []byte) (n int, fails bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.marker == nil {
		return len(data), false
	}
	before := x.met
	x.met += bytes.Count(data, x.marker)
	if before > 0 || x.met == 0 {
		return len(data), false
	}
	if x.part {
		return bytes.Index(data, x.marker), true
	}
	return len(data), true
}

// torn is a connection that tear made. After its write has failed no answer is read, even if all
// was written.
type torn struct {
	net.Conn
	tear *tear
	deaf atomic.Bool
}

func (c *torn) Write(data []byte) (int, error) {
	n, fails := c.tear.meets(data)
	if fails {
		c.deaf.Store(true)
	}
	n, err := c.Conn.Write(data[:n])
	if err == nil && fails {
		err = &net.OpError{
			Op: "write", Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError("write", syscall.ECONNRESET),
		}
	}
	return n, err
}

func (c *torn) Read(data []byte) (int, error) {
	for {
		n, err := c.Conn.Read(data)
		if err != nil || !c.deaf.Load() {
			return n, err
		}
	}
}
