package redistest

import (
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// The timeouts are short enough for a test to wait for and long enough for a
// busy machine; the buffers are small since tests open many connections.
const (
	dialTimeout = 2 * time.Second
	connTimeout = 3 * time.Second
	bufferSize  = 64 << 10
)

// Option returns the options of a client that talks to this server alone, even
// when it is a node of a cluster: no client-side caching, 2 seconds to connect,
// 3 seconds without an answer until a connection counts as broken.
func (s *Server) Option() rueidis.ClientOption { return s.Target().Rueidis() }

// Client returns a client with [Server.Option] that is closed at the cleanup.
func (s *Server) Client() rueidis.Client {
	s.tb.Helper()
	return s.ClientFor(s.tb)
}

// ClientFor is [Server.Client], closed at the cleanup of tb: a subtest's, say.
func (s *Server) ClientFor(tb TB) rueidis.Client {
	tb.Helper()
	return openClient(tb, s.Option(), s)
}

// AddUser creates an ACL user and returns the options of a client that logs in
// as that user. rules are those of ACL SETUSER, for example "~orders:*",
// "&*", "+@all", "-flushall".
func (s *Server) AddUser(name, password string, rules ...string) rueidis.ClientOption {
	s.tb.Helper()
	s.Do(slices.Concat([]string{"ACL", "SETUSER", name, "reset", "resetchannels", "on", ">" + password}, rules)...)
	return s.Target().As(name, password).Rueidis()
}

// openClient returns a client that tb's cleanup closes.
func openClient(tb TB, option rueidis.ClientOption, servers ...*Server) rueidis.Client {
	tb.Helper()
	client, err := rueidis.NewClient(option)
	if err != nil {
		tb.Fatalf("redistest: client of %v: %v", option.InitAddress, err)
		return nil
	}
	tb.Cleanup(func() {
		// Close waits for the replies of a paused server.
		for _, s := range servers {
			s.unstick()
		}
		client.Close()
	})
	return client
}
