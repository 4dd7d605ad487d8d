package fleet

import (
	"net"
	"sync"
)

// line is a member's way to the store, which can be cut: nothing passes then, and no end is told.
type line struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu    sync.Mutex    // guards what follows
	whole chan struct{} // closed while the line is whole
	conns []net.Conn
}

func newLine(target string) (*line, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &line{listener: listener, target: target, whole: make(chan struct{})}
	close(l.whole)
	l.wg.Go(l.accept)
	return l, nil
}

func (l *line) addr() string { return l.listener.Addr().String() }

func (l *line) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		l.mu.Lock()
		l.conns = append(l.conns, near, far)
		l.mu.Unlock()
		l.wg.Go(func() { l.pass(near, far) })
		l.wg.Go(func() { l.pass(far, near) })
	}
}

// pass passes bytes on while the line is whole.
func (l *line) pass(from, to net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		l.mu.Lock()
		whole := l.whole
		l.mu.Unlock()
		<-whole
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whole = make(chan struct{})
}

// heal closes the connections that were cut, and lets new ones through.
func (l *line) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
	select {
	case <-l.whole:
	default:
		close(l.whole)
	}
}

func (l *line) close() {
	_ = l.listener.Close()
	l.heal()
	l.wg.Wait()
}
