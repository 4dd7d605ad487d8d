package wire

import (
	"io"
	"net"
	"sync"
	"time"
)

// DelayProxy forwards connections to a server and holds everything the client sends for a while, as a network would.
type DelayProxy struct {
	listener net.Listener
	target   string
	delay    time.Duration
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn // guarded by mu; nil once closed
	over  bool       // guarded by mu
}

// NewDelayProxy listens on a free loopback port and delays by d what goes to target. Replies are not delayed, so d is
// what is added to a round trip.
func NewDelayProxy(target string, d time.Duration) (*DelayProxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &DelayProxy{listener: l, target: target, delay: d}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is where the proxy listens.
func (p *DelayProxy) Addr() string { return p.listener.Addr().String() }

// Close cuts all connections and returns when no goroutine of the proxy is left.
func (p *DelayProxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.over = true
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *DelayProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.keep(client, server) {
			continue
		}
		chunks := make(chan chunk, 4096)
		p.wg.Go(func() { read(client, chunks, p.delay) })
		p.wg.Go(func() { deliver(server, chunks) })
		p.wg.Go(func() {
			_, _ = io.Copy(client, server)
			_ = client.Close()
		})
	}
}

// keep remembers the connections for Close, or closes them when Close was there first.
func (p *DelayProxy) keep(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		for _, c := range conns {
			_ = c.Close()
		}
		return false
	}
	p.conns = append(p.conns, conns...)
	return true
}

type chunk struct {
	data []byte
	due  time.Time
}

func read(from net.Conn, to chan<- chunk, delay time.Duration) {
	defer close(to)
	for {
		buf := make([]byte, 32<<10)
		n, err := from.Read(buf)
		if n > 0 {
			to <- chunk{data: buf[:n], due: time.Now().Add(delay)}
		}
		if err != nil {
			return
		}
	}
}

func deliver(to net.Conn, from <-chan chunk) {
	defer to.Close()
	for c := range from {
		time.Sleep(time.Until(c.due))
		if _, err := to.Write(c.data); err != nil {
			for range from { // the reader must not block
			}
			return
		}
	}
}
