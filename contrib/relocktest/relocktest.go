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

// New returns a client of locks on a Redis in memory of its own; Beside makes more clients of that
// Redis. The client behaves as relock.New(rdb, opts...) would: the same leases, timeouts and errors. It
// is closed when the test ends. If relock.New would refuse opts, the test fails at once.
//
// Inside a bubble of testing/synctest, call it there, with the bubble's t.
func New(t testing.TB, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	s := &Server{procs: map[*process]bool{}}
	m := newMemory()
	s.open = func(testing.TB) driver.Redis { return m.open() }
	return s.New(t, opts...)
}

// Beside returns a client on the Redis of client, as another process would have it. It is closed when
// the test ends. It has only opts, none of client's options: give it the options that all clients of a
// Redis must share, such as relock.WithNamePrefix and relock.WithRestartGuard.
func Beside(t testing.TB, client *relock.Client, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	return processOf(t, "Beside", client).s.New(t, opts...)
}

// Redis starts a redis-server on a free port of this machine, without persistence. It ends with the
// test. args are further options, as on its command line: "--maxmemory", "10mb".
//
// The environment variable RELOCK_REDIS_SERVER names the program, such as a valkey-server. By default
// it is the redis-server in the PATH. If there is none, the test fails. A bubble of testing/synctest
// cannot use this Redis.
func Redis(t testing.TB, args ...string) *Server {
	t.Helper()
	real := redistest.Start(t, args...)
	return &Server{addr: real.Addr(), procs: map[*process]bool{}, open: func(t testing.TB) driver.Redis {
		// For t, not for the server's test: it must be closed after the client of locks, which t closes.
		return overrueidis.New(real.ClientFor(t))
	}}
}

// Server is a Redis of a test. Its methods may be called from any goroutine.
type Server struct {
	addr string
	open func(testing.TB) driver.Redis // opens a driver for one more process

	mu    sync.Mutex // guards the fields below
	down  bool
	procs map[*process]bool // the processes whose test has not ended
}

// Addr returns the host and port where the server listens, for clients that are not of locks.
func (s *Server) Addr() string { return s.addr }

// New returns a client of locks on the server, as another process would have it. It is closed when the
// test ends. If relock.New would refuse opts, the test fails at once.
func (s *Server) New(t testing.TB, opts ...relock.ClientOption) *relock.Client {
	t.Helper()
	return s.start(t, func(rdb driver.Redis) (any, error) { return opening.New(rdb, opts) }).client
}

// process is a client with its own connection to its Redis.
type process struct {
	s      *Server
	client *relock.Client
	wire   *wire
	dead   bool // it has crashed; guarded by s.mu
}

// processes are the processes of all tests, by the ids of their clients.
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

// set cuts all processes off from the server, or reconnects all that have not crashed.
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

// beside starts another process of the same program, which acts against p.
func (p *process) beside(t testing.TB) *process {
	t.Helper()
	return p.s.start(t, func(rdb driver.Redis) (any, error) { return opening.Beside(p.client, rdb) })
}

// processOf returns the process of a client. Without one the test fails; call names the exported function.
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
