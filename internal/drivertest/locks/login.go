package locks

import (
	"context"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/driver"
	"github.com/relock-go/relock/internal/opening"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// onRefusedLogin has servers refuse the password of a client that has worked, and take it again later, as while
// a password is changed. Who waits for a lock waits that out, who holds one keeps it, and a try says that Redis
// cannot be had for now.
func onRefusedLogin(t *testing.T, open Opener) {
	for name, n := range map[string]int{"one Redis": 1, "quorum": 3} {
		t.Run(name, func(t *testing.T) {
			var servers []*redistest.Server
			var mine, others []driver.Redis
			for range n {
				s := redistest.Start(t)
				s.AddUser("app", "secret", "~*", "&*", "+@all")
				servers = append(servers, s)
				mine, others = append(mine, open(t, s.Target().As("app", "secret"))()), append(others, open(t, s.Target())())
			}
			client := func(nodes []driver.Redis) *relock.Client {
				made, err := any(nil), error(nil)
				if n == 1 {
					made, err = opening.New(nodes[0], []relock.ClientOption{})
				} else {
					made, err = opening.NewRedlock(nodes, []relock.ClientOption{})
				}
				return opened(t, made, err)
			}
			c, other := client(mine), client(others)
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()

			held, err := c.Mutex(prefix + "held").Lock(ctx)
			require.NoError(t, err)
			lock := func(c *relock.Client, name string) relock.Locker {
				switch name {
				case "reader":
					return c.RWMutex(prefix + "rw").Reader()
				case "writer":
					return c.RWMutex(prefix + "rw")
				case "permit":
					return c.Semaphore(prefix+"permit", 1).Permits(1)
				}
				return c.Mutex(prefix + name)
			}
			busy := map[string]string{"mutex": "mutex", "writer": "reader", "permit": "permit"}
			if n > 1 {
				busy = map[string]string{"mutex": "mutex"}
			}
			ended := make(chan error, 2*len(busy)+1)
			wait := func(name string) {
				go func() {
					l, err := lock(c, name).Lock(ctx)
					if err == nil {
						err = l.Unlock(ctx)
					}
					ended <- err
				}()
			}
			var keeps []*relock.Lease
			for holds, waits := range busy {
				l, err := lock(other, holds).Lock(ctx)
				require.NoError(t, err)
				keeps = append(keeps, l)
				wait(waits)
			}
			require.Eventually(t, func() bool {
				st, err := other.Mutex(prefix + "mutex").State(ctx)
				return err == nil && st.Waiters == 1
			}, patience, time.Millisecond)

			setPassword(servers, "resetpass", ">other")
			require.Eventually(t, func() bool {
				_, err = c.Mutex(prefix + "free").TryLock(ctx)
				require.Error(t, err)
				require.NotErrorIs(t, err, relock.ErrNotAcquired)
				return refusesPassword(err)
			}, patience, time.Millisecond, "not io.EOF, of a lost connection")
			require.ErrorIs(t, err, relock.ErrUnavailable, "it may pass: %v", err)
			require.ErrorContains(t, err, "check the client's user name and password")
			_, err = c.Mutex(prefix+"free", relock.WithWait(100*time.Millisecond)).Lock(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, relock.ErrUnavailable)
			for _, waits := range busy {
				wait(waits)
			}
			wait("free")
			for _, l := range keeps {
				require.NoError(t, l.Unlock(ctx))
			}
			select {
			case err := <-ended:
				t.Fatalf("a Lock ended while Redis refused the password: %v", err)
			case <-time.After(300 * time.Millisecond):
			}
			setPassword(servers, "resetpass", ">secret")
			for range cap(ended) {
				require.NoError(t, <-ended)
			}
			require.NoError(t, held.Context().Err())
			require.NoError(t, held.Unlock(ctx))
		})
	}
}

var loginRefused = regexp.MustCompile("WRONGPASS|NOAUTH")

// refusesPassword reports whether err, or a node's part of it, is the refusal of a login.
func refusesPassword(err error) bool {
	var nodes *relock.QuorumError
	if errors.As(err, &nodes) {
		for _, node := range nodes.Nodes {
			if !refusesPassword(node) {
				return false
			}
		}
		return true
	}
	return err != nil && loginRefused.MatchString(err.Error())
}

// setPassword changes the user app at servers, and ends its connections.
func setPassword(servers []*redistest.Server, rules ...string) {
	for _, s := range servers {
		s.Do(append([]string{"ACL", "SETUSER", "app"}, rules...)...)
		s.Do("CLIENT", "KILL", "USER", "app")
	}
}
