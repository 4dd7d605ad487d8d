package relocktest

import (
	"sync"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/driver/overrueidis"
	"github.com/relock-go/relock/internal/opening"
	"github.com/relock-go/relock/internal/redistest"
)

// New returns a client of locks on a Redis in memory that no other client uses; Beside makes more of
// them. The client behaves as one of relock.New with opts does: the same leases, timeouts and errors.
// It is closed when the test ends. Where relock.New would refuse opts, the test fails at once.
//
// Inside a bubble of testing/synctest, call it there, with the bubble's t.
func New(t testing.TB, opts ...relock.Option) *relock.Client {
	t.Helper()
	s := &Server{procs: map[*process]bool{}}
	m := newMemory()
	s.open = func(testing.TB) driver.Redis { return m.open() }
	return s.New(t, opts...)
}

// Beside returns a client of another process on the Redis of client. It is closed when the test ends.
// It has opts alone, none of client's options: where all clients of a Redis must agree, as in
// relock.WithNamePrefix or relock.WithRestartGuard, give it the same.
func Beside(t testing.TB, client *relock.Client, opts ...relock.Option) *relock.Client {
	t.Helper()
	return processOf(t, "Beside", client).s.New(t, opts...)
}

// Redis starts a process of redis-server on a free port of this machine, without persistence, which
// ends with the test. args are more of its options, as on its command line: "--maxmemory", "10mb".
//
// The environment variable RELOCK_REDIS_SERVER names the program, a valkey-server say; without it, it
// is the redis-server of the PATH. The test fails where there is none. A Redis of its own cannot be
// used inside of a bubble of testing/synctest.
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	real := redistest.Start(t, args...)
	return &Server{addr: real.Addr(), procs: map[*process]bool{}, open: func(t testing.TB) driver.Redis {
		// Of t, not of the server's test, as the client of locks is: it must be closed behind that.
		return overrueidis.New(real.ClientFor(t))
	}}
}

// Server is a Redis of a test. Its methods may be called from any goroutine.
type Server struct {
	addr string
	open func(testing.TB) driver.Redis // the way of one more process to it

	mu    sync.Mutex // guards what follows
	down  bool
	procs map[*process]bool // that live
}

// Addr is the host and port where the server of Redis listens: for other clients than those of locks.
func (s *Server) Addr() string { return s.addr }

// New returns a client of locks on the server, as one process has it. It is closed when the test
// ends. Where relock.New would refuse opts, the test fails at once.
func (s *Server) New(t testing.TB, opts ...relock.Option) *relock.Client {
	t.Helper()
	return s.start(t, func(rdb driver.Redis) (any, error) { return opening.New(rdb, opts) }).client
}

// process is a client and its way to its Redis.
type process struct {
	s      *Server
	client *relock.Client
	wire   *wire
	dead   bool // guarded by s.mu: it crashed
}

// processes are those of all tests, by the ids of their clients.
var (
	processesMu sync.Mutex
	processes   = map[string]*process{}
)

// start starts a process whose client is closed when the test ends.
func (s *Server) start(t testing.TB, open func(driver.Redis) (any, error)) *process {
	t.Helper()
	p := &process{s: s, wire: newWire(s.open(t))}
	client, err := open(p.wire)
	if err != nil {
		t.Fatalf("relocktest: %v", err)
	}
	p.client = client.(*relock.Client)
	s.add(p)
	processesMu.Lock()
	processes[p.client.ID()] = p
	processesMu.Unlock()
	t.Cleanup(func() {
		p.client.Close()
		processesMu.Lock()
		delete(processes, p.client.ID())
		processesMu.Unlock()
		s.remove(p)
	})
	return p
}

func (s *Server) add(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.procs[p] = true
	if s.down {
		p.wire.cut()
	}
}

func (s *Server) remove(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.procs, p)
}

// set cuts all processes off, or ends that.
func (s *Server) set(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	for p := range s.procs {
		switch {
		case down:
			p.wire.cut()
		case !p.dead:
			p.wire.mend()
		}
	}
}

// crash cuts a process off for good.
func (p *process) crash() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.dead = true
	p.wire.cut()
}

// beside starts another process of the same program, for what the test wants others to do.
func (p *process) beside(t testing.TB) *process {
	t.Helper()
	return p.s.start(t, func(rdb driver.Redis) (any, error) { return opening.Beside(p.client, rdb) })
}

// processOf is the process of a client.
func processOf(t testing.TB, call string, client *relock.Client) *process {
	t.Helper()
	return processBy(t, call, client.ID())
}

func processBy(t testing.TB, call, id string) *process {
	t.Helper()
	processesMu.Lock()
	p := processes[id]
	processesMu.Unlock()
	if p == nil {
		t.Fatalf("relocktest: %s: no client of this package, or one whose test has ended", call)
	}
	return p
}
