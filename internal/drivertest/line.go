package drivertest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// line is a proxy of one server. It passes everything on until told otherwise.
type line struct {
	listener net.Listener
	upstream string
	ends     sync.WaitGroup // the goroutines

	mu     sync.Mutex      // guards what follows
	pass   <-chan struct{} // closed while requests pass
	free   func()          // closes pass
	marker []byte          // the first request that has it loses its answer; nil for none
	resets bool            // the connection is then reset, not closed
	holds  bool            // instead, that request and all later ones wait for free
	met    int             // how often the marker was sent
	late   []byte          // an answer is kept back from this text on
	told   chan struct{}   // closed when such answers may pass
	tell   func()          // closes told
	conns  map[net.Conn]struct{}
	shut   bool
}

// newLine returns a line to a server.
func newLine(t testing.TB, s *redistest.Server) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &line{listener: listener, upstream: s.Addr(), conns: make(map[net.Conn]struct{}), pass: passes, free: func() {}}
	l.holdAnswers("")()
	l.ends.Go(l.accept)
	t.Cleanup(l.close)
	return l
}

// target returns the server behind the line.
func (l *line) target() redistest.Target {
	return redistest.Target{Addrs: []string{l.listener.Addr().String()}}
}

// loseAnswer makes the next request that has the marker lose its answer: the connection is closed
// instead. It returns a function that counts how often the marker was sent.
func (l *line) loseAnswer(marker string) (sent func() int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marker, l.met, l.resets, l.holds = []byte(marker), 0, false, false
	return func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.met
	}
}

// resetAnswer is loseAnswer, except that the connection is reset.
func (l *line) resetAnswer(marker string) (sent func() int) {
	sent = l.loseAnswer(marker)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resets = true
	return sent
}

// end closes a connection. With reset, data that was sent over it may be lost on the way.
func end(conn net.Conn, reset bool) {
	if reset {
		_ = conn.(*net.TCPConn).SetLinger(0)
	}
	conn.Close()
}

// holdAnswers keeps answers back from the marker on, until the returned function is called.
func (l *line) holdAnswers(marker string) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := make(chan struct{})
	l.late, l.told, l.tell = []byte(marker), told, sync.OnceFunc(func() { close(told) })
	return l.tell
}

// holdFrom keeps back the next request that has the marker, and all later ones, until release is
// called. came reports whether that request has come.
func (l *line) holdFrom(marker string) (came func() bool, release func()) {
	met := l.loseAnswer(marker)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds = true
	return func() bool { return met() > 0 }, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.marker = nil
		l.free()
	}
}

func (l *line) close() {
	l.listener.Close()
	l.mu.Lock()
	l.shut = true
	l.free()
	l.tell()
	for conn := range l.conns {
		conn.Close()
	}
	l.mu.Unlock()
	l.ends.Wait()
}

func (l *line) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.upstream)
		if err != nil {
			near.Close()
			continue
		}
		if !l.note(near, far) {
			return
		}
		deaf := make(chan struct{}) // closed when an answer is to be lost
		l.ends.Go(func() { l.requests(near, far, deaf) })
		l.ends.Go(func() { l.answers(near, far, deaf); near.Close() })
	}
}

// note keeps the two ends of a connection, so that close can close them. Once the line is closed,
// note closes them and returns false.
func (l *line) note(near, far net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		near.Close()
		far.Close()
		return false
	}
	l.conns[near], l.conns[far] = struct{}{}, struct{}{}
	return true
}

// requests passes on what the client sends. When the client is gone, it closes the connection to
// the server, unless an answer is lost: then the server is to run all that it was sent.
func (l *line) requests(near, far net.Conn, deaf chan struct{}) {
	data := make([]byte, 64<<10)
	lost := false
	defer func() {
		if !lost {
			far.Close()
		}
	}()
	for {
		n, err := near.Read(data)
		if err != nil {
			return
		}
		pass, losing := l.meets(data[:n])
		<-pass
		if losing && !lost {
			lost = true
			close(deaf)
		}
		if _, err := far.Write(data[:n]); err != nil {
			return
		}
	}
}

// meets looks for the marker in a request. It returns a channel that the request waits for, and
// whether its answer is to be lost.
func (l *line) meets(request []byte) (pass <-chan struct{}, losing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.marker == nil {
		return l.pass, false
	}
	before := l.met
	l.met += bytes.Count(request, l.marker)
	first := before == 0 && l.met > 0
	if first && l.holds {
		held := make(chan struct{})
		l.pass, l.free = held, sync.OnceFunc(func() { close(held) })
	}
	return l.pass, first && !l.holds
}

// answers passes on what the server sends, until an answer is to be lost. Then it ends the client's
// connection, and reads on.
func (l *line) answers(near, far net.Conn, deaf chan struct{}) {
	data := make([]byte, 64<<10)
	for {
		n, err := far.Read(data)
		if err != nil {
			return
		}
		select {
		case <-deaf:
			l.mu.Lock()
			end(near, l.resets)
			l.mu.Unlock()
			_, _ = io.Copy(io.Discard, far)
			return
		default:
		}
		at, told := l.keptFrom(data[:n])
		if _, err := near.Write(data[:at]); err != nil {
			return
		}
		<-told
		if _, err := near.Write(data[at:n]); err != nil {
			return
		}
	}
}

// keptFrom returns how much of an answer may pass at once, and a channel that the rest waits for.
func (l *line) keptFrom(answer []byte) (at int, told <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at = bytes.Index(answer, l.late); at >= 0 {
		return at, l.told
	}
	return len(answer), passes
}

// passes is a closed channel: what waits for it passes at once.
var passes = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()
