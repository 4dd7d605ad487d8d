package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
)

// dialTimeout is how long to wait for a connection to Redis.
const dialTimeout = 2 * time.Second

const (
	smallBuffer = 64 << 10
	smallRing   = 8 // 2^8 commands under way
)

// target is a Redis to connect to. The demo sends it to worker processes.
type target struct {
	URL      string  `json:"url"`
	Secrets  secrets `json:"secrets"`
	Embedded bool    `json:"embedded"` // a miniredis, which cannot do all that the client asks by default
	Alone    bool    `json:"alone"`    // a node of a quorum, which may be down
	Small    bool    `json:"small"`    // small buffers: few commands are sent
}

// options parses the URL. Its errors do not repeat the URL, which may hold a password.
func (t target) options() (rueidis.ClientOption, error) {
	opt, err := rueidis.ParseURL(fullURL(t.URL))
	if err != nil {
		var syntax *url.Error
		if errors.As(err, &syntax) {
			err = syntax.Err
		}
		err = fmt.Errorf("the Redis URL is not understood: %w; it looks like redis://[user:password@]host:port[/db]", err)
		if strings.Contains(t.URL, "@") {
			err = fmt.Errorf("%w, and a password with one of :/?#[]@%% in it belongs into REDISCLI_AUTH", err)
		}
		return opt, err
	}
	if opt.Dialer.Timeout == 0 {
		opt.Dialer.Timeout = dialTimeout
	}
	opt.DisableCache = true // locks cache nothing, and a server without CLIENT TRACKING would be refused
	if t.Small {
		opt.ReadBufferEachConn, opt.WriteBufferEachConn, opt.RingScaleEachConn = smallBuffer, smallBuffer, smallRing
	}
	if t.Embedded {
		opt.ForceSingleClient, opt.AlwaysRESP2 = true, true
	}
	// With ForceSingleClient, rueidis returns a client even if Redis is down, and connects later.
	opt.ForceSingleClient = opt.ForceSingleClient || t.Alone && opt.Sentinel.MasterSet == ""
	return opt, t.Secrets.apply(&opt)
}

// fullURL returns the URL for a short form: host:port, or the path of a socket.
func fullURL(short string) string {
	switch {
	case strings.Contains(short, "://"):
		return short
	case strings.HasPrefix(short, "/"):
		return "unix://" + short
	default:
		return "redis://" + short
	}
}

// open connects. If no Redis answers, it fails within about dialTimeout. With an error it may return a client too, which
// connects later.
func (t target) open() (rueidis.Client, error) {
	opt, err := t.options()
	if err != nil {
		return nil, err
	}
	rdb, err := rueidis.NewClient(opt)
	if opt.TLSConfig != nil && errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", errMute, err) // without TLS, Redis waits for the end of a line
	}
	if err != nil {
		err = fmt.Errorf("no Redis to work with at %s: %w", strings.Join(opt.InitAddress, ", "), err)
	}
	if err != nil && !t.Alone && rdb != nil {
		rdb.Close()
		rdb = nil
	}
	return rdb, err
}

var errMute = errors.New("no TLS handshake in time")

// String returns the Redis's addresses, never a password. It is "Redis" if the URL is invalid.
func (t target) String() string {
	opt, err := t.options()
	if err != nil {
		return "Redis"
	}
	return strings.Join(opt.InitAddress, ", ")
}

// server is the Redis of a demo.
type server struct {
	target
	rdb  rueidis.Client
	mini *miniredis.Miniredis // nil if the Redis was given by its URL
	sent atomic.Int64         // lock commands that mini has received
	busy sync.RWMutex         // locked while mini hangs
}

// openServer connects to the Redis t, or starts one inside this process when t has no URL.
func openServer(t target) (*server, error) {
	s := &server{target: t}
	if t.URL == "" {
		s.mini = miniredis.NewMiniRedis()
		if err := s.mini.Start(); err != nil {
			return nil, fmt.Errorf("the embedded Redis does not start: %w", err)
		}
		s.mini.ClockTTL(true) // else leases would never run out
		s.mini.Server().SetPreHook(s.received)
		s.target = target{URL: "redis://" + s.mini.Addr(), Embedded: true}
	}
	var err error
	if s.rdb, err = s.target.open(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// received is called for each command that mini receives.
func (s *server) received(_ *miniserver.Peer, cmd string, _ ...string) bool {
	if isLockCommand(cmd) {
		s.sent.Add(1)
	}
	s.busy.RLock()
	defer s.busy.RUnlock()
	return false
}

// hang makes mini read commands and not run them, as a stopped process. They run after resume.
func (s *server) hang()   { s.busy.Lock() }
func (s *server) resume() { s.busy.Unlock() }

// restartEmpty starts a closed mini again, without its data.
func (s *server) restartEmpty() error {
	s.mini.FlushAll()
	err := s.mini.Restart()
	if err == nil {
		s.mini.Server().SetPreHook(s.received)
	}
	return err
}

func (s *server) close() {
	if s.rdb != nil {
		s.rdb.Close()
	}
	if s.mini != nil {
		s.mini.Close()
	}
}

// String describes the Redis for the user, without a password.
func (s *server) String() string {
	if s.mini != nil {
		return "embedded miniredis"
	}
	return "Redis at " + s.target.String()
}

// isLockCommand reports whether locks send the command: a script or a subscription, not the GET and SET of the work
// under the lock. Redis counts what scripts call too, but no script calls one of these.
func isLockCommand(name string) bool {
	lock := []string{"eval", "evalsha", "subscribe", "unsubscribe", "ssubscribe", "sunsubscribe"}
	return slices.Contains(lock, strings.ToLower(name))
}

// lockCommands returns how many commands of locks the server has received so far, from all its clients. If others use
// the Redis too, the difference of two calls is too great.
func (s *server) lockCommands(ctx context.Context) (int64, error) {
	if s.mini != nil {
		return s.sent.Load(), nil
	}
	var sum int64
	for _, node := range s.rdb.Nodes() {
		stats, err := node.Do(ctx, node.B().Info().Section("commandstats").Build()).ToString()
		if err != nil {
			return 0, fmt.Errorf("INFO commandstats: %w", err)
		}
		n, err := sumCalls(stats)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// sumCalls adds up the calls of lock commands in an answer of INFO commandstats.
func sumCalls(stats string) (int64, error) {
	var sum int64
	for line := range strings.Lines(stats) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok || !isLockCommand(name) {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("INFO commandstats: %q: %w", line, err)
		}
		sum += n
	}
	return sum, nil
}
