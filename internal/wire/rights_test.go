package wire_test

import (
	"strings"
	"testing"

	"github.com/relock-go/relock"
	"github.com/relock-go/relock/internal/locktest"
	"github.com/relock-go/relock/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A right that only the holder's unlock or renewal would need is missed by the first Lock, before anything is held.
func TestMissingRightsAreToldBeforeTheLockIsHeld(t *testing.T) {
	if major, _, valkey := redistest.Start(t).Version(); major < 7 && !valkey {
		t.Skip("scripts cannot ask for rights before Redis 7")
	}
	for _, c := range []struct {
		says string
		acl  []string
	}{
		{"run the 'pexpire' command on k", []string{"-pexpire"}},
		{"run the 'hdel' command on k", []string{"-hdel"}},
		{"run the 'hexists' command on k", []string{"-hexists"}},
		{"run the 'pubsub|numsub' command", []string{"-pubsub"}},
		{"run the 'del' command on k", []string{"-del"}},
		{"run the 'zpopmin' command on relock_queue:{k}", []string{"-zpopmin"}},
		{"run the 'set' command on redisson_lock_token:{k}", []string{"-set"}},
		{"publish on the channel redisson_lock__channel:{k}", []string{"-publish"}},
		{"publish on the channel redisson_lock__channel:{k}", []string{"resetchannels", "&relock_inbox:*", "&relock_listen:*"}},
		{"publish on the channel relock_listen:{k}", []string{"resetchannels", "&relock_inbox:*", "&redisson_lock__channel:*"}},
		{"publish on the channel relock_inbox:", []string{"resetchannels", "&relock_listen:*", "&redisson_lock__channel:*"}},
	} {
		t.Run(strings.Join(c.acl, " "), func(t *testing.T) {
			locktest.BothTopologies(t, func(t *testing.T, servers []*redistest.Server, client *relock.Client) {
				require.NoError(t, client.Mutex("known").Do(t.Context(), locktest.Nothing))
				for _, s := range servers {
					s.Do(append([]string{"ACL", "SETUSER", "app"}, c.acl...)...)
				}
				_, err := client.Mutex("k").Lock(t.Context())
				require.ErrorContains(t, err, "NOPERM")
				require.ErrorContains(t, err, c.says)
				for _, s := range servers {
					require.Equal(t, "0", s.Do("EXISTS", "k", "relock_queue:{k}", "redisson_lock_token:{k}"))
				}
			})
		})
	}
}

// A right that is withdrawn from names which were asked about is missed by one Unlock, and then by the next Lock of any
// name, before anything is held.
func TestOneHolderMissesARightThatIsWithdrawn(t *testing.T) {
	if major, _, valkey := redistest.Start(t).Version(); major < 7 && !valkey {
		t.Skip("scripts cannot ask for rights before Redis 7")
	}
	locktest.BothTopologies(t, func(t *testing.T, servers []*redistest.Server, client *relock.Client) {
		for _, name := range []string{"a", "b"} {
			require.NoError(t, client.Mutex(name).Do(t.Context(), locktest.Nothing))
		}
		for _, s := range servers {
			s.Do("ACL", "SETUSER", "app", "-del")
		}
		l, err := client.Mutex("a").Lock(t.Context())
		require.NoError(t, err, "nobody has missed the right so far")
		require.ErrorContains(t, l.Unlock(t.Context()), "release")
		_, err = client.Mutex("b").Lock(t.Context())
		require.ErrorContains(t, err, "run the 'del' command on b")
		granted := 0
		for _, s := range servers {
			if s.Do("EXISTS", "b") != "0" {
				granted++ // by a node whose answer to the Unlock was not waited for
			}
			s.Do("ACL", "SETUSER", "app", "+del")
		}
		require.LessOrEqual(t, granted, len(servers)/2)
	})
}
