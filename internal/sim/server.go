package sim

import (
	"crypto/sha1" // what run ids are made of
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/relock-go/relock/internal/driver"
)

// ErrStopped is what connections are told when their server stops.
var ErrStopped = errors.New("the server was stopped")

// ErrKilled is what a connection is told that another one's command ended.
var ErrKilled = errors.New("the connection was killed")

// Options describe a server.
type Options struct {
	Name     string // tells servers and their run ids apart
	Clock    *Clock // nil for one that shows time.Now
	Version  int    // 7, which is 0 too; 6 for 6.2: no sharded channels, no redis.acl_check_cmd; 8, with other texts
	Valkey   bool   // 8 of Valkey
	Password string // of the user default, who needs none where it is ""
}

// Server is a simulated Redis. It is driven by one goroutine at a time.
type Server struct {
	name    string
	version int
	valkey  bool
	clock   *Clock
	at      int64 // microseconds: the time of the command that runs

	running, loading, full bool
	starts                 int
	runID                  string

	keys    keyspace
	saved   keyspace
	users   map[string]*user
	conns   []*Conn
	lastID  int64
	hub     hub
	scripts map[string]*script // those that EVALSHA knows, by hash
	script  run                // of the script that runs
	drawn   int                // fields, by HRANDFIELD, and members, by ZRANDMEMBER

	replication
}

// NewServer starts a server that holds nothing.
func NewServer(o Options) *Server {
	if o.Clock == nil {
		o.Clock = NewClock(time.Now)
	}
	if o.Version == 0 {
		o.Version = 7
	}
	s := &Server{name: o.Name, version: o.Version, valkey: o.Valkey, clock: o.Clock, saved: keyspace{}}
	s.users = map[string]*user{defaultUser: newDefaultUser(o.Password)}
	s.boot(keyspace{})
	return s
}

// boot begins a new process with what is left of the last one's keys.
func (s *Server) boot(keys keyspace) {
	s.starts++
	sum := sha1.Sum([]byte(s.name + " " + strconv.Itoa(s.starts)))
	s.runID = hex.EncodeToString(sum[:])
	s.keys, s.scripts, s.hub = keys, map[string]*script{}, newHub()
	s.running, s.loading = true, false
	s.at = s.clock.Micro()
}

// Name is the server's name.
func (s *Server) Name() string { return s.name }

// Clock is the server's own time.
func (s *Server) Clock() *Clock { return s.clock }

// RunID changes with every start.
func (s *Server) RunID() string { return s.runID }

// Running reports whether the server is up.
func (s *Server) Running() bool { return s.running }

// SetFull lets the server have reached its maxmemory, or no longer: what might need memory is refused.
func (s *Server) SetFull(full bool) { s.full = full }

// SetLoading lets the server load its data, when it refuses nearly everything, or be done with that.
func (s *Server) SetLoading(loading bool) { s.loading = loading }

// FlushScripts makes the server forget the scripts that it knows by their hash.
func (s *Server) FlushScripts() { s.scripts = map[string]*script{} }

// milli is the time of the command that runs, in milliseconds.
func (s *Server) milli() int64 { return s.at / 1000 }

// Conn is a connection to a server.
type Conn struct {
	server  *Server
	id      int64
	name    string
	user    *user // nil until the connection is logged in
	deliver func(channel, message string)
	closed  func(error)
	over    bool
	subs    subscriptions
}

// ID is the connection's CLIENT ID.
func (c *Conn) ID() int64 { return c.id }

// Closed reports whether the connection is over.
func (c *Conn) Closed() bool { return c.over }

// Open connects and logs in, as the user default where user is "". It returns nil while the server is down. Where the
// server refuses the login, the connection stands and every command is answered NOAUTH. deliver is called for every
// message, inside of the Exec that published it; it must not call the server. closed is called once, unless Close
// was; it may be nil, as deliver may.
func (s *Server) Open(user, pass string, deliver func(channel, message string), closed func(error)) *Conn {
	if !s.running {
		return nil
	}
	s.lastID++
	c := &Conn{server: s, id: s.lastID, deliver: deliver, closed: closed}
	if u := s.users[defaultUser]; u.enabled && u.open {
		c.user = u
	}
	s.conns = append(s.conns, c)
	switch {
	case user != "":
		s.Exec(c, []string{"AUTH", user, pass})
	case pass != "":
		s.Exec(c, []string{"AUTH", pass})
	}
	return c
}

// Close ends the connection from the client's side.
func (c *Conn) Close() { c.server.drop(c, nil) }

// drop ends a connection, and tells its client why unless it knows.
func (s *Server) drop(c *Conn, why error) {
	if c.over {
		return
	}
	c.over = true
	s.hub.leave(c)
	if i := slices.Index(s.conns, c); i >= 0 {
		s.conns = slices.Delete(s.conns, i, i+1)
	}
	if why != nil && c.closed != nil {
		c.closed(why)
	}
}

// Exec runs one command. On a connection that is over it does nothing, and answers an error that no server does.
func (s *Server) Exec(c *Conn, args []string) driver.Value {
	return s.answer(c, args).value()
}

func (s *Server) answer(c *Conn, args []string) reply {
	if c.over || c.server != s {
		return failure("CLOSED the connection is over")
	}
	s.at = s.clock.Micro()
	answer := s.process(c, args)
	s.commit()
	return answer
}

// process runs a command that came over a connection, with the checks in a server's order.
func (s *Server) process(c *Conn, args []string) reply {
	cmd, refusal := s.find(args)
	switch {
	case cmd == nil:
		return refusal
	case c.user == nil && cmd.flags&noAuth == 0:
		return failure("NOAUTH Authentication required.")
	}
	if cmd.flags&noAuth == 0 {
		if denied := c.user.refuses(cmd, args); denied != allowed {
			return failure(denied.text(cmd, c.user, s.version))
		}
	}
	switch {
	case s.full && cmd.flags&denyOOM != 0:
		return failure(oomText)
	case s.master != nil && cmd.flags&write != 0:
		return failure(readOnlyText)
	case s.loading && cmd.flags&whileLoading == 0:
		return failure("LOADING Redis is loading the dataset in memory")
	}
	return cmd.run(s, c, args)
}

const (
	oomText      = "OOM command not allowed when used memory > 'maxmemory'."
	readOnlyText = "READONLY You can't write against a read only replica."
)
