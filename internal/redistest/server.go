package redistest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	startLimit = 15 * time.Second
	logTail    = 2000 // bytes of the server's log shown when it does not start
)

// Server is one server process on a loopback port. The port and the data
// directory stay the same through Kill and Restart. Its methods may be called
// from several goroutines; see the package comment for Fatalf.
type Server struct {
	tb     TB
	bin    binary
	port   int
	dir    string // holds the log and, below data, what the server writes
	args   []string
	secure *tls.Config // of a client; nil for plain TCP

	mu     sync.Mutex
	proc   *process         // guarded by mu; nil while killed
	probes map[string]int64 // guarded by mu; the helpers' own commands since the last reset
}

// Start runs a server without persistence and returns when it answers. args are
// further options as on its command line, for example "--appendonly", "yes".
// Fails tb when there is no binary or when the server does not come up within
// 15 seconds.
func Start(tb TB, args ...string) *Server {
	tb.Helper()
	s := newServer(tb)
	s.args = slices.Concat([]string{"--port", strconv.Itoa(s.port)}, s.bin.flags(), args)
	s.start()
	return s
}

// newServer reserves what a server needs. The caller sets args, then starts it.
func newServer(tb TB) *Server {
	tb.Helper()
	bin, err := findBinary()
	if err != nil {
		tb.Fatalf("redistest: no server to test with: %v", err)
	}
	s := &Server{tb: tb, bin: bin, dir: tb.TempDir(), port: FreePort(tb), probes: make(map[string]int64)}
	if err := os.Mkdir(s.dataDir(), 0o700); err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	tb.Cleanup(s.Kill)
	return s
}

// start is spawn and awaitReady.
func (s *Server) start() {
	s.tb.Helper()
	s.spawn()
	s.awaitReady()
}

// spawn starts the process. A server that runs already is left alone.
func (s *Server) spawn() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		return
	}
	args := slices.Concat(s.args, []string{"--bind", loopback, "--dir", s.dataDir()})
	proc, err := startProcess(s.bin.path, args, s.logPath())
	if err != nil {
		s.tb.Fatalf("redistest: start %s: %v", s.bin.path, err)
		return
	}
	s.proc = proc
	s.probes = make(map[string]int64)
}

// awaitReady returns when the process that was just spawned answers.
func (s *Server) awaitReady() {
	s.tb.Helper()
	until(s.tb, startLimit, "start of "+s.Addr(), func() error {
		proc := s.running()
		if proc == nil || proc.hasExited() {
			s.tb.Fatalf("redistest: %s %s ended at once:\n%s", s.bin.path, strings.Join(s.args, " "), s.logEnd())
		}
		return s.answersAs(proc)
	})
	// Some versions send themselves commands at the start. A sentinel or a server
	// under a password refuses this; nobody counts their commands.
	_ = s.resetCounts()
}

// answersAs returns nil when the server that listens has loaded its data and is
// the process proc, not a stranger on its port.
func (s *Server) answersAs(proc *process) error {
	_, err := s.probe("PING") // refused while loading, which INFO is not
	var refused ServerError
	if errors.As(err, &refused) && strings.HasPrefix(string(refused), "NOAUTH") {
		return nil // up, but args demand a password that the helpers do not have
	}
	if err != nil {
		return err
	}
	reply, err := s.probe("INFO", "server")
	if err != nil {
		return err
	}
	if pid := infoField(text(reply), "process_id"); pid != strconv.Itoa(proc.pid()) {
		return fmt.Errorf("process %s answers instead of %d", pid, proc.pid())
	}
	return nil
}

// Addr returns the server's host:port.
func (s *Server) Addr() string { return address(s.port) }

// Port returns the port the server listens on.
func (s *Server) Port() int { return s.port }

// running returns the process, nil while the server is killed.
func (s *Server) running() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// PID returns the process id, 0 while the server is killed.
func (s *Server) PID() int {
	if proc := s.running(); proc != nil {
		return proc.pid()
	}
	return 0
}

// Version returns the version of the program, and whether it is Valkey.
func (s *Server) Version() (major, minor int, valkey bool) {
	return s.bin.major, s.bin.minor, s.bin.valkey
}

// Pause stops the process as a long stall would: connections stay open, the kernel still accepts
// new ones, nothing is answered. It returns once the process has stopped (on Linux; elsewhere it
// may answer for another moment).
func (s *Server) Pause() {
	s.tb.Helper()
	s.signal("pause", (*process).pause)
}

// Resume lets a paused server go on with all that has arrived meanwhile.
func (s *Server) Resume() {
	s.tb.Helper()
	s.signal("resume", (*process).resume)
}

func (s *Server) signal(what string, send func(*process) error) {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		s.tb.Fatalf("redistest: %s %s: the server is killed", what, s.Addr())
		return
	}
	if err := send(s.proc); err != nil {
		s.tb.Fatalf("redistest: %s %s: %v", what, s.Addr(), err)
	}
}

// unstick resumes the server in case it is paused, so that waits for its replies end.
func (s *Server) unstick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		_ = s.proc.resume()
	}
}

// Kill ends the server as a crash would, paused or not, and returns when the
// process is gone. Does nothing while it is killed.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.kill()
		s.proc = nil
	}
}

// Restart kills the server if it runs and starts it on the same port with what
// its data directory holds: nothing, unless the test gave a persistence option
// or sent SAVE.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	s.start()
}

// RestartEmpty is Restart after all data is deleted, as after the loss of a
// disk. A cluster node still knows its cluster.
func (s *Server) RestartEmpty() {
	s.tb.Helper()
	s.Kill()
	entries, err := os.ReadDir(s.dataDir())
	for _, entry := range entries {
		if entry.Name() != nodesFile {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.dataDir(), entry.Name())))
		}
	}
	if err != nil {
		s.tb.Fatalf("redistest: empty %s: %v", s.Addr(), err)
	}
	s.start()
}

func (s *Server) dataDir() string { return filepath.Join(s.dir, "data") }
func (s *Server) logPath() string { return filepath.Join(s.dir, "server.log") }

// logEnd returns the last lines of the server's log.
func (s *Server) logEnd() string {
	log, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-logTail):])
}
