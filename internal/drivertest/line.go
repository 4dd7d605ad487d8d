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

// line passes connections on to one server until told otherwise.
type line struct {
	listener net.Listener
	upstream string
	ends     sync.WaitGroup // the goroutines

	mu     sync.Mutex      // guards what follows
	pass   <-chan struct{} // closed while requests pass
	free   func()          // closes pass
	marker []byte          // the first request that has it loses its answer; nil for none
	resets bool            // the connection is reset then, not closed
	holds  bool            // it does not lose its answer, but waits to pass, as all do that come after it
	met    int             // how many have had it
	late   []byte          // answers are kept back from where they have it; nil for none
	told   chan struct{}   // closed when they may come
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

// target is the server behind the line.
func (l *line) target() redistest.Target {
	return redistest.Target{Addrs: []string{l.listener.Addr().String()}}
}

// loseAnswer cuts the connection of the next request that has the marker, in place of its answer.
// It returns a function that counts how often the marker was sent.
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

// resetAnswer is loseAnswer, but that the connection is reset and not closed.
func (l *line) resetAnswer(marker string) (sent func() int) {
	sent = l.loseAnswer(marker)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resets = true
	return sent
}

// end closes a connection, or resets it: then what was sent over it may be lost on the way.
func end(conn net.Conn, reset bool) {
	if reset {
		_ = conn.(*net.TCPConn).SetLinger(0)
	}
	conn.Close()
}

// holdAnswers keeps answers back from where they have the marker, until the returned function is called.
func (l *line) holdAnswers(marker string) (release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	told := make(chan struct{})
	l.late, l.told, l.tell = []byte(marker), told, sync.OnceFunc(func() { close(told) })
	return l.tell
}

// holdFrom keeps all requests back from one that has the marker, until release is called. came reports whether there was one.
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

// note notes the two ends of a connection, so that they are closed. Once the line is, it closes them.
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

// requests passes on what the client sends. Then it closes the server's end, unless an answer is
// lost: the server is to run all that it was sent.
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

// meets returns what a request waits for, and whether its answer is to be lost.
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

// keptFrom returns from where an answer is kept back, and until when.
func (l *line) keptFrom(answer []byte) (at int, told <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at = bytes.Index(answer, l.late); at >= 0 {
		return at, l.told
	}
	return len(answer), passes
}

// passes is closed.
var passes = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()
