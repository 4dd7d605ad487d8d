package suite_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// withPassword runs a test over one Redis and over a quorum of three. open makes a client over connections of the user app that
// are logged in; password gives the user another password than secret, and ends the connections.
func withPassword(t *testing.T, test func(t *testing.T, servers []*redistest.Server, open func(...relock.ClientOption) *relock.Client, password func(string))) {
	for topology, n := range map[string]int{"one": 1, "quorum": 3} {
		t.Run(topology, func(t *testing.T) {
			servers, nodes := masters(t, n), []rueidis.Client(nil)
			for _, s := range servers {
				nodes = append(nodes, shared(t, s.AddUser("app", "secret", "~*", "&*", "+@all"))())
			}
			open := func(opts ...relock.ClientOption) *relock.Client {
				if n == 1 {
					return newClient(t, nodes[0], opts...)
				}
				c, err := relock.NewRedlock(nodes, opts...)
				require.NoError(t, err)
				t.Cleanup(c.Close)
				return c
			}
			test(t, servers, open, func(is string) {
				for _, s := range servers {
					s.Do("ACL", "SETUSER", "app", "resetpass", ">"+is)
					s.Do("CLIENT", "KILL", "USER", "app")
				}
			})
		})
	}
}

// A client whose password a Redis has never taken is told so at once: to wait would be in vain.
func TestAFirstLoginThatIsRefused(t *testing.T) {
	withPassword(t, func(t *testing.T, _ []*redistest.Server, open func(...relock.ClientOption) *relock.Client, password func(string)) {
		password("other")
		c := open()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for _, lock := range []func(context.Context) (*relock.Lease, error){c.Mutex("k").Lock, c.Mutex("k").TryLock} {
			var err error
			require.Eventually(t, func() bool {
				_, err = lock(ctx)
				return err != nil && strings.Contains(err.Error(), "WRONGPASS")
			}, patience, time.Millisecond, "not io.EOF, of a lost connection")
			require.NoError(t, ctx.Err())
			require.ErrorIs(t, err, relock.ErrRefused)
			require.ErrorContains(t, err, "check the client's user name and password")
		}
		password("secret")
		// Nodes of a quorum that a slow machine lets in one after another are quarantined.
		require.Eventually(t, func() bool { return c.Mutex("k").Do(t.Context(), nothing) == nil }, time.Minute, time.Millisecond)
	})
}

// That Redis refuses a password which it has taken before is in the log, though callers wait it out.
func TestRefusedPasswordsAreLogged(t *testing.T) {
	t.Parallel()
	withPassword(t, func(t *testing.T, servers []*redistest.Server, open func(...relock.ClientOption) *relock.Client, password func(string)) {
		log, p := logAt(slog.LevelInfo)
		c := open(relock.WithLogger(log), relock.WithLease(6*time.Second))
		l, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		onAll(t, servers, "k")
		password("other")
		require.Eventually(t, func() bool {
			_, err := c.Mutex("free").TryLock(t.Context())
			require.ErrorIs(t, err, relock.ErrUnavailable)
			return len(p.with("Redis refuses a renewal")) > 0 && len(p.with("Redis refuses a lock")) > 0
		}, patience, time.Millisecond)
		require.Contains(t, p.with("Redis refuses a renewal")[0], "WRONGPASS")
		require.Contains(t, p.with("Redis refuses a lock")[0], "WRONGPASS")
		password("secret")
		require.NoError(t, c.Mutex("free").Do(t.Context(), nothing))
		require.NoError(t, l.Unlock(t.Context()), "it was held all the time")
	})
}

// The steps of docs/operations.md give a Redis a new password, and no lock, holder or waiter notices.
func TestAPasswordIsRotated(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	_, steps, found := strings.Cut(string(page), "\n## A new password\n")
	require.True(t, found)
	_, steps, _ = strings.Cut(steps, "```text\n")
	steps, _, _ = strings.Cut(steps, "```")

	s := redistest.Start(t)
	var password atomic.Value
	password.Store("old")
	client := func() *relock.Client {
		opt := s.AddUser("locks", "old", "~*", "&*", "+@all")
		opt.Username, opt.Password = "", ""
		opt.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			return rueidis.AuthCredentials{Username: "locks", Password: password.Load().(string)}, nil
		}
		return newClient(t, shared(t, opt)(), relock.WithLease(3*time.Second))
	}
	c, d := client(), client()
	held, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	granted := waitFor(t, d, "k")
	queued(t, s, "k", 1)
	for step := range strings.Lines(steps) {
		command, _, _ := strings.Cut(step, "#")
		if words := strings.Fields(command); len(words) > 0 {
			s.Do(words...)
		} else {
			password.Store("new") // of each client
		}
		for _, client := range []*relock.Client{c, d} {
			require.NoError(t, client.Mutex("beside").Do(t.Context(), nothing))
		}
	}
	require.NoError(t, held.Context().Err())
	until := held.Until()
	require.Eventually(t, func() bool { return held.Until().After(until) }, patience, time.Millisecond, "it is renewed")
	require.Empty(t, granted)
	require.NoError(t, held.Unlock(t.Context()))
	require.NoError(t, within(t, granted).Unlock(t.Context()))
	_, err = s.Try("AUTH", "locks", "old")
	require.ErrorContains(t, err, "WRONGPASS")
	_, err = s.Try("AUTH", "locks", "new")
	require.NoError(t, err)
}

// A Redis goes on with certificates of another authority, and its clients are given theirs later. Until then they cannot connect:
// who waits for a lock waits on, who holds one keeps it, and a try says why Redis cannot be had.
func TestCertificatesChange(t *testing.T) {
	s, first := redistest.StartTLS(t)
	var has atomic.Pointer[tls.Config]
	has.Store(first)
	client := func() *relock.Client {
		opt := s.Option()
		opt.TLSConfig = &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, // VerifyConnection does, by the authority of the moment
			VerifyConnection: func(cs tls.ConnectionState) error {
				_, err := cs.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: has.Load().RootCAs})
				return err
			},
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &has.Load().Certificates[0], nil
			},
		}
		return newClient(t, shared(t, opt)())
	}
	c, d := client(), client()
	held, err := c.Mutex("k").Lock(t.Context())
	require.NoError(t, err)
	granted := waitFor(t, d, "k")
	queued(t, s, "k", 1)
	second := s.ChangeCertificates()
	require.Eventually(t, func() bool {
		_, err := c.Mutex("free").TryLock(t.Context())
		require.ErrorIs(t, err, relock.ErrUnavailable)
		return strings.Contains(err.Error(), "certificate")
	}, patience, time.Millisecond)
	_, err = c.Mutex("free", relock.WithWait(100*time.Millisecond)).Lock(t.Context())
	require.ErrorIs(t, err, relock.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, granted)
	require.NoError(t, held.Context().Err())
	has.Store(second)
	require.NoError(t, c.Mutex("free").Do(t.Context(), nothing))
	require.NoError(t, held.Unlock(t.Context()))
	require.NoError(t, within(t, granted).Unlock(t.Context()))
}
