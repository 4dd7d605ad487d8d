package run

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/relock-go/relock/internal/redistest"
)

// keyPrefix is in the names of all keys of the bench.
const keyPrefix = "relock-bench:"

// Errors of a Redis that cannot be measured.
var (
	ErrUnreachable = errors.New("no Redis there")
	ErrForeign     = errors.New("the Redis holds data that is not the bench's")
)

// server is the Redis that is measured.
type server struct {
	url       string
	addr      string
	title     string // its version
	clustered bool   // a node of a Cluster
	embedded  bool   // miniredis inside this process: for a look only
	admin     rueidis.Client
	close     func()
}

// openServer connects to the Redis at rawURL, or starts a redis-server of its own, or else an embedded miniredis.
func openServer(ctx context.Context, rawURL string) (*server, error) {
	s := &server{url: rawURL, close: func() {}}
	if rawURL == "" {
		if err := s.startOwn(); err != nil {
			return nil, err
		}
	}
	if err := s.connect(ctx); err != nil {
		s.close()
		return nil, err
	}
	if s.clustered {
		s.disconnect()
		return nil, fmt.Errorf("%s is a Cluster node; give -redis a single Redis (the bench starts the Cluster that it "+
			"measures itself)", s.url)
	}
	if rawURL != "" {
		if err := s.checkForeign(ctx); err != nil {
			s.disconnect()
			return nil, err
		}
		stop := s.close
		s.close = func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_ = s.clean(ctx) // the keys that are left have leases; the fencing counters are a few bytes
			stop()
		}
	}
	return s, nil
}

func (s *server) startOwn() error {
	name := os.Getenv(redistest.ServerEnv)
	if name == "" {
		name = "redis-server"
	}
	if _, err := exec.LookPath(name); err != nil {
		m, err := miniredis.Run()
		if err != nil {
			return fmt.Errorf("embedded Redis: %w", err)
		}
		s.url, s.embedded, s.close = "redis://"+m.Addr(), true, m.Close
		return nil
	}
	host := &host{}
	server, err := host.start()
	if err != nil {
		host.close()
		return err
	}
	s.url, s.close = "redis://"+server.Addr(), host.close
	return nil
}

func (s *server) connect(ctx context.Context) error {
	o, err := rueidis.ParseURL(s.url)
	if err != nil {
		return fmt.Errorf("%q is no Redis URL; give redis://host:port or rediss://user:password@host:port: %w", s.url, err)
	}
	u, err := url.Parse(s.url)
	if err != nil {
		return fmt.Errorf("%q: %w", s.url, err)
	}
	s.addr = u.Host
	o.DisableCache, o.ForceSingleClient, o.AlwaysRESP2, o.PipelineMultiplex = true, true, true, -1
	o.Dialer.Timeout = 3 * time.Second
	if s.admin, err = rueidis.NewClient(o); err != nil {
		return fmt.Errorf("%w: %s: %w; start one, or leave -redis out and the bench starts its own",
			ErrUnreachable, s.url, err)
	}
	if s.embedded {
		s.title = "embedded miniredis (for a look only: these figures say nothing about a real Redis)"
		return nil
	}
	info, err := s.info(ctx, "server")
	if err != nil {
		s.disconnect()
		return fmt.Errorf("%w: %s: %w", ErrUnreachable, s.url, err)
	}
	s.title = "Redis " + info["redis_version"]
	if v := info["valkey_version"]; v != "" {
		s.title = "Valkey " + v
	}
	s.clustered = info["redis_mode"] == "cluster"
	return nil
}

// disconnect ends what was started, then the connection: cleaning up still needs it.
func (s *server) disconnect() {
	s.close()
	s.admin.Close()
}

// checkForeign fails with ErrForeign when there is a key that the bench did not make.
func (s *server) checkForeign(ctx context.Context) error {
	return s.scan(ctx, "*", func(keys []string) error {
		for _, k := range keys {
			if !strings.Contains(k, keyPrefix) {
				return fmt.Errorf("%w, for example %q; the bench loads the whole server, so give it one of its own "+
					"(or leave -redis out)", ErrForeign, k)
			}
		}
		return nil
	})
}

// clean removes the bench's keys and no others.
func (s *server) clean(ctx context.Context) error {
	return s.scan(ctx, "*"+keyPrefix+"*", func(keys []string) error {
		if len(keys) == 0 {
			return nil
		}
		return s.admin.Do(ctx, s.admin.B().Del().Key(keys...).Build()).Error()
	})
}

func (s *server) scan(ctx context.Context, match string, do func([]string) error) error {
	for cursor := uint64(0); ; {
		page, err := s.admin.Do(ctx, s.admin.B().Scan().Cursor(cursor).Match(match).Count(1000).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		if err := do(page.Elements); err != nil {
			return err
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}

// info returns a section of INFO.
func (s *server) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.admin.Do(ctx, s.admin.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return nil, err
	}
	return fields(text), nil
}

// fields reads the name:value lines of INFO.
func fields(info string) map[string]string {
	found := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			found[name] = value
		}
	}
	return found
}

// load is what Redis has done so far.
type load struct {
	cpu   time.Duration
	calls int64 // commands it ran, inside scripts too
}

// load reads Redis's own counters. An embedded server has none.
func (s *server) load(ctx context.Context) (load, error) {
	var l load
	if s.embedded {
		return l, nil
	}
	cpu, err := s.info(ctx, "cpu")
	if err != nil {
		return l, err
	}
	for _, field := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, _ := strconv.ParseFloat(cpu[field], 64)
		l.cpu += time.Duration(seconds * float64(time.Second))
	}
	stats, err := s.info(ctx, "commandstats")
	if err != nil {
		return l, err
	}
	for name, value := range stats {
		name = strings.TrimPrefix(name, "cmdstat_")
		if overheadCommand(name) {
			continue
		}
		calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, _ := strconv.ParseInt(calls, 10, 64)
		l.calls += n
	}
	return l, nil
}

// overheadCommand reports whether a command is of the bench or of a connection's begin, not of a lock.
func overheadCommand(name string) bool {
	name, _, _ = strings.Cut(name, "|")
	switch name {
	case "info", "hello", "client", "auth", "select", "ping", "scan", "command", "config", "cluster", "quit":
		return true
	}
	return false
}

// subscribers returns how many connections listen to Pub/Sub.
func (s *server) subscribers(ctx context.Context) (int64, error) {
	if s.embedded {
		return 0, nil
	}
	text, err := s.admin.Do(ctx, s.admin.B().ClientList().TypePubsub().Build()).ToString()
	return int64(strings.Count(text, "\n")), err
}

// roundTrip returns the median time of a PING at url, in microseconds.
func roundTrip(ctx context.Context, rawURL string) (float64, error) {
	o, err := rueidis.ParseURL(rawURL)
	if err != nil {
		return 0, err
	}
	o.DisableCache, o.ForceSingleClient, o.AlwaysRESP2 = true, true, true
	c, err := rueidis.NewClient(o)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	times := make([]float64, 101)
	for i := range times {
		begin := time.Now()
		if err := c.Do(ctx, c.B().Ping().Build()).Error(); err != nil {
			return 0, err
		}
		times[i] = float64(time.Since(begin).Nanoseconds()) / 1000
	}
	return median(times), nil
}
